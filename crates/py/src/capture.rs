//! Reading captures from Python.

use crate::errors;
use crate::progress::interruptible;
use crate::run::json;
use anabranch_capture::{Error, read};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Reads captures of Multipath TCP, TCP and SCTP together, and returns their connections as JSON. `progress_callback` is
/// called regularly with the read share of the files, 0 to 1. Ctrl-C and exceptions of the callback stop the reading.
#[pyfunction]
#[pyo3(signature = (files, progress_callback = None))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
pub(crate) fn read_captures(
    py: Python<'_>,
    files: Vec<PathBuf>,
    progress_callback: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let report = interruptible(py, progress_callback, |on_share| {
        read(&files, &mut |done, size| on_share(done as f64 / size.max(1) as f64))
    })?;
    json(&report.map_err(failure)?)
}

/// The exception for captures that are not usable: all of them are errors of the caller.
fn failure(error: Error) -> PyErr {
    match error {
        Error::File(file, sentence) => {
            errors::input_error_at(sentence, Some(file.display().to_string()), None)
        }
        Error::Io(file, error) => {
            let sentence = errors::without_number(format!("cannot be read: {error}"));
            errors::input_error_at(sentence, Some(file.display().to_string()), None)
        }
        other => errors::input_error_at(other.to_string(), None, None),
    }
}
