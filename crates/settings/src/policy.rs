//! Choices that a protocol implements, with their words in scenarios.

use crate::setting::{Setting, Value};
use crate::words::{Choice, Named, Words, choices, find, named, word};
use anabranch_base::time::Duration;

/// Detection and repair of lost segments by TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// RFC 6675: SACK scoreboard, pipe algorithm, window at the threshold from the start of recovery.
    Sack,
    /// RFC 9937: the same scoreboard; the window is reduced in proportion to the delivered data.
    Prr,
    /// RFC 8985: time-based loss detection with tail-loss probes, and PRR; reactions to spurious losses are
    /// undone (RFC 3522, RFC 3708, RFC 5682, RFC 4015).
    #[default]
    Rack,
}

impl Words for Recovery {
    const WORDS: &'static [Named<Self>] = &[
        named("sack", "SACK scoreboard and pipe of RFC 6675", Recovery::Sack),
        named("prr", "the same scoreboard with proportional rate reduction (RFC 9937)", Recovery::Prr),
        named(
            "rack",
            "time-based detection and tail-loss probes (RFC 8985) with PRR; reactions to spurious losses are undone",
            Recovery::Rack,
        ),
    ];
}

/// The source of the paths' characteristics for the scheduler `nca`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Information {
    /// The scenario.
    #[default]
    Scenario,
    /// The records of routers that network control returns.
    Chunk,
}

impl Words for Information {
    const WORDS: &'static [Named<Self>] = &[
        named(
            "scenario",
            "the links of the scenario, from the start and after each event",
            Information::Scenario,
        ),
        named("chunk", "the records of routers, after each report of `network_control`", Information::Chunk),
    ];
}

/// The subflow whose window penalisation halves when a subflow has blocked a full buffer (Raiciu2012 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Penalisation {
    /// None.
    Never,
    /// The subflow whose data is at the left edge, unless it is faster than the subflow that is free to send.
    #[default]
    Weaker,
    /// The subflow whose data is at the left edge in any case, as in the publication.
    Any,
}

impl Penalisation {
    /// The words other than true and false.
    pub fn words() -> Vec<Choice> {
        choices(PENALISATIONS)
    }
}

static PENALISATIONS: &[Named<Penalisation>] = &[named(
    "any",
    "the subflow that blocked the buffer, in any case (Raiciu2012, Becke2014)",
    Penalisation::Any,
)];

impl Setting for Penalisation {
    fn value(&self) -> Value {
        match self {
            Self::Never => Value::Flag(false),
            Self::Weaker => Value::Flag(true),
            Self::Any => Value::Word(word(PENALISATIONS, self)),
        }
    }

    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Flag(false) => Some(Self::Never),
            Value::Flag(true) => Some(Self::Weaker),
            value => find(PENALISATIONS, value.word()?),
        }
    }
}

/// Detection of the return of a Multipath TCP subflow that is believed to have failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadPathProbe {
    /// A probe after each interval, or once in the shortest round trip if that is longer. Joins without an answer are
    /// repeated as often.
    Every(Duration),
    /// No probes: the subflow's retransmission timer, which doubles, sends the next packet, as in Linux. Joins are
    /// repeated by their timer.
    Backoff,
}

impl DeadPathProbe {
    /// The words other than times.
    pub fn words() -> Vec<Choice> {
        choices(DEAD_PATH_PROBES)
    }
}

static DEAD_PATH_PROBES: &[Named<DeadPathProbe>] = &[named(
    "backoff",
    "when the doubled retransmission timeout expires, as in Linux",
    DeadPathProbe::Backoff,
)];

impl Setting for DeadPathProbe {
    fn value(&self) -> Value {
        match self {
            Self::Every(interval) => Value::Time(*interval),
            Self::Backoff => Value::Word(word(DEAD_PATH_PROBES, self)),
        }
    }

    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Time(interval) => Some(Self::Every(interval)),
            value => find(DEAD_PATH_PROBES, value.word()?),
        }
    }
}

/// The paths of an SCTP association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SctpPaths {
    /// A path is a destination address (RFC 9260 §1.3). The i-th destination is reached from the i-th local
    /// address (modulo their number); a destination that does not answer is tried from the other local
    /// addresses in turn.
    #[default]
    Destination,
    /// A path is a pair of local and remote address; all pairs are used.
    FullMesh,
}

impl Words for SctpPaths {
    const WORDS: &'static [Named<Self>] = &[
        named("destination", "a path is a destination address (RFC 9260)", SctpPaths::Destination),
        named("fullmesh", "a path is a pair of source and destination address", SctpPaths::FullMesh),
    ];
}

/// The path of a retransmitted SCTP chunk. All but the first are the policies of Iyengar et al. 2006 for CMT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RetransmissionPath {
    /// After a timeout another active destination than the last one, otherwise the same (RFC 9260 §6.4.1).
    #[default]
    Alternate,
    /// Always the path that lost it.
    Same,
    /// The active path with the largest slow-start threshold; the largest window decides a tie.
    LargestSsthresh,
    /// The active path with the largest congestion window.
    LargestWindow,
    /// The active path with the lowest smoothed round-trip time; unmeasured ones come last.
    LowestRtt,
}

