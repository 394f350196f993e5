//! The first exception of an algorithm in Python during a call of the simulator.
//!
//! The traits of controls and schedulers have no errors. After an exception, the algorithms of this thread's run are not
//! called again: windows stay as they are, and schedulers send nothing. The run ends with its next report of progress.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use std::cell::RefCell;

create_exception!(
    anabranch._native,
    AlgorithmError,
    PyRuntimeError,
    "An exception of a congestion control or scheduler in Python, which is the cause."
);

struct Fault {
    sentence: String,
    cause: Option<PyErr>,
}

// A run stays in the thread that called it.
thread_local! {
    static FAULT: RefCell<Option<Fault>> = const { RefCell::new(None) };
}

/// Whether an algorithm has failed in this thread's run.
pub(crate) fn is_set() -> bool {
    FAULT.with_borrow(Option::is_some)
}

/// Stores a failure, unless there is an earlier one.
pub(super) fn set(sentence: String, cause: Option<PyErr>) {
    FAULT.with_borrow_mut(|fault| {
        fault.get_or_insert(Fault { sentence, cause });
    });
}

/// Removes the failure and returns it as an exception. Interrupts are returned as they are.
pub(crate) fn take(py: Python<'_>) -> Option<PyErr> {
    let Fault { sentence, cause } = FAULT.take()?;
    match cause {
        Some(cause) if !cause.is_instance_of::<PyException>(py) => Some(cause),
        cause => {
            let error = AlgorithmError::new_err(sentence);
            error.set_cause(py, cause);
            Some(error)
        }
    }
}
