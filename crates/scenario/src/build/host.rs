//! Settings and routing tables of hosts.

use super::flow::{Placed, placed_of};
use super::gateways;
use super::{Element, LinkIndex, Names, find_link};
use crate::check::{self, Context};
use crate::error::{Fault, Origin, quoted};
use crate::model::{Host, HostCost, Link, Protocol, Route, Scenario};
use crate::suggest::remedy;
use crate::table::HOST;
use crate::values::{Checked, Value, Values};
use anabranch_base::time::Duration;
use anabranch_netem::network::BuildError;
use std::collections::BTreeSet;

/// All tables, in file order.
pub(super) fn hosts(elements: &[Element<'_>], links: &[Link], flows: &[Placed]) -> Result<Vec<Host>, Fault> {
    let around = Surroundings { links, index: LinkIndex::of(links), flows };
    let mut names = Names::of("host");
    let host = |(number, element): (usize, &Element<'_>)| {
        let owner = format!("[[host]] number {}", number + 1);
        let context = Context { owner: &owner, protocol: None, complete: true };
        let values = check::section(element.table, element.origin, &HOST, context)?;
        let name = values.get("name");
        let (policy_routing, mptcp) = (values.flag("policy_routing"), values.flag("mptcp"));
        let (default, routes) = (values.find("default_route"), values.get("routes"));
        if default.is_some() || !routes.value.list().is_empty() || !policy_routing {
            around.check_use(name, &owner, policy_routing)?;
        } else {
            around.check_host(name, &owner)?;
        }
        names.add(name.value.text(), Some(name.origin), element.origin)?;
        let name = name.value.text().to_owned();
        let cost = values.find("cost").and_then(|entry| cost(entry.value.table()));
        let gateways = gateways::of_host(&name, values.get("gateways"), (links, flows))?;
        let mut host =
            Host { name, default_route: None, routes: Vec::new(), policy_routing, mptcp, gateways, cost };
        if let Some(default) = default {
            let named = (default.value.text(), default.origin);
            host.default_route = Some(around.own(&host, named, "default_route")?);
        } else if !policy_routing {
            let message = format!(
                "policy_routing of host {} is false, and its main table has no default_route; add default_route = \
                 \"name of a link\"",
                quoted(&host.name)
            );
            return Err(Fault::new(values.get("policy_routing").origin, message));
        }
        for pair in routes.value.list() {
            let route = around.route(&host, pair, routes.origin)?;
            host.routes.push(route);
        }
        Ok(host)
    };
    elements.iter().enumerate().map(host).collect()
}

/// The cost of packets; `None` if they take no time.
fn cost(values: &Values) -> Option<HostCost> {
    let [packet, byte, gap] = ["packet", "byte", "gap"].map(|key| values.time(key));
    let takes_time = [packet, byte, gap].iter().any(|time| *time > Duration::ZERO);
    takes_time.then(|| HostCost { packet, byte, gap, backlog: values.integer("backlog") })
}

/// Checks that routes connect the hosts of each connection, where all packets of a host leave by its main
/// table.
pub(super) fn check_reach(scenario: &Scenario, flows: &[Placed]) -> Result<(), Fault> {
    if scenario.hosts.iter().all(|host| host.policy_routing) {
        return Ok(());
    }
    let apart = |placed: &Placed, [from, to]: [&str; 2]| {
        let tables: Vec<_> = scenario
            .hosts
            .iter()
            .filter(|host| !host.policy_routing && [from, to].contains(&&*host.name))
            .collect();
        let owners: Vec<_> = tables.iter().map(|host| quoted(&host.name)).collect();
        let message = format!(
            "flow {}: no route connects {} with {} in both directions, since all packets of {} leave by its \
             [[host]] table; extend its routes, name another default_route, or set policy_routing = true",
            quoted(&placed.flow.name),
            quoted(from),
            quoted(to),
            owners.join(" or "),
        );
        Fault::new(placed.origin_of("initial_path"), message)
    };
    let connections = scenario.connections();
    let mut network = match scenario.network() {
        Ok(network) => network,
        Err(BuildError::Unreachable { flow, .. }) => {
            return Err(apart(placed_of(scenario, flows, flow), connections[flow]));
        }
        Err(error) => return Err(Fault::new(Origin::Nowhere, error.to_string())),
    };
    for (index, placed) in flows.iter().enumerate() {
        let mut pairs = network.connected_pairs(index);
        if !pairs.any(|pair| placed.flow.begins_at(pair)) {
            return Err(apart(placed, connections[index]));
        }
    }
    Ok(())
}

/// Objects to which routing tables refer.
struct Surroundings<'a> {
    links: &'a [Link],
    index: LinkIndex,
    flows: &'a [Placed],
}

