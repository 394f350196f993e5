//! Running a scenario from Python.

use crate::progress::interruptible;
use crate::stopwatch::Stopwatch;
use crate::{algorithms, errors};
use anabranch_sim::report::capture;
use anabranch_sim::scenario::result::{Document, RunResult};
use anabranch_sim::scenario::{self, Scenario};
use anabranch_sim::{Progress, RunError, RunOptions};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use std::io;

/// A capture: file, kept bytes per packet, link ends and flows.
pub(crate) type Capture = (std::path::PathBuf, Option<u32>, Vec<String>, Vec<String>);

/// Runs a scenario in the simulator, or in real time with Anabranch's protocols in user space, and returns its result document
/// as JSON. A run in real time writes a recording to `record`. `progress_callback` is called regularly with the completed share of the run, 0 to 1. Ctrl-C and exceptions
/// of the callback stop the run.
#[pyfunction]
#[pyo3(signature = (
    toml_text,
    file_name,
    overrides,
    seed = None,
    trace_dir = None,
    pcap = None,
    check_wire = false,
    progress_callback = None,
    trace_changes = false,
    real_time = false,
    record = None,
))]
#[expect(clippy::too_many_arguments, reason = "the parameters are keyword arguments in Python")]
#[expect(clippy::needless_pass_by_value, reason = "a path of Python is converted to an owned one")]
pub(crate) fn run(
    py: Python<'_>,
    toml_text: &str,
    file_name: &str,
    overrides: Vec<String>,
    seed: Option<u64>,
    trace_dir: Option<std::path::PathBuf>,
    pcap: Option<Capture>,
    check_wire: bool,
    progress_callback: Option<&Bound<'_, PyAny>>,
    trace_changes: bool,
    real_time: bool,
    record: Option<std::path::PathBuf>,
) -> PyResult<String> {
    let scenario = seeded_scenario(toml_text, file_name, overrides, seed)?;
    if real_time {
        for flow in &scenario.flows {
            let wrong = |message| {
                errors::input_error_at(
                    format!("flow \"{}\": {message}", flow.name),
                    Some(file_name.to_owned()),
                    None,
                )
            };
            algorithms::refuse(&flow.protocol).map_err(wrong)?;
        }
    }
    let pcap = pcap.map(captured);
    let options = RunOptions { pcap, trace: trace_dir, trace_changes, check_wire, ..RunOptions::default() };
    let watch = Stopwatch::start();
    let outcome = interruptible(py, progress_callback, |on_share| {
        let on_progress = &mut |progress| on_share(share(progress));
        if real_time {
            run_in_real_time(&scenario, &options, record.as_deref(), on_progress)
        } else {
            anabranch_sim::run_with(&scenario, &options, on_progress)
        }
    })?;
    let mut result = outcome.map_err(|error| failure(&error, file_name))?;
    if !real_time {
        result.wall_s = watch.seconds();
    }
    json(&Document::new(result, &scenario))
}

/// A value as JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

#[cfg(target_os = "linux")]
fn run_in_real_time(
    scenario: &Scenario,
    options: &RunOptions,
    record: Option<&std::path::Path>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<RunResult, RunError> {
    let mut prefer = |thread| Python::attach(|py| crate::priority::prefer(py, thread));
    anabranch_net::user::run(scenario, options, record, &mut prefer, progress)
}

#[cfg(not(target_os = "linux"))]
fn run_in_real_time(
    _: &Scenario,
    _: &RunOptions,
    _: Option<&std::path::Path>,
    _: &mut dyn FnMut(Progress) -> bool,
) -> Result<RunResult, RunError> {
    Err(RunError::Unknown("runs in real time need Linux; choose the world sim".to_owned()))
}

/// The settings of a capture from Python's tuple.
pub(crate) fn captured((file, snaplen, ends, flows): Capture) -> capture::Settings {
    capture::Settings { file, snaplen, ends, flows }
}

/// The scenario of a text with its overrides.
pub(crate) fn scenario(toml_text: &str, file_name: &str, overrides: Vec<String>) -> PyResult<Scenario> {
    let overrides = pairs(overrides, "--set ")?;
    scenario::parse(toml_text, file_name, &overrides).map_err(errors::input_error)
}

/// Keys and values of settings, `KEY=VALUE` each, which follow an option of the command line.
pub(crate) fn pairs(settings: Vec<String>, option: &str) -> PyResult<Vec<(String, String)>> {
    let split = |setting: String| {
        let parts = setting.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        parts.ok_or_else(|| {
            let message = format!("{option}{setting}: the value is missing; write KEY=VALUE");
            errors::input_error_at(message, None, None)
        })
    };
    settings.into_iter().map(split).collect()
}

/// The scenario of a text with its overrides, and with another seed if there is one.
pub(crate) fn seeded_scenario(
    toml_text: &str,
    file_name: &str,
    overrides: Vec<String>,
    seed: Option<u64>,
) -> PyResult<Scenario> {
    let mut scenario = scenario(toml_text, file_name, overrides)?;
    if let Some(seed) = seed {
        scenario::reseed(&mut scenario, seed).map_err(errors::input_error)?;
    }
    Ok(scenario)
}

/// Lets Python handle signals and reports the progress of the run.
/// The completed share of a run, 0 to 1.
pub(crate) fn share(progress: Progress) -> f64 {
    (progress.now.as_secs_f64() / progress.end.as_secs_f64()).min(1.0)
}

/// Whether the disk is full or failed, which is no error of the caller.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    /// An error of the device (`EIO`), for which `ErrorKind` has no variant.
    const EIO: i32 = 5;
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) || error.raw_os_error() == Some(EIO)
}

/// The exception for a file that cannot be written. It is an error of the caller, unless the disk is full.
pub(crate) fn not_written(sentence: String, reason: &io::Error) -> PyErr {
    let sentence = errors::without_number(sentence);
    if is_full(reason) {
        PyOSError::new_err(sentence)
    } else {
        errors::input_error_at(sentence + "; choose a writable path", None, None)
    }
}

/// Distinguishes errors of the caller from bugs in Anabranch.
pub(crate) fn failure(error: &RunError, file_name: &str) -> PyErr {
    match error {
        RunError::Network(_) | RunError::Flow(_) => {
            errors::input_error_at(error.to_string(), Some(file_name.to_owned()), None)
        }
        RunError::Unknown(message) => errors::input_error_at(message.clone(), None, None),
        RunError::File { error: reason, .. } | RunError::Capture { error: reason } => {
            not_written(error.to_string(), reason)
        }
        // A bug in Anabranch, or an interruption.
        _ => PyRuntimeError::new_err(error.to_string()),
    }
}
