//! Computes the rules, routes and endpoints that uplinks need in the current state of the machine.

use super::parts::{
    DEFAULT_PRIORITY, Endpoint, LAST_METRIC, MAIN, MAX_ENDPOINTS, METRIC, NextHop, Parts, Route, Rule,
    SPECIFIC_PRIORITY,
};
use super::routing::{Address, Link};
use super::view::View;
use crate::config::{Uplink, Usage};
use core::fmt;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

/// Next hops of earlier default routes, by interface number and family (true for IPv4). The kernel removes a default
/// route when its link goes down, and some programs do not add it again when the link comes up.
pub type Remembered = BTreeMap<(u32, bool), NextHop>;

/// State of an uplink, or of one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The interface does not exist.
    Missing,
    /// The interface has no global address.
    NoAddress,
    /// The main table has no default route, and the file contains no gateway.
    NoGateway,
    /// Another uplink, with this name, has the same address and is used.
    SameAddress(String),
    /// The interface is down.
    Down,
    /// The interface has no carrier.
    NoCarrier,
    /// Probes from the address have no answer.
    Silent,
    /// Subflows are opened from the address, with this role and next hop.
    Used(Usage, NextHop),
    /// The uplink stands by: it has no subflows while another uplink works.
    StandsBy,
    /// The address is an endpoint of another program, which this program does not change.
    Foreign(NextHop),
    /// The kernel's limit of endpoints is reached.
    LimitReached,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("waiting for the interface, which does not exist"),
            Self::NoAddress => f.write_str("not used: no global address"),
            Self::NoGateway => f.write_str(
                "not used: no default route; set gateway in [[uplink]], or have DHCP set the route",
            ),
            Self::SameAddress(other) => write!(
                f,
                "not used: {other} has the same address; give one of the two modems another network, such as 192.168.9.0/24, on its \
                 settings page, and connect it again"
            ),
            Self::Down => f.write_str("not used: the interface is down"),
            Self::NoCarrier => f.write_str("not used: no carrier"),
            Self::Silent => f.write_str("standby: probe targets do not answer over this uplink"),
            Self::Used(Usage::Backup, next_hop) => write!(f, "backup, {next_hop}"),
            Self::Used(_, next_hop) => write!(f, "used, {next_hop}"),
            Self::StandsBy => f.write_str("standby: another uplink is in use"),
            Self::Foreign(next_hop) => {
                write!(f, "used, {next_hop}; the endpoint belongs to another program and is not changed")
            }
            Self::LimitReached => {
                write!(f, "not used: the kernel permits at most {MAX_ENDPOINTS} endpoints")
            }
        }
    }
}

/// Planned state of rules, routes and endpoints, and the resulting state of each uplink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Rules, routes and endpoints.
    pub parts: Parts,
    /// State of each uplink by name. An entry with an address is the state of this address of the uplink.
    pub states: BTreeMap<(String, Option<IpAddr>), State>,
    /// Addresses from which packets can be sent, each with its interface. Probes are sent from all of them, including
    /// those from which earlier probes had no answer.
    pub open: BTreeMap<IpAddr, String>,
}

/// An address of an uplink from which subflows may be opened.
#[derive(Clone, Debug)]
struct Ready {
    name: String,
    endpoint: Endpoint,
    usage: Usage,
    next_hop: NextHop,
}

