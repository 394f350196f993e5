//! Generated documents: the files in the repository must equal the output of the tables.

use crate::{reference, result, schema};
use std::path::Path;

/// Compares a file in `docs` with its generated text; `make generate` writes it.
fn up_to_date(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("ANABRANCH_GENERATE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "docs/{name} differs from the tables; run `make generate`");
}

#[test]
fn generated_reference_page() {
    up_to_date("scenario.md", &reference());
}

#[test]
fn generated_schema() {
    let mut text = serde_json::to_string_pretty(&schema()).unwrap();
    text.push('\n');
    up_to_date("scenario.schema.json", &text);
}

#[test]
fn generated_page_of_results() {
    up_to_date("results.md", &result::results());
}

#[test]
fn generated_table_of_metrics() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/studies.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) =
        page.split_once("<!-- metrics -->\n").expect("the page has a marker before the table");
    let (_, after) =
        rest.split_once("<!-- end of metrics -->").expect("the page has a marker after the table");
    let table = result::metrics();
    up_to_date("studies.md", &format!("{before}<!-- metrics -->\n{table}<!-- end of metrics -->{after}"));
}
