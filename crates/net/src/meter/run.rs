//! A run: the ends of all flows and the sampler, in threads.

use super::end::{End, FinishedEnd};
use super::flow::{ACCEPTS, CONNECTS, Flow, FlowError, flows};
use super::own::{Clients, OwnFlow, OwnHost};
use super::record::Record;
use super::report::{self, FlowRecords};
use super::sampler::{Sampler, Watched};
use super::samples::{FlowSamples, Reports};
use super::socket;
use super::span::Span;
use crate::clock::Clock;
use crate::emulator::{StackDevice, Translations};
use crate::namespace::Namespace;
use anabranch_base::time::Time;
use anabranch_endpoint::Address;
use anabranch_scenario::Scenario;
use anabranch_scenario::measure::Deliveries;
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
#[non_exhaustive]
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
    /// Addresses and ports that translators of the network change.
    pub translations: Translations,
}

/// The flows of a scenario, ready to start: all listeners are open.
pub struct Meter {
    scenario: Arc<Scenario>,
    flows: Vec<Flow>,
    /// Namespaces of the sending and of the receiving host of each flow.
    hosts: Vec<[Namespace; 2]>,
    /// The listening sockets; `None` at own stacks.
    listening: Vec<Option<OwnedFd>>,
    /// Devices of own stacks.
    devices: Vec<StackDevice>,
    reports: Arc<Reports>,
    sampler: Sampler,
}

impl Meter {
    /// Opens the listeners and the sampler. `devices` are those of the own stacks of [`own_ends`](super::own_ends).
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
        (settings, devices): (&Settings, Vec<StackDevice>),
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
            let open = || pair[ACCEPTS].run(|| socket::listening(flow));
            let opened = flow.own[ACCEPTS].is_none().then(open).transpose();
            listening.push(opened.map_err(|error| MeterError::System {
                what: format!("the receiver of flow \"{}\"", declared.name),
                error,
            })?);
            hosts.push(pair);
            // The paths of a flow are those of its connection, which may end at a proxy.
            let hosts = [&*declared.from, declared.meets()].map(place);
            let (port, source) = (flow.remote.port(), flow.source);
            watched.push(Watched { hosts, port, source, tokens: [None; 2] });
        }
        let all: Vec<_> = namespaces.values().cloned().collect();
        let (reports, versions) = (Reports::new(flows.len()), scenario.used_versions());
        let watched = (watched, Arc::clone(&reports));
        let sampler = Sampler::new(
            &all,
            watched,
            (versions, scenario.event_times()),
            (settings.trace.as_deref(), &settings.translations),
        )
        .map_err(|(what, error)| MeterError::System { what, error })?;
        Ok(Self { scenario, flows, hosts, listening, devices, reports, sampler })
    }

    /// Starts every flow by this clock.
    pub fn start(self, clock: Clock) -> Measuring {
        let Self { scenario, flows, hosts, listening, devices, reports, sampler } = self;
        let (warmup, until) = (Time::ZERO + scenario.warmup, Time::ZERO + scenario.duration);
        let span = Arc::new(Span::new(clock, warmup, until));
        let (mut ends, mut records, mut own) = (Vec::new(), Vec::new(), Vec::new());
        let deliveries = Deliveries::new(scenario.outage(), scenario.event_times(), span.warmup);
        for (index, ((flow, namespaces), socket)) in flows.iter().zip(hosts).zip(listening).enumerate() {
            let each = [(); 2].map(|()| Arc::new(Record::new(span.warmup, deliveries.clone())));
            records.push(each.clone());
            let end = End { flow: flow.clone(), records: each, span: Arc::clone(&span) };
            for side in [CONNECTS, ACCEPTS].into_iter().filter(|&side| flow.own[side].is_some()) {
                let of = OwnFlow { index, side, end: end.clone() };
                own.push((namespaces[side].clone(), of));
            }
            let [from, _] = namespaces;
            let (here, there) = (end.clone(), end);
            let connects = flow.own[CONNECTS].is_none().then(|| {
                std::thread::spawn(move || {
                    from.enter()?;
                    Ok(here.connect())
                })
            });
            let accepts = socket.map(|socket| std::thread::spawn(move || Ok(there.accept(socket))));
            ends.push([connects, accepts]);
        }
        let (tell, ids) = std::sync::mpsc::channel();
        let own = own_hosts(own, devices).into_iter().map(|host| {
            let (reports, tell) = (Arc::clone(&reports), tell.clone());
            std::thread::spawn(move || {
                // The starting thread waits for this message.
                let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
                host.run(clock, &reports)
            })
        });
        let own: Vec<_> = own.collect();
        let own_threads = ids.iter().take(own.len()).collect();
        let (during, watched) = (Arc::clone(&span), Arc::clone(&scenario));
        let watcher = std::thread::spawn(move || sampler.run(&watched, &during));
        Measuring { scenario, span, flows, records, ends, own, own_threads, watcher }
    }
}