/// Computes the plan for uplinks and their current roles. `table` is the first routing table. `silent` contains the
/// addresses from which probes have no answer.
pub fn plan(
    uplinks: &[(&Uplink, Usage)],
    table: u32,
    view: &View,
    remembered: &Remembered,
    silent: &BTreeSet<IpAddr>,
) -> Plan {
    let mut plan = Plan::default();
    let mut ready = Vec::new();
    for (&(uplink, usage), table) in uplinks.iter().zip(table + 1..) {
        let name = uplink.interface.as_ref();
        let Some(link) = view.links.iter().find(|link| link.name == *name && !link.is_loopback()) else {
            plan.states.insert((name.clone(), None), State::Missing);
            continue;
        };
        if !view.addresses.iter().any(|address| address.link == link.index && address.is_global()) {
            let state = if link.is_set_up() { State::NoAddress } else { State::Down };
            plan.states.insert((name.clone(), None), state);
        }
        for v4 in [true, false] {
            let Some(chosen) = choose(link, v4, view) else { continue };
            if let Some(other) =
                link_with_address(uplinks, chosen, view).filter(|other| other.index != link.index)
            {
                plan.states.insert((name.clone(), Some(chosen)), State::SameAddress(other.name.clone()));
                continue;
            }
            let Some(next_hop) = next_hop(uplink, link, v4, view, remembered) else {
                plan.states.insert((name.clone(), Some(chosen)), State::NoGateway);
                continue;
            };
            for address in of_link(link, v4, view) {
                plan.add_rules(address.ip, table);
            }
            plan.add_routes(table, next_hop, v4, link);
            let endpoint = Endpoint { address: chosen, link: link.index, backup: usage == Usage::Backup };
            if link.is_up() {
                plan.open.insert(chosen, name.clone());
            }
            match unusable_reason(link, silent.contains(&chosen) && !view.is_of_others(chosen)) {
                None => ready.push(Ready { name: name.clone(), endpoint, usage, next_hop }),
                Some(state) => drop(plan.states.insert((name.clone(), Some(chosen)), state)),
            }
        }
    }
    for v4 in [true, false] {
        let of_family: Vec<_> = ready.iter().filter(|ready| ready.endpoint.address.is_ipv4() == v4).collect();
        plan.add_endpoints(&of_family, view);
        if of_family.is_empty() {
            plan.keep_endpoints(v4, view);
        }
    }
    plan
}

/// Returns the link that uses an address. Several uplinks may have the same address, because modems often have the same
/// factory settings. The rules select a link by the source address of packets, so only one of these links can be used:
/// the first that is up, by role and then by the order in the file.
fn link_with_address<'a>(uplinks: &[(&Uplink, Usage)], address: IpAddr, view: &'a View) -> Option<&'a Link> {
    let link_of = |(uplink, usage): &(&Uplink, Usage)| {
        let named = |link: &&Link| link.name == *uplink.interface.as_ref();
        let link = view.links.iter().find(named)?;
        (choose(link, address.is_ipv4(), view) == Some(address)).then_some((link, *usage))
    };
    let links = uplinks.iter().filter_map(link_of);
    links.min_by_key(|(link, usage)| (!link.is_up(), *usage)).map(|(link, _)| link)
}

/// Returns the reason why a link with an address and a gateway cannot be used; `None` if it can be used.
fn unusable_reason(link: &Link, silent: bool) -> Option<State> {
    if !link.is_set_up() {
        Some(State::Down)
    } else if !link.is_up() {
        Some(State::NoCarrier)
    } else if silent {
        Some(State::Silent)
    } else {
        None
    }
}

impl Plan {
    /// Adds the rules for packets from the address `from`: they use specific routes of the main table, or else the
    /// uplink's default route in `table`.
    fn add_rules(&mut self, from: IpAddr, table: u32) {
        self.parts.rules.insert(Rule { from, priority: SPECIFIC_PRIORITY, table: MAIN, specific: true });
        self.parts.rules.insert(Rule { from, priority: DEFAULT_PRIORITY, table, specific: false });
    }

    /// Adds the default route of an uplink, and an unreachable route for the time when it is missing. Without the
    /// unreachable route, packets would be sent over another uplink, whose network drops packets with this source
    /// address. The unreachable route makes the sender get an error immediately, so it can use another address.
    fn add_routes(&mut self, table: u32, next_hop: NextHop, v4: bool, link: &Link) {
        self.parts.routes.insert(Route { v4, table, next_hop: NextHop::Unreachable, metric: LAST_METRIC });
        if link.is_up() {
            self.parts.routes.insert(Route { v4, table, next_hop, metric: METRIC });
        }
    }

