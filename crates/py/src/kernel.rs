//! Runs on the kernel's sockets, for Python: an emulated network between network namespaces, and traffic over the
//! kernel's sockets.

use crate::errors;
use crate::priority::prefer;
use crate::run::{Capture, captured, not_written, pairs, scenario};
use crate::stopwatch::Stopwatch;
use anabranch_base::time::{Duration, Time};
use anabranch_net::counters::{self, Counters};
use anabranch_net::emulator::{
    Attachment, Control, ControlError, Emulator, OpenError, Outcome, Running, Settings,
};
use anabranch_net::layout::Layout;
use anabranch_net::meter::{self, Meter, MeterError};
use anabranch_net::tunnel::{Part, PartError, TunnelCounters};
use anabranch_net::{Clock, Machine, Namespace};
use anabranch_netem::Interface;
use anabranch_sim::scenario::model::{Directions, Link, MACHINES};
use anabranch_sim::scenario::result::{self, Document, LatenessResult, RunResult};
use anabranch_sim::scenario::{self as scenarios, Scenario};
use pyo3::exceptions::{PyConnectionError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Interval at which a run lets Python handle signals.
const SIGNAL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

/// Reads the counters of all tunnels to another machine.
type ReadCounters = Arc<dyn Fn() -> Vec<TunnelCounters> + Send + Sync>;

/// Hosts, interfaces, addresses and routes of a scenario, as JSON.
#[pyfunction]
pub(crate) fn layout(toml_text: &str, file_name: &str, overrides: Vec<String>) -> PyResult<String> {
    let scenario = scenario(toml_text, file_name, overrides)?;
    let layout = Layout::new(&scenario)
        .map_err(|error| errors::input_error_at(error.to_string(), Some(file_name.to_owned()), None))?;
    json(&layout)
}

/// A scenario's network between network namespaces: its TUN interfaces exist while this value does.
///
/// `namespaces` contains the file of the namespace of each host.
#[pyclass(unsendable)]
pub(crate) struct Emulation {
    scenario: Arc<Scenario>,
    namespaces: BTreeMap<String, Namespace>,
    trace: Option<PathBuf>,
    /// Present before the start.
    emulator: Option<Emulator>,
    running: Option<Running>,
    tunnels: Option<ReadCounters>,
}

#[pymethods]
impl Emulation {
    #[new]
    #[pyo3(signature = (
        toml_text,
        file_name,
        overrides,
        namespaces,
        seed = None,
        trace_dir = None,
        spin_us = 0,
        pcap = None,
        machine = None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "the parameters are keyword arguments in Python")]
    fn new(
        toml_text: &str,
        file_name: &str,
        overrides: Vec<String>,
        namespaces: BTreeMap<String, PathBuf>,
        seed: Option<u64>,
        trace_dir: Option<PathBuf>,
        spin_us: u64,
        pcap: Option<Capture>,
        machine: Option<&str>,
    ) -> PyResult<Self> {
        let mut scenario = scenario(toml_text, file_name, overrides)?;
        if let Some(seed) = seed {
            scenarios::reseed(&mut scenario, seed).map_err(errors::input_error)?;
        }
        let scenario = Arc::new(scenario);
        let part = machine.map(|machine| open_part(&scenario, file_name, machine)).transpose()?;
        let open = |(host, path): (String, PathBuf)| Ok((host, Namespace::open(&path)?));
        let namespaces: BTreeMap<_, _> = namespaces.into_iter().map(open).collect::<std::io::Result<_>>()?;
        let layout = Layout::new(&scenario)
            .map_err(|error| errors::input_error_at(error.to_string(), Some(file_name.to_owned()), None))?;
        let mut attachments = Vec::new();
        for host in layout.hosts.iter().filter(|host| part.as_ref().is_none_or(|part| part.has(&host.name))) {
            for interface in host.devices() {
                let namespace = namespaces.get(&host.name).cloned();
                attachments.push(Attachment {
                    interface: Interface(interface.index),
                    namespace: namespace.ok_or_else(|| {
                        PyRuntimeError::new_err(format!(
                            "`namespaces` has no entry for the host {}",
                            host.name
                        ))
                    })?,
                    device: interface.device.clone(),
                });
            }
        }
        let pcap = pcap.map(captured);
        let settings = Settings { spin: Duration::from_micros(spin_us), trace: trace_dir.clone(), pcap };
        let emulator = Emulator::open(Arc::clone(&scenario), scenario.seed, attachments, settings);
        let mut emulator = emulator.map_err(|error| match error {
            OpenError::Unknown(sentence) => errors::input_error_at(sentence, None, None),
            OpenError::Capture(_, ref reason) => not_written(error.to_string(), reason),
            error => PyOSError::new_err(error.to_string()),
        })?;
        let mut tunnels: Option<ReadCounters> = None;
        if let Some(part) = part {
            tunnels = Some(Arc::new(part.counters()));
            emulator.join(part);
        }
        Ok(Self { scenario, namespaces, trace: trace_dir, emulator: Some(emulator), running: None, tunnels })
    }

    /// Starts to forward packets, until `stop`; on one of two machines, as soon as both agree on the start. Returns the
    /// time of the start, in seconds of the machine's monotonic clock.
    fn start(&mut self, py: Python<'_>) -> PyResult<f64> {
        let mut emulator = self
            .emulator
            .take()
            .ok_or_else(|| PyRuntimeError::new_err("the emulation was started before"))?;
        let clock = match emulator.part() {
            Some(part) => meet(py, part)?,
            None => Clock::new(),
        };
        let running = emulator.start(clock, Time::MAX);
        prefer(py, running.thread_id());
        self.running = Some(running);
        Ok(zero_s(clock))
    }

    /// Returns an object that changes links while the emulation runs.
    fn control(&self) -> PyResult<LinkControl> {
        let running = self.running.as_ref();
        let running = running.ok_or_else(|| PyRuntimeError::new_err("the emulation is not running"))?;
        Ok(LinkControl { control: running.control(), tunnels: self.tunnels.clone() })
    }

    /// Whether the emulation has ended prematurely.
    fn is_over(&self) -> bool {
        self.running.as_ref().is_none_or(Running::is_over)
    }

    /// Stops forwarding packets. Returns the lateness, as JSON.
    fn stop(&mut self, py: Python<'_>) -> PyResult<String> {
        let running =
            self.running.take().ok_or_else(|| PyRuntimeError::new_err("the emulation is not running"))?;
        // The end of contact with another machine becomes a `ConnectionAbortedError`.
        let outcome = py.detach(|| running.finish(true))?;
        json::<LatenessResult>(&outcome.lateness)
    }

    /// Runs the scenario's flows over the kernel's sockets and returns the result document as JSON, including
    /// `sysctls` and `differences`. `begun_callback` is called at the start with the time that is zero in the
    /// scenario, in seconds of the machine's monotonic clock; `progress_callback` regularly with the
    /// completed share of the run.
    #[pyo3(signature = (sysctls, differences, begun_callback, progress_callback = None))]
    #[expect(clippy::too_many_arguments, reason = "the parameters are keyword arguments in Python")]
    fn measure(
        &mut self,
        py: Python<'_>,
        sysctls: BTreeMap<String, BTreeMap<String, String>>,
        differences: Vec<String>,
        begun_callback: &Bound<'_, PyAny>,
        progress_callback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let mut emulator = self
            .emulator
            .take()
            .ok_or_else(|| PyRuntimeError::new_err("the emulation was started before"))?;
        let machine = Machine::before(sysctls, differences);
        let settings = meter::Settings { trace: self.trace.clone(), translations: emulator.translations() };
        let own =
            meter::own_ends(&self.scenario).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let settings = (&settings, emulator.attach_stacks(own)?);
        let meter = Meter::new(Arc::clone(&self.scenario), self.scenario.seed, &self.namespaces, settings)
            .map_err(failure)?;
        let counters = Counters::before(&self.namespaces)?;
        let (watch, clock) = (Stopwatch::start(), Clock::new());
        let until = Time::ZERO + self.scenario.duration;
        let running = emulator.start(clock, until);
        prefer(py, running.thread_id());
        let measuring = meter.start(clock);
        for &thread in measuring.own_threads() {
            prefer(py, thread);
        }
        let mut interrupted = begun_callback.call1((zero_s(clock),)).map(drop);
        while interrupted.is_ok() && measuring.share() < 1.0 && !measuring.has_failed() && !running.is_over()
        {
            py.detach(|| std::thread::sleep(SIGNAL_INTERVAL));
            interrupted = py.check_signals().and_then(|()| match progress_callback {
                Some(callback) => callback.call1((measuring.share(),)).map(drop),
                None => Ok(()),
            });
        }
        let early = measuring.share() < 1.0;
        if early {
            measuring.stop();
        }
        let (flows, outcome) = py.detach(|| (measuring.finish(), running.finish(early)));
        interrupted?;
        let flows = flows.map_err(failure)?;
        let Outcome { links, middleboxes, routers, lateness, unreachable } = outcome?;
        let scenario = &self.scenario;
        let hosts = counters.after()?;
        if let Some(folder) = &self.trace {
            counters::write(folder, until, &hosts, &flows)?;
        }
        let result = RunResult {
            format: result::FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            world: "kernel".to_owned(),
            title: scenario.title.clone(),
            seed: scenario.seed,
            duration_s: scenario.duration.as_secs_f64(),
            warmup_s: scenario.warmup.as_secs_f64(),
            digest: None,
            events: None,
            wall_s: watch.seconds(),
            unreachable_packets: Some(unreachable),
            middleboxes,
            jain: result::jain(flows.iter().map(|flow| flow.goodput_bps)),
            flows,
            links,
            hosts,
            routers,
            host: Some(machine.after(lateness)),
        };
        json(&Document::new(result, scenario))
    }
}

