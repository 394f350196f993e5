//! Descriptions of keys' values in words: for messages, the reference page and editors.

use super::choices;
use super::keys::{Default, Key, Shape};
use super::quantity::{Family, PACKETS, RATE, SIZE, TIME};

/// Description of a shape where units are explained elsewhere.
pub(super) fn briefly(shape: &Shape) -> String {
    match shape {
        Shape::Time { zero: true } => "time".into(),
        Shape::Time { zero: false } => "time above 0".into(),
        Shape::Rate { zero: true } => "rate, or 0".into(),
        Shape::Rate { zero: false } => "rate".into(),
        Shape::Size => "size".into(),
        Shape::Limit => "packets or size".into(),
        Shape::Packets => "packets".into(),
        Shape::Buffer => "size, or `\"auto\"`".into(),
        Shape::Octets { min, max } => format!("bytes, {min} to {max}"),
        Shape::Integer { min, max } if *max > u64::from(u32::MAX) => format!("whole number from {min}"),
        Shape::Integer { min, max } => format!("whole number, {min} to {max}"),
        Shape::Number { min, max } => format!("number, {min} to {max}"),
        Shape::Above { min } => format!("number above {min}"),
        Shape::Name | Shape::Path => "name".into(),
        Shape::List { of, min, max } if min == max => format!("[{}]", vec![briefly(of); *min].join(", ")),
        Shape::List { of, .. } => format!("[{}, …]", briefly(of)),
        Shape::Either(shapes) => shapes.iter().map(briefly).collect::<Vec<_>>().join(", or "),
        Shape::OneOf(list) => code_words(list().iter().map(|choice| choice.name)),
        Shape::Words(list) => code_words(list.iter().map(|word| word.name)),
        Shape::PathManager => code_words(choices::path_managers().iter().map(|choice| choice.name)),
        Shape::Section(section) => format!("{{ {} }}", keys_of(&section().names(None))),
        Shape::Kinds(kinds) => {
            let kinds = kinds();
            format!("{{ {} = {}, … }}", kinds.tag, code_words(kinds.names()))
        }
        Shape::Text | Shape::Flag | Shape::Tables(_) => self::shape(shape),
    }
}

fn code_words<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(" \\| ")
}

/// The keys of a small table; large tables have a section of their own.
fn keys_of(names: &[&str]) -> String {
    if names.len() <= 4 { names.join(", ") } else { "…".into() }
}

/// Description of a shape, after "write" or "takes".
pub(super) fn shape(shape: &Shape) -> String {
    match shape {
        Shape::Text => "text".into(),
        Shape::Name | Shape::Path => "a name".into(),
        Shape::Flag => "true or false".into(),
        Shape::Integer { min, max } if *max > u64::from(u32::MAX) => format!("a whole number from {min}"),
        Shape::Integer { min, max } => format!("a whole number from {min} to {max}"),
        Shape::Number { min, max } => format!("a number from {min} to {max}"),
        Shape::Above { min } => format!("a number above {min}"),
        Shape::Time { zero: true } => quantity(&TIME),
        Shape::Time { zero: false } => format!("{}, above 0", quantity(&TIME)),
        Shape::Rate { zero: true } => quantity(&RATE),
        Shape::Rate { zero: false } => format!("{}, above 0", quantity(&RATE)),
        Shape::Size => format!("{}, above 0", quantity(&SIZE)),
        Shape::Buffer => format!("{}, or \"auto\"", self::shape(&Shape::Size)),
        Shape::Octets { min, max } => format!("a number of bytes from {min} to {max}"),
        Shape::Limit => format!("{} or {}", quantity(&PACKETS), quantity(&SIZE)),
        Shape::Packets => quantity(&PACKETS),
        Shape::OneOf(list) => words(&list().iter().map(|choice| choice.name).collect::<Vec<_>>()),
        Shape::Words(list) => words(&list.iter().map(|word| word.name).collect::<Vec<_>>()),
        Shape::PathManager => {
            words(&choices::path_managers().iter().map(|choice| choice.name).collect::<Vec<_>>())
        }
        Shape::Section(section) => match section().names(None).as_slice() {
            // A table with one key is shown with that key.
            [only] => format!("a table {{ {only} = … }}"),
            _ => "a table".into(),
        },
        Shape::Kinds(kinds) => {
            let kinds = kinds();
            format!("a table {{ {} = … }} of {}", kinds.tag, words(&kinds.names()))
        }
        Shape::List { of, min, max } if min == max => format!("a list of {min}: each {}", self::shape(of)),
        Shape::List { of, .. } => format!("a list: each {}", self::shape(of)),
        Shape::Tables(section) => format!("{} tables", section().title),
        Shape::Either(shapes) => shapes.iter().map(self::shape).collect::<Vec<_>>().join(", or "),
    }
}

fn quantity(family: &Family) -> String {
    format!("{} such as \"{}\"", family.what, family.example)
}

fn words(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// The value if a key is not given, in Markdown.
pub(super) fn default(key: &Key) -> String {
    match key.default {
        Default::Required(_) => "required".into(),
        Default::Nothing(meaning) => meaning.into(),
        Default::Is(text) => format!("`{text}`"),
        Default::By(list) => {
            let each: Vec<_> = list
                .iter()
                .map(|(protocols, text)| format!("`{text}` ({})", protocols.names().join(", ")))
                .collect();
            each.join(", ")
        }
    }
}
