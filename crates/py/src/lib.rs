//! The Python module `anabranch._native`: the simulator behind a handful of functions that take and return plain
//! values. Everything that has an opinion is above it, in Python, or below it, in `sim`.

mod errors;
mod run;

use pyo3::prelude::*;

/// The simulator behind a handful of functions that take and return plain values.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::errors::InputError;
    #[pymodule_export]
    use super::{kinds, list, reference, run::run, schema, validate, version};
}

/// Checks a scenario with its overrides ("key=value") without running it.
#[pyfunction]
fn validate(toml_text: &str, file_name: &str, overrides: Vec<String>) -> PyResult<()> {
    run::scenario(toml_text, file_name, overrides).map(drop)
}

/// The kinds of things that can be listed.
#[pyfunction]
fn kinds() -> Vec<&'static str> {
    sim::scenario::catalogue::LISTS.to_vec()
}

/// Name and description of everything of a kind.
#[pyfunction]
fn list(kind: &str) -> PyResult<Vec<(&'static str, String)>> {
    let list = sim::scenario::catalogue::list(kind).map_err(errors::raised)?;
    Ok(list.into_iter().map(|entry| (entry.name, entry.description())).collect())
}

/// JSON schema of scenario files, for editors.
#[pyfunction]
fn schema() -> String {
    sim::scenario::schema().to_string()
}

/// Reference page of scenario files, in Markdown.
#[pyfunction]
fn reference() -> String {
    sim::scenario::reference()
}

/// Version of the simulator.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
