//! Definitions of schemas that occur in several places.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Shorter ones are easier to read where they are used.
const MIN_JSON_BYTES: usize = 250;

/// Moves each schema of a key that occurs more than once into `$defs`, under the name of its first key; the
/// places refer to it. The longest one is moved first, so that its parts are not moved alone.
pub fn define(mut root: Value) -> Value {
    let mut definitions = Map::new();
    while let Some((text, key)) = longest_repeated(&root, &definitions) {
        let name = free_name(&key, &definitions);
        let reference = json!({ "$ref": format!("#/$defs/{name}") });
        let repeated: Value = serde_json::from_str(&text).expect("the text was written as JSON");
        replace(&mut root, &repeated, &reference);
        definitions.values_mut().for_each(|definition| replace(definition, &repeated, &reference));
        definitions.insert(name, repeated);
    }
    if let (Value::Object(root), false) = (&mut root, definitions.is_empty()) {
        root.insert("$defs".into(), definitions.into());
    }
    root
}

/// The JSON text of the longest schema that occurs in several places, and the key that it describes there.
fn longest_repeated(root: &Value, definitions: &Map<String, Value>) -> Option<(String, String)> {
    let mut found = BTreeMap::new();
    visit(root, "", &mut found);
    for (name, definition) in definitions {
        visit(definition, name, &mut found);
    }
    let repeated = found.into_iter().filter(|(_, (count, _))| *count > 1);
    repeated.max_by_key(|(text, _)| text.len()).map(|(text, (_, key))| (text, key))
}

/// Counts the schemas below one that describes `key`.
fn visit(schema: &Value, key: &str, found: &mut BTreeMap<String, (usize, String)>) {
    for (key, part) in parts(schema, key) {
        let text = part.to_string();
        if text.len() >= MIN_JSON_BYTES {
            found.entry(text).or_insert_with(|| (0, key.to_owned())).0 += 1;
        }
        visit(part, key, found);
    }
}

/// The schemas of which one for `key` consists, with the keys that they describe.
fn parts<'a>(schema: &'a Value, key: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let alternatives = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let unnamed = alternatives.chain(schema.get("items"));
    properties.map(|(key, part)| (key.as_str(), part)).chain(unnamed.map(move |part| (key, part)))
}

/// Replaces each schema that equals `repeated` by a reference.
fn replace(schema: &mut Value, repeated: &Value, reference: &Value) {
    let Value::Object(schema) = schema else { return };
    for (word, value) in schema {
        let parts: Vec<&mut Value> = match (word.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values_mut().collect(),
            ("anyOf", Value::Array(alternatives)) => alternatives.iter_mut().collect(),
            ("items", items) => vec![items],
            _ => continue,
        };
        for part in parts {
            if part == repeated {
                *part = reference.clone();
            } else {
                replace(part, repeated, reference);
            }
        }
    }
}

/// The key, with a number if another definition has its name.
fn free_name(key: &str, definitions: &Map<String, Value>) -> String {
    let numbered = (2..).map(|number| format!("{key}-{number}"));
    let mut names = std::iter::once(key.to_owned()).chain(numbered);
    names.find(|name| !definitions.contains_key(name)).expect("there is always a further number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_schema_is_defined_once() {
        let long = json!({ "type": "string", "description": "x".repeat(MIN_JSON_BYTES) });
        let table = json!({ "properties": { "a": long, "b": { "type": "boolean" } } });
        let root = define(json!({ "properties": { "one": table, "many": { "items": table }, "c": long } }));
        assert_eq!(
            root,
            json!({
                "properties": {
                    "one": { "$ref": "#/$defs/many" },
                    "many": { "items": { "$ref": "#/$defs/many" } },
                    "c": { "$ref": "#/$defs/c" },
                },
                "$defs": {
                    "many": { "properties": { "a": { "$ref": "#/$defs/c" }, "b": { "type": "boolean" } } },
                    "c": long,
                },
            })
        );
    }
}
