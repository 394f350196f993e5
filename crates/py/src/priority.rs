//! Precedence of the threads that process packets by the machine's clock.

use pyo3::prelude::*;

/// Gives a thread precedence over normal ones (`SCHED_RR`). If the system refuses, for example without root,
/// packets leave later; the run reports by how much.
pub(crate) fn prefer(py: Python<'_>, thread: i32) {
    let prefer = || {
        let os = py.import("os")?;
        let parameters = os.call_method1("sched_param", (1,))?;
        os.call_method1("sched_setscheduler", (thread, os.getattr("SCHED_RR")?, parameters))
    };
    let _: PyResult<_> = prefer();
}
