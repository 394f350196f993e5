//! A scheduler whose decisions are those of a class of Python.

use super::class::{Class, Handler};
use super::fault;
use super::shares::{Shares, SharesScheduler, by_shares};
use super::values::{Offer, PathState};
use anabranch_multipath::PathId;
use anabranch_multipath::scheduler::{self, Credits, Decision, Scheduler, eligible};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::{Arc, PoisonError};

#[derive(Debug)]
pub(super) struct InPython {
    class: Arc<Class>,
    /// Created by the first decision.
    state: State,
}

#[derive(Debug)]
enum State {
    New,
    Selects(Py<PyAny>),
    Shares(Shares, Credits),
}

impl InPython {
    pub(super) const fn new(class: Arc<Class>) -> Self {
        Self { class, state: State::New }
    }

    fn create(&mut self) {
        Python::attach(|py| {
            let Some(instance) = self.class.create(py) else { return };
            let shares = instance.bind(py).cast::<SharesScheduler>().ok().map(|own| own.get().handle());
            self.state = match shares {
                Some(shares) => State::Shares(shares, Credits::default()),
                None => State::Selects(instance),
            };
        });
    }
}

impl Scheduler for InPython {
    fn name(&self) -> &'static str {
        self.class.name()
    }

    fn duplicates(&self) -> bool {
        self.class.duplicates()
    }

    fn select(&mut self, offer: &scheduler::Offer, paths: &[scheduler::PathState]) -> Decision {
        let has_room = paths.iter().any(|path| eligible(path, paths));
        if offer.is_empty() || !has_room || fault::is_set() {
            return Decision::Wait;
        }
        if matches!(self.state, State::New) {
            self.create();
        }
        match &mut self.state {
            State::New => Decision::Wait,
            State::Selects(instance) => {
                let found = Python::attach(|py| select(&self.class, instance.bind(py), offer, paths));
                found.map_or(Decision::Wait, Decision::Send)
            }
            State::Shares(shares, credits) => {
                let shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
                by_shares(&shares, credits, paths)
            }
        }
    }

    fn on_blocked(&mut self) {
        let State::Selects(instance) = &self.state else { return };
        if self.class.has(Handler::Blocked) && !fault::is_set() {
            Python::attach(|py| {
                self.class.call(instance.bind(py), (Handler::Blocked, None), || Ok(PyTuple::empty(py)));
            });
        }
    }
}

/// The path that the method `select` returns.
fn select(
    class: &Class,
    instance: &Bound<'_, PyAny>,
    offer: &scheduler::Offer,
    paths: &[scheduler::PathState],
) -> Option<PathId> {
    let py = instance.py();
    let returned = class.call(instance, (Handler::Select, Some(offer.now)), || {
        let states = paths.iter().map(|path| Py::new(py, PathState::new(path, paths)));
        let states = PyList::new(py, states.collect::<PyResult<Vec<_>>>()?)?;
        PyTuple::new(py, [Py::new(py, Offer::from(offer))?.into_any(), states.into_any().unbind()])
    })?;
    if returned.is_none() {
        return None;
    }
    let id = returned.extract().ok().map(PathId);
    let room: Vec<_> = paths.iter().filter(|path| eligible(path, paths)).map(|path| path.id).collect();
    let found = id.filter(|id| room.contains(id));
    if found.is_none() {
        let value = returned.repr().map_or_else(|_| "a value".to_owned(), |value| value.to_string());
        let ids: Vec<_> = room.iter().map(|id| id.0.to_string()).collect();
        let remedy = format!("return None or the id of a path that is eligible now ({})", ids.join(", "));
        class.returns_wrong((&value, "select"), offer.now, &remedy);
    }
    found
}
