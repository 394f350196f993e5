use super::{Column, Documents, Part, Table, Texts, Values};

/// Documents with these keys, each with its name and type, `?` after the name if it may be absent.
fn documents(keys: &[(&str, &str)]) -> Documents {
    let key = |(name, kind): &(&str, &str)| {
        let plain = name.trim_end_matches('?');
        (plain.to_owned(), (*kind).to_owned(), plain != *name)
    };
    Documents::new(&keys.iter().map(key).collect::<Vec<_>>()).unwrap()
}

/// The columns of JSON texts, all of which fit.
fn decoded(keys: &[(&str, &str)], texts: &[&str]) -> Part {
    let mut found = documents(keys);
    for text in texts {
        found.add(text).unwrap();
    }
    found.take()
}

fn column<'a>(part: &'a Part, name: &str) -> &'a Column {
    &part.keys.iter().find(|key| key.name == name).unwrap().column
}

fn floats(column: &Column) -> &[f64] {
    let Values::F64(values) = &column.values else { panic!("{column:?}") };
    values
}

fn whole(column: &Column) -> &[u64] {
    let Values::U64(values) = &column.values else { panic!("{column:?}") };
    values
}

fn texts(texts: &Texts) -> Vec<&str> {
    texts.codes.iter().map(|code| texts.distinct[*code as usize].as_str()).collect()
}

fn table<'a>(part: &'a Part, name: &str) -> &'a Table {
    let Values::Table(table) = &column(part, name).values else { panic!("{name} is no table") };
    table
}

#[test]
fn values_are_in_the_rows_of_their_documents() {
    let keys = [("a", "f64"), ("b", "Option<u64>"), ("c", "String"), ("d?", "bool")];
    let found = decoded(
        &keys,
        &[
            r#"{"a":0.1,"b":18446744073709551615,"c":"x","d":true}"#,
            r#"{"a":-3,"b":null,"c":"y\u00e4"}"#,
            r#"{ "c": "x", "d": false, "b": 0, "a": 1e300 }"#,
        ],
    );
    assert_eq!((found.rows, floats(column(&found, "a"))), (3, &[0.1, -3.0, 1e300][..]));
    assert_eq!(whole(column(&found, "b")), [u64::MAX, 0, 0]);
    assert_eq!((&column(&found, "b").absent, &column(&found, "d").absent), (&vec![1], &vec![1]));
    let Values::Text(c) = &column(&found, "c").values else { panic!() };
    assert_eq!((texts(c), c.distinct.len()), (vec!["x", "yä", "x"], 2));
    assert!(matches!(&column(&found, "d").values, Values::Bool(d) if *d == [true, false, false]));
}

