//! Builds endpoints and applications from a scenario's flow.

use super::applications::{Applications, Streams, Transfer};
use super::arrivals::{ArrivingFlow, ArrivingFlows};
use super::delivery::Service;
use super::flow::{Flow, Parts};
use super::hosts::Hosts;
use super::ports::{self, OwnPort, Services};
use super::relay::{BUFFER_BYTES, Relays};
use super::side::{RECEIVER, SENDER};
use super::template::Template;
use crate::scenario::Scenario;
use crate::scenario::model::{self, Directions, Workload};
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_endpoint::{Address, Ends, Secrets};
use anabranch_host::{Backlog, Listening, Protocol, Transport};
use anabranch_netem::{Interface, InterfaceAddress, Network};
use anabranch_scenario::workload::{Application, ArrivalProcess};
use anabranch_scenario::{RouteByHops, SourceRouteError};
use anabranch_settings::policy::Reliability;
use core::fmt;

/// A flow that cannot be set up, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowError {
    /// Index of the flow in the scenario.
    pub flow: usize,
    /// Name of the flow.
    pub name: String,
    /// The problem, in one sentence.
    pub reason: String,
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow \"{}\": {}", self.name, self.reason)
    }
}

impl core::error::Error for FlowError {}

/// The flows of a scenario, ready to start, including the connections behind proxies, the proxies, and the
/// listening hosts.
///
/// # Errors
///
/// An unknown name, or a workload that the protocol does not support.
pub fn flows(scenario: &Scenario, network: &mut Network, rng: &Rng) -> Result<Built, FlowError> {
    let mut hosts = Hosts::new(scenario, network, rng);
    let mut services = Services::default();
    let onward: Vec<_> =
        scenario.proxied().filter_map(|(front, flow)| Some((front, flow.onward()?))).collect();
    let behind = onward.iter().map(|(front, flow)| (Leg::Last, *front, flow));
    let declared = scenario.flows.iter().enumerate().map(|(index, flow)| (Leg::first(flow), index, flow));
    let all: Vec<_> = declared.chain(behind).collect();
    let mut flows = Vec::with_capacity(all.len());
    let mut arriving_flows = Vec::new();
    let connections = scenario.flows_of_connections();
    let ports = ports::of_flows(&all.iter().map(|(.., flow)| *flow).collect::<Vec<_>>());
    for ((index, (leg, flow, declared)), own) in all.into_iter().enumerate().zip(ports) {
        let setup = Setup::new(scenario, network, (index, declared), rng);
        let nodes = network.ends(index);
        let parts = setup.parts(leg, &mut hosts, nodes, (&mut services, own));
        let failed = |reason| FlowError { flow, name: declared.name.clone(), reason };
        let parts = parts.map_err(failed)?;
        if let Some(process) = setup.arrivals() {
            let places = connections.iter().enumerate().filter(|(_, of)| **of == index);
            let places = places.map(|(place, _)| place).collect();
            let template = setup.template(parts).map_err(failed)?;
            arriving_flows.push(ArrivingFlow::new(index, places, template, process));
            flows.push(arriving_flows[arriving_flows.len() - 1].place(index));
        } else {
            flows.push(Flow::new(index as u32, parts, setup.times()[0]));
        }
    }
    // The other slots of each flow follow, in the same order.
    for arriving_flow in &arriving_flows {
        flows.extend(arriving_flow.places().skip(1).map(|place| arriving_flow.place(place)));
    }
    let fronts: Vec<_> = onward.iter().map(|(front, _)| *front).collect();
    let relays = Relays::new(scenario.flows.len(), &fronts);
    Ok(Built { flows, relays, arriving_flows: ArrivingFlows::new(arriving_flows), hosts })
}

/// The flows of a scenario with their hosts.
pub struct Built {
    /// The connections, in the order of [`Scenario::connections`].
    pub flows: Vec<Flow>,
    /// The proxies.
    pub relays: Relays,
    /// The flows with arrivals.
    pub arriving_flows: ArrivingFlows,
    /// The hosts.
    pub hosts: Hosts,
}

/// Part of a flow's path that a connection covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leg {
    Whole,
    /// The connection to the proxy.
    First,
    /// The connection behind the proxy.
    Last,
}

impl Leg {
    const fn first(flow: &model::Flow) -> Self {
        if flow.through.is_some() { Self::First } else { Self::Whole }
    }

    /// Index of the end that belongs to the proxy, if there is one.
    const fn proxy(self) -> Option<usize> {
        match self {
            Self::Whole => None,
            Self::First => Some(RECEIVER),
            Self::Last => Some(SENDER),
        }
    }
}

/// One flow with its usable addresses.
pub struct Setup<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) declared: &'a model::Flow,
    /// The pairs of addresses with a route between them, and the largest packet that fits each in both
    /// directions.
    pub(super) pairs: Vec<(InterfaceAddress, InterfaceAddress, u32)>,
    /// The pair on which the flow begins: the first of `pairs`, unless the main table of its host requires
    /// another pair.
    start: (InterfaceAddress, InterfaceAddress, u32),
    /// The source routes of its subflows.
    pub(super) source_routes: Result<Vec<RouteByHops>, SourceRouteError>,
    pub(super) rng: Rng,
}

