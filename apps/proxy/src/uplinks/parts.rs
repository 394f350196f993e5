//! Rules, routes and endpoints of uplinks in the kernel.

use core::fmt;
use core::net::IpAddr;
use std::collections::BTreeSet;

/// Protocol number of this program's rules and routes (`FRA_PROTOCOL`, `RTA_PROTOCOL`), by which they are recognized;
/// no other program is known to use it.
pub const PROTOCOL: u8 = 198;

/// First identifier of this program's endpoints; the path manager starts at 1 for those of other programs. An endpoint
/// belongs to this program if there is also a rule with [`PROTOCOL`] for its address. That rule is added before the
/// endpoint and removed after it, so the endpoints are recognized even if the program was killed.
pub const FIRST_ID: u8 = 198;

/// Maximum number of endpoints in a network namespace (`MPTCP_PM_ADDR_MAX`). It is also the maximum number of subflows
/// of a connection besides the first (`MPTCP_SUBFLOWS_MAX`).
pub const MAX_ENDPOINTS: usize = 8;

/// Priority of the rule for specific routes. It comes after the router's rule (500), and before the kernel's rule for
/// all packets (32766).
pub const SPECIFIC_PRIORITY: u32 = 600;
/// Priority of the rule for the uplink's default route.
pub const DEFAULT_PRIORITY: u32 = 601;

/// The main routing table.
pub const MAIN: u32 = 254;

/// Metric of the default route. The value 0 is unsuitable, because the kernel replaces it by another number for IPv6.
pub const METRIC: u32 = 1;
/// Metric of the unreachable route, which applies while the default route is missing.
pub const LAST_METRIC: u32 = 2;

/// A routing rule for packets from a local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Source address of the packets.
    pub from: IpAddr,
    /// Priority; rules with lower values are applied first.
    pub priority: u32,
    /// Routing table in which the rule looks up routes.
    pub table: u32,
    /// True if the rule ignores default routes of the table (`suppress_prefixlength 0`).
    pub specific: bool,
}

/// A default route in one of this program's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// True for IPv4, false for IPv6.
    pub v4: bool,
    /// Routing table.
    pub table: u32,
    /// Next hop.
    pub next_hop: NextHop,
    /// Metric; the route with the lowest value is used.
    pub metric: u32,
}

/// Next hop of a default route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextHop {
    /// An interface, with a gateway unless the link is point-to-point.
    Interface {
        /// Number of the interface.
        link: u32,
        /// Address of the gateway.
        via: Option<IpAddr>,
    },
    /// The kernel drops packets and reports an error to the sender immediately.
    Unreachable,
    /// The kernel continues with the next rule. This program uses such a route only to store a number in its metric.
    Throw,
}

/// An address from which the path manager opens subflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// Number of the interface.
    pub link: u32,
    /// True if subflows from this address carry data only while no other subflow works.
    pub backup: bool,
}

/// Rules, routes and endpoints of this program, either those in the kernel or the planned ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Rules.
    pub rules: BTreeSet<Rule>,
    /// Routes.
    pub routes: BTreeSet<Route>,
    /// Endpoints.
    pub endpoints: BTreeSet<Endpoint>,
}

/// Returns the option of the program `ip` for the address family.
const fn family(v4: bool) -> &'static str {
    if v4 { "-4" } else { "-6" }
}

impl Rule {
    /// Returns the command of `ip` for this rule; `verb` is `add` or `del`.
    pub fn command(&self, verb: &str) -> String {
        let Self { from, priority, table, specific } = self;
        let family = family(from.is_ipv4());
        let table = if *table == MAIN { "main".to_owned() } else { table.to_string() };
        let suppress = if *specific { " suppress_prefixlength 0" } else { "" };
        format!(
            "ip {family} rule {verb} from {from} lookup {table}{suppress} priority {priority} protocol {PROTOCOL}"
        )
    }
}

impl Route {
    /// Returns the command of `ip` for this route. `verb` is `add` or `del`; `names` returns the name of an interface.
    pub fn command(&self, verb: &str, names: &dyn Fn(u32) -> String) -> String {
        let Self { v4, table, next_hop, metric } = self;
        let family = family(*v4);
        let (kind, next_hop) = match next_hop {
            NextHop::Interface { link, via: None } => ("", format!(" dev {}", names(*link))),
            NextHop::Interface { link, via: Some(via) } => {
                let family_word = if via.is_ipv4() == *v4 { "" } else { "inet6 " };
                ("", format!(" via {family_word}{via} dev {} onlink", names(*link)))
            }
            NextHop::Unreachable => ("unreachable ", String::new()),
            NextHop::Throw => ("throw ", String::new()),
        };
        format!(
            "ip {family} route {verb} {kind}default{next_hop} table {table} metric {metric} proto {PROTOCOL}"
        )
    }
}

impl Endpoint {
    /// Returns the command of `ip` that adds this endpoint; `names` returns the name of an interface.
    pub fn command(&self, id: u8, names: &dyn Fn(u32) -> String) -> String {
        let backup = if self.backup { " backup" } else { "" };
        let (address, link) = (self.address, names(self.link));
        format!("ip mptcp endpoint add {address} dev {link} id {id} subflow{backup}")
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface { via: Some(via), .. } => write!(f, "via {via}"),
            Self::Interface { via: None, .. } => f.write_str("without gateway"),
            Self::Unreachable | Self::Throw => f.write_str("unreachable"),
        }
    }
}
