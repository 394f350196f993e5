//! Computes the rules, routes and endpoints of uplinks from the state of the machine.

use super::parts::{
    DEFAULT_PRIORITY, Endpoint, LAST_METRIC, MAIN, MAX_ENDPOINTS, METRIC, Parts, Route, Rule,
    SPECIFIC_PRIORITY, Way,
};
use super::routing::{Address, Link};
use super::view::View;
use crate::config::{Uplink, Usage};
use core::fmt;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

/// Where default routes of interfaces (by number, and whether of IPv4) have led, which may have gone with their link: not all who
/// put them there do so again when it is back.
pub type Remembered = BTreeMap<(u32, bool), Way>;

/// State of an uplink, or of one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no such interface.
    Missing,
    /// It has no address that reaches beyond it.
    NoAddress,
    /// It has no default route, and no gateway is named.
    NoGateway,
    /// Another uplink, of this name, has the same address.
    SameAddress(String),
    /// The interface is not set up.
    Down,
    /// It has no carrier.
    NoCarrier,
    /// Probes from it have no answer.
    Silent,
    /// Subflows may leave from it, by a way, and are for this.
    Used(Usage, Way),
    /// It has none while others are there.
    Waits,
    /// It is an endpoint of another program.
    Foreign(Way),
    /// There are as many endpoints as the kernel has room for.
    OneTooMany,
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
            Self::Used(Usage::Backup, way) => write!(f, "backup: used when the others are dead, {way}"),
            Self::Used(_, way) => write!(f, "used, {way}"),
            Self::Waits => f.write_str("standby: another uplink is in use"),
            Self::Foreign(way) => {
                write!(f, "used, {way}; its endpoint belongs to another program and stays unchanged")
            }
            Self::OneTooMany => {
                write!(f, "not used: the kernel has no room for more than {MAX_ENDPOINTS} endpoints")
            }
        }
    }
}

/// The state to be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Rules, routes and endpoints.
    pub parts: Parts,
    /// States of uplinks by name, or of those addresses whose state differs.
    pub states: BTreeMap<(String, Option<IpAddr>), State>,
    /// Addresses from which something may be sent, whether it gets through or not, and their interfaces.
    pub open: BTreeMap<IpAddr, String>,
}

/// An address by which something may be sent now.
#[derive(Clone, Debug)]
struct Ready {
    name: String,
    endpoint: Endpoint,
    usage: Usage,
    way: Way,
}

/// The plan for these uplinks, each with its present use. The first table is `table`. Probes from the addresses in `silent`
/// have no answer.
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
            if let Some(other) = sharing(uplinks, chosen, view).filter(|other| other.index != link.index) {
                plan.states.insert((name.clone(), Some(chosen)), State::SameAddress(other.name.clone()));
                continue;
            }
            let Some(way) = way(uplink, link, v4, view, remembered) else {
                plan.states.insert((name.clone(), Some(chosen)), State::NoGateway);
                continue;
            };
            for address in of_link(link, v4, view) {
                plan.add_rules(address.ip, table);
            }
            plan.add_routes(table, way, v4, link);
            let endpoint = Endpoint { address: chosen, link: link.index, backup: usage == Usage::Backup };
            if link.is_up() {
                plan.open.insert(chosen, name.clone());
            }
            match hindrance(link, silent.contains(&chosen) && !view.is_of_others(chosen)) {
                None => ready.push(Ready { name: name.clone(), endpoint, usage, way }),
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

/// The link that uses an address, which several uplinks may have: modems often have the same factory settings. Rules choose a
/// link by the source of packets, so only one can be used: the first that is up, by use and then by the order of the file.
fn sharing<'a>(uplinks: &[(&Uplink, Usage)], address: IpAddr, view: &'a View) -> Option<&'a Link> {
    let link_of = |(uplink, usage): &(&Uplink, Usage)| {
        let named = |link: &&Link| link.name == *uplink.interface.as_ref();
        let link = view.links.iter().find(named)?;
        (choose(link, address.is_ipv4(), view) == Some(address)).then_some((link, *usage))
    };
    let links = uplinks.iter().filter_map(link_of);
    links.min_by_key(|(link, usage)| (!link.is_up(), *usage)).map(|(link, _)| link)
}

