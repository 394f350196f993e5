//! Queues, loss models and middleboxes: converts their declared keys to this table's types, once, at the
//! first use.

use crate::keys::{Default, Key, Kind, Kinds, Section, Shape};
use anabranch_netem::keys::{self, Takes};
use std::sync::LazyLock;

/// Queue disciplines.
pub(crate) fn queue() -> &'static Kinds {
    static QUEUE: LazyLock<Kinds> =
        LazyLock::new(|| kinds(["queue", "kind"], Some("fifo"), anabranch_netem::queue::KINDS));
    &QUEUE
}

/// Loss models.
pub(crate) fn loss() -> &'static Kinds {
    static LOSS: LazyLock<Kinds> =
        LazyLock::new(|| kinds(["loss", "model"], None, anabranch_netem::loss::KINDS));
    &LOSS
}

/// Kinds of middleboxes.
pub(crate) fn middlebox() -> &'static Kinds {
    static MIDDLEBOX: LazyLock<Kinds> =
        LazyLock::new(|| kinds(["does", "kind"], None, anabranch_middlebox::KINDS));
    &MIDDLEBOX
}

fn kinds(
    [what, tag]: [&'static str; 2],
    default: Option<&'static str>,
    declared: &'static [&keys::Kind],
) -> Kinds {
    let kind = |kind: &&'static keys::Kind| {
        let more = if kind.keys.is_empty() { "" } else { ", …" };
        let title = format!("{what} = {{ {tag} = \"{}\"{more} }}", kind.name);
        let keys = Vec::leak(kind.keys.iter().map(key).collect::<Vec<_>>());
        let section =
            Section { title: String::leak(title), doc: kind.summary, keys: Vec::leak(vec![&*keys]) };
        Kind { name: kind.name, source: kind.source, section }
    };
    Kinds { tag, what, default, all: Vec::leak(declared.iter().map(kind).collect()) }
}

fn key(key: &'static keys::Key) -> Key {
    let default = match key.default {
        keys::Default::Required(example) => Default::Required(example),
        keys::Default::Is(text) => Default::Is(text),
    };
    Key::new(key.name, shape(&key.takes), default, key.doc)
}

fn shape(takes: &'static Takes) -> Shape {
    match *takes {
        Takes::Flag => Shape::Flag,
        Takes::Integer { min, max } => Shape::Integer { min, max },
        Takes::Number { min, max } => Shape::Number { min, max },
        Takes::Time => Shape::Time { zero: false },
        Takes::Rate => Shape::Rate { zero: false },
        Takes::Octets { min, max } => Shape::Octets { min, max },
        Takes::Limit => Shape::Limit,
        Takes::Word(words) => Shape::Words(words),
        Takes::Ascending => {
            Shape::List { of: &Shape::Integer { min: 1, max: u64::MAX }, min: 1, max: 100_000 }
        }
        Takes::Probabilities { .. } => Shape::Text,
        Takes::Either(any) => Shape::Either(Vec::leak(any.iter().map(shape).collect())),
    }
}
