//! A run: the event loop, and actions between events.

mod idle;
mod network;
mod options;
mod orders;
mod real_time;
mod stepping;

pub use options::{Progress, RunError, RunOptions};
pub use real_time::RealClock;

use crate::engine::Datapath;
use crate::engine::datapath::{EndId, Failure, Outcome};
use crate::engine::link::PacketRef;
use crate::host::{self, ArrivingFlows, Built, Flow, FlowEnvironment, Legs, RECEIVER, Relays, SENDER};
use crate::measure::digest::Digest;
use crate::report::collect;
use crate::report::sample::KnownPaths;
use crate::report::trace::Trace;
use crate::scenario::Scenario;
use crate::scenario::result::{self, RunResult};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_netem::Interface;
use anabranch_scenario::measure::Deliveries;
use std::collections::VecDeque;

/// Maximum number of iterations of the event loop and of timer events between two reports of progress; in one iteration, an
/// end may process dozens of packets.
const MAX_ITERATIONS_PER_REPORT: u64 = 1 << 16;

/// A run of a scenario, from its start to its end.
///
/// Events are processed in order of time, and at equal times in the order of the links and then of the flows,
/// or with the same result: events that concern only one end are processed ahead. Events of the scenario
/// precede others of the same time. Sampling (traces, the end of the warm-up, progress) happens between
/// events, is not ordered among them, and does not change the run.
///
/// [`run`](Self::run) goes to the end; [`step_until`](Self::step_until) goes on to a time. Between two steps,
/// [`sample`](Self::sample) reads values and [`order`](Self::order) changes links.
pub struct Simulation {
    scenario: Scenario,
    world: FlowEnvironment,
    /// The connections, in the order of [`Scenario::connections`].
    flows: Vec<Flow>,
    relays: Relays,
    /// The flows with arrivals.
    arriving_flows: ArrivingFlows,
    /// The flow of each connection.
    flow_of: Vec<usize>,
    /// Number of timer events of ends.
    timer_events: u64,
    seed: u64,
    end: Time,
    controls: Controls,
    /// Counters of the links at the end of the warm-up.
    baselines: Vec<anabranch_netem::Totals>,
    trace: Option<Trace>,
    /// True if the trace contains every change.
    trace_changes: bool,
    /// True after the end of the run.
    over: bool,
    /// Time at which the caller stopped the run.
    stopped: Option<Time>,
    /// The known paths of each flow, for samples.
    known_paths: Vec<KnownPaths>,
}

/// Actions between events (events of the scenario, samples, progress), and their next times.
#[derive(Debug)]
struct Controls {
    /// The earliest of the times below.
    next: Time,
    /// Time up to which the current call processes events, at most the end of the run.
    stop: Time,
    /// Index of the next event of the scenario.
    event: usize,
    /// Number of changes ordered at the current time; they are the last events of that time.
    orders: usize,
    /// Ends of the spans after events, in which repeated bytes are counted.
    spans: VecDeque<Time>,
    /// Number of spans that have begun, and when the last one did.
    begun: (usize, Option<Time>),
    warmup: Option<Time>,
    /// Time of the next arrival of a connection.
    arrival: Time,
    /// Time of the next trace sample; the maximum without traces.
    trace: Time,
    tick: Time,
}

impl Controls {
    /// Removes the oldest span if it ends by `now`; returns true if it was removed.
    fn end_of_span(&mut self, now: Time) -> bool {
        let ends = self.spans.front().is_some_and(|end| *end <= now);
        if ends {
            self.spans.pop_front();
        }
        ends
    }
}