/// Why nothing is to be sent over a link that has an address and a gateway.
fn hindrance(link: &Link, silent: bool) -> Option<State> {
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
    /// Packets from this source use specific routes of the main table, and otherwise the uplink's own default route.
    fn add_rules(&mut self, from: IpAddr, table: u32) {
        self.parts.rules.insert(Rule { from, priority: SPECIFIC_PRIORITY, table: MAIN, specific: true });
        self.parts.rules.insert(Rule { from, priority: DEFAULT_PRIORITY, table, specific: false });
    }

    /// Without this uplink's default route, its packets must not leave by another uplink, where their source is unknown. The
    /// sender gets an error at once and can use another address.
    fn add_routes(&mut self, table: u32, way: Way, v4: bool, link: &Link) {
        self.parts.routes.insert(Route { v4, table, way: Way::Unreachable, metric: LAST_METRIC });
        if link.is_up() {
            self.parts.routes.insert(Route { v4, table, way, metric: METRIC });
        }
    }

    /// Of those that are ready in a family.
    fn add_endpoints(&mut self, ready: &[&Ready], view: &View) {
        let others = || view.endpoints.iter().filter(|known| !view.is_own(known));
        let first = ready.iter().map(|ready| ready.usage).min();
        let mut standing_by = 0;
        for Ready { name, endpoint, usage, way } in ready.iter().copied() {
            standing_by += usize::from(*usage == Usage::Standby);
            let waits = *usage == Usage::Standby && (first != Some(Usage::Standby) || standing_by > 1);
            let state = if view.is_of_others(endpoint.address) {
                State::Foreign(*way)
            } else if waits {
                State::Waits
            } else if self.parts.endpoints.len() + others().count() >= MAX_ENDPOINTS {
                State::OneTooMany
            } else {
                self.parts.endpoints.insert(*endpoint);
                State::Used(*usage, *way)
            };
            self.states.insert((name.clone(), Some(endpoint.address)), state);
        }
    }

    /// With none left in a family, those of which the addresses are still there stay: removing an endpoint closes its subflows,
    /// and a connection without any is given up after a minute (`net.mptcp.close_timeout`), where TCP waits for a quarter of an hour.
    fn keep_endpoints(&mut self, v4: bool, view: &View) {
        let there = |endpoint: &&Endpoint| {
            let has = |rule: &Rule| rule.from == endpoint.address;
            endpoint.address.is_ipv4() == v4 && self.parts.rules.iter().any(has)
        };
        let kept: Vec<_> = view.own.endpoints.iter().filter(there).copied().collect();
        self.parts.endpoints.extend(kept);
    }
}

/// The default route of an interface: from the file, from the main table, or as it was before the link went down.
fn way(uplink: &Uplink, link: &Link, v4: bool, view: &View, remembered: &Remembered) -> Option<Way> {
    let by = |via| Way::By { link: link.index, via };
    let named = uplink.gateway.as_ref().map(|gateway| *gateway.as_ref());
    named
        .filter(|gateway| gateway.is_ipv4() == v4)
        .map(|gateway| by(Some(gateway)))
        .or_else(|| view.gateway(link.index, v4).map(|found| found.way))
        .or_else(|| remembered.get(&(link.index, v4)).copied())
        .or_else(|| link.is_point_to_point().then(|| by(None)))
}

fn of_link<'a>(link: &Link, v4: bool, view: &'a View) -> impl Iterator<Item = &'a Address> {
    let index = link.index;
    view.addresses
        .iter()
        .filter(move |address| address.link == index && address.ip.is_ipv4() == v4 && address.is_global())
}

/// The source address that the kernel would choose, so that a first subflow has an endpoint and no link has two subflows: the
/// source of the default route, then an address that is not deprecated, and for IPv6 a temporary one if the interface prefers
/// these (`use_tempaddr`).
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

/// Notes default routes, and forgets those that were removed while their link was up.
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
                remembered.insert((link.index, v4), found.way);
            }
        }
    }
}

#[cfg(test)]
mod tests;
