//! A run in steps, and its output while it goes on.

use super::{Progress, RunError, RunOptions, Simulation};
use crate::report::capture::{self, Capture, Mistake};
use crate::report::sample::{Sample, Sampler};
use crate::report::trace::Trace;
use crate::scenario::Scenario;
use crate::scenario::result::Sink;
use anabranch_base::time::Time;
use std::io;

impl Simulation {
    /// Processes every event before `time`. At the end of the run it stops and ends the run.
    ///
    /// Any division into steps gives the same run. A step to the present time or an earlier one has no effect.
    ///
    /// # Errors
    ///
    /// If a packet fails the check, or a file cannot be written.
    pub fn step_until(&mut self, time: Time) -> Result<(), RunError> {
        self.step_until_with(time, &mut |_| true)
    }

    /// Like [`step_until`](Self::step_until); `progress` is called every simulated second (and more often in a large
    /// scenario) and may stop the run by returning false. A stopped run does not go on.
    ///
    /// # Errors
    ///
    /// The errors of [`step_until`](Self::step_until), and an error if the run is or was stopped.
    pub fn step_until_with(
        &mut self,
        time: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), RunError> {
        self.run_to(time.max(self.controls.stop).min(self.end), progress)
    }

    /// The present time: the end of the last step, or when the run was stopped. Events at this time have not happened
    /// yet.
    pub const fn now(&self) -> Time {
        match self.stopped {
            Some(at) => at,
            None => self.controls.stop,
        }
    }

    /// The end of the run.
    pub const fn end(&self) -> Time {
        self.end
    }

    /// True if the run has ended.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// The scenario, with all orders until now as events.
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The seed of the run.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Number of events of the scenario that have happened.
    pub const fn events_done(&self) -> usize {
        self.controls.event
    }

    /// The present values of all flows, paths and links. Does not affect the run.
    pub fn sample(&mut self) -> Sample {
        let now = self.now();
        let sampler = Sampler { scenario: &self.scenario, now };
        Sample {
            now_ns: now.as_nanos(),
            events: self.events(),
            over: self.over,
            flows: sampler.flows(
                (&mut self.flows, &self.relays, &self.arriving_flows),
                &mut self.known_paths,
                &mut self.world,
            ),
            links: sampler.links(&mut self.world.datapath),
        }
    }

    /// Writes traces into sinks, one for each file; `open` gets its name.
    ///
    /// # Errors
    ///
    /// If a sink fails.
    ///
    /// # Panics
    ///
    /// If the run has begun.
    pub fn trace_into(&mut self, open: &mut dyn FnMut(&str) -> io::Result<Sink>) -> Result<(), RunError> {
        let trace = Trace::into_sinks(&self.scenario, open);
        self.start_trace(trace.map_err(|(path, error)| RunError::file(&path, error))?);
        Ok(())
    }

    /// Writes the packets that `settings` selects into a sink, as pcapng; the file of the settings is not used.
    ///
    /// # Errors
    ///
    /// If no node, link or flow has a name of the settings, or the sink fails.
    ///
    /// # Panics
    ///
    /// If the run has begun.
    pub fn capture_into(&mut self, sink: Sink, settings: &capture::Settings) -> Result<(), RunError> {
        self.start_capture(settings, |scenario| Capture::into_sink(sink, settings, scenario))
    }

    /// Starts the trace and the capture of the options.
    pub(super) fn record(&mut self, options: &RunOptions) -> Result<(), RunError> {
        if let Some(settings) = &options.pcap {
            self.start_capture(settings, |scenario| Capture::create(settings, scenario))?;
        }
        if let Some(folder) = &options.trace {
            let trace = Trace::create(folder, &self.scenario);
            self.start_trace(trace.map_err(|(path, error)| RunError::file(&path, error))?);
        }
        Ok(())
    }

    fn start_trace(&mut self, trace: Trace) {
        assert!(!self.has_begun(), "a trace starts with the run");
        self.trace = Some(trace);
        self.controls.trace = Time::ZERO;
        for (flow, &index) in self.flows.iter_mut().zip(&self.flow_of) {
            if self.arriving_flows.of(index).is_none() {
                flow.keep_decisions();
                flow.applications.keep_accesses();
            }
        }
    }

    fn start_capture(
        &mut self,
        settings: &capture::Settings,
        create: impl FnOnce(&Scenario) -> Result<Capture, Mistake>,
    ) -> Result<(), RunError> {
        assert!(!self.has_begun(), "a capture starts with the run");
        let capture = create(&self.scenario).map_err(|mistake| match mistake {
            Mistake::Unknown(message) => RunError::Unknown(message),
            Mistake::File(error) => RunError::file(&settings.file, error),
        })?;
        self.world.datapath.capture(capture);
        Ok(())
    }

    fn has_begun(&self) -> bool {
        self.controls.stop > Time::ZERO
    }

    /// Sets the time up to which the run goes on.
    pub(super) fn set_stop(&mut self, stop: Time) {
        if stop > self.controls.stop {
            self.controls.orders = 0;
        }
        self.controls.stop = stop;
        self.plan();
    }
}
