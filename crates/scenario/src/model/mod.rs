//! A scenario as values: the output of the parser and the input of the simulator and every other world.

mod workload;

pub use anabranch_netem::loss::Settings as Loss;
pub use anabranch_netem::queue::{QueueLimit, Settings as Queue};
pub use anabranch_netem::{
    Change, IpVersion, IpVersions, LinkDelay, LinkModel, LinkRate, RateTrace, Reorder, Scope,
};
pub use anabranch_settings::protocol::Protocol;

pub use crate::measure::{Codec, Voice};
pub use crate::testbed::{MACHINES, Machines, Tunnel, TunnelKind};
pub use workload::{Arrivals, Bursts, Distribution, MessageSize, Recording, SizeList, Workload};

use crate::measure::{MAX_COUNTED_EVENTS, Outage};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_middlebox::network_control::ControlRouter;
use anabranch_middlebox::source_route::SourceRoutes;
use anabranch_netem::network::{BuildError, Forwarding, LinkAddresses, Network, RouterTable, Table};
use anabranch_netem::{FlowHash, Interface, InterfaceAddress};
use anabranch_wire::ip::protocol;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest seed: the largest integer of TOML, in which a result contains its scenario.
pub const MAX_SEED: u64 = i64::MAX as u64;

/// The largest number of connections of a flow that may be open at the same time.
pub const MAX_OPEN: u64 = 10_000;

/// One experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Title for figures and reports.
    pub title: String,
    /// Duration of the run, warm-up included.
    pub duration: Duration,
    /// Time before measuring begins.
    pub warmup: Duration,
    /// Versions of IP of the links without versions of their own.
    pub ip: IpVersions,
    /// True if the kernel's hosts pass several packets at once to their interfaces.
    pub offload: bool,
    /// Seed of every random stream; at most [`MAX_SEED`].
    pub seed: u64,
    /// True if routers choose among equally short paths by a hash of the flow; otherwise they take the first link.
    pub ecmp: bool,
    /// Links, in file order.
    pub links: Vec<Link>,
    /// Settings of routers, in file order.
    pub routers: Vec<Router>,
    /// Settings and main routing tables of hosts, in file order; the main tables of other hosts have a route to
    /// every address.
    pub hosts: Vec<Host>,
    /// Flows, in file order.
    pub flows: Vec<Flow>,
    /// Middleboxes, in file order.
    pub middleboxes: Vec<Middlebox>,
    /// Events, in order of time (file order where equal).
    pub events: Vec<Event>,
    /// The machines of a testbed.
    pub machines: Option<Machines>,
}

impl Scenario {
    /// The flows with a proxy, and their indices. The connections of all flows are followed by those behind the
    /// proxies, in this order.
    pub fn proxied(&self) -> impl Iterator<Item = (usize, &Flow)> {
        self.flows.iter().enumerate().filter(|(_, flow)| flow.through.is_some())
    }

    /// The two hosts of every connection: those of the flows, in their order, those of the connections behind
    /// proxies, and those of [`concurrent`](Self::concurrent) connections.
    pub fn connections(&self) -> Vec<[&str; 2]> {
        let first = self.flows.iter().map(|flow| [flow.from.as_str(), flow.meets()]);
        let behind = self.proxied().map(|(_, flow)| [flow.meets(), &flow.to]);
        first.chain(behind).chain(self.concurrent().map(|(_, flow)| [&*flow.from, &flow.to])).collect()
    }

    /// The further connections that flows with arrivals may have open at once, each with the flow and its index.
    /// They follow those behind proxies.
    pub fn concurrent(&self) -> impl Iterator<Item = (usize, &Flow)> {
        let further = |flow: &Flow| {
            flow.workload.arrivals().map_or(0, |arrivals| (arrivals.max_open as usize).saturating_sub(1))
        };
        let flows = self.flows.iter().enumerate();
        flows.flat_map(move |(index, flow)| core::iter::repeat_n((index, flow), further(flow)))
    }

    /// The index of the flow of every connection, in the order of [`connections`](Self::connections).
    pub fn flows_of_connections(&self) -> Vec<usize> {
        let first = 0..self.flows.len();
        first.chain(self.proxied().chain(self.concurrent()).map(|(index, _)| index)).collect()
    }

