//! Errors of the caller as Python exceptions.

use anabranch_sim::scenario;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    anabranch._native,
    InputError,
    PyValueError,
    "An error in a scenario or a setting; `args[0]` is the message, `file` and `line` the place."
);

/// The exception for an error in the input.
pub(crate) fn input_error(error: scenario::InputError) -> PyErr {
    let scenario::InputError { file, line, message, .. } = error;
    input_error_at(message, Some(file).filter(|file| !file.is_empty()), line)
}

/// The exception for a message and, if known, its place.
pub(crate) fn input_error_at(message: String, file: Option<String>, line: Option<usize>) -> PyErr {
    Python::attach(|py| {
        let error = InputError::new_err(message);
        let value = error.value(py);
        match value.setattr("file", file).and_then(|()| value.setattr("line", line)) {
            Ok(()) => error,
            Err(unexpected) => unexpected,
        }
    })
}

/// A sentence that ends with an error of the operating system, without its number, which does not help a reader.
pub(crate) fn without_number(mut sentence: String) -> String {
    sentence.truncate(sentence.find(" (os error").unwrap_or(sentence.len()));
    sentence
}
