//! From a scenario's flow to endpoints and applications.

use super::applications::{Applications, Streams, Transfer};
use super::delivery::Service;
use super::flow::{Flow, Parts};
use super::ports::{self, Ports};
use super::side::{RECEIVER, SENDER};
use crate::scenario::Scenario;
use crate::scenario::model::{self, Directions, Protocol, Workload};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use multipath::rng::Rng;
use multipath::time::Time;
use netem::{Interface, IpVersion, Network};
use scenario::workload::Application;
use transport::Endpoint;
use transport::udp::Udp;

/// A flow cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowError {
    /// Index of the flow in the scenario.
    pub flow: usize,
    /// Name of the flow.
    pub name: String,
    /// What is wrong, in one sentence.
    pub reason: String,
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow \"{}\": {}", self.name, self.reason)
    }
}

impl core::error::Error for FlowError {}

/// The flows of a scenario, ready to start.
///
/// # Errors
/// A name that stands for nothing, or a workload that the protocol cannot serve.
pub fn flows(scenario: &Scenario, network: &mut Network, rng: &Rng) -> Result<Vec<Flow>, FlowError> {
    let ports = ports::of_flows(&scenario.flows);
    let build = |((index, declared), ports): ((usize, &model::Flow), [Ports; 2])| {
        let setup = Setup::new(scenario, network, (index, ports), rng);
        let failed = |reason| FlowError { flow: index, name: declared.name.clone(), reason };
        let parts = setup.parts().map_err(failed)?;
        Ok(Flow::new(index as u32, parts, setup.times()[0]))
    };
    scenario.flows.iter().enumerate().zip(ports).map(build).collect()
}

/// One flow with the addresses that it can use.
pub struct Setup<'a> {
    pub(super) declared: &'a model::Flow,
    /// The pairs of interfaces that a route connects, and the largest packet that fits each both ways.
    pub(super) pairs: Vec<(Interface, Interface, u32)>,
    pub(super) ports: [Ports; 2],
    /// Of the addresses.
    pub(super) version: IpVersion,
    pub(super) rng: Rng,
}

/// What the protocol of a flow brings with it.
pub(super) struct Protocols {
    pub(super) endpoints: [Box<dyn Endpoint>; 2],
    pub(super) service: Service,
    pub(super) streams: Streams,
    /// Message size of protocols that have messages, where the workload does not say one.
    pub(super) message: Option<u64>,
}

impl<'a> Setup<'a> {
    /// Finds the addresses of a flow.
    pub fn new(
        scenario: &'a Scenario,
        network: &mut Network,
        (index, ports): (usize, [Ports; 2]),
        rng: &Rng,
    ) -> Self {
        let declared = &scenario.flows[index];
        let connected: Vec<_> = network.connected_pairs(index).collect();
        let mut mtu = |from, to| {
            let hops = network.route(from, to).unwrap_or_default();
            hops.into_iter().map(|hop| model_of(scenario, hop).mtu).min().unwrap_or(u32::MAX)
        };
        let pairs =
            connected.into_iter().map(|(from, to)| (from, to, mtu(from, to).min(mtu(to, from)))).collect();
        Self {
            declared,
            pairs,
            ports,
            version: scenario.ip,
            rng: rng.fork(&format!("flow.{}", declared.name)),
        }
    }

    /// Start and stop.
    fn times(&self) -> [Time; 2] {
        [self.declared.drawn_start(&self.rng), self.declared.stop.unwrap_or(Time::MAX)]
    }

    fn parts(&self) -> Result<Parts, String> {
        let Protocols { endpoints, service, streams, message } = match &self.declared.protocol {
            Protocol::Tcp(settings) => self.tcp(settings),
            Protocol::Mptcp { tcp, mptcp } => self.mptcp(tcp, mptcp)?,
            Protocol::Sctp(settings) => self.sctp(settings)?,
            Protocol::Udp => self.udp()?,
        };
        let transfers = self
            .writers(message)
            .map(|writer| writer.map(|writer| Box::new(Transfer::new(writer, service, streams))));
        Ok(Parts {
            endpoints,
            ports: self.ports.clone(),
            applications: Applications::new(&self.declared.name, transfers),
            source: self.source(),
        })
    }

    /// The end whose data the flow is there for; with requests, the one that asks.
    fn source(&self) -> usize {
        if self.declared.direction == Directions::Reverse { RECEIVER } else { SENDER }
    }

    /// The applications that write, by their ends.
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

    /// Two ends of a protocol, each on its first address.
    pub(super) fn first(&self) -> ([SocketAddr; 2], u32) {
        let (from, to, mtu) = self.pairs[0];
        ([self.socket(0, from), self.socket(1, to)], self.declared.common.mtu.unwrap_or(mtu))
    }

    /// The interfaces of an end that a route connects to the other, in the order of the links, with the largest packet
    /// that fits every route from and to each.
    pub(super) fn interfaces(&self, end: usize) -> Vec<(Interface, u32)> {
        let mut all: Vec<(Interface, u32)> = Vec::new();
        for &(from, to, mtu) in &self.pairs {
            let (interface, mtu) = ([from, to][end], self.declared.common.mtu.unwrap_or(mtu));
            match all.iter_mut().find(|(known, _)| *known == interface) {
                Some((_, least)) => *least = mtu.min(*least),
                None => all.push((interface, mtu)),
            }
        }
        all
    }

    /// The address of an interface.
    pub(super) fn ip(&self, interface: Interface) -> IpAddr {
        interface.address(self.version)
    }

    fn socket(&self, end: usize, interface: Interface) -> SocketAddr {
        SocketAddr::new(self.ip(interface), self.ports[end].first)
    }

    fn udp(&self) -> Result<Protocols, String> {
        match self.declared.workload {
            Workload::Rate { .. } | Workload::Messages { .. } | Workload::OnOff { rate: Some(_), .. } => {}
            _ => {
                return Err("UDP sends whatever it is given, so its workload needs a rate: \
                            use \"rate\", \"messages\" or \"on-off\" with a rate"
                    .into());
            }
        }
        let ([local, remote], mtu) = self.first();
        Ok(Protocols {
            endpoints: [Box::new(Udp::new(local, remote, mtu)), Box::new(Udp::new(remote, local, mtu))],
            service: Service::Datagrams,
            streams: Streams { count: 1, unordered: true },
            message: None,
        })
    }
}

/// The model of the link direction that leaves from an interface.
fn model_of(scenario: &Scenario, from: Interface) -> &model::LinkModel {
    let link = &scenario.links[from.link()];
    if from.end() == 0 { &link.forward } else { &link.reverse }
}
