//! The reference page and the schema that are checked in must be those of the table of keys.

use crate::{reference, schema};
use std::path::Path;

/// Compares a file with what it should be; with `ANABRANCH_UPDATE=1` in the environment, writes it.
fn up_to_date(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os("ANABRANCH_UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "docs/{name} is not what the table of keys says; update it with \
         ANABRANCH_UPDATE=1 cargo test -p anabranch-scenario generated"
    );
}

#[test]
fn the_reference_page_is_up_to_date() {
    up_to_date("scenario.md", &reference());
}

#[test]
fn the_schema_is_up_to_date() {
    let mut text = serde_json::to_string_pretty(&schema()).unwrap();
    text.push('\n');
    up_to_date("scenario.schema.json", &text);
}