/// Host properties that the protocol of a flow needs, by end.
pub(super) struct Plan {
    /// The protocol with the settings of the connecting end, and with those of the listening end.
    pub(super) protocols: [Protocol; 2],
    /// The first address of the listening end is the destination of the connection.
    pub(super) addresses: [Vec<Address>; 2],
    pub(super) service: Service,
    pub(super) streams: Streams,
    /// Message size of protocols with messages, if the workload has none.
    pub(super) message: Option<u64>,
}

impl<'a> Setup<'a> {
    /// Determines the addresses of a flow, or of a connection behind a proxy, with its index among the
    /// connections.
    pub fn new(
        scenario: &'a Scenario,
        network: &mut Network,
        (index, declared): (usize, &'a model::Flow),
        rng: &Rng,
    ) -> Self {
        let connected: Vec<_> = network.connected_pairs(index).collect();
        let mut mtu = |from, to| {
            let hops = network.hops(from, to);
            hops.into_iter().map(|hop| model_of(scenario, hop).mtu).min().unwrap_or(u32::MAX)
        };
        let mut pairs: Vec<_> =
            connected.into_iter().map(|[from, to]| (from, to, mtu(from, to).min(mtu(to, from)))).collect();
        pairs.sort_by_key(|&(from, to, _)| !declared.begins_at([from, to]));
        let [from, to] = scenario.first_pair(network, (index, declared));
        let start = match pairs[0] {
            first if first.0 == from => first,
            _ => (from, to, model_of(scenario, from.interface).mtu),
        };
        let source_routes = scenario.source_routes(network, (index, declared));
        let mut setup = Self {
            declared,
            pairs,
            start,
            source_routes,
            scenario,
            rng: rng.fork(&format!("flow.{}", declared.name)),
        };
        setup.fit_source_routes();
        setup
    }

    /// Reduces the packets of the first address to those that fit all links of source routes, too.
    fn fit_source_routes(&mut self) {
        let links = self.source_routes.iter().flatten().flat_map(|route| &route.links);
        let narrowest = links.map(|&hop| model_of(self.scenario, hop).mtu).min().unwrap_or(u32::MAX);
        let from = self.start.0;
        for (near, _, mtu) in self.pairs.iter_mut().chain([&mut self.start]) {
            if *near == from {
                *mtu = narrowest.min(*mtu);
            }
        }
    }

    /// The arrivals of the flow's connections, if the flow has several connections.
    fn arrivals(&self) -> Option<ArrivalProcess> {
        let Workload::File { size, arrivals: Some(arrivals), .. } = &self.declared.workload else {
            return None;
        };
        Some(ArrivalProcess::new(arrivals, size.clone(), self.times(), &self.rng.fork("application")))
    }

    /// The connections of a flow with arrivals.
    fn template(&self, parts: Parts) -> Result<Template, String> {
        let Plan { service, streams, message: whole, .. } = self.plan()?;
        let Parts { hosts, mut opening, source, .. } = parts;
        opening.1.local_port = 0;
        let message = match &self.declared.workload {
            Workload::File { message, .. } => message.clone(),
            _ => None,
        };
        Ok(Template {
            name: self.declared.name.clone(),
            hosts,
            opening,
            source,
            service,
            streams,
            messages: (message, whole),
            stop: self.times()[1],
            rng: self.rng.clone(),
        })
    }

    /// Start and stop of the flow.
    fn times(&self) -> [Time; 2] {
        [self.declared.drawn_start(&self.rng), self.declared.stop.unwrap_or(Time::MAX)]
    }

    fn parts(
        &self,
        leg: Leg,
        hosts: &mut Hosts,
        nodes: [usize; 2],
        (services, own): (&mut Services<'a>, OwnPort),
    ) -> Result<Parts, String> {
        let plan = self.plan()?;
        let transfers = self.transfers(leg, &plan);
        let applications = Applications::new(&self.declared.name, transfers, leg.proxy());
        let [Some(from), Some(to)] = nodes.map(|node| hosts.of_node(node)) else {
            return Err("the ends of a flow are hosts".into());
        };
        let Plan { protocols: [connecting, listening], addresses: [local, remote], .. } = plan;
        let transport = connecting.transport();
        let service = ports::Service {
            host: self.declared.meets(),
            transport,
            settings: ports::Settings::of(self.declared),
            local: remote.clone(),
            lap: own.lap,
        };
        let (port, first) =
            services.port(service).ok_or("its receiving host has no free port for a listener")?;
        let remote_ips = remote.iter().map(|address| address.ip);
        // With Multipath TCP the connecting end knows one address of the other, with SCTP all of them, as if
        // from DNS.
        let known = if transport == Transport::Sctp { remote.len() } else { 1 };
        let ends =
            Ends { local, local_port: own.port, remote: remote_ips.take(known).collect(), remote_port: port };
        // The settings are checked here, so that an invalid one fails before the run and not when the flow starts.
        connecting.connecting(&ends, Secrets::new([0; 32])).map_err(|error| error.to_string())?;
        if first {
            let backlog = Backlog { complete: usize::MAX, incomplete: usize::MAX };
            let listening = Listening { protocol: listening, port, backlog };
            hosts.get_mut(to).listen_on(listening, remote).map_err(|error| error.to_string())?;
        }
        hosts.get_mut(from).reserve(transport, own.port);
        let opening = Box::new((connecting, ends));
        Ok(Parts { hosts: [from, to], opening, applications, source: self.source() })
    }

    fn plan(&self) -> Result<Plan, String> {
        Ok(match &self.declared.protocol {
            model::Protocol::Tcp(settings) => self.tcp(settings),
            model::Protocol::Mptcp(settings) => self.mptcp(settings)?,
            model::Protocol::Sctp(settings) => self.sctp(settings)?,
            model::Protocol::Udp => self.udp()?,
        })
    }

    /// The end with the main data of the flow; with requests, the requesting one.
    fn source(&self) -> usize {
        if self.declared.direction == Directions::Reverse { RECEIVER } else { SENDER }
    }

    /// The transfer from each end that writes. The writer is an application of the flow, or a proxy with the data of
    /// the other connection.
    fn transfers(&self, leg: Leg, plan: &Plan) -> [Option<Box<Transfer>>; 2] {
        let mut writers = self.writers(plan.message);
        if let Some(proxy) = leg.proxy() {
            writers[proxy] = writers[proxy].is_some().then(Application::relaying);
        }
        let transfer = |writer, reader| {
            let transfer = Transfer::new(writer, plan.service, plan.streams).with_voice(self.declared.voice);
            Box::new(if leg.proxy() == Some(reader) {
                transfer.read_by_proxy(BUFFER_BYTES)
            } else {
                transfer
            })
        };
        let [first, second] = writers;
        [first.map(|writer| transfer(writer, RECEIVER)), second.map(|writer| transfer(writer, SENDER))]
    }

    /// The writing applications, by end.
    fn writers(&self, message: Option<u64>) -> [Option<Application>; 2] {
        let (workload, rng) = (&self.declared.workload, self.rng.fork("application"));
        let writer = |rng: &Rng| Application::new(workload, self.times(), message, rng);
        let other = match self.declared.direction {
            Directions::Both => Some(writer(&self.rng.fork("application.reverse"))),
            Directions::Forward | Directions::Reverse => {
                Application::answering(workload, self.times()[0], &rng)
            }
        };
        let mut writers = [Some(writer(&rng)), other];
        if self.source() == RECEIVER {
            writers.reverse();
        }
        writers
    }

    /// The first address of each end.
    pub(super) fn first(&self) -> [Address; 2] {
        let (from, to, mtu) = self.start;
        let mtu = self.declared.mtu.unwrap_or(mtu);
        [from, to].map(|address| Address::new(self.scenario.address(address), mtu))
    }

    /// The addresses of an end with a route to the other end, each with the largest packet that fits all its
    /// routes. The address on which the flow begins is first; the others follow in the order of the links.
    pub(super) fn addresses(&self, end: usize) -> Vec<(InterfaceAddress, u32)> {
        let mut all = Vec::new();
        // There may be no route for the pair that the main table requires.
        if self.start != self.pairs[0] {
            let (from, to, mtu) = self.start;
            all.push(([from, to][end], self.declared.mtu.unwrap_or(mtu)));
        }
        for &(from, to, mtu) in &self.pairs {
            let (address, mtu) = ([from, to][end], self.declared.mtu.unwrap_or(mtu));
            match all.iter_mut().find(|(known, _)| *known == address) {
                Some((_, least)) => *least = mtu.min(*least),
                None => all.push((address, mtu)),
            }
        }
        all
    }

    fn udp(&self) -> Result<Plan, String> {
        match self.declared.workload {
            Workload::Rate { .. }
            | Workload::Messages { .. }
            | Workload::Recorded(_)
            | Workload::OnOff { rate: Some(_), .. } => {}
            _ => {
                return Err("UDP gives no feedback, so its workload needs a rate: \
                            use \"rate\", \"messages\" or \"on-off\" with a rate"
                    .into());
            }
        }
        Ok(Plan {
            protocols: [Protocol::Udp, Protocol::Udp],
            addresses: self.first().map(|address| vec![address]),
            service: Service::Datagrams,
            streams: Streams { count: 1, unordered: true, reliability: Reliability::Full },
            message: None,
        })
    }
}

/// The model of the link direction that leaves from an interface.
fn model_of(scenario: &Scenario, from: Interface) -> &model::LinkModel {
    let link = &scenario.links[from.link()];
    if from.end() == 0 { &link.forward } else { &link.reverse }
}