impl Simulation {
    /// Builds the network, the hosts and the flows of a scenario.
    ///
    /// # Errors
    ///
    /// If the scenario is invalid, or a file cannot be written.
    pub fn new(scenario: Scenario, options: &RunOptions) -> Result<Self, RunError> {
        let seed = options.seed.unwrap_or(scenario.seed);
        let rng = Rng::new(seed);
        let mut network = scenario.network()?;
        network.set_seed(seed);
        let Built { flows, relays, arriving_flows, hosts } = host::flows(&scenario, &mut network, &rng)?;
        let mut datapath = Datapath::new(&scenario, network, &relays.ends().collect::<Vec<_>>(), &rng);
        if options.check_wire {
            datapath.check_wire();
        }
        let trace_changes = options.trace_changes && options.trace.is_some();
        if options.in_order || trace_changes {
            datapath.keep_order();
        }
        let end = Time::ZERO + scenario.duration;
        let controls = Controls {
            next: Time::ZERO,
            stop: Time::ZERO,
            event: 0,
            orders: 0,
            spans: VecDeque::new(),
            begun: (0, None),
            warmup: Some(Time::ZERO + scenario.warmup),
            arrival: arriving_flows.due(),
            trace: Time::MAX,
            tick: Time::ZERO,
        };
        let flow_of = scenario.flows_of_connections();
        let baselines = vec![anabranch_netem::Totals::default(); datapath.directions()];
        let world = FlowEnvironment { datapath, hosts };
        let known_paths = vec![KnownPaths::default(); scenario.flows.len()];
        let mut run = Self {
            scenario,
            world,
            flows,
            relays,
            arriving_flows,
            flow_of,
            timer_events: 0,
            seed,
            end,
            controls,
            baselines,
            trace: None,
            trace_changes,
            over: false,
            stopped: None,
            known_paths,
        };
        run.remove_addresses_of_down_links();
        run.inform_schedulers(Time::ZERO);
        run.record(options)?;
        let warmup = Time::ZERO + run.scenario.warmup;
        if let Some(deliveries) = Deliveries::new(run.scenario.outage(), run.scenario.event_times(), warmup) {
            run.flows.iter_mut().for_each(|flow| flow.applications.keep_over_time(&deliveries));
        }
        // Connections behind proxies begin when the proxy accepts one, those of arrivals when they arrive.
        for (index, flow) in run.flows[..run.scenario.flows.len()].iter_mut().enumerate() {
            if run.arriving_flows.of(index).is_none() {
                flow.schedule_start(&mut run.world.datapath);
            }
        }
        Ok(run)
    }

    /// Runs to the end. `progress` is called regularly and may stop the run.
    ///
    /// # Errors
    ///
    /// If the run is stopped, a packet fails the check, or a file cannot be written.
    pub fn run(&mut self, progress: &mut dyn FnMut(Progress) -> bool) -> Result<(), RunError> {
        self.run_to(self.end, progress)
    }

    /// Processes all events before `stop`, which is at most the end; at the end, ends the run.
    fn run_to(&mut self, stop: Time, progress: &mut dyn FnMut(Progress) -> bool) -> Result<(), RunError> {
        if let Some(at) = self.stopped {
            return Err(RunError::Interrupted { at });
        }
        if self.over {
            return Ok(());
        }
        self.set_stop(stop);
        let mut patience = MAX_ITERATIONS_PER_REPORT;
        loop {
            let now = self.world.datapath.next_event().map_or(self.end, |next| next.min(self.end));
            if now >= self.controls.next {
                if self.controls.next >= stop {
                    break;
                }
                // Only one action is performed at a time, since an event of the scenario may create an earlier one.
                self.control(progress)?;
                patience = MAX_ITERATIONS_PER_REPORT;
                continue;
            }
            if patience == 0 {
                patience = MAX_ITERATIONS_PER_REPORT;
                self.report_progress(now, progress)?;
            }
            patience -= 1;
            let end = match self.world.datapath.step() {
                Outcome::Nothing => continue,
                Outcome::Searches(end, frame) => {
                    self.search(now, end, frame);
                    continue;
                }
                Outcome::Arrived(end, frame) => {
                    let flow = &mut self.flows[end as usize / 2];
                    flow.arrived(now, end as usize % 2, frame, &mut self.world);
                    end
                }
                Outcome::Woken(end) => {
                    let flow = &mut self.flows[end as usize / 2];
                    let timer_events = flow.woken(now, end as usize % 2, &mut self.world);
                    self.timer_events += timer_events;
                    patience = patience.saturating_sub(timer_events);
                    end
                }
            };
            self.relays.turn(now, end, &mut self.flows, &mut self.world);
            if self.trace_changes {
                self.sample_flow(now, end)?;
            }
        }
        if stop < self.end { Ok(()) } else { self.finish(progress) }
    }

