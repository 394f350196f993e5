//! A flow of a scenario on sockets.

use crate::emulator::FlowEnd;
use crate::layout::{FIRST_PORT, path_mtu, port};
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_endpoint::Address;
use anabranch_host as host;
use anabranch_netem::network::BuildError;
use anabranch_netem::{Interface, InterfaceAddress, IpVersions, Network};
use anabranch_scenario::Scenario;
use anabranch_scenario::model::{self, Directions, MessageSize, Protocol, Stack, Workload};
use anabranch_scenario::workload::Application;
use anabranch_tcp::tcp;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

/// Longest UDP payload in IPv4, bytes.
pub const MAX_DATAGRAM_BYTES: u64 = 65_507;

/// The connecting end.
pub const CONNECTS: usize = 0;
/// The listening end.
pub const ACCEPTS: usize = 1;

/// Bytes of a datagram that contain its number and its time of creation.
pub const DATAGRAM_HEADER: usize = 16;

/// A flow that sockets cannot carry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowError {
    /// Name of the flow.
    pub flow: String,
    /// The problem, in one sentence.
    pub reason: String,
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow \"{}\": {}", self.flow, self.reason)
    }
}

impl core::error::Error for FlowError {}

/// The type of a flow's sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// Multipath TCP.
    Mptcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Transport {
    /// Name in scenarios and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Mptcp => "mptcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

/// An end of a flow on Anabranch's own stack.
#[derive(Clone, Debug)]
pub struct OwnEnd {
    /// The protocol with its settings.
    pub protocol: host::Protocol,
    /// The addresses of the host, each with its interface; that of the first path is the first.
    pub addresses: Vec<(Interface, Address)>,
}

/// A flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Type of the flow's sockets.
    pub transport: Transport,
    /// Whether the host supports Multipath TCP, by end.
    pub multipath: [bool; 2],
    /// Source address; the kernel chooses the port.
    pub local: SocketAddr,
    /// Destination: the receiving host, or its proxy.
    pub remote: SocketAddr,
    /// True if the flow's sockets are of IPv6 and carry packets of IPv4, too: a socket of IPv4 has no subflows of
    /// IPv6.
    pub dual_stack: bool,
    /// True if the flow's connection ends at a proxy, which opens a TCP connection to the receiving host.
    pub proxied: bool,
    /// The kernel's name of the congestion control.
    pub congestion: &'static str,
    /// Bytes; `None` uses the kernel's default.
    pub send_buffer: Option<usize>,
    /// Bytes; `None` uses the kernel's default.
    pub receive_buffer: Option<usize>,
    /// Send small segments at once.
    pub no_delay: bool,
    /// Time at which the flow starts.
    pub start: Time,
    /// The end with the main data of the flow; with requests, the requesting one.
    pub source: usize,
    /// The writing applications, by end.
    pub applications: [Option<Application>; 2],
    /// The ends on Anabranch's own stack; `None` for sockets of the kernel.
    pub own: [Option<OwnEnd>; 2],
}

impl Flow {
    /// Type of the sockets of an end.
    pub fn transport_of(&self, end: usize) -> Transport {
        let has_no_mptcp = self.transport == Transport::Mptcp && !self.multipath[end];
        if has_no_mptcp || (self.proxied && end == ACCEPTS) { Transport::Tcp } else { self.transport }
    }

    /// True if the flow's sockets are of IPv4.
    pub const fn has_ipv4_sockets(&self) -> bool {
        self.remote.is_ipv4() && !self.dual_stack
    }

    /// An address in the form that the flow's sockets take: IPv4 addresses are mapped to IPv6 for sockets of both
    /// versions (RFC 4291 §2.5.5.2).
    pub fn socket_address(&self, of: SocketAddr) -> SocketAddr {
        match of.ip() {
            IpAddr::V4(ip) if self.dual_stack => SocketAddr::new(ip.to_ipv6_mapped().into(), of.port()),
            _ => of,
        }
    }

