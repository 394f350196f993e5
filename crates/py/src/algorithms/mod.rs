//! Congestion controls and schedulers that are classes of Python, for the simulator.
//!
//! A connection has an instance of the class. Its first call creates it, since the reader of scenarios builds schedulers
//! to look at their properties. An exception of the class ends the run ([`fault`]).

mod class;
mod conformance;
mod control;
pub(crate) mod fault;
mod scheduling;
mod shares;
mod values;

pub(crate) use conformance::check_congestion;
pub(crate) use shares::SharesScheduler;
pub(crate) use values::{Ack, Idle, Loss, Offer, Path, PathState, Timeout};

use crate::errors::input_error_at;
use anabranch_multipath::congestion::{self, CongestionControl, Options, Signal};
use anabranch_multipath::registry::Refused;
use anabranch_multipath::scheduler::{self, Scheduler};
use anabranch_settings::protocol::Protocol;
use class::{CONTROL, Class, SCHEDULER, leak};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// The registered entries, as kind and name.
static REGISTERED: Mutex<Vec<(&str, &str)>> = Mutex::new(Vec::new());

/// Adds a class to the congestion controls that scenarios can name.
#[pyfunction]
pub(crate) fn register_congestion(name: String, algorithm: &Bound<'_, PyAny>) -> PyResult<()> {
    let class = Class::of_control(&name, algorithm)?;
    let (coupled, summary, source) = (class.is_coupled(), leak(class.summary()), leak(class.source()));
    let build = Box::leak(Box::new(move |_: &Options| -> Box<dyn CongestionControl> {
        Box::new(control::Control::new(Arc::clone(&class)))
    }));
    let name = leak(name);
    let entry =
        congestion::Entry { name, aliases: &[], summary, source, coupled, signal: Signal::Loss, build };
    congestion::register(entry).map_err(|refused| mistake(&refused))?;
    remember(CONTROL, name);
    Ok(())
}

/// Adds a class to the schedulers that scenarios can name.
#[pyfunction]
pub(crate) fn register_scheduler(name: String, algorithm: &Bound<'_, PyAny>) -> PyResult<()> {
    let class = Class::of_scheduler(&name, algorithm)?;
    let (summary, source) = (leak(class.summary()), leak(class.source()));
    let build = Box::leak(Box::new(move || -> Box<dyn Scheduler> {
        Box::new(scheduling::InPython::new(Arc::clone(&class)))
    }));
    let name = leak(name);
    let entry = scheduler::Entry {
        name,
        summary,
        source,
        wants_rates: true,
        places: false,
        wants_information: false,
        build,
    };
    scheduler::register(entry).map_err(|refused| mistake(&refused))?;
    remember(SCHEDULER, name);
    Ok(())
}

/// An error if a protocol names a class of Python: only the simulator calls those.
pub(crate) fn refuse(protocol: &Protocol) -> Result<(), String> {
    let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let control = protocol.congestion().map(|choice| (CONTROL, choice.entry.name));
    let scheduler = protocol.get("scheduler").and_then(|value| value.word()).map(|name| (SCHEDULER, name));
    let found = control.into_iter().chain(scheduler).find(|named| registered.contains(named));
    found.map_or(Ok(()), |(kind, name)| {
        Err(format!(
            "{kind} \"{name}\" is a class of Python, which only the simulator runs; choose another one"
        ))
    })
}

/// The registered entries, as kind and name.
#[pyfunction]
pub(crate) fn registered() -> Vec<(&'static str, &'static str)> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn remember(kind: &'static str, name: &'static str) {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).push((kind, name));
}

fn mistake(refused: &Refused) -> PyErr {
    input_error_at(refused.to_string(), None, None)
}