    /// Counts the entries before a packet for the processor of its host.
    #[cold]
    fn search(&mut self, now: Time, end: EndId, frame: PacketRef) {
        let flow = &self.flows[end as usize / 2];
        let entries = flow.entries_before(end as usize % 2, frame, &mut self.world);
        self.world.datapath.search(now, end, entries);
    }

    /// Ends the oldest span after an event.
    fn end_span(&mut self) {
        for flow in &mut self.flows {
            flow.set_span(false, &self.world.hosts);
        }
    }

    /// Ends the run: the links are brought up to date, and all output is written.
    fn finish(&mut self, progress: &mut dyn FnMut(Progress) -> bool) -> Result<(), RunError> {
        self.over = true;
        while self.controls.end_of_span(self.end) {
            self.end_span();
        }
        self.arriving_flows.release(self.end, &mut self.flows, &mut self.world);
        self.world.datapath.catch_up(self.end);
        for flow in &mut self.flows {
            for side in [SENDER, RECEIVER] {
                flow.record_lost(side, &mut self.world.datapath);
            }
        }
        self.report_progress(self.end, progress)?;
        if self.trace_changes {
            self.trace_sample(self.end)?;
        }
        if let Some(trace) = self.trace.take() {
            trace.finish().map_err(|(path, error)| RunError::file(&path, error))?;
        }
        self.world.datapath.finish_capture().map_err(|error| RunError::Capture { error })
    }

    /// Number of processed events: arrivals of packets at the end of a link, and timer events of ends.
    pub const fn events(&self) -> u64 {
        self.world.datapath.hops_done() + self.timer_events
    }

    /// The connections, in the order of [`Scenario::connections`].
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Number of connections of each host, and of names including ended connections.
    pub fn host_entries(&self) -> Vec<(usize, usize)> {
        self.world.hosts.entries()
    }

    /// The links and their packets.
    pub fn datapath(&mut self) -> &mut Datapath {
        &mut self.world.datapath
    }

    /// The digest until now: arrivals at hosts, followed by drops link by link.
    pub fn digest(&mut self) -> u64 {
        self.world.datapath.catch_up(self.now());
        let mut digest = Digest::new();
        for flow in &self.flows {
            flow.digest(&mut digest);
        }
        self.world.datapath.digest_drops(&mut digest);
        digest.word(self.world.datapath.unreachable());
        digest.value()
    }

    /// The result document, at the end of the run.
    pub fn result(&mut self) -> RunResult {
        let now = self.end;
        let digest = self.digest();
        let run = collect::Run { scenario: &self.scenario, now, since: Time::ZERO + self.scenario.warmup };
        let mut flows = run.flows((&mut self.flows, &self.relays, &self.arriving_flows), &mut self.world);
        for (index, flow) in flows.iter_mut().enumerate() {
            let arriving_flow = self.arriving_flows.of(index);
            flow.slowdown = arriving_flow
                .and_then(|arriving_flow| idle::slowdown(&self.scenario, index, arriving_flow, self.seed));
        }
        RunResult {
            format: result::FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            world: "sim".to_owned(),
            title: self.scenario.title.clone(),
            seed: self.seed,
            duration_s: self.scenario.duration.as_secs_f64(),
            warmup_s: self.scenario.warmup.as_secs_f64(),
            digest: Some(format!("{digest:016x}")),
            events: Some(self.events()),
            // Measured by the caller, which has a clock.
            wall_s: 0.0,
            unreachable_packets: Some(self.world.datapath.unreachable()),
            jain: result::jain(flows.iter().map(|flow| flow.goodput_bps)),
            flows,
            links: run.links(&mut self.world.datapath, &self.baselines),
            middleboxes: run.middleboxes(&self.world.datapath),
            hosts: run.hosts(&mut self.world.datapath),
            routers: run.routers(&mut self.world.datapath),
            host: None,
        }
    }

