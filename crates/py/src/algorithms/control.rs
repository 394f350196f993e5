//! A congestion control whose handlers are methods of a class of Python.
//!
//! Windows and thresholds are kept outside the interpreter: the simulator reads them without a call, and an event for
//! which the class has no method costs nothing.

use super::class::{Class, Handler};
use super::fault;
use super::values::{Ack, Cells, Idle, Loss, Path, Timeout};
use anabranch_base::time::Time;
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{self, CongestionControl, LossKind, PathSetup, PenaltyInSlowStart};
use core::sync::atomic::Ordering;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Control {
    class: Arc<Class>,
    /// Created with the first path.
    instance: Option<Py<PyAny>>,
    paths: Vec<Option<Joined>>,
}

/// A path, for the simulator and for Python.
#[derive(Debug)]
struct Joined {
    cells: Arc<Cells>,
    object: Option<Py<Path>>,
}

impl Control {
    pub(super) const fn new(class: Arc<Class>) -> Self {
        Self { class, instance: None, paths: Vec::new() }
    }

    fn cells(&self, path: PathId) -> Option<&Cells> {
        self.paths.get(path.index())?.as_ref().map(|joined| &*joined.cells)
    }

    /// Calls a method with the path and a further argument.
    fn call<'a, T>(
        &'a self,
        (handler, now): (Handler, Option<Time>),
        path: PathId,
        argument: impl FnOnce() -> T,
    ) where
        T: for<'py> IntoPyObject<'py>,
    {
        if !self.class.has(handler) || fault::is_set() {
            return;
        }
        let Some(Some(Joined { object: Some(object), .. })) = self.paths.get(path.index()) else { return };
        let Some(instance) = &self.instance else { return };
        Python::attach(|py| {
            self.class.call(instance.bind(py), (handler, now), || {
                let argument = argument().into_bound_py_any(py)?;
                PyTuple::new(py, [object.bind(py).as_any(), &argument])
            });
        });
    }

    /// Calls a method with the path alone.
    fn notify(&self, handler: Handler, path: PathId) {
        if !self.class.has(handler) || fault::is_set() {
            return;
        }
        let Some(Some(Joined { object: Some(object), .. })) = self.paths.get(path.index()) else { return };
        let Some(instance) = &self.instance else { return };
        Python::attach(|py| {
            self.class.call(instance.bind(py), (handler, None), || PyTuple::new(py, [object.bind(py)]));
        });
    }
}

impl CongestionControl for Control {
    fn name(&self) -> &'static str {
        self.class.name()
    }

    fn add_path(&mut self, path: PathId, setup: PathSetup) {
        if self.paths.len() <= path.index() {
            self.paths.resize_with(path.index() + 1, || None);
        }
        let cells = Arc::new(Cells::new(setup));
        let object = (!fault::is_set()).then(|| {
            Python::attach(|py| {
                if self.instance.is_none() {
                    self.instance = self.class.create(py);
                }
                Py::new(py, Path::new(path.0, Arc::clone(&cells))).ok()
            })
        });
        self.paths[path.index()] = Some(Joined { cells, object: object.flatten() });
        self.notify(Handler::Path, path);
    }

    fn remove_path(&mut self, path: PathId) {
        self.notify(Handler::PathRemoved, path);
        if let Some(joined) = self.paths.get_mut(path.index()) {
            *joined = None;
        }
    }

    fn set_usable(&mut self, path: PathId, usable: bool) {
        let Some(cells) = self.cells(path) else { return };
        cells.usable.store(usable, Ordering::Relaxed);
        self.notify(Handler::Usable, path);
    }

    fn set_bottleneck(&mut self, path: PathId, bottleneck: u16) {
        if let Some(cells) = self.cells(path) {
            cells.bottleneck.store(bottleneck, Ordering::Relaxed);
        }
    }

    fn set_mss(&mut self, path: PathId, mss: u32) {
        let Some(cells) = self.cells(path) else { return };
        let before = cells.mss.load(Ordering::Relaxed);
        cells.set_mss(u64::from(mss.max(1)));
        self.call((Handler::Mss, None), path, || before);
    }

    fn on_ack(&mut self, ack: &congestion::Ack) {
        self.call((Handler::Ack, Some(ack.now)), ack.path, || Ack::from(ack));
    }

    fn on_loss(&mut self, loss: &congestion::Loss) {
        self.call((Handler::Loss, Some(loss.now)), loss.path, || Loss::from(loss));
        if let (Some(cells), LossKind::FastRetransmit) = (self.cells(loss.path), loss.kind) {
            cells.recovering.store(true, Ordering::Relaxed);
        }
    }

    fn on_recovered(&mut self, now: Time, path: PathId) {
        let Some(cells) = self.cells(path) else { return };
        cells.recovering.store(false, Ordering::Relaxed);
        self.call((Handler::Recovered, Some(now)), path, || now.as_secs_f64());
    }

    fn on_timeout(&mut self, timeout: &congestion::Timeout) {
        self.call((Handler::Timeout, Some(timeout.now)), timeout.path, || Timeout::from(timeout));
        if let Some(cells) = self.cells(timeout.path) {
            cells.recovering.store(false, Ordering::Relaxed);
        }
    }

    fn on_idle(&mut self, idle: &congestion::Idle) {
        self.call((Handler::Idle, Some(idle.now)), idle.path, || Idle::from(idle));
    }

    fn on_spurious(&mut self, now: Time, path: PathId) {
        self.call((Handler::Spurious, Some(now)), path, || now.as_secs_f64());
    }

    fn penalise(&mut self, now: Time, path: PathId, slow_start: PenaltyInSlowStart) {
        self.call((Handler::Penalty, Some(now)), path, || slow_start == PenaltyInSlowStart::Bounded);
    }

    fn window(&self, path: PathId) -> u64 {
        self.cells(path).map_or(0, |cells| cells.cwnd.load(Ordering::Relaxed))
    }

    fn ssthresh(&self, path: PathId) -> u64 {
        self.cells(path).map_or(u64::MAX, |cells| cells.ssthresh.load(Ordering::Relaxed))
    }
}