/// Changes the links of an emulation that runs; for any thread.
#[pyclass(frozen)]
pub(crate) struct LinkControl {
    control: Arc<Control>,
    tunnels: Option<ReadCounters>,
}

#[pymethods]
impl LinkControl {
    /// Gives links the values of `settings`, `link.NAME.KEY=VALUE` each: all of them or none. `direction` is `both`,
    /// `forward` or `reverse`. Returns as JSON the time, the values before and after, and the ends of links that went up
    /// or down.
    fn set(&self, py: Python<'_>, settings: Vec<String>, direction: &str) -> PyResult<String> {
        let settings = pairs(settings, "")?;
        let directions = match direction {
            "both" => Directions::Both,
            "forward" => Directions::Forward,
            "reverse" => Directions::Reverse,
            other => {
                let message =
                    format!("direction is \"{other}\"; the valid values are both, forward, reverse");
                return Err(errors::input_error_at(message, None, None));
            }
        };
        let applied = py.detach(|| self.control.set(&settings, directions)).map_err(|error| match error {
            ControlError::Input(error) => errors::input_error(error),
            error @ ControlError::Elsewhere(..) => errors::input_error_at(error.to_string(), None, None),
            error => PyOSError::new_err(error.to_string()),
        })?;
        let switched: Vec<_> = applied.switched.iter().map(|(interface, up)| (interface.0, up)).collect();
        json(&(applied.at.as_secs_f64(), applied.values, switched))
    }