    /// The nodes of its links, and the interfaces and routes of its connections.
    ///
    /// # Errors
    ///
    /// If links and flows do not form a network.
    pub fn network(&self) -> Result<Network, BuildError> {
        let between: Vec<_> =
            self.links.iter().map(|link| link.between.each_ref().map(String::as_str)).collect();
        let only = self.hosts.iter().filter(|host| !host.policy_routing);
        let tables: Vec<_> = only
            .map(|host| Table {
                host: &host.name,
                default: host
                    .default_route
                    .expect("without policy routing, the parser requires a default route"),
                routes: host.routes.iter().map(|route| [route.to, route.by]).collect(),
            })
            .collect();
        let routers = self.routers.iter().map(|router| RouterTable {
            name: &router.name,
            ecmp: router.ecmp.unwrap_or(self.ecmp),
            default: router.default_route,
            routes: router.routes.iter().map(|route| [route.to, route.by]).collect(),
        });
        let routers = routers.collect();
        let forwarding = Forwarding { ecmp: self.ecmp, seed: self.seed, routers };
        Network::new((&between, &self.link_addresses()), &self.connections(), &tables, &forwarding)
    }

    /// The addresses of all links; none, if every link has one IPv4 address at each end.
    fn link_addresses(&self) -> Vec<LinkAddresses> {
        let addresses = |(index, link): (usize, &Link)| {
            let mut of = [None; 2];
            if let Some(shared) = link.address_of {
                let node = &link.between[shared.end];
                let end = self.links[shared.link].between.iter().position(|other| other == node);
                of[shared.end] = end.map(|end| Interface::new(shared.link, end));
            }
            LinkAddresses { versions: self.versions(index), counts: link.addresses, of }
        };
        let all: Vec<_> = self.links.iter().enumerate().map(addresses).collect();
        if all.iter().all(|of_link| *of_link == LinkAddresses::default()) { Vec::new() } else { all }
    }

    /// The versions of IP of all links together.
    pub fn used_versions(&self) -> IpVersions {
        let mut all = (0..self.links.len()).map(|link| self.versions(link));
        let first = all.next().unwrap_or(self.ip);
        if all.all(|other| other == first) { first } else { IpVersions::Both }
    }

    /// The name of an address: that of its link, with the version of IP if the link has both.
    pub fn address_name(&self, of: InterfaceAddress) -> String {
        let is_dual = self.versions(of.link()) == IpVersions::Both;
        let version = if is_dual { of.version.suffix() } else { "" };
        let number = if of.number > 0 { format!("#{}", of.number + 1) } else { String::new() };
        format!("{}{version}{number}", self.links[of.link()].name)
    }

    /// The versions of IP of a link.
    pub fn versions(&self, link: usize) -> IpVersions {
        self.links[link].versions(self.ip)
    }

    /// The links and flows as a network of hosts on a machine.
    ///
    /// # Errors
    ///
    /// Like [`network`](Self::network), and if a link's addresses are link-local, which would need the interface as a
    /// scope identifier (RFC 4007 §11), or if links share addresses.
    pub fn real_network(&self) -> Result<Network, BuildError> {
        if let Some(link) = self.links.iter().find(|link| link.address_of.is_some()) {
            return Err(BuildError::SharedAddresses { link: link.name.clone() });
        }
        match self.links.iter().find(|link| link.scope == Scope::Link) {
            Some(link) => Err(BuildError::LinkLocal { link: link.name.clone() }),
            None => self.network(),
        }
    }

    /// The value of an address at the start.
    pub fn address(&self, of: InterfaceAddress) -> IpAddr {
        self.address_of(of, 0)
    }

    /// The value of an address after this number of new addresses.
    pub fn address_of(&self, of: InterfaceAddress, generation: u8) -> IpAddr {
        match (self.links[of.link()].scope, of.version) {
            (Scope::Link, IpVersion::V6) => of.link_local(),
            _ => of.ip(generation),
        }
    }

    /// The addresses on which a connection of a flow begins, by its index among the connections: the first pair that
    /// routes connect by the flow's initial path. A connection that is bound to no address leaves by the main table
    /// of its host, if the host has one, even if that table leads elsewhere.
    ///
    /// # Panics
    ///
    /// If no routes connect the hosts by the initial path; the parser refuses such scenarios.
    pub fn first_pair(&self, network: &mut Network, (index, flow): (usize, &Flow)) -> [InterfaceAddress; 2] {
        let mut pairs = network.connected_pairs(index);
        let [from, to] = pairs
            .find(|pair| flow.begins_at(*pair))
            .expect("a route connects the hosts of every flow, by its initial path");
        drop(pairs);
        let at_host = |link| {
            let own = network.interfaces(index, 0).iter().find(|interface| interface.link() == link);
            let address = own.map(|&interface| InterfaceAddress::first(interface, to.version));
            address.filter(|address| network.has(*address))
        };
        let bound = match &flow.protocol {
            Protocol::Tcp(_) | Protocol::Mptcp(_) => {
                flow.initial_path.iter().any(|&link| at_host(link).is_some())
            }
            Protocol::Sctp(_) => true,
            Protocol::Udp => false,
        };
        let table = self.hosts.iter().find(|host| host.name == flow.from).filter(|_| !bound);
        [table.and_then(|host| at_host(host.leaves_by(to.link())?)).unwrap_or(from), to]
    }

