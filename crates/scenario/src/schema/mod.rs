//! A JSON schema for editors, generated from the table of keys.
//!
//! It contains the type and meaning of each key. Rules about the scenario as a whole (a link that does not
//! exist, an unreachable host) are left to the parser. Keys that may have defaults are not required here. Tables
//! that occur in several places are defined once, in `$defs`.

mod shared;

use crate::choices::{self, PROTOCOLS};
use crate::describe;
use crate::keys::{Default, Key, Kinds, Section, Shape};
use crate::quantity::{Family, PACKETS, RATE, SIZE, TIME};
use crate::table::{ROOT, flow};
use serde_json::{Map, Value, json};

/// The JSON schema (draft 2020-12) of scenario files.
pub fn schema() -> Value {
    let Value::Object(root) = section(&ROOT, None) else { unreachable!("sections are objects") };
    let mut schema = Map::new();
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), "Anabranch scenario".into());
    schema.extend(root);
    shared::define(schema.into())
}

fn section(section: &'static Section, tag: Option<(&'static Kinds, &'static str)>) -> Value {
    let mut properties = Map::new();
    for name in section.names(None) {
        let keys: Vec<_> = section.keys().filter(|key| key.name == name).collect();
        properties.insert(name.into(), property(&keys));
    }
    if let Some((kinds, kind)) = tag {
        properties.insert(kinds.tag.into(), json!({ "const": kind }));
    }
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("description".into(), section.doc.into());
    schema.insert("properties".into(), properties.into());
    schema.insert("additionalProperties".into(), false.into());
    let required = required(section);
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
    // Not in `[flow_defaults]`, whose keys apply only to flows that have them.
    if std::ptr::eq(section, flow()) {
        schema.insert("allOf".into(), by_protocol(section));
    }
    schema.into()
}

/// Keys that must be in the table itself; others may be inherited.
fn required(section: &'static Section) -> Vec<Value> {
    const ALWAYS: &[&str] = &["duration", "link", "flow", "between", "from", "to", "at", "set"];
    let always = |key: &&Key| matches!(key.default, Default::Required(_)) && ALWAYS.contains(&key.name);
    section.keys().filter(always).map(|key| key.name.into()).collect()
}