/// The own stacks of all hosts: their ends of flows, and their devices.
fn own_hosts(flows: Vec<(Namespace, OwnFlow)>, devices: Vec<StackDevice>) -> Vec<OwnHost> {
    let mut hosts: Vec<OwnHost> = Vec::new();
    for (namespace, flow) in flows {
        match hosts.iter_mut().find(|host| host.namespace.path() == namespace.path()) {
            Some(host) => host.flows.push(flow),
            None => hosts.push(OwnHost { namespace, devices: Vec::new(), flows: vec![flow] }),
        }
    }
    for device in devices {
        let interface = device.interface();
        let found = hosts.iter_mut().find_map(|host| {
            let own = host.flows.iter().filter_map(|flow| flow.end.flow.own[flow.side].as_ref());
            let addresses = own.flat_map(|own| own.addresses.iter().copied());
            let mut of_device: Vec<Address> = Vec::new();
            for (_, address) in addresses.filter(|(at, _)| *at == interface) {
                // The MTU must fit the packets of all flows, and an address that is a backup of one flow is one of
                // all.
                match of_device.iter_mut().find(|known| known.ip == address.ip) {
                    Some(known) => {
                        known.mtu = known.mtu.min(address.mtu);
                        known.backup |= address.backup;
                    }
                    None => of_device.push(address),
                }
            }
            (!of_device.is_empty()).then_some((host, of_device))
        });
        if let Some((host, addresses)) = found {
            host.devices.push((device, addresses));
        }
    }
    hosts
}

/// Running flows.
pub struct Measuring {
    scenario: Arc<Scenario>,
    span: Arc<Span>,
    flows: Vec<Flow>,
    /// Records of the data of each end of each flow.
    records: Vec<[Arc<Record>; 2]>,
    /// The ends on the kernel's sockets.
    ends: Vec<[Option<JoinHandle<io::Result<FinishedEnd>>>; 2]>,
    /// The hosts with own stacks.
    own: Vec<JoinHandle<io::Result<Clients>>>,
    own_threads: Vec<i32>,
    watcher: JoinHandle<io::Result<Vec<FlowSamples>>>,
}

impl Measuring {
    /// The numbers of the threads of own stacks, for setting their priority: the kernel's stack runs in the thread of the
    /// emulator.
    pub fn own_threads(&self) -> &[i32] {
        &self.own_threads
    }

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
        let failed = |error| refused("an end of a flow", error);
        let mut open = Vec::new();
        for ends in self.ends {
            let [connects, accepts] = ends.map(|end| end.map_or_else(|| Ok(FinishedEnd::default()), join));
            open.push([connects.map_err(failed)?, accepts.map_err(failed)?]);
        }
        let own: io::Result<Vec<Clients>> = self.own.into_iter().map(join).collect();
        let own = own.map_err(failed)?;
        let samples = join(self.watcher).map_err(|error| refused("sampling the connections", error))?;
        let mut clients: Vec<_> = open.into_iter().map(|ends| ends.map(FinishedEnd::close)).collect();
        for (index, side, client) in own.into_iter().flatten() {
            clients[index][side] = client;
        }
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

/// The result of a thread.
fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
