//! Reads and changes interfaces, addresses, routes and rules over `rtnetlink(7)`. The numbers are from
//! `linux/rtnetlink.h`, `linux/if_link.h`, `linux/if_addr.h` and `linux/fib_rules.h`.

use super::netlink::{Attributes, Message, Socket};
use super::parts::{NextHop, PROTOCOL, Route, Rule};
use core::net::IpAddr;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use std::io;

/// Multicast groups with notifications about links, and about addresses, routes and rules of IPv4 and IPv6.
pub const GROUPS: u32 = 1 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 18;

/// Multicast group of nftables (`NFNLGRP_NFTABLES`) in the protocol `NETLINK_NETFILTER`.
pub const NFTABLES_GROUP: u32 = 1 << 6;

const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
const NEW_RULE: u16 = 32;
const DELETE_RULE: u16 = 33;
const GET_RULE: u16 = 34;

/// Lengths of `struct ifinfomsg`, `ifaddrmsg`, `rtmsg` and `fib_rule_hdr`.
const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const ROUTE_HEADER: usize = 12;
const RULE_HEADER: usize = 12;

/// `AF_INET`.
const INET: u8 = 2;
/// `AF_INET6`.
const INET6: u8 = 10;

/// Returns the kernel's number of the address family.
const fn family(v4: bool) -> u8 {
    if v4 { INET } else { INET6 }
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Number of the interface. An interface that is created again has another number.
    pub index: u32,
    /// Name of the interface. It may change.
    pub name: String,
    /// Flags `IFF_*`.
    flags: u32,
    /// Number of received and sent bytes.
    pub carried: u64,
    /// True if the interface prefers temporary IPv6 addresses (`use_tempaddr`, RFC 8981 §3.1).
    pub prefers_temporary: bool,
}

impl Link {
    /// `IFF_UP`.
    const UP: u32 = 1;
    /// `IFF_LOOPBACK`.
    const LOOPBACK: u32 = 1 << 3;
    /// `IFF_POINTOPOINT`.
    const POINT_TO_POINT: u32 = 1 << 4;
    /// `IFF_RUNNING`.
    const RUNNING: u32 = 1 << 6;

    /// True if the interface is up and has a carrier (operational state `up` or `unknown`, RFC 2863). This is
    /// `IFF_RUNNING`, not `IFF_LOWER_UP`: the kernel sets the former up to a second after the carrier is there, and
    /// drops packets until then.
    pub const fn is_up(&self) -> bool {
        let all = Self::UP | Self::RUNNING;
        self.flags & all == all
    }

    /// True if the interface is administratively up.
    pub const fn is_set_up(&self) -> bool {
        self.flags & Self::UP != 0
    }

    /// True for point-to-point links (PPP, tunnels), which need no gateway.
    pub const fn is_point_to_point(&self) -> bool {
        self.flags & Self::POINT_TO_POINT != 0
    }

    /// True for the loopback interface.
    pub const fn is_loopback(&self) -> bool {
        self.flags & Self::LOOPBACK != 0
    }

    /// Creates an interface for tests that is up; `up` is true if it also has a carrier.
    #[cfg(test)]
    pub fn test(index: u32, name: &str, up: bool, point_to_point: bool) -> Self {
        let up = if up { Self::UP | Self::RUNNING } else { Self::UP };
        let flags = up | if point_to_point { Self::POINT_TO_POINT } else { 0 };
        Self { index, name: name.to_owned(), flags, carried: 0, prefers_temporary: false }
    }
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Number of the interface.
    pub link: u32,
    /// The address.
    pub ip: IpAddr,
    /// Flags `IFA_F_*`.
    pub flags: u32,
    /// Scope `RT_SCOPE_*`.
    pub scope: u8,
}

impl Address {
    /// `IFA_F_SECONDARY`: for IPv4, an address that is not the first of its network; for IPv6, a temporary address (RFC
    /// 8981).
    pub const SECONDARY: u32 = 1;
    /// `IFA_F_OPTIMISTIC`: usable although the detection of duplicates has not ended.
    const OPTIMISTIC: u32 = 4;
    /// `IFA_F_DADFAILED`: another host uses the address.
    const DUPLICATE: u32 = 8;
    /// `IFA_F_DEPRECATED`: not to be used for new connections.
    pub const DEPRECATED: u32 = 0x20;
    /// `IFA_F_TENTATIVE`: not usable, because the detection of duplicates has not ended.
    const TENTATIVE: u32 = 0x40;
    /// `RT_SCOPE_LINK`.
    const LINK: u8 = 253;

