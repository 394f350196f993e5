//! Bad input and what the parser says to it.

use super::super::document::{self, Data, Node, Table};
use super::super::{catalogue, choices, parse, reseed, to_toml};

/// A mistake: what it changes in the base scenario (the whole text where it names none), the overrides, and the one
/// sentence that follows the file's name.
#[derive(Debug)]
struct Case {
    changes: Vec<(String, String)>,
    sets: Vec<(String, String)>,
    says: String,
}

const BASE: &str = include_str!("base.toml");

/// The cases of `bad.toml`.
fn cases() -> Vec<Case> {
    let root = document::read(include_str!("bad.toml")).expect("the cases are TOML");
    let Some(Data::List(cases)) = root.get("case").map(|node| &node.data) else { panic!("a list of cases") };
    let case = |node: &Node| {
        let Data::Table(case) = &node.data else { panic!("{node:?} is no case") };
        let says = case.text("says").expect("what is said").to_owned();
        Case { changes: pairs(case, "changes"), sets: pairs(case, "sets"), says }
    };
    cases.iter().map(case).collect()
}

/// The pairs of texts that a key of a case lists, if it is there.
fn pairs(case: &Table, key: &str) -> Vec<(String, String)> {
    let Some(node) = case.get(key) else { return Vec::new() };
    let list = |node: &Node| match &node.data {
        Data::List(items) => items.clone(),
        other => panic!("{other:?} is no list"),
    };
    let text = |node: &Node| match &node.data {
        Data::Text(text) => text.clone(),
        other => panic!("{other:?} is no text"),
    };
    let pair = |node: &Node| match list(node).as_slice() {
        [a, b] => (text(a), text(b)),
        other => panic!("{other:?} is no pair"),
    };
    list(node).iter().map(pair).collect()
}

fn message(case: &Case) -> String {
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
        Ok(_) => "it is accepted".into(),
    }
}

/// What the case expects to be told, the lists of a kind spelt out where it names them: `{queues}`.
fn says(case: &Case) -> String {
    let lists = [
        ("{congestion}", catalogue::choices("congestion")),
        ("{queues}", catalogue::choices("queues")),
        ("{turn-taking schedulers}", choices::turn_taking_schedulers()),
    ];
    lists.into_iter().fold(case.says.clone(), |says, (place, list)| {
        let names: Vec<_> = list.iter().map(|choice| choice.name).collect();
        says.replace(place, &names.join(", "))
    })
}

#[test]
fn every_mistake_gets_its_sentence() {
    for case in &cases() {
        assert_eq!(
            message(case),
            format!("s.toml:{}", says(case)),
            "for {:?} and {:?}",
            case.changes,
            case.sets
        );
    }
}

#[test]
fn sentences_are_one_line_and_name_a_remedy() {
    for case in &cases() {
        assert!(!case.says.contains('\n'), "{}", case.says);
        assert!(
            case.says.contains("; ")
                || ["must", " such as ", " as in "].iter().any(|word| case.says.contains(word)),
            "{}",
            case.says
        );
    }
}

#[test]
#[ignore = "prints what the parser says now, for a look at changed messages"]
fn print_messages() {
    for (index, case) in cases().iter().enumerate() {
        println!("{index}\t{}", message(case).trim_start_matches("s.toml:"));
    }
}

#[test]
fn the_base_is_a_scenario() {
    parse(BASE, "s.toml", &[]).unwrap();
}

#[test]
fn a_seed_beyond_what_a_file_can_say_is_refused() {
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