    /// The present values of all links as JSON: name, and the values of both directions; `null` for a direction that
    /// another machine emulates.
    fn links(&self, py: Python<'_>) -> PyResult<String> {
        let links = py.detach(|| self.control.links());
        let models = |(index, link): (usize, &Link)| {
            let of = |end: usize, model| {
                let is_here = self.control.is_here(Interface::new(index, end));
                is_here.then(|| scenarios::link_model_to_json(model))
            };
            [of(0, &link.forward), of(1, &link.reverse)]
        };
        json(
            &links
                .iter()
                .enumerate()
                .map(|(index, link)| (&link.name, models((index, link))))
                .collect::<Vec<_>>(),
        )
    }

    /// Counters of the tunnels to another machine, as JSON.
    fn tunnels(&self) -> PyResult<String> {
        json(&self.tunnels.as_ref().map(|read| read()).unwrap_or_default())
    }
}

/// Opens the tunnels of a machine, `a` or `b`.
fn open_part(scenario: &Scenario, file_name: &str, machine: &str) -> PyResult<Part> {
    let index = MACHINES.iter().position(|name| *name == machine);
    let index = index.ok_or_else(|| PyRuntimeError::new_err(format!("there is no machine {machine}")))?;
    Part::open(scenario, index).map_err(|error| match error {
        error @ PartError::NoMachines => {
            errors::input_error_at(error.to_string(), Some(file_name.to_owned()), None)
        }
        error => PyOSError::new_err(error.to_string()),
    })
}

/// Waits until both machines have agreed on the start.
fn meet(py: Python<'_>, part: &mut Part) -> PyResult<Clock> {
    let interval = Duration::from_nanos(SIGNAL_INTERVAL.as_nanos() as u64);
    loop {
        let met = py.detach(|| part.meet(interval));
        if let Some(clock) = met.map_err(|error| PyConnectionError::new_err(error.to_string()))? {
            return Ok(clock);
        }
        if let Err(interrupted) = py.check_signals() {
            part.end(false);
            return Err(interrupted);
        }
    }
}

/// The time of a clock's zero, in seconds of the machine's monotonic clock, as in Python.
fn zero_s(clock: Clock) -> f64 {
    clock.zero_ns() as f64 / 1e9
}

fn json<T: serde::Serialize>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Distinguishes errors of the caller from refusals of the system.
fn failure(error: MeterError) -> PyErr {
    match error {
        MeterError::Flow(error) => errors::input_error_at(error.to_string(), None, None),
        error => PyOSError::new_err(error.to_string()),
    }
}