    /// Returns true if the kernel's socket at an end needs the congestion control of the flow. A socket that only
    /// receives from an own stack needs none.
    pub fn needs_control(&self, end: usize) -> bool {
        self.transport != Transport::Udp && (self.own[1 - end].is_none() || self.applications[end].is_some())
    }

    /// True if both ends have something to write.
    pub fn is_mutual(&self) -> bool {
        self.applications.iter().all(Option::is_some)
    }
}

/// The flows of a scenario.
///
/// # Errors
///
/// A flow that sockets cannot carry, and the reason.
pub fn flows(scenario: &Scenario, network: &mut Network, seed: u64) -> Result<Vec<Flow>, FlowError> {
    let rng = Rng::new(seed);
    let most = usize::from(u16::MAX - FIRST_PORT);
    let flow = |(index, declared): (usize, &model::Flow)| {
        let failed = |reason: String| FlowError { flow: declared.name.clone(), reason };
        if index >= most {
            return Err(failed(format!("a run with the kernel's sockets has at most {most} flows")));
        }
        let transport = transport(declared).map_err(failed)?;
        let first = scenario.first_pair(network, (index, declared));
        let own = [0, 1].map(|end| own_end(scenario, network, (index, end), first));
        let [from, to] = first;
        let rng = rng.fork(&format!("flow.{}", declared.name));
        let source = usize::from(declared.direction == Directions::Reverse);
        // UDP sockets get the buffer sizes of TCP.
        let defaults = tcp::Config::default();
        let settings = declared.protocol.tcp().unwrap_or(&defaults);
        Ok(Flow {
            transport,
            multipath: [&*declared.from, declared.meets()].map(|host| scenario.has_mptcp(host)),
            local: SocketAddr::new(scenario.address(from), 0),
            remote: SocketAddr::new(scenario.address(to), port(index)),
            dual_stack: scenario.used_versions() == IpVersions::Both,
            proxied: declared.through.is_some(),
            congestion: settings.congestion.entry.name,
            send_buffer: size(settings.send_buffer, settings.send_autotuning),
            receive_buffer: size(settings.receive_buffer, settings.receive_autotuning),
            no_delay: !settings.nagle,
            start: declared.drawn_start(&rng),
            source,
            applications: applications(declared, &rng, None),
            own,
        })
    };
    scenario.flows.iter().enumerate().map(flow).collect()
}

/// The ends of flows on Anabranch's own stacks, by the number of the interface.
///
/// # Errors
///
/// If links and flows do not form a network.
pub fn own_ends(scenario: &Scenario) -> Result<BTreeMap<u32, Vec<FlowEnd>>, BuildError> {
    let network = scenario.network()?;
    let mut ends: BTreeMap<u32, Vec<FlowEnd>> = BTreeMap::new();
    for (index, flow) in scenario.flows.iter().enumerate() {
        for end in [CONNECTS, ACCEPTS].into_iter().filter(|&end| flow.stacks[end] == Some(Stack::User)) {
            for interface in network.interfaces(index, end) {
                ends.entry(interface.0)
                    .or_default()
                    .push(FlowEnd { port: port(index), listens: end == ACCEPTS });
            }
        }
    }
    Ok(ends)
}

