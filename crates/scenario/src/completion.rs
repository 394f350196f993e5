//! The table of keys as JSON, for completion in editors.

use super::choices;
use super::keys::{Default, Key, Kind, Section, Shape};
use super::table::{EVENT, HOST, LINK, LINK_DEFAULTS, MIDDLEBOX, ROOT, flow, flow_defaults};
use anabranch_settings::protocols::Protocols;
use serde_json::{Value, json};

/// All sections of a scenario file with their keys: name, meaning, default, protocols, values and tables.
///
/// A section has the text of its header, which is empty for the top of the file. The values of a key are text to insert.
pub fn keys_to_json() -> Value {
    let sections = [
        ("", &ROOT),
        ("[link_defaults]", &LINK_DEFAULTS),
        ("[[link]]", &LINK),
        ("[flow_defaults]", flow_defaults()),
        ("[[flow]]", flow()),
        ("[[host]]", &HOST),
        ("[[middlebox]]", &MIDDLEBOX),
        ("[[event]]", &EVENT),
    ];
    let section = |(header, section): (&str, &'static Section)| json!({ "header": header, "doc": section.doc, "keys": keys(section) });
    json!({ "sections": sections.map(section) })
}

fn keys(section: &'static Section) -> Vec<Value> {
    section.keys().map(key).collect()
}

fn key(key: &'static Key) -> Value {
    let (required, example) = match key.default {
        Default::Required(example) => (true, Some(example)),
        _ => (false, None),
    };
    let protocols = (key.protocols != Protocols::ALL).then(|| key.protocols.names());
    json!({
        "name": key.name,
        "doc": key.doc,
        "takes": super::describe::shape(&key.shape),
        "default": key.default_text(None),
        "required": required,
        "example": example,
        "protocols": protocols,
        "values": values(&key.shape),
        "table": table(&key.shape),
    })
}

/// The values of a key, if they are a list of words.
fn values(shape: &'static Shape) -> Vec<Value> {
    let words = |list: Vec<choices::Choice>| {
        let word =
            |choice: choices::Choice| json!({ "name": format!("{:?}", choice.name), "doc": choice.summary });
        list.into_iter().map(word).collect()
    };
    match shape {
        Shape::Flag => [true, false].map(|flag| json!({ "name": flag.to_string(), "doc": "" })).to_vec(),
        Shape::Buffer => vec![json!({ "name": "\"auto\"", "doc": "Sized automatically." })],
        Shape::OneOf(list) => words(list()),
        Shape::Words(list) => words(choices::of_kind(list)),
        Shape::PathManager => words(choices::path_managers()),
        Shape::Either(shapes) => shapes.iter().flat_map(values).collect(),
        _ => Vec::new(),
    }
}

/// The table that a key takes, with the keys of its kinds.
fn table(shape: &'static Shape) -> Option<Value> {
    match shape {
        Shape::Section(section) => {
            let section = section();
            let only = json!({ "name": null, "doc": section.doc, "keys": keys(section) });
            Some(json!({ "tag": null, "kinds": [only] }))
        }
        Shape::Kinds(kinds) => {
            let kinds = kinds();
            let kind = |kind: &'static Kind| json!({ "name": kind.name, "doc": kind.section.doc, "keys": keys(&kind.section) });
            Some(json!({ "tag": kinds.tag, "kinds": kinds.all.iter().map(kind).collect::<Vec<_>>() }))
        }
        Shape::Either(shapes) => shapes.iter().find_map(table),
        _ => None,
    }
}