    /// True if the address is valid beyond its link and may be used: no duplicate was found, and the address is not
    /// tentative.
    pub fn is_global(&self) -> bool {
        let local = match self.ip {
            IpAddr::V4(v4) => v4.is_link_local() || v4.is_loopback(),
            IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_loopback(),
        };
        let tentative = self.flags & (Self::TENTATIVE | Self::OPTIMISTIC) == Self::TENTATIVE;
        self.scope < Self::LINK && !local && !tentative && self.flags & Self::DUPLICATE == 0
    }
}

/// A default route in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// True for IPv4, false for IPv6.
    pub v4: bool,
    /// Routing table.
    pub table: u32,
    /// Next hop.
    pub next_hop: NextHop,
    /// Metric; the route with the lowest value is used.
    pub metric: u32,
    /// Preferred source address, if the route has one.
    pub source: Option<IpAddr>,
    /// Origin of the route (`RTPROT_*`).
    pub protocol: u8,
}

/// Lists all interfaces.
///
/// # Errors
/// If the kernel's answer is unexpected.
pub fn links(socket: &mut Socket) -> io::Result<Vec<Link>> {
    let found = socket.list(&Message::new(GET_LINK, &[0; LINK_HEADER]))?;
    found.iter().map(parse_link).collect()
}

fn parse_link(message: &Message) -> io::Result<Link> {
    /// `IFLA_IFNAME`.
    const NAME: u16 = 3;
    /// `IFLA_STATS64`.
    const STATISTICS: u16 = 23;
    let header: [u8; LINK_HEADER] = message.header()?;
    let word = |at: usize| u32::from_ne_bytes(core::array::from_fn(|byte| header[at + byte]));
    let attributes = message.attributes(LINK_HEADER)?;
    let name = attributes.get(NAME).unwrap_or_default();
    let name = name.strip_suffix(&[0]).unwrap_or(name);
    // The first fields of `struct rtnl_link_stats64` are packets received and sent, then bytes received and sent.
    let statistics = attributes.get(STATISTICS).unwrap_or_default();
    let bytes = |at: usize| {
        let number = statistics.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        number.map_or(0, u64::from_ne_bytes)
    };
    let name = String::from_utf8_lossy(name).into_owned();
    let preference = std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/use_tempaddr"));
    Ok(Link {
        index: word(4),
        prefers_temporary: preference.is_ok_and(|value| value.trim() == "2"),
        name,
        flags: word(8),
        carried: bytes(16).wrapping_add(bytes(24)),
    })
}

/// Lists all addresses.
///
/// # Errors
/// If the kernel's answer is unexpected.
pub fn addresses(socket: &mut Socket) -> io::Result<Vec<Address>> {
    /// `IFA_ADDRESS`.
    const ADDRESS: u16 = 1;
    /// `IFA_LOCAL`.
    const LOCAL: u16 = 2;
    /// `IFA_FLAGS`.
    const FLAGS: u16 = 8;
    let mut addresses = Vec::new();
    for message in socket.list(&Message::new(GET_ADDRESS, &[0; ADDRESS_HEADER]))? {
        let [_, _, flags, scope, a, b, c, d]: [u8; ADDRESS_HEADER] = message.header()?;
        let attributes = message.attributes(ADDRESS_HEADER)?;
        // On a point-to-point link, `ADDRESS` contains the peer's address, so `LOCAL` is preferred.
        let Some(ip) = attributes.ip(LOCAL).or_else(|| attributes.ip(ADDRESS)) else { continue };
        let flags = attributes.u32(FLAGS).unwrap_or(flags.into());
        addresses.push(Address { link: u32::from_ne_bytes([a, b, c, d]), ip, flags, scope });
    }
    Ok(addresses)
}