/// An end of a flow, if it is on an own stack; `first` are the addresses of the first path.
fn own_end(
    scenario: &Scenario,
    network: &mut Network,
    (index, end): (usize, usize),
    first: [InterfaceAddress; 2],
) -> Option<OwnEnd> {
    let declared = &scenario.flows[index];
    if declared.stacks[end] != Some(Stack::User) {
        return None;
    }
    let all = |network: &Network, end| {
        let interfaces = network.interfaces(index, end).iter();
        interfaces.flat_map(|&interface| network.addresses(interface)).collect::<Vec<_>>()
    };
    let [mut own, others] = [end, 1 - end].map(|end| all(network, end));
    own.sort_by_key(|of| *of != first[end]);
    let address = |of: InterfaceAddress, network: &mut Network| {
        let mtus = others.iter().filter_map(|&other| path_mtu(scenario, network, of, other));
        let mtu = mtus.chain(declared.mtu).min().unwrap_or(u16::MAX.into());
        let backup = declared.backup.contains(&of.link());
        (of.interface, Address { ip: scenario.address(of), mtu, backup })
    };
    let addresses: Vec<_> = own.iter().map(|&of| address(of, network)).collect();
    let mut protocol = host::Protocol::from(declared.protocol.clone());
    if let host::Protocol::Mptcp(config) = &mut protocol
        && end == CONNECTS
    {
        let routed: Vec<_> = network.connected_pairs(index).collect();
        let pairs = own.iter().flat_map(|&from| others.iter().map(move |&to| [from, to]));
        let missing = pairs.filter(|pair| !routed.contains(pair));
        config.unroutable =
            missing.map(|[from, to]| (scenario.address(from), scenario.address(to))).collect();
    }
    let host = if end == CONNECTS { &declared.from } else { declared.meets() };
    if let host::Protocol::Mptcp(config) = &protocol
        && !scenario.has_mptcp(host)
    {
        protocol = host::Protocol::Tcp(config.tcp.clone());
    }
    Some(OwnEnd { protocol, addresses })
}

/// The applications that write at each end of a flow, with the same messages at the same times as in a
/// simulation. `whole` is the message size of workloads without one.
pub fn applications(declared: &model::Flow, rng: &Rng, whole: Option<u64>) -> [Option<Application>; 2] {
    let times = [declared.drawn_start(rng), declared.stop.unwrap_or(Time::MAX)];
    let own = rng.fork("application");
    let writer = |rng: &Rng| Application::new(&declared.workload, times, whole, rng);
    let other = match declared.direction {
        Directions::Both => Some(writer(&rng.fork("application.reverse"))),
        Directions::Forward | Directions::Reverse => {
            Application::answering(&declared.workload, times[0], &own)
        }
    };
    let mut all = [Some(writer(&own)), other];
    if declared.direction == Directions::Reverse {
        all.reverse();
    }
    all
}

/// The size of a socket's buffer; the kernel's if it is automatic.
fn size(bytes: u64, automatic: bool) -> Option<usize> {
    (!automatic).then_some(bytes as usize)
}

fn transport(declared: &model::Flow) -> Result<Transport, String> {
    match &declared.protocol {
        Protocol::Tcp(_) => Ok(Transport::Tcp),
        Protocol::Mptcp(_) => Ok(Transport::Mptcp),
        Protocol::Sctp(_) => {
            Err("SCTP over the kernel's sockets is not supported here; use tcp, mptcp or udp, or the \
                 simulation"
                .to_owned())
        }
        Protocol::Udp => {
            let (smallest, largest) = sizes(&declared.workload);
            if smallest < DATAGRAM_HEADER as u64 {
                Err(format!(
                    "a datagram needs a header of {DATAGRAM_HEADER} bytes; increase the smallest message to at least that"
                ))
            } else if largest > MAX_DATAGRAM_BYTES {
                Err(format!("a datagram has at most {MAX_DATAGRAM_BYTES} bytes; shorten the messages"))
            } else {
                Ok(Transport::Udp)
            }
        }
    }
}

/// The smallest and the largest message of a workload.
pub fn sizes(workload: &Workload) -> (u64, u64) {
    let message = match workload {
        Workload::Recorded(recording) => {
            let sizes = || recording.messages.iter().map(|&(_, bytes)| bytes);
            return (sizes().min().unwrap_or(1), sizes().max().unwrap_or(u64::MAX));
        }
        Workload::Saturated { message } | Workload::File { message, .. } => message.as_ref(),
        Workload::Rate { message, .. }
        | Workload::OnOff { message, .. }
        | Workload::Messages { message, .. }
        | Workload::RequestResponse { request: message, .. } => Some(message),
    };
    let (smallest, largest) = message.map_or((1, None), MessageSize::range);
    (smallest, largest.unwrap_or(u64::MAX))
}
