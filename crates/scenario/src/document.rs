//! TOML as a tree of values with their places in the file.

use super::error::{Fault, Origin, quoted, shortened};
use super::keys::Shape;
use super::table::ROOT;
use std::ops::Range;
use toml_edit::{Document, Item, TableLike, Value};

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub origin: Origin,
    pub data: Data,
}

/// Values of TOML.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    /// A date or time of day, which TOML has and scenarios do not use.
    Moment(String),
    List(Vec<Node>),
    Table(Table),
}

/// Keys with their values, in the order of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub entries: Vec<Entry>,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: String,
    /// The place of the key.
    pub origin: Origin,
    pub node: Node,
}

impl Table {
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// Removes and returns the value of `key`.
    pub fn take(&mut self, key: &str) -> Option<Node> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index).node)
    }

    /// The value of `key`; inserts the result of `make` if there is none.
    pub fn get_or_insert(&mut self, key: &str, make: impl FnOnce() -> Node) -> &mut Node {
        let index = self.entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
            let node = make();
            self.entries.push(Entry { key: key.to_owned(), origin: node.origin, node });
            self.entries.len() - 1
        });
        &mut self.entries[index].node
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Node {
    /// The value in a message: `the text "abc"`, `a list`.
    pub fn described(&self) -> String {
        match &self.data {
            Data::Text(text) => format!("the text {}", quoted(text)),
            Data::Integer(number) => format!("the number {number}"),
            Data::Float(number) => format!("the number {number}"),
            Data::Flag(flag) => format!("{flag}"),
            Data::Moment(moment) => format!("the date or time {}", shortened(moment)),
            Data::List(_) => "a list".into(),
            Data::Table(_) => "a table".into(),
        }
    }
}

/// Reads a whole file.
pub(super) fn read(text: &str) -> Result<Table, Fault> {
    let lines = LineStarts::of(text);
    let document = Document::parse(text).map_err(|error| {
        let start = error.span().map(|span| span.start);
        let origin = start.map_or(Origin::Nowhere, |start| lines.origin(start));
        Fault::new(origin, not_toml(error.message(), text, start))
    })?;
    let convert =
        Converter { origin_of: &|span| span.map_or(Origin::Nowhere, |span| lines.origin(span.start)) };
    Ok(convert.table(document.as_table()))
}

/// Reads one value in the notation of the right side of an equals sign; all of it has the same origin.
pub(super) fn read_value(text: &str, origin: Origin) -> Option<Node> {
    let value: Value = text.trim().parse().ok()?;
    let convert = Converter { origin_of: &|_| origin };
    Some(convert.value(&value, origin))
}

/// The message for text that is not TOML, with a specific remedy for common mistakes.
fn not_toml(message: &str, text: &str, at: Option<usize>) -> String {
    let line = at.and_then(|at| {
        let at = at.min(text.len());
        let start =
            text.as_bytes()[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        text.get(start..)?.lines().next()
    });
    if message.starts_with("duplicate key") {
        let key = at.and_then(|at| text.get(at..)).map_or("", |rest| {
            rest.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).next().unwrap_or("")
        });
        let is_header = line.is_some_and(|line| line.trim_start().starts_with('['));
        let is_list = ROOT.key(key, None).is_some_and(|key| matches!(key.shape, Shape::Tables(_)));
        if is_header && is_list {
            return format!("[{key}] is given twice, and there may be several; write [[{key}]] each time");
        }
        return format!("the key {} is given twice; keep one of them", quoted(key));
    }
    if message.contains("overflow") {
        return format!("not TOML ({}); write a whole number of at most {}", shortened(message), i64::MAX);
    }
    let unquoted = line.and_then(|line| line.split_once('=')).map(|(key, value)| (key.trim(), value.trim()));
    if let Some((key, value)) = unquoted
        && value.starts_with(|c: char| c.is_alphanumeric())
        && !value.contains(['"', '\''])
    {
        let value = value.split('#').next().unwrap_or("").trim();
        return format!(
            "not TOML ({}); text needs quotes: {} = {}",
            shortened(message),
            shortened(key),
            quoted(value)
        );
    }
    if message.starts_with("invalid basic string") || message.starts_with("invalid literal string") {
        return format!(
            "not TOML ({}); close the text with the quote that it begins with",
            shortened(message)
        );
    }
    let message = shortened(message);
    format!(
        "not TOML ({message}); a scenario consists of lines such as key = \"value\" under headers such as [[link]]"
    )
}

/// Byte offsets of the starts of lines.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn of(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(breaks).collect())
    }

    fn origin(&self, at: usize) -> Origin {
        let line = self.0.partition_point(|&start| start <= at);
        Origin::Line(line, at - self.0[line - 1])
    }
}

/// Converts `toml_edit`'s tree to ours.
struct Converter<'a> {
    origin_of: &'a dyn Fn(Option<Range<usize>>) -> Origin,
}

impl Converter<'_> {
    fn table(&self, table: &dyn TableLike) -> Table {
        let entries = table.iter().filter(|(_, item)| !item.is_none()).map(|(key, item)| {
            let origin = (self.origin_of)(table.key(key).and_then(toml_edit::Key::span));
            Entry { key: key.to_owned(), origin, node: self.item(item, origin) }
        });
        Table { entries: entries.collect() }
    }

    fn item(&self, item: &Item, key: Origin) -> Node {
        match item {
            Item::Value(value) => self.value(value, key),
            Item::Table(table) => {
                // The place of a table is its header. A table that exists only through its sub-tables has none.
                let origin = table.span().map_or(key, |span| (self.origin_of)(Some(span)));
                Node { origin, data: Data::Table(self.table(table)) }
            }
            Item::ArrayOfTables(array) => {
                let tables = array.iter().map(|table| {
                    let origin = table.span().map_or(key, |span| (self.origin_of)(Some(span)));
                    Node { origin, data: Data::Table(self.table(table)) }
                });
                Node { origin: key, data: Data::List(tables.collect()) }
            }
            Item::None => unreachable!("the caller filters empty items"),
        }
    }

    fn value(&self, value: &Value, key: Origin) -> Node {
        let origin = value.span().map_or(key, |span| (self.origin_of)(Some(span)));
        let data = match value {
            Value::String(text) => Data::Text(text.value().clone()),
            Value::Integer(number) => Data::Integer(*number.value()),
            Value::Float(number) => Data::Float(*number.value()),
            Value::Boolean(flag) => Data::Flag(*flag.value()),
            Value::Datetime(moment) => Data::Moment(moment.value().to_string()),
            Value::Array(array) => Data::List(array.iter().map(|value| self.value(value, origin)).collect()),
            Value::InlineTable(table) => Data::Table(self.table(table)),
        };
        Node { origin, data }
    }
}
