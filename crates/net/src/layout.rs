//! The hosts of a scenario with their interfaces, addresses and routes, for configuration on a machine.

use crate::translators;
use anabranch_netem::network::{BuildError, Node};
use anabranch_netem::{FlowHash, Interface, InterfaceAddress, IpVersion, Network};
use anabranch_scenario::Scenario;
use anabranch_scenario::model::{Change, Event, Flow, FlowChange, FlowEvent, Subject};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use serde::Serialize;

/// Maximum length of an interface's name (`IFNAMSIZ` less the final zero).
const MAX_DEVICE_NAME: usize = 15;

/// The first flow's port. Each flow has a separate port, which identifies the kernel's connections.
pub(crate) const FIRST_PORT: u16 = 5001;

/// The port of a flow, of its receiving host or of its proxy's listener.
pub(crate) const fn port(flow: usize) -> u16 {
    FIRST_PORT + flow as u16
}

/// The flow that uses this port; `None` if none of the first `flows` flows does.
pub(crate) fn flow_of(port: u16, flows: usize) -> Option<usize> {
    port.checked_sub(FIRST_PORT).map(usize::from).filter(|&flow| flow < flows)
}

/// A scenario's hosts.
#[derive(Clone, Debug, Serialize)]
pub struct Layout {
    /// Hosts, in order of appearance.
    pub hosts: Vec<Host>,
    /// Forwarding nodes, in order of appearance.
    pub routers: Vec<Router>,
    /// Flows, in the order of the scenario.
    pub flows: Vec<Pair>,
    /// Proxies, in the order of the flows through them.
    pub proxies: Vec<Proxy>,
    /// Changes of hosts' interfaces, in order of time.
    pub changes: Vec<InterfaceChange>,
    /// Changes of flows' backups, in order of time.
    pub priorities: Vec<PriorityChange>,
    /// True if a router chooses among several routes by the hash of a packet's flow.
    pub has_alternatives: bool,
    /// The scenario with every default.
    pub scenario: serde_json::Value,
}

/// A host.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// Name.
    pub name: String,
    /// Addresses of interfaces, in the order of the links, for each link those of IPv4 first. An interface without an
    /// address is missing.
    pub interfaces: Vec<HostInterface>,
}

/// An address of an interface of a host. An interface with several addresses has one of these for each.
#[derive(Clone, Debug, Serialize)]
pub struct HostInterface {
    /// Number of the interface, see [`Interface`].
    pub index: u32,
    /// Name of the interface on the host: the link's name if that is a valid name of an interface.
    pub device: String,
    /// The link of which this interface is an end.
    pub link: String,
    /// Identifies the address among the addresses of the interface.
    #[serde(skip)]
    pub of: InterfaceAddress,
    /// The address.
    pub address: String,
    /// Name of the address in results: the link's name, with the version of IP if the link has both.
    pub name: String,
    /// Largest packet, bytes.
    pub mtu: u32,
    /// True if the interface is up at the start.
    pub up: bool,
    /// Addresses of other hosts that are reached from this address.
    pub routes: Vec<Route>,
}

/// A node that forwards.
#[derive(Clone, Debug, Serialize)]
pub struct Router {
    /// Name.
    pub name: String,
    /// Interfaces, in the order of the links.
    pub interfaces: Vec<RouterInterface>,
    /// Routes to every reachable address of a host.
    pub routes: Vec<RouterRoute>,
}

/// An interface of a router, which has no address.
#[derive(Clone, Debug, Serialize)]
pub struct RouterInterface {
    /// Number of the interface, see [`Interface`].
    pub index: u32,
    /// A possible name on the router.
    pub device: String,
}

/// A route to an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouterRoute {
    /// The address.
    pub to: String,
    /// The number of the interface.
    pub interface: u32,
}

/// An address that is reached by an interface.
#[derive(Clone, Debug, Serialize)]
pub struct Route {
    /// The address.
    pub to: String,
    /// The host with this address, or the host behind the translator with this address.
    pub host: String,
    /// The largest packet that fits every link in both directions, bytes.
    pub mtu: u32,
    /// True if no earlier address in the list reaches this address.
    pub first: bool,
}

/// The two addresses of a flow's first path.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// Name of the flow.
    pub name: String,
    /// Address of the sending host.
    pub local: String,
    /// Address of the receiving host.
    pub remote: String,
}

/// The proxy that accepts a flow's connection and connects to its receiving host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proxy {
    /// The flow.
    pub flow: String,
    /// The host that the proxy runs on.
    pub host: String,
    /// The address and port of the proxy's listener.
    pub listen: String,
    /// The address and port to which it connects.
    pub to: String,
}