    /// Performs the next due action between events.
    fn control(&mut self, progress: &mut dyn FnMut(Progress) -> bool) -> Result<(), RunError> {
        let now = self.controls.next;
        let ordered = self.scenario.events.get(self.controls.event);
        if let Some(event) = ordered.filter(|event| event.at <= now).cloned() {
            self.controls.event += 1;
            self.measure_after(now, &event);
            self.apply(now, &event.subject);
            self.inform_schedulers(now);
            if self.trace_changes {
                self.trace_sample(now)?;
            }
        } else if self.controls.end_of_span(now) {
            self.end_span();
        } else if self.controls.warmup.is_some_and(|warmup| warmup <= now) {
            self.controls.warmup = None;
            self.measure_from(now);
        } else if self.controls.arrival <= now {
            self.arriving_flows.arrive(now, &mut self.flows, &mut self.world);
            self.controls.arrival = self.arriving_flows.due();
        } else if self.controls.trace <= now {
            self.controls.trace = now + result::INTERVAL;
            self.trace_sample(now)?;
        } else {
            self.controls.tick = now + Duration::from_secs(1);
            self.report_progress(now, progress)?;
        }
        self.plan();
        Ok(())
    }

    /// Determines the time of the next action between events.
    fn plan(&mut self) {
        let event = self.scenario.events.get(self.controls.event).map_or(Time::MAX, |event| event.at);
        let warmup = self.controls.warmup.unwrap_or(Time::MAX);
        let span = self.controls.spans.front().copied().unwrap_or(Time::MAX);
        let due = event
            .min(span)
            .min(warmup)
            .min(self.controls.arrival)
            .min(self.controls.trace)
            .min(self.controls.tick);
        self.controls.next = due.min(self.controls.stop);
        self.world.datapath.set_sync_point(self.controls.next);
    }

    /// Writes the present trace values.
    fn trace_sample(&mut self, now: Time) -> Result<(), RunError> {
        let Some(trace) = &mut self.trace else { return Ok(()) };
        let sampled = trace.sample(now, &self.scenario, (&mut self.flows, &self.relays), &mut self.world);
        sampled.map_err(|(path, error)| RunError::file(&path, error))
    }

    /// Writes the traces of the flow of an end that has just been processed.
    #[cold]
    fn sample_flow(&mut self, now: Time, end: EndId) -> Result<(), RunError> {
        let Some(trace) = &mut self.trace else { return Ok(()) };
        let index = self.flow_of[end as usize / 2];
        let sampled = trace.sample_flow(
            now,
            &self.scenario,
            (index, Legs::of(index, &mut self.flows, &self.relays)),
            &mut self.world,
        );
        sampled.map_err(|(path, error)| RunError::file(&path, error))
    }

    fn report_progress(
        &mut self,
        now: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), RunError> {
        if let Some(failure) = self.world.datapath.take_failure() {
            return Err(self.failed(failure));
        }
        if progress(Progress { now, end: self.end, events: self.events() }) {
            Ok(())
        } else {
            // Ends may have been processed ahead of this time.
            self.stopped = Some(now);
            Err(RunError::Interrupted { at: now })
        }
    }

    /// Starts measuring: the warm-up is over.
    fn measure_from(&mut self, now: Time) {
        for (direction, baseline) in self.baselines.iter_mut().enumerate() {
            let link = self.world.datapath.link(Interface(direction as u32)).at(now);
            *baseline = link.totals(now);
            link.restart_maxima(now);
        }
        if let Some(processors) = self.world.datapath.processors() {
            processors.restart(now);
        }
        for flow in &mut self.flows {
            flow.restart(now, &self.world.hosts);
        }
        self.arriving_flows.restart(now, &self.flows, &self.world);
    }

    fn failed(&self, failure: Failure) -> RunError {
        let name = |end| self.flows[end as usize / 2].applications.name().to_owned();
        match failure {
            Failure::Wire { at, from, error } => RunError::Wire { at, flow: name(from), error },
            Failure::OtherConnection { at, to } => RunError::OtherConnection { at, flow: name(to) },
            Failure::Capture(error) => RunError::Capture { error },
        }
    }
}

/// Runs a scenario. The caller, which has a clock, measures the duration.
///
/// # Errors
///
/// If the scenario is invalid, a file cannot be written, or a packet fails the check.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
    run_with(scenario, options, &mut |_| true)
}

/// Like [`run`]; `progress` is called every simulated second (and more often in a large scenario) and may
/// stop the run by returning false.
///
/// # Errors
///
/// The errors of [`run`], and an error if the run is stopped.
pub fn run_with(
    scenario: &Scenario,
    options: &RunOptions,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<RunResult, RunError> {
    let mut simulation = Simulation::new(scenario.clone(), options)?;
    simulation.run(progress)?;
    Ok(simulation.result())
}