    /// Adds endpoints for the usable addresses of one family.
    fn add_endpoints(&mut self, ready: &[&Ready], view: &View) {
        let others = || view.endpoints.iter().filter(|known| !view.is_of_program(known));
        let first = ready.iter().map(|ready| ready.usage).min();
        let mut standing_by = 0;
        for Ready { name, endpoint, usage, next_hop } in ready.iter().copied() {
            standing_by += usize::from(*usage == Usage::Standby);
            let stands_by = *usage == Usage::Standby && (first != Some(Usage::Standby) || standing_by > 1);
            let state = if view.is_of_others(endpoint.address) {
                State::Foreign(*next_hop)
            } else if stands_by {
                State::StandsBy
            } else if self.parts.endpoints.len() + others().count() >= MAX_ENDPOINTS {
                State::LimitReached
            } else {
                self.parts.endpoints.insert(*endpoint);
                State::Used(*usage, *next_hop)
            };
            self.states.insert((name.clone(), Some(endpoint.address)), state);
        }
    }

    /// Keeps endpoints whose addresses still exist, for the case that no address of a family is usable. Removing an
    /// endpoint closes its subflows; the kernel aborts a connection without subflows after a minute
    /// (`net.mptcp.close_timeout`), while TCP waits for a quarter of an hour.
    fn keep_endpoints(&mut self, v4: bool, view: &View) {
        let still_has_rule = |endpoint: &&Endpoint| {
            let has = |rule: &Rule| rule.from == endpoint.address;
            endpoint.address.is_ipv4() == v4 && self.parts.rules.iter().any(has)
        };
        let kept: Vec<_> = view.installed.endpoints.iter().filter(still_has_rule).copied().collect();
        self.parts.endpoints.extend(kept);
    }
}

/// Returns the next hop of an interface: from the file, else from the main table, else the one before the
/// link went down.
fn next_hop(uplink: &Uplink, link: &Link, v4: bool, view: &View, remembered: &Remembered) -> Option<NextHop> {
    let by = |via| NextHop::Interface { link: link.index, via };
    let named = uplink.gateway.as_ref().map(|gateway| *gateway.as_ref());
    named
        .filter(|gateway| gateway.is_ipv4() == v4)
        .map(|gateway| by(Some(gateway)))
        .or_else(|| view.gateway(link.index, v4).map(|found| found.next_hop))
        .or_else(|| remembered.get(&(link.index, v4)).copied())
        .or_else(|| link.is_point_to_point().then(|| by(None)))
}

fn of_link<'a>(link: &Link, v4: bool, view: &'a View) -> impl Iterator<Item = &'a Address> {
    let index = link.index;
    view.addresses
        .iter()
        .filter(move |address| address.link == index && address.ip.is_ipv4() == v4 && address.is_global())
}

/// Returns the source address that the kernel would select on a link. With this choice, the first subflow has an
/// endpoint, and no link has two subflows. The order is: the source of the default route, addresses that are not
/// deprecated, and for IPv6 temporary addresses if the interface prefers them (`use_tempaddr`).
pub fn choose(link: &Link, v4: bool, view: &View) -> Option<IpAddr> {
    let source = view.gateway(link.index, v4).and_then(|found| found.source);
    let rank = |address: &&Address| {
        let has = |flag| address.flags & flag != 0;
        let temporary = has(Address::SECONDARY);
        (
            source.is_some_and(|source| source != address.ip),
            has(Address::DEPRECATED),
            temporary != (!v4 && link.prefers_temporary),
        )
    };
    of_link(link, v4, view).min_by_key(rank).map(|address| address.ip)
}

/// Stores the current default routes. Deletes those that were removed while their link was up.
pub fn remember(remembered: &mut Remembered, before: &View, now: &View) {
    let has_addresses = |link: u32, v4: bool| {
        now.addresses
            .iter()
            .any(|address| address.link == link && address.ip.is_ipv4() == v4 && address.is_global())
    };
    let stays = |view: &View, link: u32| view.links.iter().any(|other| other.index == link && other.is_up());
    remembered.retain(|&(link, v4), _| {
        let removed = before.gateway(link, v4).is_some() && now.gateway(link, v4).is_none();
        has_addresses(link, v4) && !(removed && stays(before, link) && stays(now, link))
    });
    for link in &now.links {
        for v4 in [true, false] {
            if let Some(found) = now.gateway(link.index, v4).filter(|_| has_addresses(link.index, v4)) {
                remembered.insert((link.index, v4), found.next_hop);
            }
        }
    }
}

#[cfg(test)]
mod tests;