/// A link of a host goes down or comes up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InterfaceChange {
    /// Time of the change, seconds from the start.
    pub at_s: f64,
    /// The host's index in [`Layout::hosts`].
    pub host: usize,
    /// The interface's index at the host.
    pub interface: usize,
    /// True if the interface comes up, false if it goes down.
    pub up: bool,
    /// A new address, which replaces the former one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// Addresses of other links become the backups of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PriorityChange {
    /// Time of the change, seconds from the start.
    pub at_s: f64,
    /// The flow's index.
    pub flow: usize,
    /// The links whose addresses are backups from now on.
    pub backup: Vec<String>,
}

impl Host {
    /// One entry of each interface, even if the interface has several addresses.
    pub fn devices(&self) -> impl Iterator<Item = &HostInterface> {
        let is_first = |&(at, interface): &(usize, &HostInterface)| {
            self.interfaces[..at].iter().all(|earlier| earlier.index != interface.index)
        };
        self.interfaces.iter().enumerate().filter(is_first).map(|(_, interface)| interface)
    }
}

impl Layout {
    /// The hosts of a scenario.
    ///
    /// # Errors
    ///
    /// If links and flows do not form a network.
    pub fn new(scenario: &Scenario) -> Result<Self, BuildError> {
        let mut network = scenario.real_network()?;
        let nodes: Vec<_> = network.nodes().iter().filter(|node| node.host).cloned().collect();
        let all: Vec<(InterfaceAddress, String)> = nodes
            .iter()
            .flat_map(|node| addresses(&network, node).map(|address| (address, node.name.clone())))
            .collect();
        let outside = translators::outside(scenario, &network);
        let mut hosts = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let mut reached: Vec<InterfaceAddress> = Vec::new();
            let mut interfaces: Vec<HostInterface> = Vec::new();
            for own in addresses(&network, node).collect::<Vec<_>>() {
                let mut routes = Vec::new();
                for (to, host) in all.iter().chain(&outside).filter(|(_, host)| *host != node.name) {
                    let Some(mtu) = path_mtu(scenario, &mut network, own, *to) else { continue };
                    let first = !reached.contains(to);
                    reached.push(*to);
                    let to = scenario.address(*to).to_string();
                    routes.push(Route { to, host: host.clone(), mtu, first });
                }
                interfaces.push(host_interface(scenario, own, routes));
            }
            hosts.push(Host { name: node.name.clone(), interfaces });
        }
        let flows = (0..scenario.flows.len()).map(|flow| pair(scenario, &mut network, flow)).collect();
        let routers = routers(scenario, &mut network, &all);
        let proxies = proxies(scenario, &mut network);
        let changes = changes(scenario, &hosts);
        let priorities = priorities(scenario);
        let has_alternatives = network.has_alternatives();
        let scenario = anabranch_scenario::to_json(scenario);
        Ok(Self { hosts, routers, flows, proxies, changes, priorities, has_alternatives, scenario })
    }
}

/// The addresses of a host.
fn addresses<'a>(network: &'a Network, host: &'a Node) -> impl Iterator<Item = InterfaceAddress> + 'a {
    host.interfaces.iter().flat_map(|&interface| network.addresses(interface))
}

/// The forwarding nodes, and their routes to the addresses of hosts.
fn routers(scenario: &Scenario, network: &mut Network, hosts: &[(InterfaceAddress, String)]) -> Vec<Router> {
    let nodes: Vec<_> = network.nodes().iter().cloned().enumerate().filter(|(_, node)| !node.host).collect();
    let router = |(number, node): (usize, Node)| {
        let route = |&(to, _): &(InterfaceAddress, String)| {
            let first = network.route_from(number, to, FlowHash::default())?.first()?.0;
            Some(RouterRoute { to: scenario.address(to).to_string(), interface: first })
        };
        let routes = hosts.iter().filter_map(route).collect();
        let interface = |interface: &Interface| RouterInterface {
            index: interface.0,
            device: format!("link{}-{}", interface.link(), interface.end()),
        };
        Router { name: node.name, interfaces: node.interfaces.iter().map(interface).collect(), routes }
    };
    nodes.into_iter().map(router).collect()
}

fn host_interface(scenario: &Scenario, own: InterfaceAddress, routes: Vec<Route>) -> HostInterface {
    let interface = own.interface;
    let link = &scenario.links[interface.link()];
    let model = [&link.forward, &link.reverse][interface.end()];
    HostInterface {
        index: interface.0,
        device: device_name(&link.name, interface),
        link: link.name.clone(),
        of: own,
        address: scenario.address(own).to_string(),
        name: scenario.address_name(own),
        mtu: model.mtu,
        up: model.up,
        routes,
    }
}