    /// True if a host supports Multipath TCP.
    pub fn has_mptcp(&self, host: &str) -> bool {
        self.hosts.iter().find(|declared| declared.name == host).is_none_or(|declared| declared.mptcp)
    }

    /// The links with the values that they have after the first `events` events.
    pub fn links_after(&self, events: usize) -> Vec<Link> {
        let mut links = self.links.clone();
        for event in self.events[..events].iter().filter_map(Event::of_link) {
            let link = &mut links[event.link];
            let models: &mut [&mut LinkModel] = match event.directions {
                Directions::Both => &mut [&mut link.forward, &mut link.reverse],
                Directions::Forward => &mut [&mut link.forward],
                Directions::Reverse => &mut [&mut link.reverse],
            };
            for model in models {
                for change in &event.changes {
                    model.apply(change);
                }
            }
        }
        links
    }

    /// The time in which links are down, if a link fails and recovers.
    pub fn outage(&self) -> Option<Outage> {
        let switched = |to: bool| {
            let switches = move |event: &&Event| event.sets_state(to);
            self.events.iter().filter(switches).map(|event| event.at)
        };
        let down = switched(false).next()?;
        let up = switched(true).rfind(|&at| at > down)?;
        Some(Outage { down, up })
    }
}

impl Scenario {
    /// The routers with network control, by their nodes.
    pub fn control_routers(&self, network: &Network) -> BTreeMap<usize, ControlRouter> {
        let is_one =
            |name: &str| self.routers.iter().any(|router| router.network_control && router.name == name);
        let nodes = network.nodes().iter().enumerate().filter(|(_, node)| is_one(&node.name));
        nodes.map(|(node, _)| (node, ControlRouter::new(node as u32))).collect()
    }

    /// The times of its events, ascending and each once: the first [`MAX_COUNTED_EVENTS`].
    pub fn event_times(&self) -> Arc<[Time]> {
        let mut times: Vec<_> = self.events.iter().map(|event| event.at).collect();
        times.dedup();
        times.truncate(MAX_COUNTED_EVENTS);
        times.into()
    }
}

/// A bidirectional link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Unique name.
    pub name: String,
    /// The two nodes.
    pub between: [String; 2],
    /// Versions of IP of its packets and addresses; `None` as in the scenario.
    pub ip: Option<IpVersions>,
    /// Number of addresses of each version, by end.
    pub addresses: [u8; 2],
    /// The other link whose addresses one end has.
    pub address_of: Option<SharedAddress>,
    /// Scope of its IPv6 addresses.
    pub scope: Scope,
    /// Between two machines of a testbed.
    pub tunnel: Option<Tunnel>,
    /// From the first node to the second.
    pub forward: LinkModel,
    /// From the second node to the first.
    pub reverse: LinkModel,
}

impl Link {
    /// The link's versions of IP; `others` are those of links without versions of their own.
    pub fn versions(&self, others: IpVersions) -> IpVersions {
        self.ip.unwrap_or(others)
    }
}

/// Addresses of another link that an end of a link uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedAddress {
    /// Index of the link with the addresses.
    pub link: usize,
    /// The end of the link `link` whose addresses are used.
    pub end: usize,
}

/// A node that processes passing packets, in addition to forwarding them.
#[derive(Clone, Debug, PartialEq)]
pub struct Middlebox {
    /// The node.
    pub node: String,
    /// Indices of the links from which the middlebox processes packets; empty for all.
    pub from: Vec<usize>,
    /// Kind and settings.
    pub does: anabranch_middlebox::Settings,
}

