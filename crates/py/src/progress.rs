//! Long calls that report their progress to Python and end with an interrupt.

use crate::algorithms::fault;
use pyo3::prelude::*;

/// Does `work` without the interpreter, and returns its result. The work calls the function that it gets with its
/// completed share, 0 to 1, and ends early if that returns `false`.
///
/// # Errors
///
/// The exception that ended the work: that of a signal, such as `KeyboardInterrupt`, of `callback`, which is called
/// with the completed share, or of an algorithm in Python.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    callback: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&mut dyn FnMut(f64) -> bool) -> T + Send,
) -> PyResult<T> {
    let callback = callback.map(|callback| callback.clone().unbind());
    let mut interrupted = Ok(());
    drop(fault::take(py));
    let result = py.detach(|| {
        work(&mut |share| {
            interrupted = Python::attach(|py| report(py, callback.as_ref(), share));
            interrupted.is_ok() && !fault::is_set()
        })
    });
    fault::take(py).map_or(interrupted, Err).map(|()| result)
}

fn report(py: Python<'_>, callback: Option<&Py<PyAny>>, share: f64) -> PyResult<()> {
    py.check_signals()?;
    if let Some(callback) = callback {
        callback.call1(py, (share,))?;
    }
    Ok(())
}