/// The link's name, if it is valid for an interface and does not collide with a generated name.
fn device_name(link: &str, interface: Interface) -> String {
    let number = link.strip_prefix("link").unwrap_or_default();
    let fits = (1..=MAX_DEVICE_NAME).contains(&link.len())
        && link.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !link.starts_with('.')
        && !["lo", "all", "default"].contains(&link)
        && (number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()));
    if fits { link.to_owned() } else { format!("link{}", interface.link()) }
}

/// The largest packet that fits every link between two addresses in both directions, if a route connects
/// them.
pub(crate) fn path_mtu(
    scenario: &Scenario,
    network: &mut Network,
    from: InterfaceAddress,
    to: InterfaceAddress,
) -> Option<u32> {
    if from.version != to.version {
        return None;
    }
    network.route(from, to).and(network.route(to, from))?;
    let mut ways = network.hops(from, to);
    ways.extend(network.hops(to, from));
    let mtu = |hop: &Interface| {
        let link = &scenario.links[hop.link()];
        [&link.forward, &link.reverse][hop.end()].mtu
    };
    ways.iter().map(mtu).min()
}

fn pair(scenario: &Scenario, network: &mut Network, flow: usize) -> Pair {
    let declared = &scenario.flows[flow];
    let [local, remote] = scenario.first_pair(network, (flow, declared));
    let address = |of: InterfaceAddress| scenario.address(of).to_string();
    Pair { name: declared.name.clone(), local: address(local), remote: address(remote) }
}

/// The proxies of the flows that have one.
fn proxies(scenario: &Scenario, network: &mut Network) -> Vec<Proxy> {
    // With both versions of IP, a socket of IPv6 accepts connections of IPv4, too.
    let any: IpAddr = if scenario.used_versions().has(IpVersion::V6) {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    };
    let through = |(index, flow): (usize, &Flow)| Some((index, flow.name.clone(), flow.through.clone()?));
    let proxied = scenario.flows.iter().enumerate().filter_map(through);
    // The connections behind proxies follow those of all flows.
    let onward = scenario.flows.len()..;
    let proxy = |((index, flow, host), connection)| {
        let [_, to] = network.connected_pairs(connection).next().expect("a route connects the hosts");
        let at = |address| SocketAddr::new(address, port(index)).to_string();
        Proxy { flow, host, listen: at(any), to: at(scenario.address(to)) }
    };
    proxied.zip(onward).map(proxy).collect()
}

/// Changes of hosts' interfaces. An interface has the state of the link direction that leaves from it.
fn changes(scenario: &Scenario, hosts: &[Host]) -> Vec<InterfaceChange> {
    let mut generations = vec![0_u8; scenario.links.len()];
    let mut changes = Vec::new();
    for event in &scenario.events {
        let Some(on) = event.of_link() else { continue };
        generations[on.link] = generations[on.link].saturating_add(u8::from(on.renumbers));
        for change in &on.changes {
            let Change::State { up } = *change else { continue };
            for (host, declared) in hosts.iter().enumerate() {
                for (interface, other) in declared.interfaces.iter().enumerate() {
                    let own = Interface(other.index);
                    if own.link() != on.link || !on.directions.ends().contains(&own.end()) {
                        continue;
                    }
                    let new = on.renumbers.then(|| scenario.address_of(other.of, generations[on.link]));
                    let (at_s, address) = (event.at.as_secs_f64(), new.map(|ip| ip.to_string()));
                    changes.push(InterfaceChange { at_s, host, interface, up, address });
                }
            }
        }
    }
    changes
}

