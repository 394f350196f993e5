//! Bad input and the parser's messages.

use super::super::document::{self, Data, Node, Table};
use super::super::{catalogue, parse, reseed, to_toml};

/// A bad input: its changes of the base scenario (or a whole text instead), its overrides, and the expected
/// message without the file's name.
#[derive(Debug)]
struct Case {
    changes: Vec<(String, String)>,
    sets: Vec<(String, String)>,
    message: String,
}

const BASE: &str = include_str!("base.toml");

/// The cases of `bad.toml`.
fn cases() -> Vec<Case> {
    let root = document::read(include_str!("bad.toml")).expect("the cases are TOML");
    let Some(Data::List(cases)) = root.get("case").map(|node| &node.data) else { panic!("a list of cases") };
    let case = |node: &Node| {
        let Data::Table(case) = &node.data else { panic!("{node:?} is not a case") };
        let message = case.text("message").expect("a message").to_owned();
        Case { changes: pairs(case, "changes"), sets: pairs(case, "sets"), message }
    };
    cases.iter().map(case).collect()
}

/// The pairs of texts in a key of a case; empty if the key is missing.
fn pairs(case: &Table, key: &str) -> Vec<(String, String)> {
    let Some(node) = case.get(key) else { return Vec::new() };
    let list = |node: &Node| match &node.data {
        Data::List(items) => items.clone(),
        other => panic!("{other:?} is not a list"),
    };
    let text = |node: &Node| match &node.data {
        Data::Text(text) => text.clone(),
        other => panic!("{other:?} is not a text"),
    };
    let pair = |node: &Node| match list(node).as_slice() {
        [a, b] => (text(a), text(b)),
        other => panic!("{other:?} is not a pair"),
    };
    list(node).iter().map(pair).collect()
}

fn actual(case: &Case) -> String {
    let mut text = BASE.to_owned();
    for (old, new) in &case.changes {
        if old.is_empty() {
            text.clone_from(new);
        } else {
            assert!(text.contains(old), "the base has no {old:?}");
            text = text.replacen(old, new, 1);
        }
    }
    match parse(&text, "s.toml", &case.sets) {
        Err(error) => error.to_string(),
        Ok(_) => "no error".into(),
    }
}

/// The expected message of a case, with placeholders such as `{queues}` replaced by lists of names.
fn message(case: &Case) -> String {
    let lists = [
        ("{congestion}", catalogue::choices("congestion")),
        ("{queues}", catalogue::choices("queues")),
        ("{ordering schedulers}", anabranch_settings::words::ordering_schedulers()),
    ];
    lists.into_iter().fold(case.message.clone(), |message, (place, list)| {
        let names: Vec<_> = list.iter().map(|choice| choice.name).collect();
        message.replace(place, &names.join(", "))
    })
}

#[test]
fn bad_input_gets_its_message() {
    for case in &cases() {
        assert_eq!(
            actual(case),
            format!("s.toml:{}", message(case)),
            "for {:?} and {:?}",
            case.changes,
            case.sets
        );
    }
}

#[test]
fn messages_are_one_line_with_a_remedy() {
    for case in &cases() {
        assert!(!case.message.contains('\n'), "{}", case.message);
        assert!(
            case.message.contains("; ")
                || ["must", " such as ", " as in "].iter().any(|word| case.message.contains(word)),
            "{}",
            case.message
        );
    }
}

#[test]
#[ignore = "prints the parser's present messages, for a review of changes"]
fn print_messages() {
    for (index, case) in cases().iter().enumerate() {
        println!("{index}\t{}", actual(case).trim_start_matches("s.toml:"));
    }
}

#[test]
fn base_is_a_scenario() {
    parse(BASE, "s.toml", &[]).unwrap();
}

#[test]
fn seed_beyond_the_limit_is_refused() {
    let mut scenario = parse(BASE, "s.toml", &[]).unwrap();
    let largest = 9_223_372_036_854_775_807;
    reseed(&mut scenario, largest).unwrap();
    assert_eq!(parse(&to_toml(&scenario), "s.toml", &[]).unwrap().seed, largest);
    for seed in [largest + 1, u64::MAX] {
        let message = reseed(&mut scenario, seed).unwrap_err().to_string();
        assert_eq!(
            message,
            format!("the seed {seed} is too large; choose one from 0 to 9223372036854775807")
        );
    }
    assert_eq!(scenario.seed, largest);
}
