//! Words of scenarios, each with the value that it stands for.

use super::model::{Directions, IpVersion, Scope};
use anabranch_multipath::buffer::{Sides, SplittingOn};
use anabranch_multipath::congestion::{self, Couple, SlowStart};
use anabranch_multipath::scheduler;
use anabranch_settings::policy::{
    ImmediateSack, Penalisation, Recovery, RetransmissionPath, SackPath, SctpPaths, StreamScheduler,
    SynRetransmission,
};

/// A named choice of a key: its name, description and value.
#[derive(Debug)]
pub(super) struct Named<T: 'static> {
    pub name: &'static str,
    pub summary: &'static str,
    pub value: T,
}

const fn named<T>(name: &'static str, summary: &'static str, value: T) -> Named<T> {
    Named { name, summary, value }
}

/// A word in documents and messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub summary: &'static str,
    pub source: &'static str,
}

/// A set of protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protocols(u8);

impl Protocols {
    pub const TCP: Self = Self(1);
    pub const MPTCP: Self = Self(2);
    pub const SCTP: Self = Self(4);
    pub const CMT_SCTP: Self = Self(8);
    pub const UDP: Self = Self(16);
    pub const ALL: Self = Self(31);
    /// Protocols with connections.
    pub const CONNECTED: Self = Self(15);
    /// TCP and its extension Multipath TCP.
    pub const ANY_TCP: Self = Self(3);
    /// SCTP with one path at a time and with all paths.
    pub const ANY_SCTP: Self = Self(12);
    /// Protocols with a congestion control and one path at a time.
    pub const SINGLE_PATH: Self = Self(5);
    /// Protocols that may send on several paths at once.
    pub const MULTIPATH: Self = Self(10);

    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Names in the order of the table of protocols.
    pub fn names(self) -> Vec<&'static str> {
        PROTOCOLS.iter().filter(|entry| self.contains(entry.value)).map(|entry| entry.name).collect()
    }
}

pub(super) static PROTOCOLS: &[Named<Protocols>] = &[
    named("tcp", "TCP (RFC 9293) over one path", Protocols::TCP),
    named("mptcp", "Multipath TCP version 1 (RFC 8684)", Protocols::MPTCP),
    named("sctp", "SCTP (RFC 9260): multi-homed, one path at a time", Protocols::SCTP),
    named("cmt-sctp", "SCTP with concurrent multipath transfer over all paths", Protocols::CMT_SCTP),
    named("udp", "UDP (RFC 768): datagrams without feedback", Protocols::UDP),
];

pub(super) static IP_VERSIONS: &[Named<IpVersion>] = &[
    named("v4", "IPv4: headers of 20 bytes, addresses within 10.0.0.0/8", IpVersion::V4),
    named("v6", "IPv6: headers of 40 bytes, addresses within 2001:db8::/32", IpVersion::V6),
];

pub(super) static SCOPES: &[Named<Scope>] = &[
    named("global", "everywhere", Scope::Global),
    named("link-local", "from one end of the link to the other (RFC 4291 §2.5.6)", Scope::Link),
];

pub(super) static STATES: &[Named<bool>] = &[
    named("up", "carries packets", true),
    named("down", "loses every packet; its hosts are notified", false),
];

pub(super) static DIRECTIONS: &[Named<Directions>] = &[
    named("both", "both directions", Directions::Both),
    named("forward", "from the first node of `between` to the second", Directions::Forward),
    named("reverse", "from the second node of `between` to the first", Directions::Reverse),
];

pub(super) static FLOW_DIRECTIONS: &[Named<Directions>] = &[
    named("forward", "from the `from` host to the `to` host", Directions::Forward),
    named(
        "reverse",
        "from the `to` host, which accepts the connection, to the `from` host",
        Directions::Reverse,
    ),
    named("both", "both ways at once, with the same workload at both hosts", Directions::Both),
];

pub(super) static RECOVERIES: &[Named<Recovery>] = &[
    named("sack", "SACK scoreboard and pipe of RFC 6675", Recovery::Sack),
    named("prr", "the same scoreboard with proportional rate reduction (RFC 9937)", Recovery::Prr),
    named(
        "rack",
        "time-based detection and tail-loss probes (RFC 8985) with PRR; reactions to spurious losses are undone",
        Recovery::Rack,
    ),
];

pub(super) static SLOW_STARTS: &[Named<SlowStart>] = &[
    named("rfc", "each path independently (RFC 6356)", SlowStart::Rfc),
    named("coupled", "coupled like congestion avoidance (Becke2014 eq. 6.11)", SlowStart::Coupled),
];

pub(super) static COUPLINGS: &[Named<Couple>] = &[
    named("all", "all paths (RFC 6356)", Couple::All),
    named(
        "shared",
        "the paths that share a detected bottleneck (RFC 8382), and all paths until the first result",
        Couple::Shared,
    ),
];

pub(super) static SCTP_PATHS: &[Named<SctpPaths>] = &[
    named("destination", "a path is a destination address (RFC 9260)", SctpPaths::Destination),
    named("fullmesh", "a path is a pair of source and destination address", SctpPaths::FullMesh),
];