/// Changes of the backups of Multipath TCP's flows.
fn priorities(scenario: &Scenario) -> Vec<PriorityChange> {
    let change = |event: &Event| match &event.subject {
        Subject::Flow(FlowEvent { flow, change: FlowChange::Backup(links) }) => {
            let backup = links.iter().map(|&link| scenario.links[link].name.clone()).collect();
            Some(PriorityChange { at_s: event.at.as_secs_f64(), flow: *flow, backup })
        }
        _ => None,
    };
    scenario.events.iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        title = "Two ways"
        duration = "1 s"
        [link_defaults]
        rate = "10 Mbit/s"
        [[link]]
        name = "a-rather-long-name"
        between = ["A", "R"]
        mtu = 1400
        [[link]]
        between = ["R", "B"]
        [[link]]
        name = "direct"
        between = ["A", "B"]
        [[flow]]
        from = "A"
        to = "B"
        protocol = "mptcp"
        workload = { kind = "saturated" }
        [[event]]
        at = "0.5 s"
        link = "direct"
        direction = "reverse"
        set = { state = "down" }
    "#;

    #[test]
    fn proxy_listens_and_connects_to_the_receiver() {
        let text = TEXT.replace("to = \"B\"", "to = \"B\"\nthrough = \"P\"");
        let text = text.replace(
            "name = \"direct\"\n        between = [\"A\", \"B\"]",
            "name = \"direct\"\n        between = [\"A\", \"P\"]",
        );
        let text = text.replace("[[flow]]", "[[link]]\n        between = [\"R\", \"P\"]\n        [[flow]]");
        let layout = Layout::new(&anabranch_scenario::parse(&text, "test", &[]).unwrap()).unwrap();
        let names: Vec<_> = layout.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["A", "B", "P"]);
        let proxy = Proxy {
            flow: "A-B".to_owned(),
            host: "P".to_owned(),
            listen: "0.0.0.0:5001".to_owned(),
            to: "10.0.0.6:5001".to_owned(),
        };
        assert_eq!(layout.proxies, [proxy]);
        let flow = &layout.flows[0];
        assert_eq!(
            (flow.local.as_str(), flow.remote.as_str()),
            ("10.0.0.1", "10.0.0.14"),
            "the flow ends at the proxy"
        );
    }

    #[test]
    fn interfaces_of_a_host_have_different_names() {
        let text = TEXT
            .replace("name = \"direct\"", "name = \"link0\"")
            .replace("link = \"direct\"", "link = \"link0\"");
        let devices = |text: &str| {
            let layout = Layout::new(&anabranch_scenario::parse(text, "test", &[]).unwrap()).unwrap();
            layout.hosts[0].interfaces.iter().map(|interface| interface.device.clone()).collect::<Vec<_>>()
        };
        assert_eq!(devices(&text), ["link0", "link2"]);
        let text =
            text.replace("a-rather-long-name", "link2").replace("\"link0\"", "\"also-a-rather-long-name\"");
        assert_eq!(devices(&text), ["link0", "link2"]);
        assert_eq!(devices(&text.replace("\"link2\"", "\"linkage\"")), ["linkage", "link2"]);
    }

    #[test]
    fn hosts_have_addresses_and_routes_of_the_simulator() {
        let scenario = anabranch_scenario::parse(TEXT, "test", &[]).unwrap();
        let layout = Layout::new(&scenario).unwrap();
        let names: Vec<_> = layout.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["A", "B"]);
        let [router] = layout.routers.as_slice() else { panic!("one router") };
        assert_eq!((router.name.as_str(), router.interfaces.len()), ("R", 2));
        let to = |to: &str, interface| RouterRoute { to: to.to_owned(), interface };
        assert_eq!(router.routes, [to("10.0.0.1", 1), to("10.0.0.6", 2)]);
        let [first, direct] = layout.hosts[0].interfaces.as_slice() else { panic!("two interfaces") };
        assert_eq!((first.device.as_str(), first.address.as_str(), first.mtu), ("link0", "10.0.0.1", 1400));
        assert_eq!((direct.device.as_str(), direct.address.as_str()), ("direct", "10.0.0.9"));
        let routes: Vec<_> =
            first.routes.iter().map(|route| (route.to.as_str(), route.mtu, route.first)).collect();
        assert_eq!(routes, [("10.0.0.6", 1400, true)]);
        assert_eq!(direct.routes.iter().map(|route| route.to.as_str()).collect::<Vec<_>>(), ["10.0.0.10"]);
        assert_eq!(
            (layout.flows[0].local.as_str(), layout.flows[0].remote.as_str()),
            ("10.0.0.1", "10.0.0.6")
        );
        let elsewhere =
            TEXT.replace("protocol = \"mptcp\"", "protocol = \"mptcp\"\ninitial_path = \"direct\"");
        let flows = Layout::new(&anabranch_scenario::parse(&elsewhere, "test", &[]).unwrap()).unwrap().flows;
        assert_eq!((flows[0].local.as_str(), flows[0].remote.as_str()), ("10.0.0.9", "10.0.0.10"));
        let down = InterfaceChange { at_s: 0.5, host: 1, interface: 1, up: false, address: None };
        assert_eq!(layout.changes, [down]);
    }

    #[test]
    fn changes_have_new_addresses_and_backups() {
        let text =
            TEXT.replace("direction = \"reverse\"", "").replace("\"down\"", "\"up\", address = \"new\"");
        let event = "[[event]]\nat = \"0.6 s\"\nflow = \"A-B\"\nset = { backup = [\"direct\"] }";
        let scenario = anabranch_scenario::parse(&format!("{text}\n{event}"), "test", &[]).unwrap();
        let layout = Layout::new(&scenario).unwrap();
        let change = |host, address: &str| InterfaceChange {
            at_s: 0.5,
            host,
            interface: 1,
            up: true,
            address: Some(address.to_owned()),
        };
        assert_eq!(layout.changes, [change(0, "100.64.64.9"), change(1, "100.64.64.10")]);
        let backup = vec!["direct".to_owned()];
        assert_eq!(layout.priorities, [PriorityChange { at_s: 0.6, flow: 0, backup }]);
    }
}
