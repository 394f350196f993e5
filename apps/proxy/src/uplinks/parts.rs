//! Rules, routes and endpoints of uplinks in the kernel.

use core::fmt;
use core::net::IpAddr;
use std::collections::BTreeSet;

/// Protocol number that marks this program's rules and routes (`FRA_PROTOCOL`, `RTA_PROTOCOL`); no other program is known to
/// use it.
pub const PROTOCOL: u8 = 198;

/// First identifier of this program's endpoints; the path manager itself starts at 1. An endpoint belongs to this program if its
/// address also has a rule with [`PROTOCOL`]. This rule is added before the endpoint and removed after it, so that the test is
/// correct even if the program is killed.
pub const FIRST_ID: u8 = 198;

/// Maximum number of endpoints of a network namespace, and of further subflows of a connection (`MPTCP_PM_ADDR_MAX`,
/// `MPTCP_SUBFLOWS_MAX`).
pub const MAX_ENDPOINTS: usize = 8;

/// Priority of the rule for specific routes: after the router's rule (500), before the rule for all packets (32766).
pub const SPECIFIC_PRIORITY: u32 = 600;
/// Priority of the rule for the uplink's default route.
pub const DEFAULT_PRIORITY: u32 = 601;

/// The main routing table.
pub const MAIN: u32 = 254;

/// Metric of the default route. It is not 0, because IPv6 replaces 0 by another number.
pub const METRIC: u32 = 1;
/// Metric of the unreachable route, which applies while the default route is missing.
pub const LAST_METRIC: u32 = 2;

/// A routing rule for packets from a local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Source address of the packets.
    pub from: IpAddr,
    /// Lower values are applied first.
    pub priority: u32,
    /// Routing table for the look-up.
    pub table: u32,
    /// True if default routes of the table are ignored (`suppress_prefixlength 0`).
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
    /// Lower values are applied first.
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
    /// Unreachable: the sender receives an error immediately.
    Unreachable,
    /// The kernel continues with the next rule. The metric of this route stores a number.
    Throw,
}

/// An address from which the path manager opens subflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// Number of the interface.
    pub link: u32,
    /// True if its subflows carry data only while no other subflow works.
    pub backup: bool,
}

/// Actual or planned rules, routes and endpoints of this program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Rules.
    pub rules: BTreeSet<Rule>,
    /// Routes.
    pub routes: BTreeSet<Route>,
    /// Endpoints.
    pub endpoints: BTreeSet<Endpoint>,
}

/// `-4` or `-6`, for the program `ip`.
const fn family(v4: bool) -> &'static str {
    if v4 { "-4" } else { "-6" }
}

impl Rule {
    /// The command of `ip` for this rule; `verb` is `add` or `del`.
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
    /// The command of `ip` for this route; `verb` is `add` or `del`, and `names` returns the names of interfaces.
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
    /// The command that adds it; `names` returns the names of interfaces.
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