impl Surroundings<'_> {
    /// The hosts to which a host sends packets.
    fn peers<'b>(&'b self, host: &'b str) -> impl Iterator<Item = &'b str> {
        let connections = self.flows.iter().flat_map(|Placed { flow, .. }| {
            let onward = flow.through.as_ref().map(|proxy| [proxy, &flow.to].map(String::as_str));
            [Some([flow.from.as_str(), flow.meets()]), onward].into_iter().flatten()
        });
        connections.filter_map(move |[from, to]| match host {
            _ if host == from => Some(to),
            _ if host == to => Some(from),
            _ => None,
        })
    }

    /// Checks that the host needs its table: it sends, or opens connections whose protocol uses it.
    fn check_use(&self, name: &Checked, owner: &str, policy_routing: bool) -> Result<(), Fault> {
        if !policy_routing && self.peers(name.value.text()).next().is_some() {
            return Ok(());
        }
        let own: Vec<_> = self.flows.iter().filter(|placed| placed.flow.from == name.value.text()).collect();
        if own.is_empty() {
            return Err(self.not_a_host(name, owner, policy_routing));
        }
        let sctp = |placed: &&&Placed| matches!(placed.flow.protocol, Protocol::Sctp(_));
        own.iter().find(sctp).map_or(Ok(()), |placed| {
            let message = format!(
                "{owner}: flow {} is {}, whose associations choose their addresses themselves; remove the \
                 table, or give the flow another protocol",
                quoted(&placed.flow.name),
                placed.flow.protocol.name()
            );
            Err(Fault::new(name.origin, message))
        })
    }

    /// Checks that a flow begins or ends at the host.
    fn check_host(&self, name: &Checked, owner: &str) -> Result<(), Fault> {
        if self.peers(name.value.text()).next().is_some() {
            return Ok(());
        }
        Err(self.not_a_host(name, owner, false))
    }

    /// The error for a host without flows, or without flows that it connects.
    fn not_a_host(&self, name: &Checked, owner: &str, connects: bool) -> Fault {
        let ends = |Placed { flow, .. }: &'_ Placed| {
            let others = [Some(&flow.to), flow.through.as_ref()].into_iter().flatten();
            let hosts = [&flow.from].into_iter().chain(others.filter(|_| !connects));
            hosts.cloned().collect::<Vec<_>>()
        };
        let hosts: BTreeSet<_> = self.flows.iter().flat_map(ends).collect();
        let hosts: Vec<_> = hosts.iter().map(String::as_str).collect();
        let (does, which) =
            if connects { ("begins", "hosts that connect") } else { ("begins or ends", "hosts of flows") };
        let remedy = remedy(name.value.text(), &hosts, which);
        let message =
            format!("name of {owner} is {}, where no flow {does}; {remedy}", quoted(name.value.text()));
        Fault::new(name.origin, message)
    }

    fn link(&self, host: &Host, (name, origin): (&str, Origin), key: &str) -> Result<usize, Fault> {
        find_link(self.links, &self.index, name)
            .map_err(|problem| Fault::new(origin, format!("{key} of host {}: {problem}", quoted(&host.name))))
    }

    /// A link of the host itself.
    fn own(&self, host: &Host, named: (&str, Origin), key: &str) -> Result<usize, Fault> {
        let link = self.link(host, named, key)?;
        if self.links[link].between.contains(&host.name) {
            return Ok(link);
        }
        let (owner, shown) = (quoted(&host.name), quoted(named.0));
        let message = format!(
            "{key} of host {owner} is {shown}, which is not a link of {owner}; name one of its links"
        );
        Err(Fault::new(named.1, message))
    }

    /// A route to an address to which a flow of the host may send.
    fn route(&self, host: &Host, pair: &Value, origin: Origin) -> Result<Route, Fault> {
        let [to, by] = pair.list() else { unreachable!("the table of keys requires two") };
        let (shown, owner) = (quoted(to.text()), quoted(&host.name));
        let by = self.own(host, (by.text(), origin), "routes")?;
        let to = self.link(host, (to.text(), origin), "routes")?;
        if !self.peers(&host.name).any(|peer| self.links[to].between.iter().any(|node| node == peer)) {
            let message = format!(
                "routes of host {owner} lead to {shown}, where no flow of {owner} has its other end; name a \
                 link of a host at the other end of such a flow"
            );
            return Err(Fault::new(origin, message));
        }
        if host.routes.iter().any(|route| route.to == to) {
            let message = format!("routes of host {owner} contain {shown} twice; keep one of them");
            return Err(Fault::new(origin, message));
        }
        Ok(Route { to, by })
    }
}
