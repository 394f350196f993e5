//! A scheduler whose shares Python sets.

use anabranch_multipath::scheduler::{self, Credits, Decision, eligible};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// The shares of paths by their identifier.
pub(super) type Shares = Arc<Mutex<Vec<f64>>>;

/// A scheduler that sends packets in proportion to shares, which Python sets at any time. It calls no method for its
/// decisions, so it is as fast as the other schedulers.
#[pyclass(subclass, frozen, module = "anabranch")]
#[derive(Default)]
pub(crate) struct SharesScheduler(Shares);

impl SharesScheduler {
    /// The shares, for the scheduler of a connection.
    pub(super) fn handle(&self) -> Shares {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl SharesScheduler {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// The shares of paths by their identifier. A path that is not listed has share 1.
    #[getter]
    fn shares(&self) -> Vec<f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[setter]
    fn set_shares(&self, shares: Vec<f64>) -> PyResult<()> {
        if let Some(share) = shares.iter().find(|share| !(0.0..=1e12).contains(*share)) {
            let message = format!("a share is a number from 0 to 1e12, not {share}");
            return Err(PyValueError::new_err(message));
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = shares;
        Ok(())
    }
}

/// The next path in proportion to the shares of the paths with room. A path with share 0 sends only if no usable path has
/// a share.
pub(super) fn by_shares(shares: &[f64], credits: &mut Credits, paths: &[scheduler::PathState]) -> Decision {
    let share = |path: &scheduler::PathState| shares.get(path.id.index()).copied().unwrap_or(1.0);
    let has_share = paths.iter().any(|path| path.usable && share(path) > 0.0);
    let share = |path: &scheduler::PathState| if has_share { share(path) } else { 1.0 };
    let room = || paths.iter().filter(|path| eligible(path, paths) && share(path) > 0.0);
    let total: f64 = room().map(share).sum();
    credits.next(room().map(|path| (path, share(path) / total))).map_or(Decision::Wait, Decision::Send)
}