/// Lists all default routes.
///
/// # Errors
/// If the kernel's answer is unexpected.
pub fn defaults(socket: &mut Socket) -> io::Result<Vec<DefaultRoute>> {
    let mut defaults = Vec::new();
    for message in socket.list(&Message::new(GET_ROUTE, &[0; ROUTE_HEADER]))? {
        defaults.extend(parse_default_routes(&message)?);
    }
    Ok(defaults)
}

const KIND_UNICAST: u8 = 1;
const KIND_UNREACHABLE: u8 = 7;
const KIND_THROW: u8 = 9;
/// `RTA_OIF`.
const OUTPUT: u16 = 4;
/// `RTA_GATEWAY`.
const GATEWAY: u16 = 5;
/// `RTA_PRIORITY`.
const PRIORITY: u16 = 6;
/// `RTA_PREFSRC`.
const SOURCE: u16 = 7;
/// `RTA_MULTIPATH`.
const HOPS: u16 = 9;
/// `RTA_TABLE`.
const TABLE: u16 = 15;
/// `RTA_VIA`.
const VIA: u16 = 18;

/// Parses a default route; returns one entry per next hop, or none for other routes.
fn parse_default_routes(message: &Message) -> io::Result<Vec<DefaultRoute>> {
    let [of, destination, source, _, table, protocol, _, kind, ..]: [u8; ROUTE_HEADER] = message.header()?;
    if destination != 0 || source != 0 || ![INET, INET6].contains(&of) {
        return Ok(Vec::new());
    }
    let attributes = message.attributes(ROUTE_HEADER)?;
    let next_hops = match kind {
        KIND_UNICAST => match attributes.get(HOPS) {
            Some(hops) => parse_next_hops(hops)?,
            None => attributes
                .u32(OUTPUT)
                .map(|link| NextHop::Interface { link, via: via(&attributes) })
                .into_iter()
                .collect(),
        },
        KIND_UNREACHABLE => vec![NextHop::Unreachable],
        KIND_THROW => vec![NextHop::Throw],
        _ => Vec::new(),
    };
    let default_route_with = |next_hop| DefaultRoute {
        v4: of == INET,
        table: attributes.u32(TABLE).unwrap_or(table.into()),
        next_hop,
        metric: attributes.u32(PRIORITY).unwrap_or(0),
        source: attributes.ip(SOURCE),
        protocol,
    };
    Ok(next_hops.into_iter().map(default_route_with).collect())
}

/// Returns the gateway of a route. An IPv4 route may have an IPv6 gateway (RFC 8950).
fn via(attributes: &Attributes<'_>) -> Option<IpAddr> {
    let other = || {
        let address = attributes.get(VIA)?.get(2..)?;
        Some(IpAddr::from(<[u8; 16]>::try_from(address).ok()?))
    };
    attributes.ip(GATEWAY).or_else(other)
}

