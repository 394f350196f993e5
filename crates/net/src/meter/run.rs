//! A run: the ends of all flows and the sampler, in threads.

use super::end::{ACCEPTS, CONNECTS, End, FinishedEnd};
use super::flow::{Flow, FlowError, flows};
use super::record::Record;
use super::report::{self, FlowRecords};
use super::sampler::{FlowSamples, Sampler, Watched};
use super::socket;
use super::span::Span;
use crate::clock::Clock;
use crate::namespace::Namespace;
use anabranch_base::time::Time;
use anabranch_scenario::Scenario;
use anabranch_scenario::measure::Deliveries;
use anabranch_scenario::model::IpVersion;
use anabranch_scenario::result::FlowResult;
use core::fmt;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

/// An error of a measurement.
#[derive(Debug)]
pub enum MeterError {
    /// A flow that sockets cannot carry, or that failed.
    Flow(FlowError),
    /// The system refused an operation.
    System {
        /// The failed operation.
        what: String,
        /// The reason.
        error: io::Error,
    },
}

impl fmt::Display for MeterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flow(error) => error.fmt(f),
            Self::System { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl core::error::Error for MeterError {}

/// Settings of the measurement.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Folder for windows and round-trip times over time.
    pub trace: Option<PathBuf>,
}

/// The flows of a scenario, ready to start: all listeners are open.
pub struct Meter {
    scenario: Arc<Scenario>,
    flows: Vec<Flow>,
    /// Namespaces of the sending and of the receiving host of each flow.
    hosts: Vec<[Namespace; 2]>,
    listening: Vec<OwnedFd>,
    sampler: Sampler,
}

impl Meter {
    /// Opens the listeners and the sampler.
    ///
    /// # Errors
    ///
    /// A flow that sockets cannot carry, or a refusal of the system.
    ///
    /// # Panics
    ///
    /// If a host has no namespace.
    pub fn new(
        scenario: Arc<Scenario>,
        seed: u64,
        namespaces: &BTreeMap<String, Namespace>,
        settings: &Settings,
    ) -> Result<Self, MeterError> {
        let mut network = scenario.network().map_err(|error| MeterError::System {
            what: "the network".to_owned(),
            error: io::Error::other(error.to_string()),
        })?;
        let flows = flows(&scenario, &mut network, seed).map_err(MeterError::Flow)?;
        let names: Vec<&String> = namespaces.keys().collect();
        let place = |host: &str| {
            names.binary_search_by(|name| name.as_str().cmp(host)).expect("every host has a namespace")
        };
        let mut hosts = Vec::with_capacity(flows.len());
        let mut listening = Vec::with_capacity(flows.len());
        let mut watched = Vec::with_capacity(flows.len());
        for (flow, declared) in flows.iter().zip(&scenario.flows) {
            let pair = [&declared.from, &declared.to].map(|host| namespaces[host].clone());
            listening.push(pair[1].run(|| socket::listening(flow)).map_err(|error| MeterError::System {
                what: format!("the receiver of flow \"{}\"", declared.name),
                error,
            })?);
            hosts.push(pair);
            // The paths of a flow are those of its connection, which may end at a proxy.
            let hosts = [&*declared.from, declared.meets()].map(place);
            watched.push(Watched { hosts, port: flow.remote.port(), source: flow.source });
        }
        let all: Vec<_> = namespaces.values().cloned().collect();
        let sampler = Sampler::new(&all, watched, scenario.ip == IpVersion::V6, settings.trace.as_deref())
            .map_err(|(what, error)| MeterError::System { what, error })?;
        Ok(Self { scenario, flows, hosts, listening, sampler })
    }

    /// Starts every flow by this clock.
    pub fn start(self, clock: Clock) -> Measuring {
        let Self { scenario, flows, hosts, listening, sampler } = self;
        let (warmup, until) = (Time::ZERO + scenario.warmup, Time::ZERO + scenario.duration);
        let span = Arc::new(Span::new(clock, warmup, until));
        let mut ends = Vec::new();
        let mut records = Vec::new();
        let deliveries = Deliveries::new(scenario.outage(), scenario.event_times(), span.warmup);
        for ((flow, [from, _]), socket) in flows.iter().zip(hosts).zip(listening) {
            let each = [(); 2].map(|()| Arc::new(Record::new(span.warmup, deliveries.clone())));
            records.push(each.clone());
            let there = End { flow: flow.clone(), records: each, span: Arc::clone(&span) };
            let here = there.clone();
            let connects = std::thread::spawn(move || {
                from.enter()?;
                Ok(here.connect())
            });
            ends.push([connects, std::thread::spawn(move || Ok(there.accept(socket)))]);
        }
        let (during, watched) = (Arc::clone(&span), Arc::clone(&scenario));
        let watcher = std::thread::spawn(move || sampler.run(&watched, &during));
        Measuring { scenario, span, flows, records, ends, watcher }
    }
}

/// Running flows.
pub struct Measuring {
    scenario: Arc<Scenario>,
    span: Arc<Span>,
    flows: Vec<Flow>,
    /// Records of the data of each end of each flow.
    records: Vec<[Arc<Record>; 2]>,
    ends: Vec<[JoinHandle<io::Result<FinishedEnd>>; 2]>,
    watcher: JoinHandle<io::Result<Vec<FlowSamples>>>,
}

impl Measuring {
    /// The completed share of the run, 0 to 1.
    pub fn share(&self) -> f64 {
        (self.span.now().as_secs_f64() / self.span.until.as_secs_f64()).min(1.0)
    }

    /// A flow has failed, so that the run need not continue.
    pub fn has_failed(&self) -> bool {
        self.records.iter().flatten().any(|record| record.tally().fault.is_some())
    }

    /// Ends the run prematurely.
    pub fn stop(&self) {
        self.span.stop();
    }

    /// Waits for the end of the run; returns the results of the flows.
    ///
    /// # Errors
    ///
    /// A failed flow, or a refusal of the system.
    pub fn finish(self) -> Result<Vec<FlowResult>, MeterError> {
        let refused = |what: &str, error| MeterError::System { what: what.to_owned(), error };
        let mut open = Vec::new();
        for ends in self.ends {
            let [connects, accepts] =
                ends.map(|end| end.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            let failed = |error| refused("an end of a flow", error);
            open.push([connects.map_err(failed)?, accepts.map_err(failed)?]);
        }
        let samples = self.watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let samples = samples.map_err(|error| refused("sampling the connections", error))?;
        let clients: Vec<_> = open.into_iter().map(|ends| ends.map(FinishedEnd::close)).collect();
        let report = report::Report {
            scenario: &self.scenario,
            since: self.span.warmup,
            until: self.span.now().min(self.span.until),
        };
        let mut results = Vec::with_capacity(self.flows.len());
        for (index, flow) in self.flows.iter().enumerate() {
            let ends = [CONNECTS, ACCEPTS].map(|end| self.records[index][end].tally());
            if let Some(reason) = ends.iter().find_map(|tally| tally.fault.as_ref()) {
                let flow = self.scenario.flows[index].name.clone();
                return Err(MeterError::Flow(FlowError { flow, reason: reason.clone() }));
            }
            let client = clients[index][flow.source].as_ref();
            let [main, back] = [flow.source, 1 - flow.source].map(|end| &*ends[end]);
            let records = FlowRecords { main, back: flow.is_mutual().then_some(back), client };
            results.push(report.flow(index, flow, &records, &samples[index]));
        }
        Ok(results)
    }
}
