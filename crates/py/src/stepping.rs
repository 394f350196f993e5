//! A simulation in steps, for Python.

use crate::algorithms::fault::AlgorithmError;
use crate::errors;
use crate::progress::interruptible;
use crate::run::{Capture, captured, failure, json, seeded_scenario, share};
use crate::stopwatch::Stopwatch;
use anabranch_base::time::Time;
use anabranch_sim::report::sample::PathSample;
use anabranch_sim::scenario::result::{Document, RunResult};
use anabranch_sim::scenario::{self, Scenario};
use anabranch_sim::{RunError, RunOptions, Simulation};
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// New bytes that arrived over a path, its smoothed round-trip time in seconds (0 before its first sample), bytes in
/// flight, window in bytes, and retransmissions.
type PathValues = (u64, f64, u64, u64, u64);

/// A run of a scenario that goes on in steps.
#[pyclass]
pub(crate) struct Stepper {
    /// Never locked: every method has the stepper for itself. Python requires a type that threads can share.
    run: Mutex<Simulation>,
    file: String,
    /// When an algorithm in Python failed, seconds; the run does not go on.
    failed_at_s: Option<f64>,
    /// Seconds of the machine that the steps took.
    wall_s: f64,
}

#[pymethods]
impl Stepper {
    #[new]
    #[pyo3(signature = (toml_text, file_name, overrides, seed = None, trace_dir = None, pcap = None))]
    #[expect(clippy::too_many_arguments, reason = "the parameters are keyword arguments in Python")]
    fn new(
        py: Python<'_>,
        toml_text: &str,
        file_name: &str,
        overrides: Vec<String>,
        seed: Option<u64>,
        trace_dir: Option<std::path::PathBuf>,
        pcap: Option<Capture>,
    ) -> PyResult<Self> {
        let scenario = seeded_scenario(toml_text, file_name, overrides, seed)?;
        let options = RunOptions { trace: trace_dir, pcap: pcap.map(captured), ..RunOptions::default() };
        let run = interruptible(py, None, |_| Simulation::new(scenario, &options))?;
        let run = run.map_err(|error| failure(&error, file_name))?;
        Ok(Self { run: Mutex::new(run), file: file_name.to_owned(), failed_at_s: None, wall_s: 0.0 })
    }

    /// Processes every event before a time in nanoseconds; releases the interpreter meanwhile.
    fn step_until(&mut self, py: Python<'_>, time_ns: u64) -> PyResult<()> {
        if let Some(at) = self.failed_at_s {
            let message =
                format!("an algorithm of the run failed at {at} s, so it cannot go on; open it again");
            return Err(errors::input_error_at(message, None, None));
        }
        let watch = Stopwatch::start();
        let run = self.run();
        let outcome = interruptible(py, None, |on_share| {
            run.step_until_with(Time::from_nanos(time_ns), &mut |progress| on_share(share(progress)))
        });
        self.wall_s += watch.seconds();
        if outcome.as_ref().is_err_and(|error| error.is_instance_of::<AlgorithmError>(py)) {
            self.failed_at_s = Some(self.run().now().as_secs_f64());
        }
        outcome?.map_err(|error| self.failure(&error))
    }

    /// The present time in nanoseconds.
    fn now_ns(&mut self) -> u64 {
        self.run().now().as_nanos()
    }

    /// Whether the run has ended.
    fn is_over(&mut self) -> bool {
        self.failed_at_s.is_none() && self.run().is_over()
    }

    /// Number of processed events.
    fn events(&mut self) -> u64 {
        self.run().events()
    }

    /// The present values as JSON.
    fn sample(&mut self) -> PyResult<String> {
        json(&self.run().sample())
    }

    /// Values of a flow for programs that steer it, without the JSON of `sample`: bytes that the application has read and
    /// that wait out of order, and the values of its paths.
    fn flow_values(&mut self, flow: usize) -> PyResult<(u64, u64, Vec<PathValues>)> {
        let sample = self.run().sample();
        let Some(flow) = sample.flows.get(flow) else {
            let message = format!("there is no flow {flow}; the scenario has {}", sample.flows.len());
            return Err(errors::input_error_at(message, None, None));
        };
        let values = |path: &PathSample| {
            let srtt_s = path.srtt_s.unwrap_or(0.0);
            (path.delivered_bytes, srtt_s, path.in_flight_bytes, path.cwnd_bytes, path.retransmissions)
        };
        Ok((flow.delivered_bytes, flow.reordering_buffer_bytes, flow.paths.iter().map(values).collect()))
    }

    /// Changes a link at the present time; the order is JSON.
    fn order(&mut self, order: &str) -> PyResult<()> {
        self.run().order_json(order).map_err(errors::input_error)
    }

    /// The digest until now.
    fn digest(&mut self) -> String {
        format!("{:016x}", self.run().digest())
    }

    /// The result document as JSON, after the end of the run.
    fn result(&mut self, py: Python<'_>) -> PyResult<String> {
        let wall_s = self.wall_s;
        let run = self.run();
        let result = RunResult { wall_s, ..py.detach(|| run.result()) };
        json(&Document::new(result, run.scenario()))
    }

    /// The scenario as TOML, with the seed of the run, and orders as events.
    fn scenario(&mut self) -> String {
        let run = self.run();
        scenario::to_toml(&Scenario { seed: run.seed(), ..run.scenario().clone() })
    }
}

impl Stepper {
    fn run(&mut self) -> &mut Simulation {
        self.run.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self, error: &RunError) -> PyErr {
        match error {
            // Python's exception of the signal came from the call that it interrupted.
            RunError::Interrupted { at } => {
                let at = at.as_secs_f64();
                let message = format!("the run was interrupted at {at} s and cannot go on; open it again");
                errors::input_error_at(message, None, None)
            }
            error => failure(error, &self.file),
        }
    }
}
