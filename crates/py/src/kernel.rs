//! The kernel's world from Python: an emulated network between network namespaces, and traffic over the kernel's sockets.

use crate::errors;
use crate::run::{Capture, captured, scenario};
use crate::stopwatch::Stopwatch;
use multipath::time::{Duration, Time};
use net::counters::{self, Counters};
use net::emulator::{Attachment, Emulator, OpenError, Outcome, Running, Settings};
use net::layout::Layout;
use net::meter::{self, Meter, MeterError};
use net::{Clock, Machine, Namespace};
use netem::Interface;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use sim::scenario::result::{self, Document, LatenessResult, RunResult};
use sim::scenario::{self as scenarios, Scenario};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// How often a run lets Python see to its signals.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// Hosts, interfaces, addresses and routes of a scenario, as JSON.
#[pyfunction]
pub(crate) fn layout(toml_text: &str, file_name: &str, overrides: Vec<String>) -> PyResult<String> {
    let scenario = scenario(toml_text, file_name, overrides)?;
    let layout = Layout::new(&scenario)
        .map_err(|error| errors::raised_at(error.to_string(), Some(file_name.to_owned()), None))?;
    json(&layout)
}

/// A scenario's network between network namespaces: TUN interfaces that are there as long as this value is.
///
/// `namespaces` has the file of the namespace of each host.
#[pyclass(unsendable)]
pub(crate) struct Emulation {
    scenario: Arc<Scenario>,
    namespaces: BTreeMap<String, Namespace>,
    trace: Option<PathBuf>,
    /// Before it runs.
    emulator: Option<Emulator>,
    running: Option<Running>,
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
    ))]
    #[expect(clippy::too_many_arguments, reason = "in Python they are keywords")]
    fn new(
        toml_text: &str,
        file_name: &str,
        overrides: Vec<String>,
        namespaces: BTreeMap<String, PathBuf>,
        seed: Option<u64>,
        trace_dir: Option<PathBuf>,
        spin_us: u64,
        pcap: Option<Capture>,
    ) -> PyResult<Self> {
        let mut scenario = scenario(toml_text, file_name, overrides)?;
        if let Some(seed) = seed {
            scenarios::reseed(&mut scenario, seed).map_err(errors::raised)?;
        }
        let scenario = Arc::new(scenario);
        let open = |(host, path): (String, PathBuf)| Ok((host, Namespace::open(&path)?));
        let namespaces: BTreeMap<_, _> = namespaces.into_iter().map(open).collect::<std::io::Result<_>>()?;
        let layout = Layout::new(&scenario)
            .map_err(|error| errors::raised_at(error.to_string(), Some(file_name.to_owned()), None))?;
        let mut attachments = Vec::new();
        for host in &layout.hosts {
            for interface in &host.interfaces {
                let namespace = namespaces.get(&host.name).cloned();
                attachments.push(Attachment {
                    interface: Interface(interface.index),
                    namespace: namespace
                        .ok_or_else(|| PyRuntimeError::new_err(format!("no namespace for {}", host.name)))?,
                    device: interface.device.clone(),
                });
            }
        }
        let pcap = pcap.map(captured);
        let settings = Settings { spin: Duration::from_micros(spin_us), trace: trace_dir.clone(), pcap };
        let emulator = Emulator::open(Arc::clone(&scenario), scenario.seed, attachments, settings);
        let emulator = emulator.map_err(|error| match error {
            OpenError::Unknown(sentence) => errors::raised_at(sentence, None, None),
            OpenError::System(what, error) => PyOSError::new_err(format!("{what}: {error}")),
        })?;
        Ok(Self { scenario, namespaces, trace: trace_dir, emulator: Some(emulator), running: None })
    }

    /// Carries packets from now on, until `stop`. Returns when that was, in seconds of the machine's monotonic clock.
    fn start(&mut self, py: Python<'_>) -> PyResult<f64> {
        let emulator = self.emulator.take().ok_or_else(|| PyRuntimeError::new_err("it runs already"))?;
        let clock = Clock::new();
        let running = emulator.start(clock, Time::MAX);
        prefer(py, running.thread_id());
        self.running = Some(running);
        Ok(zero_s(clock))
    }

    /// Whether it has broken off.
    fn is_over(&self) -> bool {
        self.running.as_ref().is_none_or(Running::is_over)
    }

    /// Carries packets no longer. How late it was, as JSON.
    fn stop(&mut self, py: Python<'_>) -> PyResult<String> {
        let running = self.running.take().ok_or_else(|| PyRuntimeError::new_err("it does not run"))?;
        let outcome = py.detach(|| running.finish(true))?;
        json::<LatenessResult>(&outcome.lateness)
    }

    /// Runs the scenario's flows over the kernel's sockets and returns the result document as JSON. `sysctls` and
    /// `differences` go into it. `begun_callback` is called at the start with the moment that is zero in the scenario, in
    /// seconds of the machine's monotonic clock; `progress_callback` now and then with the share of the run that is done.
    #[pyo3(signature = (sysctls, differences, begun_callback, progress_callback = None))]
    #[expect(clippy::too_many_arguments, reason = "in Python they are keywords")]
    fn measure(
        &mut self,
        py: Python<'_>,
        sysctls: BTreeMap<String, BTreeMap<String, String>>,
        differences: Vec<String>,
        begun_callback: &Bound<'_, PyAny>,
        progress_callback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let emulator = self.emulator.take().ok_or_else(|| PyRuntimeError::new_err("it runs already"))?;
        let machine = Machine::before(sysctls, differences);
        let settings = meter::Settings { trace: self.trace.clone() };
        let meter = Meter::new(Arc::clone(&self.scenario), self.scenario.seed, &self.namespaces, &settings)
            .map_err(failure)?;
        let counters = Counters::before(&self.namespaces)?;
        let (watch, clock) = (Stopwatch::start(), Clock::new());
        let until = Time::ZERO + self.scenario.duration;
        let running = emulator.start(clock, until);
        prefer(py, running.thread_id());
        let measuring = meter.start(clock);
        let mut interrupted = begun_callback.call1((zero_s(clock),)).map(drop);
        while interrupted.is_ok() && measuring.share() < 1.0 && !measuring.has_failed() && !running.is_over()
        {
            py.detach(|| std::thread::sleep(LOOK));
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
        let Outcome { links, lateness, unreachable } = outcome?;
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
            middleboxes: Vec::new(),
            jain: result::jain(flows.iter().map(|flow| flow.goodput_bps)),
            flows,
            links,
            hosts,
            host: Some(machine.after(lateness)),
        };
        json(&Document::new(result, scenario))
    }
}

/// When a clock shows zero, in seconds of the machine's monotonic clock, as Python reads it.
fn zero_s(clock: Clock) -> f64 {
    clock.zero_ns() as f64 / 1e9
}

/// Has a thread run as soon as it wants to, whatever else does (`SCHED_RR`). A system that does not let it, as without root,
/// makes packets later, which is seen.
fn prefer(py: Python<'_>, thread: i32) {
    let prefer = || {
        let os = py.import("os")?;
        let parameters = os.call_method1("sched_param", (1,))?;
        os.call_method1("sched_setscheduler", (thread, os.getattr("SCHED_RR")?, parameters))
    };
    let _: PyResult<_> = prefer();
}

fn json<T: serde::Serialize>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The caller's mistakes are told from what the system refuses.
fn failure(error: MeterError) -> PyErr {
    match error {
        MeterError::Flow(error) => errors::raised_at(error.to_string(), None, None),
        error @ MeterError::System { .. } => PyOSError::new_err(error.to_string()),
    }
}