/// A key, which may have different types for different protocols.
fn property(keys: &[&'static Key]) -> Value {
    let mut alternatives: Vec<_> = keys.iter().map(|key| shape(&key.shape)).collect();
    let mut schema = match (alternatives.len(), alternatives.pop()) {
        (1, Some(Value::Object(only))) => only,
        (_, last) => {
            alternatives.extend(last);
            Map::from_iter([("anyOf".to_owned(), Value::from(alternatives))])
        }
    };
    let texts: Vec<_> = keys.iter().map(|key| documentation(key)).collect();
    schema.insert("description".into(), texts.join(" ").into());
    if let [key] = keys
        && let Some(default) = key.default_text(None).and_then(toml_as_json)
    {
        schema.insert("default".into(), default);
    }
    schema.into()
}

fn documentation(key: &Key) -> String {
    let mut parts = vec![key.doc.to_owned()];
    if key.protocols != choices::Protocols::ALL {
        parts.push(format!("For {} only.", key.protocols.names().join(", ")));
    }
    match key.default {
        Default::Required(_) => {}
        _ => parts.push(format!("Default: {}.", describe::default(key).replace('`', ""))),
    }
    parts.join(" ")
}

/// A default as a value, if it is a plain one.
fn toml_as_json(text: &str) -> Option<Value> {
    let value: toml_edit::Value = text.parse().ok()?;
    match value {
        toml_edit::Value::String(text) => Some(text.value().as_str().into()),
        toml_edit::Value::Integer(number) => Some((*number.value()).into()),
        toml_edit::Value::Float(number) => Some((*number.value()).into()),
        toml_edit::Value::Boolean(flag) => Some((*flag.value()).into()),
        _ => None,
    }
}

/// Letters and digits of any script, `-` and `_`. The pattern lists the excluded characters, since some
/// dialects of regular expressions have no classes of characters.
const NAME_PATTERN: &str = "^[^\\s!-,./:-@\\[-^`{-~]{1,100}$";

/// A name that may end with a version of IP.
const PATH_PATTERN: &str = "^[^\\s!-,./:-@\\[-^`{-~]{1,100}(:v[46])?$";

fn shape(shape: &'static Shape) -> Value {
    match shape {
        Shape::Text => json!({ "type": "string" }),
        Shape::Name => json!({ "type": "string", "pattern": NAME_PATTERN }),
        Shape::Path => json!({ "type": "string", "pattern": PATH_PATTERN }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Shape::Above { min } => json!({ "type": "number", "exclusiveMinimum": min }),
        Shape::Time { .. } => quantity(&[&TIME]),
        Shape::Rate { .. } => quantity(&[&RATE]),
        Shape::Size => quantity(&[&SIZE]),
        Shape::Limit => quantity(&[&PACKETS, &SIZE]),
        Shape::Packets => quantity(&[&PACKETS]),
        Shape::Buffer => json!({ "anyOf": [quantity(&[&SIZE]), { "const": "auto" }] }),
        Shape::Octets { min, max } => {
            json!({ "anyOf": [{ "type": "integer", "minimum": min, "maximum": max }, quantity(&[&SIZE])] })
        }
        Shape::OneOf(list) => {
            let words = list()
                .iter()
                .flat_map(|choice| std::iter::once(choice.name).chain(choice.aliases.iter().copied()))
                .collect::<Vec<_>>();
            json!({ "type": "string", "enum": words })
        }
        Shape::Words(words) => {
            let words: Vec<_> = words.iter().map(|word| word.name).collect();
            json!({ "type": "string", "enum": words })
        }
        Shape::PathManager => {
            let patterns: Vec<_> =
                choices::path_managers().iter().map(|choice| choice.name.replace('N', "[0-9]+")).collect();
            json!({ "type": "string", "pattern": format!("^({})$", patterns.join("|")) })
        }
        Shape::Section(inner) => section(inner(), None),
        Shape::Kinds(kinds) => tagged(kinds()),
        Shape::List { of, min, max } => {
            json!({ "type": "array", "items": self::shape(of), "minItems": min, "maxItems": max })
        }
        Shape::Tables(inner) => json!({ "type": "array", "items": section(inner(), None) }),
        Shape::Either(shapes) => json!({ "anyOf": shapes.iter().map(self::shape).collect::<Vec<_>>() }),
    }
}

fn quantity(families: &[&Family]) -> Value {
    let units: Vec<_> =
        families.iter().flat_map(|family| family.units.iter().map(|unit| unit.name)).collect();
    let pattern = format!("^[0-9]*\\.?[0-9]+([eE][+-]?[0-9]+)? *({})$", units.join("|"));
    let examples: Vec<_> = families.iter().map(|family| family.example).collect();
    json!({ "type": "string", "pattern": pattern, "examples": examples })
}

/// Without a tag, the kind is inherited: then the keys of any kind are allowed.
fn tagged(kinds: &'static Kinds) -> Value {
    let each = |kind: &'static crate::keys::Kind| section(&kind.section, Some((kinds, kind.name)));
    json!({ "anyOf": kinds.all.iter().map(each).collect::<Vec<_>>() })
}

/// For each protocol, the keys that its flows do not have.
fn by_protocol(section: &'static Section) -> Value {
    let rule = |protocol: &choices::Named<choices::Protocols>| {
        let taken = section.names(Some(protocol.value));
        let refused: Map<_, _> = section
            .names(None)
            .into_iter()
            .filter(|name| !taken.contains(name))
            .map(|name| (name.to_owned(), Value::Bool(false)))
            .collect();
        let condition =
            json!({ "properties": { "protocol": { "const": protocol.name } }, "required": ["protocol"] });
        json!({ "if": condition, "then": { "properties": refused } })
    };
    PROTOCOLS.iter().map(rule).collect()
}