/// Parses the next hops of a multipath route (`struct rtnexthop`).
fn parse_next_hops(mut hops: &[u8]) -> io::Result<Vec<NextHop>> {
    let mut next_hops = Vec::new();
    while let Some(&[a, b, _, _, i, j, k, l]) = hops.first_chunk::<8>() {
        let len = usize::from(u16::from_ne_bytes([a, b])).max(8);
        let attributes = Attributes::parse(hops.get(8..len).unwrap_or_default())?;
        next_hops.push(NextHop::Interface { link: u32::from_ne_bytes([i, j, k, l]), via: via(&attributes) });
        hops = hops.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(next_hops)
}

/// Lists all rules: the rule, its routing table and its protocol number. The first is `None` for a rule that does not
/// select by source address.
///
/// # Errors
///
/// If the kernel's answer is unexpected.
pub fn rules(socket: &mut Socket) -> io::Result<Vec<(Option<Rule>, u32, u8)>> {
    let mut rules = Vec::new();
    for message in socket.list(&Message::new(GET_RULE, &[0; RULE_HEADER]))? {
        let [_, _, _, _, table, ..]: [u8; RULE_HEADER] = message.header()?;
        let attributes = message.attributes(RULE_HEADER)?;
        let table = attributes.u32(RULE_TABLE).unwrap_or(table.into());
        let of = attributes.get(RULE_PROTOCOL).and_then(<[u8]>::first).copied().unwrap_or_default();
        let rule = attributes.ip(RULE_SOURCE).map(|from| Rule {
            from,
            priority: attributes.u32(PRIORITY).unwrap_or(0),
            table,
            specific: attributes.u32(RULE_SUPPRESS) == Some(0),
        });
        rules.push((rule, table, of));
    }
    Ok(rules)
}

const RULE_SOURCE: u16 = 2;
const RULE_SUPPRESS: u16 = 14;
const RULE_TABLE: u16 = 15;
const RULE_PROTOCOL: u16 = 21;

/// Adds a rule.
///
/// # Errors
/// If the kernel refuses.
pub fn add_rule(socket: &mut Socket, rule: &Rule) -> io::Result<()> {
    socket.execute(rule_message(NEW_RULE, rule), NLM_F_CREATE | NLM_F_EXCL)
}

/// Removes a rule.
///
/// # Errors
/// If the rule does not exist, or the kernel refuses.
pub fn remove_rule(socket: &mut Socket, rule: &Rule) -> io::Result<()> {
    socket.execute(rule_message(DELETE_RULE, rule), 0)
}

fn rule_message(kind: u16, rule: &Rule) -> Message {
    const TO_TABLE: u8 = 1;
    let source = octets(rule.from);
    let header = [family(rule.from.is_ipv4()), 0, source.len() as u8 * 8, 0, 0, 0, 0, TO_TABLE, 0, 0, 0, 0];
    let message = Message::new(kind, &header)
        .with(RULE_SOURCE, &source)
        .with_u32(PRIORITY, rule.priority)
        .with_u32(RULE_TABLE, rule.table)
        .with(RULE_PROTOCOL, &[PROTOCOL]);
    if rule.specific { message.with_u32(RULE_SUPPRESS, 0) } else { message }
}

/// Adds a route.
///
/// # Errors
/// If the kernel refuses.
pub fn add_route(socket: &mut Socket, route: &Route) -> io::Result<()> {
    socket.execute(route_message(NEW_ROUTE, route), NLM_F_CREATE | NLM_F_EXCL)
}

/// Removes a route.
///
/// # Errors
/// If the route does not exist, or the kernel refuses.
pub fn remove_route(socket: &mut Socket, route: &Route) -> io::Result<()> {
    socket.execute(route_message(DELETE_ROUTE, route), 0)
}

fn route_message(kind: u16, route: &Route) -> Message {
    /// Makes the kernel assume that the gateway is on the link, even if no address of the interface is in the gateway's
    /// network (`RTNH_F_ONLINK`): some providers assign addresses without a network.
    const FLAG_ON_LINK: u32 = 4;
    const SCOPE_LINK: u8 = 253;
    let (of, flags) = match route.next_hop {
        NextHop::Interface { via, .. } => (KIND_UNICAST, if via.is_some() { FLAG_ON_LINK } else { 0 }),
        NextHop::Unreachable => (KIND_UNREACHABLE, 0),
        NextHop::Throw => (KIND_THROW, 0),
    };
    let direct = route.v4 && matches!(route.next_hop, NextHop::Interface { via: None, .. });
    let scope = if direct { SCOPE_LINK } else { 0 };
    let [a, b, c, d] = flags.to_ne_bytes();
    let header = [family(route.v4), 0, 0, 0, 0, PROTOCOL, scope, of, a, b, c, d];
    let message = Message::new(kind, &header).with_u32(TABLE, route.table).with_u32(PRIORITY, route.metric);
    match route.next_hop {
        NextHop::Interface { link, via: None } => message.with_u32(OUTPUT, link),
        NextHop::Interface { link, via: Some(via) } if via.is_ipv4() == route.v4 => {
            message.with_u32(OUTPUT, link).with(GATEWAY, &octets(via))
        }
        NextHop::Interface { link, via: Some(via) } => {
            let of = u16::from(family(via.is_ipv4())).to_ne_bytes();
            message.with_u32(OUTPUT, link).with(VIA, &[of.as_slice(), &octets(via)].concat())
        }
        NextHop::Unreachable | NextHop::Throw => message,
    }
}

/// Returns the bytes of an address.
pub fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}
