//! Flows whose connections begin during the run, each with its own file.
//!
//! Each connection takes one of the flow's slots, which are as many as the connections that may be open at the same
//! time. A slot is free again, without the endpoints of its connection, once both ends have closed it, or once one has
//! failed. So memory depends on the number of open connections.

use super::applications::Transfer;
use super::flow::Flow;
use super::hosts::FlowEnvironment;
use super::side::{RECEIVER, SENDER};
use super::template::Template;
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Endpoint, Reason};
use anabranch_multipath::scheduler::KnownPath;
use anabranch_scenario::measure::Histogram;
use anabranch_scenario::workload::ArrivalProcess;
use core::net::IpAddr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Maximum number of completed connections of which size and completion time are kept, a random sample of all: each may
/// need a separate run for its slowdown.
const MAX_SAMPLE: usize = 1_000;

/// All flows with arrivals.
#[derive(Debug, Default)]
pub struct ArrivingFlows(Vec<ArrivingFlow>);

/// A flow with arrivals.
#[derive(Debug)]
pub struct ArrivingFlow {
    /// Index of the flow in the scenario.
    flow: usize,
    template: Template,
    process: ArrivalProcess,
    start: Time,
    /// Slots without a connection, by their indices among the connections: the one that is free longest is first.
    free: VecDeque<usize>,
    /// Slots with a connection.
    open: Vec<usize>,
    /// Connections that have left their slots, and arrivals without a slot.
    past: Totals,
    /// The end of the warm-up, and the bytes delivered and payload bytes sent until then.
    since: Time,
    before: [u64; 2],
    completions: Histogram,
    delays: Histogram,
    sample: Sample,
}

/// Counts of connections, and sums over them.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Arrivals, including refused ones.
    pub arrived: u64,
    /// Arrivals that found no free slot, or no port.
    pub refused: u64,
    /// Connections whose file was delivered.
    pub finished: u64,
    /// Bytes that the applications have written.
    pub written: u64,
    /// Bytes that the applications have read.
    pub delivered: u64,
    /// Payload bytes sent, retransmissions included.
    pub sent: u64,
    /// Data packets retransmitted.
    pub retransmissions: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Counters of the protocol.
    pub counters: BTreeMap<&'static str, u64>,
}

/// A uniform sample of completed connections (reservoir sampling: Vitter, Random sampling with a reservoir, 1985,
/// algorithm R).
#[derive(Debug)]
struct Sample {
    kept: Vec<(u64, Duration)>,
    seen: u64,
    rng: Rng,
}

impl Sample {
    const fn new(rng: Rng) -> Self {
        Self { kept: Vec::new(), seen: 0, rng }
    }

    fn add(&mut self, size: u64, completion: Duration) {
        self.seen += 1;
        if self.kept.len() < MAX_SAMPLE {
            self.kept.push((size, completion));
        } else if let Some(replaced) = self.kept.get_mut(self.rng.between(0, self.seen - 1) as usize) {
            *replaced = (size, completion);
        }
    }
}

impl ArrivingFlows {
    /// Flows with arrivals, in the order of the scenario.
    pub const fn new(all: Vec<ArrivingFlow>) -> Self {
        Self(all)
    }

    /// The flow with this index in the scenario, if it has arrivals.
    pub fn of(&self, flow: usize) -> Option<&ArrivingFlow> {
        self.0.iter().find(|arriving_flow| arriving_flow.flow == flow)
    }

    /// Time of the next arrival; the maximum after the last one.
    pub fn due(&self) -> Time {
        self.0.iter().map(|arriving_flow| arriving_flow.process.due()).min().unwrap_or(Time::MAX)
    }

    /// Processes the arrivals that are due.
    pub fn arrive(&mut self, now: Time, flows: &mut [Flow], world: &mut FlowEnvironment) {
        for arriving_flow in &mut self.0 {
            while arriving_flow.process.due() <= now {
                arriving_flow.release(now, flows, world);
                arriving_flow.arrive(now, flows, world);
            }
        }
    }

    /// Releases the slots of ended connections.
    pub fn release(&mut self, now: Time, flows: &mut [Flow], world: &mut FlowEnvironment) {
        self.0.iter_mut().for_each(|arriving_flow| arriving_flow.release(now, flows, world));
    }

    /// Ends the warm-up: discards the measurements up to now.
    pub fn restart(&mut self, now: Time, flows: &[Flow], world: &FlowEnvironment) {
        for arriving_flow in &mut self.0 {
            let totals = arriving_flow.totals(flows, world);
            (arriving_flow.since, arriving_flow.before) = (now, [totals.delivered, totals.sent]);
            arriving_flow.completions.clear();
            arriving_flow.delays.clear();
            (arriving_flow.sample.seen, arriving_flow.sample.kept) = (0, Vec::new());
        }
    }

    /// An address of either host is replaced by another on the same interface.
    pub fn renumber(&mut self, old: IpAddr, new: IpAddr) {
        for arriving_flow in &mut self.0 {
            let (protocol, ends) = &mut *arriving_flow.template.opening;
            protocol.renumber(old, new);
            ends.renumber(old, new);
        }
    }

    /// Replaces the characteristics of paths of later connections.
    pub fn set_known_paths(&mut self, known: &Arc<[KnownPath]>) {
        self.0.iter_mut().for_each(|arriving_flow| arriving_flow.template.opening.0.set_known_paths(known));
    }
}