/// Settings of a host, and its main routing table: for connections that are not bound to an address, and for all other
/// packets if addresses have no tables of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The host.
    pub name: String,
    /// Index of the link to all addresses without a route; `None` for the first link that leads there.
    pub default_route: Option<usize>,
    /// Routes to single addresses.
    pub routes: Vec<Route>,
    /// True if every address has a separate table, whose only route is the address's link.
    pub policy_routing: bool,
    /// The host supports Multipath TCP; otherwise it uses TCP instead.
    pub mptcp: bool,
    /// Routers through which the path manager `binder` leads subflows: for each gateway the hops of its source route.
    pub gateways: Vec<Vec<String>>,
    /// The time that its processor needs for packets; `None` for none.
    pub cost: Option<HostCost>,
}

/// The time that the processor of a host needs for the packets that it sends and receives, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCost {
    /// Time for each packet, independent of its length.
    pub packet: Duration,
    /// Time for each byte of the IP packet.
    pub byte: Duration,
    /// Time for each entry of a gap or reassembly list that the packet passes.
    pub gap: Duration,
    /// Maximum number of packets at the processor, the one in service included.
    pub backlog: u64,
}

impl Host {
    /// The link by which the main table reaches the address at the other host's end of the link
    /// `destination`; `None` if it has no route to it.
    fn leaves_by(&self, destination: usize) -> Option<usize> {
        let route = self.routes.iter().find(|route| route.to == destination);
        route.map(|route| route.by).or(self.default_route)
    }
}

/// Settings of a forwarding node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// The node.
    pub name: String,
    /// True if the router chooses among equally short paths; `None` for the scenario's setting.
    pub ecmp: Option<bool>,
    /// Index of its link to all hosts without a route to which it has no link itself; `None` for shortest paths.
    pub default_route: Option<usize>,
    /// Routes to the addresses of hosts. They override shortest paths.
    pub routes: Vec<Route>,
    /// True if the router answers requests of network control.
    pub network_control: bool,
    /// Treatment of packets with a loose source route.
    pub source_routes: SourceRoutes,
}

/// A route to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Index of the other host's link, whose address is the destination.
    pub to: usize,
    /// Index of this node's link for the route.
    pub by: usize,
}

/// A change during the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time of the change.
    pub at: Time,
    /// The changed link or flow, and its new values.
    pub subject: Subject,
}

/// A link or a flow that an event changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A link.
    Link(LinkEvent),
    /// A flow.
    Flow(FlowEvent),
}

/// A change of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkEvent {
    /// Index of the link.
    pub link: usize,
    /// The directions that change.
    pub directions: Directions,
    /// Both ends of the link get new addresses, before the other changes.
    pub renumbers: bool,
    /// New values of the link's settings.
    pub changes: Vec<Change>,
}

/// A change of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEvent {
    /// Index of the flow.
    pub flow: usize,
    /// The change.
    pub change: FlowChange,
}

/// A new value of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowChange {
    /// Indices of the links whose addresses are backups from now on, for Multipath TCP.
    Backup(Vec<usize>),
    /// For SCTP: index of the receiver's link whose address becomes the primary destination, and the IP version of that
    /// address; `None` if the link has one version only.
    Primary(usize, Option<IpVersion>),
}

impl Event {
    /// A change of a link, whose addresses stay the same.
    pub const fn link(at: Time, (link, directions): (usize, Directions), changes: Vec<Change>) -> Self {
        let event = LinkEvent { link, directions, renumbers: false, changes };
        Self { at, subject: Subject::Link(event) }
    }

    /// The change of a link; `None` if the event changes a flow.
    pub const fn of_link(&self) -> Option<&LinkEvent> {
        match &self.subject {
            Subject::Link(event) => Some(event),
            Subject::Flow(_) => None,
        }
    }

    /// True if the event sets a link to this state.
    pub fn sets_state(&self, up: bool) -> bool {
        self.of_link().is_some_and(|event| event.changes.contains(&Change::State { up }))
    }
}

/// One or both directions of a link or of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directions {
    /// Both.
    Both,
    /// For a link: from its first node to its second. For a flow: from the sending host to the receiving one.
    Forward,
    /// The opposite direction.
    Reverse,
}

impl Directions {
    /// The ends of a link from which these directions begin: 0 for the forward one, 1 for the other.
    pub const fn ends(self) -> Range<usize> {
        match self {
            Self::Both => 0..2,
            Self::Forward => 0..1,
            Self::Reverse => 1..2,
        }
    }
}

/// An implementation of protocols. The simulator has one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// Anabranch's own.
    User,
    /// The machine's kernel.
    Kernel,
}

