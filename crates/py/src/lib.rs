//! The Python module `anabranch._native`: the simulator and, on Linux, the emulator and the traffic over the
//! kernel's sockets, as a few functions with plain values as arguments and results, and the stack of user space as handles.
//! Decisions are above it, in Python, or below it, in `sim` and `net`.

mod algorithms;
mod capture;
mod errors;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod meter;
#[cfg(target_os = "linux")]
mod priority;
mod progress;
mod records;
mod replay;
mod run;
#[cfg(target_os = "linux")]
mod stack;
mod stepping;
mod stopwatch;

use anabranch_sim::scenario::result::Field;
use pyo3::prelude::*;

/// The simulator as a few functions with plain values as arguments and results.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::algorithms::fault::AlgorithmError;
    #[pymodule_export]
    use super::algorithms::{
        Ack, Idle, Loss, Offer, Path, PathState, SharesScheduler, Timeout, check_congestion,
        register_congestion, register_scheduler, registered,
    };
    #[pymodule_export]
    use super::capture::read_captures;
    #[pymodule_export]
    use super::errors::InputError;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::kernel::{Emulation, LinkControl, layout};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::meter::{MeterServer, meter_port, meter_run};
    #[pymodule_export]
    use super::records::{Column, RecordDecoder, StoreLines, checksum};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::stack::{Association, Call, Calls, Listener, Stack, Stream};
    #[pymodule_export]
    use super::stepping::Stepper;
    #[pymodule_export]
    use super::{
        build_kind, canonical, coupled, directions, kinds, largest_seed, list, metrics, names, reference,
        replay::replay, result_parts, run::run, schema, validate, version,
    };

    /// Adds the algorithms of a crate outside the workspace, if there is one (`make own`).
    #[pymodule_init]
    fn init(_module: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        super::add_own()
    }
}

#[cfg(feature = "own")]
fn add_own() -> PyResult<()> {
    own::register().map_err(|refused| pyo3::exceptions::PyImportError::new_err(refused.to_string()))
}

#[cfg(not(feature = "own"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature, this function can return an error")]
const fn add_own() -> PyResult<()> {
    Ok(())
}

/// Checks a scenario with its overrides ("key=value") without running it.
#[pyfunction]
fn validate(toml_text: &str, file_name: &str, overrides: Vec<String>) -> PyResult<()> {
    run::scenario(toml_text, file_name, overrides).map(drop)
}

/// A scenario with its overrides ("key=value") and every default, as JSON.
#[pyfunction]
fn canonical(toml_text: &str, file_name: &str, overrides: Vec<String>) -> PyResult<String> {
    run::scenario(toml_text, file_name, overrides)
        .map(|scenario| anabranch_sim::scenario::to_json(&scenario).to_string())
}

/// The kinds of lists.
#[pyfunction]
fn kinds() -> Vec<&'static str> {
    anabranch_sim::scenario::catalogue::LISTS.to_vec()
}

/// Name and description of every entry of a list.
#[pyfunction]
fn list(kind: &str) -> PyResult<Vec<(&'static str, String)>> {
    let list = anabranch_sim::scenario::catalogue::list(kind).map_err(errors::input_error)?;
    Ok(list.into_iter().map(|entry| (entry.name, entry.description())).collect())
}

/// The congestion controls that couple the paths of a connection.
#[pyfunction]
fn coupled() -> Vec<&'static str> {
    anabranch_sim::scenario::catalogue::coupled().collect()
}

/// Names of the flows, of the links and of the declared hosts of a scenario. Other parts of the scenario may be missing.
#[pyfunction]
fn names(toml_text: &str, file_name: &str) -> PyResult<(Vec<String>, Vec<String>, Vec<String>)> {
    let names = anabranch_sim::scenario::names(toml_text, file_name).map_err(errors::input_error)?;
    Ok((names.flows, names.links, names.hosts))
}

/// The directions of a link in a result.
#[pyfunction]
fn directions() -> [&'static str; 2] {
    anabranch_sim::scenario::result::DIRECTIONS
}

/// A metric: name, label, unit, level, key in the result, and factor.
type Metric = (&'static str, &'static str, &'static str, &'static str, &'static str, f64);

/// All metrics of studies: name, label, unit, level, key in the result, and factor.
#[pyfunction]
fn metrics() -> Vec<Metric> {
    let metrics = anabranch_sim::scenario::result::METRICS.iter();
    metrics.map(|m| (m.name, m.label, m.unit, m.level.name(), m.field, m.scale)).collect()
}

/// The keys of a part of the result: name, type in Rust, and whether a document may lack it.
type Part = (&'static str, Vec<(&'static str, &'static str, bool)>);

/// The parts of a result by the names of their types, each with its keys.
#[pyfunction]
fn result_parts() -> Vec<Part> {
    let parts = anabranch_sim::scenario::result::parts();
    let keys = |fields: &'static [Field]| fields.iter().map(|f| (f.name, f.kind, f.may_be_absent)).collect();
    parts.into_iter().map(|(name, fields)| (name, keys(fields))).collect()
}

/// The largest seed of a run.
#[pyfunction]
fn largest_seed() -> u64 {
    anabranch_sim::scenario::model::MAX_SEED
}

/// JSON schema of scenario files, for editors.
#[pyfunction]
fn schema() -> String {
    anabranch_sim::scenario::schema().to_string()
}

/// Reference page of scenario files, in Markdown.
#[pyfunction]
fn reference() -> String {
    anabranch_sim::scenario::reference()
}

/// Version of the simulator.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Kind of this build.
#[pyfunction]
const fn build_kind() -> &'static str {
    if cfg!(debug_assertions) { "checked" } else { "release" }
}
