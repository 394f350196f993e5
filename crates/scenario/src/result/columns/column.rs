//! Columns that grow row by row.

use super::texts::Texts;

/// More keys than any part has.
pub(super) const MAX_KEYS: usize = 128;

/// The columns of a part of documents.
#[derive(Debug)]
pub struct Part {
    /// Number of parts; each column has as many rows.
    pub rows: usize,
    /// The keys with their columns, in the order of the layout.
    pub keys: Vec<Key>,
}

/// A key of a part with its values.
#[derive(Debug)]
pub struct Key {
    /// Name of the key.
    pub name: String,
    /// Values of all rows.
    pub column: Column,
    pub(super) may_be_absent: bool,
}

/// The values of a key.
#[derive(Debug)]
pub struct Column {
    /// Values of all rows; a row without a value has 0, an empty text or list, or a part without values.
    pub values: Values,
    /// Indices of the rows without a value.
    pub absent: Vec<u64>,
    pub(super) may_be_null: bool,
}

/// Values of one type.
#[derive(Debug)]
pub enum Values {
    /// Numbers.
    F64(Vec<f64>),
    /// Whole numbers that are not negative, of any size.
    U64(Vec<u64>),
    /// Truth values.
    Bool(Vec<bool>),
    /// Texts.
    Text(Texts),
    /// Parts.
    Part(Part),
    /// Lists of values.
    List(List),
    /// Tables, whose keys are no part of the layout.
    Table(Table),
    /// Always the same number.
    Exactly(u64, usize),
    /// Not kept.
    Ignored(usize),
}

/// Lists, one for each row.
#[derive(Debug)]
pub struct List {
    /// For each row the end of its list in `items`; it begins at the end of the row before.
    pub ends: Vec<u64>,
    /// Items of all lists.
    pub items: Box<Column>,
}

/// Tables, one for each row.
#[derive(Debug)]
pub struct Table {
    /// For each row the end of its table in `keys` and `values`; it begins at the end of the row before.
    pub ends: Vec<u64>,
    /// Keys of all tables.
    pub keys: Texts,
    /// Values of all tables.
    pub values: Box<Column>,
}

impl Part {
    /// Removes all rows but the first ones; rows that were added in part may have values in some columns only.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.rows = rows;
        self.keys.iter_mut().for_each(|key| key.column.truncate(rows));
    }

    fn add_absent(&mut self) {
        self.rows += 1;
        self.keys.iter_mut().for_each(|key| key.column.add_absent());
    }

    /// The same layout without rows.
    pub(super) fn empty(&self) -> Self {
        let keys = self.keys.iter().map(|key| Key {
            name: key.name.clone(),
            column: key.column.empty(),
            may_be_absent: key.may_be_absent,
        });
        Self { rows: 0, keys: keys.collect() }
    }
}

impl Column {
    /// A column without rows.
    pub(super) const fn new(values: Values) -> Self {
        Self { values, absent: Vec::new(), may_be_null: false }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        match &self.values {
            Values::F64(values) => values.len(),
            Values::U64(values) => values.len(),
            Values::Bool(values) => values.len(),
            Values::Text(texts) => texts.codes.len(),
            Values::Part(part) => part.rows,
            Values::List(list) => list.ends.len(),
            Values::Table(table) => table.ends.len(),
            Values::Exactly(_, rows) | Values::Ignored(rows) => *rows,
        }
    }

    pub(super) fn add_absent(&mut self) {
        self.absent.push(self.rows() as u64);
        match &mut self.values {
            Values::F64(values) => values.push(0.0),
            Values::U64(values) => values.push(0),
            Values::Bool(values) => values.push(false),
            Values::Text(texts) => texts.add(""),
            Values::Part(part) => part.add_absent(),
            Values::List(list) => list.end(),
            Values::Table(table) => table.end(),
            Values::Exactly(_, rows) | Values::Ignored(rows) => *rows += 1,
        }
    }

    fn truncate(&mut self, rows: usize) {
        while self.absent.last().is_some_and(|row| *row >= rows as u64) {
            self.absent.pop();
        }
        match &mut self.values {
            Values::F64(values) => values.truncate(rows),
            Values::U64(values) => values.truncate(rows),
            Values::Bool(values) => values.truncate(rows),
            Values::Text(texts) => texts.codes.truncate(rows),
            Values::Part(part) => part.truncate(rows),
            Values::List(list) => {
                list.ends.truncate(rows);
                list.items.truncate(last(&list.ends));
            }
            Values::Table(table) => {
                table.ends.truncate(rows);
                table.keys.codes.truncate(last(&table.ends));
                table.values.truncate(last(&table.ends));
            }
            Values::Exactly(_, count) | Values::Ignored(count) => *count = rows,
        }
    }

    fn empty(&self) -> Self {
        let values = match &self.values {
            Values::F64(_) => Values::F64(Vec::new()),
            Values::U64(_) => Values::U64(Vec::new()),
            Values::Bool(_) => Values::Bool(Vec::new()),
            Values::Text(_) => Values::Text(Texts::default()),
            Values::Part(part) => Values::Part(part.empty()),
            Values::List(list) => Values::List(List::of(list.items.empty())),
            Values::Table(table) => Values::Table(Table::of(table.values.empty())),
            Values::Exactly(number, _) => Values::Exactly(*number, 0),
            Values::Ignored(_) => Values::Ignored(0),
        };
        Self { values, absent: Vec::new(), may_be_null: self.may_be_null }
    }
}

impl List {
    pub(super) fn of(items: Column) -> Self {
        Self { ends: Vec::new(), items: Box::new(items) }
    }

    /// Ends a row after the items that were added.
    pub(super) fn end(&mut self) {
        self.ends.push(self.items.rows() as u64);
    }
}

impl Table {
    pub(super) fn of(values: Column) -> Self {
        Self { ends: Vec::new(), keys: Texts::default(), values: Box::new(values) }
    }

    /// Ends a row after the entries that were added.
    pub(super) fn end(&mut self) {
        self.ends.push(self.values.rows() as u64);
    }
}

fn last(ends: &[u64]) -> usize {
    ends.last().map_or(0, |end| *end as usize)
}