/// Values other than true and false.
pub(super) static PENALISATIONS: &[Named<Penalisation>] = &[named(
    "any",
    "the subflow that blocked the buffer, in any case (Raiciu2012, Becke2014)",
    Penalisation::Any,
)];

pub(super) static SYN_RETRANSMISSIONS: &[Named<SynRetransmission>] = &[
    named("single", "on the same pair", SynRetransmission::Single),
    named("multipath", "on the next pair (Becke2014 §5.1.2.1)", SynRetransmission::Multipath),
];

/// Paths of acknowledgements of packets from several paths.
pub(super) static SACK_PATHS: &[Named<SackPath>] = &[
    named("last", "the path of the last of the packets", SackPath::Last),
    named("nearest", "of the packets' paths, the one with the shortest round-trip time", SackPath::Nearest),
];

pub(super) static RETRANSMISSIONS: &[Named<RetransmissionPath>] = &[
    named(
        "alternate",
        "after a timeout another active path, else the same (RFC 9260 §6.4.1)",
        RetransmissionPath::Alternate,
    ),
    named("same", "the path that lost the chunk", RetransmissionPath::Same),
    named(
        "largest-ssthresh",
        "the path with the largest slow-start threshold (Iyengar et al. 2006)",
        RetransmissionPath::LargestSsthresh,
    ),
    named(
        "largest-window",
        "the path with the largest congestion window (Iyengar et al. 2006)",
        RetransmissionPath::LargestWindow,
    ),
    named("lowest-rtt", "the path with the lowest round-trip time", RetransmissionPath::LowestRtt),
];

pub(super) static IMMEDIATE_SACKS: &[Named<ImmediateSack>] = &[
    named("never", "the sender never requests one", ImmediateSack::Never),
    named("end", "with the last chunk of a burst of data", ImmediateSack::End),
    named(
        "window",
        "also with a chunk that fills the congestion or the receive window",
        ImmediateSack::Window,
    ),
];

pub(super) static STREAM_SCHEDULERS: &[Named<StreamScheduler>] = &[
    named("fcfs", "first come, first served (RFC 8260 §3.1)", StreamScheduler::Fcfs),
    named("round-robin", "each stream in turn (RFC 8260 §3.2)", StreamScheduler::RoundRobin),
    named("fair", "the stream that has sent the fewest bytes (RFC 8260 §3.5)", StreamScheduler::Fair),
];

pub(super) static SPLITTINGS: &[Named<Sides>] = &[
    named("none", "a path may fill both buffers", Sides::None),
    named("sender", "each path has its share of the send buffer", Sides::Sender),
    named("receiver", "each path has its share of the advertised window", Sides::Receiver),
    named("both", "each path has its share of both", Sides::Both),
];

pub(super) static SPLITTING_ON: &[Named<SplittingOn>] = &[
    named("outstanding", "bytes in flight count", SplittingOn::Outstanding),
    named("buffered", "bytes kept in the send buffer count", SplittingOn::Buffered),
];

/// Whether lengths are drawn from an exponential distribution.
pub(super) static DISTRIBUTIONS: &[Named<bool>] = &[
    named("constant", "always the mean", false),
    named("exponential", "drawn from an exponential distribution", true),
];

/// The words of a list as documents and messages show them.
pub(super) fn choices<T>(list: &'static [Named<T>]) -> Vec<Choice> {
    let choice = |entry: &'static Named<T>| Choice {
        name: entry.name,
        aliases: &[],
        summary: entry.summary,
        source: "",
    };
    list.iter().map(choice).collect()
}

/// The value of a name that was checked to be in the list.
pub(super) fn pick<T: Copy>(list: &'static [Named<T>], name: &str) -> T {
    list.iter().find(|entry| entry.name == name).expect("checked against the same list").value
}

/// The word for a value.
pub(super) fn word<T: PartialEq>(list: &'static [Named<T>], value: &T) -> &'static str {
    list.iter().find(|entry| entry.value == *value).expect("the list names every value").name
}

/// The congestion controls.
pub(super) fn congestion() -> Vec<Choice> {
    let choice = |entry: &'static congestion::Entry| Choice {
        name: entry.name,
        aliases: entry.aliases,
        summary: entry.summary,
        source: entry.source,
    };
    congestion::ALGORITHMS.iter().map(choice).collect()
}

/// The schedulers.
pub(super) fn schedulers() -> Vec<Choice> {
    let choice = |entry: &'static scheduler::Entry| Choice {
        name: entry.name,
        aliases: &[],
        summary: entry.summary,
        source: entry.source,
    };
    scheduler::SCHEDULERS.iter().map(choice).collect()
}

/// The schedulers for protocols whose paths get the data in order, each byte on one path.
pub(super) fn turn_taking_schedulers() -> Vec<Choice> {
    let takes_turns = |name: &str| scheduler::find(name).is_some_and(scheduler::Entry::takes_turns);
    schedulers().into_iter().filter(|choice| takes_turns(choice.name)).collect()
}

/// The path managers, with the notation of their parameters.
pub(super) fn path_managers() -> Vec<Choice> {
    let choice = |entry: &'static anabranch_multipath::path_manager::Entry| Choice {
        name: entry.usage,
        aliases: &[],
        summary: entry.summary,
        source: "",
    };
    anabranch_multipath::path_manager::PATH_MANAGERS.iter().map(choice).collect()
}