impl ArrivingFlow {
    /// The flow with this index in the scenario, and its slots.
    pub(super) fn new(flow: usize, places: Vec<usize>, template: Template, process: ArrivalProcess) -> Self {
        Self {
            flow,
            start: process.due(),
            sample: Sample::new(template.rng.fork("sample")),
            template,
            process,
            free: places.into(),
            open: Vec::new(),
            past: Totals::default(),
            since: Time::ZERO,
            before: [0; 2],
            completions: Histogram::new(),
            delays: Histogram::new(),
        }
    }

    /// A slot without a connection, with this index among the connections.
    pub(super) fn place(&self, index: usize) -> Flow {
        self.template.place(index, self.start)
    }

    /// Time of the flow's first arrival; the maximum if there is none.
    pub const fn start(&self) -> Time {
        self.start
    }

    /// Slots of the flow, as indices among the connections.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.free.iter().chain(&self.open).copied()
    }

    /// Number of open connections.
    pub const fn open(&self) -> usize {
        self.open.len()
    }

    /// Whether there are no further arrivals and no open connections.
    pub fn is_over(&self) -> bool {
        self.open.is_empty() && self.process.due() == Time::MAX
    }

    /// Completion times of the measured part, from the arrival.
    pub const fn completions(&self) -> &Histogram {
        &self.completions
    }

    /// Bytes delivered and payload bytes sent until the end of the warm-up.
    pub const fn before(&self) -> [u64; 2] {
        self.before
    }

    /// Size and completion time of a random sample of the completed connections of the measured part: of all, if they
    /// are few.
    pub fn sample(&self) -> &[(u64, Duration)] {
        &self.sample.kept
    }

    /// Counts and sums until now.
    pub fn totals(&self, flows: &[Flow], world: &FlowEnvironment) -> Totals {
        let mut totals = self.past.clone();
        self.open.iter().for_each(|&place| totals.add(&flows[place], world));
        totals
    }

    /// Delays from writing to delivery of the measured part.
    pub fn delays(&self, flows: &[Flow]) -> Histogram {
        let mut all = self.delays.clone();
        let transfers = self.open.iter().filter_map(|&place| transfer(&flows[place]));
        transfers.for_each(|transfer| all.merge(transfer.checker.delays()));
        all
    }

    fn arrive(&mut self, now: Time, flows: &mut [Flow], world: &mut FlowEnvironment) {
        let size = self.process.draw();
        let number = self.past.arrived;
        self.past.arrived += 1;
        let Some(place) = self.free.pop_front() else {
            self.past.refused += 1;
            return;
        };
        let applications = self.template.applications(now, size, number);
        if flows[place].reopen(now, (&self.template.opening, applications), world) {
            self.open.push(place);
        } else {
            // The host has no free port.
            self.past.refused += 1;
            self.free.push_front(place);
        }
    }

    /// Releases the slots of ended connections.
    fn release(&mut self, now: Time, flows: &mut [Flow], world: &mut FlowEnvironment) {
        let mut open = core::mem::take(&mut self.open);
        open.retain(|&place| {
            let flow = &mut flows[place];
            abort_together(now, flow, world);
            let is_over = |side| flow.is_over(side) || !flow.is_connected(side);
            if ![SENDER, RECEIVER].into_iter().all(is_over) {
                return true;
            }
            self.record(flow, world);
            flow.release(now, world);
            self.free.push_back(place);
            false
        });
        self.open = open;
    }

    fn record(&mut self, flow: &Flow, world: &FlowEnvironment) {
        self.past.add(flow, world);
        let Some(transfer) = transfer(flow) else { return };
        self.delays.merge(transfer.checker.delays());
        if let Some(at) = finished(flow).filter(|at| *at >= self.since) {
            let completion = at.since(flow.start());
            self.completions.add(completion, 1);
            self.sample.add(transfer.checker.written(), completion);
        }
    }
}

impl Totals {
    /// Adds a connection.
    fn add(&mut self, flow: &Flow, world: &FlowEnvironment) {
        self.finished += u64::from(finished(flow).is_some());
        if let Some(transfer) = transfer(flow) {
            self.written += transfer.checker.written();
            self.delivered += transfer.checker.delivered();
        }
        for side in [SENDER, RECEIVER] {
            let Some(report) = flow.endpoint(side, &world.hosts).map(Endpoint::report) else { continue };
            for (name, count) in report.extra {
                *self.counters.entry(name).or_default() += count;
            }
            for counters in report.paths.iter().map(|path| path.counters).filter(|_| side == flow.source()) {
                self.sent += counters.bytes_sent;
                self.retransmissions += counters.fast_retransmissions + counters.timeout_retransmissions;
                self.timeouts += counters.timeouts;
            }
        }
    }
}

/// The transfer of a connection's file.
fn transfer(flow: &Flow) -> Option<&Transfer> {
    flow.applications.written_by(flow.source())
}

/// When the last byte of a connection's whole file was read.
fn finished(flow: &Flow) -> Option<Time> {
    flow.completed().filter(|_| transfer(flow).is_some_and(|transfer| transfer.writer.completed()))
}

/// Aborts an end whose other end has failed: it might wait for packets that never come.
fn abort_together(now: Time, flow: &mut Flow, world: &mut FlowEnvironment) {
    let has_failed =
        |side: usize| matches!(flow.applications.ended[side], Some((_, reason)) if reason != Reason::Closed);
    if has_failed(SENDER) || has_failed(RECEIVER) {
        for side in [SENDER, RECEIVER] {
            if flow.is_connected(side) && !flow.is_over(side) {
                flow.abort(now, side, world);
            }
        }
    }
}
