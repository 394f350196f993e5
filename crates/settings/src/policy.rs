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

/// The source of the characteristics of paths for the scheduler `nca`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Information {
    /// The links of the scenario.
    #[default]
    Scenario,
    /// The records of routers in answers to network control chunks.
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
    /// No subflow.
    Never,
    /// The subflow that carries the first unacknowledged data, unless it is faster than the subflow with free
    /// congestion window.
    #[default]
    Weaker,
    /// The subflow that carries the first unacknowledged data, even if it is the faster one, as in the publication.
    Any,
}

impl Penalisation {
    /// The words besides `true` and `false`.
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

/// Detection that a Multipath TCP subflow that is considered failed works again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadPathProbe {
    /// The subflow sends a probe after each interval, or once in the shortest round-trip time if that is longer. A
    /// join without an answer is retransmitted at the same interval.
    Every(Duration),
    /// The subflow sends no probes: its retransmission timer, which doubles, sends the next packet, as in Linux. The
    /// timer of a join retransmits it.
    Backoff,
}

impl DeadPathProbe {
    /// The words besides times.
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
    /// A path is a destination address (RFC 9260 §1.3). The association reaches the i-th destination from the i-th
    /// local address (modulo the number of local addresses), and tries a destination that does not answer from the
    /// other local addresses in turn.
    #[default]
    Destination,
    /// A path is a pair of a local and a remote address; the association uses all pairs.
    FullMesh,
}

impl Words for SctpPaths {
    const WORDS: &'static [Named<Self>] = &[
        named("destination", "a path is a destination address (RFC 9260)", SctpPaths::Destination),
        named("fullmesh", "a path is a pair of source and destination address", SctpPaths::FullMesh),
    ];
}

/// The path of a retransmitted SCTP chunk. All values but the first are policies for CMT of Iyengar et al. 2006.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RetransmissionPath {
    /// After a timeout another active destination than that of the last transmission, otherwise the same one (RFC
    /// 9260 §6.4.1).
    #[default]
    Alternate,
    /// The path on which the chunk was lost.
    Same,
    /// The active path with the largest slow-start threshold; the largest window decides a tie.
    LargestSsthresh,
    /// The active path with the largest congestion window.
    LargestWindow,
    /// The active path with the lowest smoothed round-trip time; paths without a sample come last.
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

/// The path of an SCTP acknowledgement for packets that arrived on different paths (RFC 9260 §6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SackPath {
    /// The path of the packet that arrived last.
    #[default]
    Last,
    /// Of the paths on which the packets arrived, the one with the shortest round-trip time.
    Nearest,
}

impl Words for SackPath {
    const WORDS: &'static [Named<Self>] = &[
        named("last", "the path of the last packet", SackPath::Last),
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
    /// The streams in the order of their writes (first come, first served, §3.1).
    #[default]
    Fcfs,
    /// The streams in turn, with one message each, or one fragment each with I-DATA (round-robin, §3.2).
    RoundRobin,
    /// The streams in turn, with one packet each, which contains chunks of one stream only (round-robin per packet,
    /// §3.3).
    RoundRobinPacket,
    /// The stream with the lowest priority number; streams with equal numbers in turn (§3.4).
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

/// The path of new data of a stream with concurrent multipath transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StreamPaths {
    /// Any path that the scheduler selects.
    #[default]
    Any,
    /// Stream i uses path i modulo the number of paths; while that path is inactive, the next active one.
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

/// The limit on the retransmission of a message (partial reliability, RFC 3758, RFC 7496 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// No limit.
    #[default]
    Full,
    /// A maximum age since the write (timed reliability, RFC 3758 §4): older data is neither sent nor retransmitted.
    Lifetime(Duration),
    /// A maximum number of retransmissions of any part of the message (RFC 7496 §3.1).
    Retransmissions(u8),
    /// The sender abandons the message when a message with a smaller number needs its space in the send buffer (RFC
    /// 7496 §3.2).
    Priority(u32),
}

/// The data chunks with which a sender requests an immediate SACK by the I bit (RFC 7053 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImmediateSack {
    /// No chunk.
    Never,
    /// A chunk after which no further data can be sent at this moment: the application has written none, the
    /// remaining data waits for a full packet (Nagle's algorithm), or the association is about to end.
    #[default]
    End,
    /// As `End`, and also a chunk that fills the congestion window or the receive window.
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
    /// The same pair for every retransmission.
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
