//! Rules, routes and endpoints of uplinks in the kernel.

use core::fmt;
use core::net::IpAddr;
use std::collections::BTreeSet;

/// Origin of our rules and routes (`FRA_PROTOCOL`, `RTA_PROTOCOL`): a number that no other program is known to use.
pub const PROTOCOL: u8 = 198;

/// Endpoints of ours have identifiers from this one on; the path manager itself begins at 1. One is ours if, besides, its
/// address has a rule of ours, which is there before the endpoint and goes after it, so that it holds whenever the program is
/// killed.
pub const FIRST_ID: u8 = 198;

/// Endpoints that a network namespace may have, and further subflows of a connection (`MPTCP_PM_ADDR_MAX`, `MPTCP_SUBFLOWS_MAX`).
pub const MAX_ENDPOINTS: usize = 8;

/// Priorities of the rules: after the router's (500), before that for all packets (32766).
pub const SPECIFIC_PRIORITY: u32 = 600;
/// Of the rule that has the uplink's default route.
pub const DEFAULT_PRIORITY: u32 = 601;

/// The kernel's table of routes.
pub const MAIN: u32 = 254;

/// Metrics of the routes: without the first route, the second one makes packets unreachable. Not 0, which IPv6 replaces by
/// another number.
pub const METRIC: u32 = 1;
/// Of the route that leads nowhere.
pub const LAST_METRIC: u32 = 2;

/// A rule of routing, for packets with an address of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Of packets that have this source.
    pub from: IpAddr,
    /// Lower ones come first.
    pub priority: u32,
    /// Where their route is looked up.
    pub table: u32,
    /// Default routes do not count there (`suppress_prefixlength 0`).
    pub specific: bool,
}

/// A default route in a table of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Whether it is of IPv4.
    pub v4: bool,
    /// The table.
    pub table: u32,
    /// Where it leads.
    pub way: Way,
    /// Lower ones come first.
    pub metric: u32,
}

/// Where a default route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// By the interface with this number, to a gateway or, without one, to the other end.
    By {
        /// The interface's number.
        link: u32,
        /// The gateway.
        via: Option<IpAddr>,
    },
    /// Unreachable: the sender gets an error at once.
    Unreachable,
    /// On to the next rule, as if there were no route: its metric is a note.
    Throw,
}

/// An address from which the path manager opens subflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The number of its interface.
    pub link: u32,
    /// They carry data when all others are dead.
    pub backup: bool,
}

/// All that is ours, or should be.
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

/// As the program `ip` has them, behind `ip` and a verb; interfaces by `dev`, which knows the names.
impl Rule {
    /// With its family, verb and all.
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
    /// With its family, verb and all; interfaces are named by `names`.
    pub fn command(&self, verb: &str, names: &dyn Fn(u32) -> String) -> String {
        let Self { v4, table, way, metric } = self;
        let family = family(*v4);
        let (kind, way) = match way {
            Way::By { link, via: None } => ("", format!(" dev {}", names(*link))),
            Way::By { link, via: Some(via) } => {
                let of = if via.is_ipv4() == *v4 { "" } else { "inet6 " };
                ("", format!(" via {of}{via} dev {} onlink", names(*link)))
            }
            Way::Unreachable => ("unreachable ", String::new()),
            Way::Throw => ("throw ", String::new()),
        };
        format!("ip {family} route {verb} {kind}default{way} table {table} metric {metric} proto {PROTOCOL}")
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

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By { via: Some(via), .. } => write!(f, "by {via}"),
            Self::By { via: None, .. } => f.write_str("without a gateway"),
            Self::Unreachable | Self::Throw => f.write_str("nowhere"),
        }
    }
}