#[test]
fn tables_keep_the_order_of_their_keys() {
    let keys = [("t", "BTreeMap<String, Option<f64>>")];
    let found = decoded(
        &keys,
        &[r#"{"t":{"a":1,"b":2}}"#, r#"{"t":{"b":null,"a":4}}"#, r#"{"t":{}}"#, r#"{"t":{"c":5}}"#],
    );
    let table = table(&found, "t");
    assert_eq!(table.ends, [2, 4, 4, 5]);
    assert_eq!(texts(&table.keys), ["a", "b", "b", "a", "c"]);
    assert_eq!((floats(&table.values), &table.values.absent), (&[1.0, 2.0, 0.0, 4.0, 5.0][..], &vec![2]));
}

#[test]
fn absent_parts_have_rows_without_values() {
    let found = decoded(
        &[("q", "Option<Quantiles>"), ("l?", "Vec<MeanMax>")],
        &[
            r#"{"q":null}"#,
            r#"{"q":{"mean":1,"p50":2,"p95":3,"p99":4},"l":[{"mean":5,"max":6},{"mean":7,"max":8}]}"#,
        ],
    );
    let Values::Part(quantiles) = &column(&found, "q").values else { panic!() };
    assert_eq!((quantiles.rows, &column(quantiles, "p50").absent), (2, &vec![0]));
    assert_eq!(floats(column(quantiles, "p50")), [0.0, 2.0]);
    let Values::List(list) = &column(&found, "l").values else { panic!() };
    let Values::Part(items) = &list.items.values else { panic!() };
    assert_eq!((&list.ends, whole(column(items, "max"))), (&vec![0, 2], &[6, 8][..]));
    assert_eq!(column(&found, "l").absent, [0]);
}

#[test]
fn refused_documents_leave_no_values() {
    let keys = [
        ("a", "f64"),
        ("t", "BTreeMap<String,u64>"),
        ("q", "Option<Quantiles>"),
        ("l", "Vec<String>"),
        ("s", "3"),
    ];
    let good = r#"{"a":1,"t":{"x":1},"q":null,"l":["u"],"s":3}"#;
    let mut found = documents(&keys);
    for (text, fault) in [
        (r#"{"a":1,"t":{"y":2},"q":null,"l":["u","v"]}"#, "lacks s"),
        (r#"{"a":1,"t":{"x":2},"q":{"mean":1,"p50":2,"p95":3},"l":[],"s":3}"#, "lacks p99"),
        (r#"{"a":1,"t":{"x":2},"q":null,"l":[7],"s":3}"#, "expected a text"),
        (r#"{"a":1,"t":{"x":-2},"q":null,"l":[],"s":3}"#, "expected a whole number"),
        (r#"{"a":1,"t":{"x":2.0},"q":null,"l":[],"s":3}"#, "expected a whole number"),
        (r#"{"a":null,"t":{},"q":null,"l":[],"s":3}"#, "expected a number"),
        (r#"{"a":1,"t":{},"q":null,"l":[],"s":2}"#, "expected 3"),
        (r#"{"a":1,"t":{},"q":null,"l":[],"s":3,"other":0}"#, "\"other\", which is not known"),
        (r#"{"a":1,"a":2,"t":{},"q":null,"l":[],"s":3}"#, "has a twice"),
        (r#"{"a":1,"t":{"x":1,"x":2},"q":null,"l":[],"s":3}"#, "a table has a key twice"),
        (r#"{"a":1,"t":{},"q":null,"l":[],"s":3} {}"#, "trailing characters"),
        (r#"{"a":1,"t":{},"q":null,"l":["#, "EOF"),
        ("[]", "expected a table"),
    ] {
        found.add(good).unwrap();
        let refused = found.add(text).unwrap_err().to_string();
        assert!(refused.contains(fault), "{text}: {refused}");
    }
    let found = found.take();
    assert_eq!((found.rows, floats(column(&found, "a")).len()), (13, 13));
    assert_eq!(table(&found, "t").ends, (1..=13).collect::<Vec<_>>());
    assert_eq!(whole(&table(&found, "t").values), [1; 13]);
    let Values::List(list) = &column(&found, "l").values else { panic!() };
    assert_eq!((&list.ends, list.items.rows()), (&(1..=13).collect(), 13));
    assert_eq!(column(&found, "q").absent, (0..13).collect::<Vec<_>>());
}

#[test]
fn taken_columns_are_empty_afterwards() {
    let mut found = documents(&[("t", "BTreeMap<String,u64>")]);
    for _ in 0..2 {
        found.add(r#"{"t":{"x":1}}"#).unwrap();
        let taken = found.take();
        assert_eq!((taken.rows, &table(&taken, "t").ends), (1, &vec![1]));
    }
    assert_eq!(found.take().rows, 0);
}

#[test]
fn unknown_type_is_reported() {
    let keys = [("a".to_owned(), "Vec<Colour>".to_owned(), false)];
    assert_eq!(Documents::new(&keys).unwrap_err(), "unknown type Colour");
}

#[test]
fn whole_results_have_columns() {
    let found = documents(&[("document", "RunResult")]).take();
    let Values::Part(result) = &column(&found, "document").values else { panic!() };
    let names: Vec<_> = result.keys.iter().map(|key| key.name.as_str()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("format", "scenario"));
}