/// A flow between two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Unique name.
    pub name: String,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// The proxy at which the flow's connection ends, and from which a TCP connection carries the data to
    /// [`to`](Self::to).
    pub through: Option<String>,
    /// Protocol with its own settings.
    pub protocol: Protocol,
    /// Largest IP packet, bytes; `None` uses the MTU of each path's links.
    pub mtu: Option<u32>,
    /// Indices of the links on which a connection begins. If empty, the first path that a route connects. For
    /// TCP, links of either host. For SCTP, the link of the receiving host whose address is the initial
    /// destination, followed, if given, by that of the connecting host whose address is the source.
    pub initial_path: Vec<usize>,
    /// Version of IP of the first path; `None` for any.
    pub initial_version: Option<IpVersion>,
    /// Indices of links whose addresses are backups for Multipath TCP.
    pub backup: Vec<usize>,
    /// The stacks of the `from` host and of the other end of its connection; `None` for the world's.
    pub stacks: [Option<Stack>; 2],
    /// True if messages of SCTP are delivered in order.
    pub ordered: bool,
    /// Time at which the flow starts.
    pub start: Time,
    /// Maximum of a random delay of its start, drawn for each seed.
    pub start_spread: Duration,
    /// The time at which the application stops writing, if before the end.
    pub stop: Option<Time>,
    /// Direction of its data. The `from` host connects in any case.
    pub direction: Directions,
    /// Workload of the writing applications.
    pub workload: Workload,
    /// The call as which its datagrams are rated.
    pub voice: Option<Voice>,
}

impl Flow {
    /// The host at the other end of its connection: its proxy, or the receiving host.
    pub fn meets(&self) -> &str {
        self.through.as_ref().unwrap_or(&self.to)
    }

    /// The flow from its proxy to the receiving host, if there is one: over TCP, with the settings that TCP
    /// supports.
    pub fn onward(&self) -> Option<Self> {
        let proxy = self.through.clone()?;
        let tcp = self.protocol.tcp()?;
        Some(Self {
            from: proxy,
            through: None,
            protocol: Protocol::Tcp(tcp.clone()),
            initial_path: Vec::new(),
            initial_version: None,
            backup: Vec::new(),
            ..self.clone()
        })
    }

    /// True if its subflows have source routes through gateways.
    pub fn uses_gateways(&self) -> bool {
        matches!(&self.protocol, Protocol::Mptcp(config) if config.path_manager.entry.uses_gateways)
    }

    /// Interval of its requests to routers, if it sends them over Multipath TCP.
    pub const fn network_control(&self) -> Option<Duration> {
        match &self.protocol {
            Protocol::Mptcp(config) => config.network_control,
            _ => None,
        }
    }

    /// The start of the flow, drawn from a random stream forked from the flow's, so that no other random number
    /// changes.
    pub fn drawn_start(&self, rng: &Rng) -> Time {
        self.start + Duration::from_nanos(rng.fork("start").between(0, self.start_spread.as_nanos()))
    }

    /// True if its connection may begin between two addresses.
    pub fn begins_at(&self, pair: [InterfaceAddress; 2]) -> bool {
        self.initial_version.is_none_or(|version| version == pair[0].version)
            && self.begins_on(pair.map(InterfaceAddress::link))
    }

    /// True if its connection may begin on a path that leaves and arrives by these links.
    pub fn begins_on(&self, links: [usize; 2]) -> bool {
        match &self.protocol {
            Protocol::Tcp(_) | Protocol::Mptcp(_) => {
                self.initial_path.iter().all(|link| links.contains(link))
            }
            // SCTP selects a single destination among the addresses of the other host, and any source.
            Protocol::Sctp(_) => match self.initial_path[..] {
                [destination, source] => links == [source, destination],
                _ => true,
            },
            Protocol::Udp => true,
        }
    }
}

/// The hash of the packets of a protocol from one end to another, by which routers choose among equally short paths.
pub fn flow_hash(protocol: &Protocol, [local, remote]: [SocketAddr; 2]) -> FlowHash {
    let ports = [local.port(), remote.port()];
    let (transport, ports) = match protocol {
        Protocol::Tcp(_) | Protocol::Mptcp(_) => (protocol::TCP, ports),
        Protocol::Udp => (protocol::UDP, ports),
        Protocol::Sctp(config) => match config.encapsulation {
            Some(outer) => (protocol::UDP, [outer.source, outer.destination]),
            None => (protocol::SCTP, ports),
        },
    };
    FlowHash::new([local.ip(), remote.ip()], transport, Some(ports))
}