impl Words for RetransmissionPath {
    const WORDS: &'static [Named<Self>] = &[
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
}

/// The path of an SCTP acknowledgement of packets that arrived on different paths (RFC 9260 §6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SackPath {
    /// The path of the last of these packets.
    #[default]
    Last,
    /// Of their paths, the one with the shortest round-trip time.
    Nearest,
}

impl Words for SackPath {
    const WORDS: &'static [Named<Self>] = &[
        named("last", "the path of the last of the packets", SackPath::Last),
        named(
            "nearest",
            "of the packets' paths, the one with the shortest round-trip time",
            SackPath::Nearest,
        ),
    ];
}

/// The SCTP stream whose message is sent next (RFC 8260 §3). With I-DATA the choice is made for every
/// fragment, with DATA only between messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StreamScheduler {
    /// First come, first served over all streams (§3.1).
    #[default]
    Fcfs,
    /// One message (with I-DATA: one fragment) of each stream in turn (§3.2).
    RoundRobin,
    /// As round-robin, but a packet contains chunks of one stream only, and the next packet those of the next stream
    /// (§3.3).
    RoundRobinPacket,
    /// The stream with the lowest priority number; streams with the same number in turn (§3.4).
    Priority,
    /// The stream that has sent the fewest bytes since it last became busy (§3.5, fair bandwidth).
    Fair,
    /// The stream that has sent the fewest bytes in relation to its weight (§3.6, weighted fair queueing).
    WeightedFair,
}

impl Words for StreamScheduler {
    const WORDS: &'static [Named<Self>] = &[
        named("fcfs", "first come, first served (RFC 8260 §3.1)", StreamScheduler::Fcfs),
        named("round-robin", "each stream in turn (RFC 8260 §3.2)", StreamScheduler::RoundRobin),
        named(
            "round-robin-packet",
            "each stream in turn, one stream in a packet (RFC 8260 §3.3)",
            StreamScheduler::RoundRobinPacket,
        ),
        named(
            "priority",
            "the stream with the lowest number in `stream_priorities`; equal ones in turn (RFC 8260 §3.4)",
            StreamScheduler::Priority,
        ),
        named("fair", "the stream that has sent the fewest bytes (RFC 8260 §3.5)", StreamScheduler::Fair),
        named(
            "weighted-fair",
            "the stream that has sent the fewest bytes in relation to its number in `stream_weights` (RFC 8260 §3.6)",
            StreamScheduler::WeightedFair,
        ),
    ];
}

/// Paths of new data of a stream with concurrent multipath transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StreamPaths {
    /// Any, as the scheduler selects.
    #[default]
    Any,
    /// Stream i uses path i modulo the number of paths, and the next path in use while that one is not in use.
    Fixed,
}

impl Words for StreamPaths {
    const WORDS: &'static [Named<Self>] = &[
        named("any", "the path that `scheduler` selects", StreamPaths::Any),
        named(
            "fixed",
            "stream i uses path i modulo the number of paths; while that path is inactive, the next one",
            StreamPaths::Fixed,
        ),
    ];
}

/// Limits of the retransmission of a message (partial reliability, RFC 3758, RFC 7496 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// No limit.
    #[default]
    Full,
    /// A maximum age since writing (timed reliability, RFC 3758 §4): after it, data is neither sent nor
    /// retransmitted.
    Lifetime(Duration),
    /// A maximum number of retransmissions of any part of it (RFC 7496 §3.1).
    Retransmissions(u8),
    /// The message is abandoned when a message with a smaller number needs its room in the send buffer (RFC
    /// 7496 §3.2).
    Priority(u32),
}

/// When a sender requests an immediate SACK by the I bit of its last chunk (RFC 7053 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImmediateSack {
    /// Never.
    Never,
    /// When no more data follows for now: the application has none, or the remaining data waits for a full
    /// packet (Nagle), or the association is about to end.
    #[default]
    End,
    /// The same, and when the chunk fills the congestion or the receive window.
    Window,
}

impl Words for ImmediateSack {
    const WORDS: &'static [Named<Self>] = &[
        named("never", "the sender never requests one", ImmediateSack::Never),
        named("end", "with the last chunk of a burst of data", ImmediateSack::End),
        named(
            "window",
            "also with a chunk that fills the congestion or the receive window",
            ImmediateSack::Window,
        ),
    ];
}

/// The pair of addresses for the retransmission of a Multipath TCP connection's SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SynRetransmission {
    /// The same pair.
    #[default]
    Single,
    /// The next pair of the hosts' addresses (multipath SYN retransmission, Becke2014 §5.1.2.1).
    Multipath,
}

impl Words for SynRetransmission {
    const WORDS: &'static [Named<Self>] = &[
        named("single", "on the same pair", SynRetransmission::Single),
        named("multipath", "on the next pair (Becke2014 §5.1.2.1)", SynRetransmission::Multipath),
    ];
}
