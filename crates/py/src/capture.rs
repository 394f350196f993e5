//! Reading captures from Python.

use crate::errors;
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
    let callback = progress_callback.map(|callback| callback.clone().unbind());
    let mut interrupted = None;
    let report = py.detach(|| {
        read(&files, &mut |done, size| {
            Python::attach(|py| match report_progress(py, callback.as_ref(), (done, size)) {
                Ok(()) => true,
                Err(exception) => {
                    interrupted = Some(exception);
                    false
                }
            })
        })
    });
    if let Some(exception) = interrupted {
        return Err(exception);
    }
    json(&report.map_err(failure)?)
}

fn report_progress(py: Python<'_>, callback: Option<&Py<PyAny>>, (done, size): (u64, u64)) -> PyResult<()> {
    py.check_signals()?;
    if let Some(callback) = callback {
        callback.call1(py, (done as f64 / size.max(1) as f64,))?;
    }
    Ok(())
}

/// The exception for captures that are not usable: all of them are errors of the caller.
fn failure(error: Error) -> PyErr {
    match error {
        Error::File(file, sentence) => {
            errors::input_error_at(sentence, Some(file.display().to_string()), None)
        }
        Error::Io(file, error) => {
            let mut sentence = format!("cannot be read: {error}");
            sentence.truncate(sentence.find(" (os error").unwrap_or(sentence.len()));
            errors::input_error_at(sentence, Some(file.display().to_string()), None)
        }
        other => errors::input_error_at(other.to_string(), None, None),
    }
}
