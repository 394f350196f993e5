//! Choices that a protocol implements, named here so that descriptions of experiments can use them
//! independently of protocols.

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

/// The path of an SCTP acknowledgement of packets that arrived on different paths (RFC 9260 §6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SackPath {
    /// The path of the last of these packets.
    #[default]
    Last,
    /// Of their paths, the one with the shortest round-trip time.
    Nearest,
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
    /// The stream that has sent the fewest bytes since it last became busy (§3.5, fair bandwidth).
    Fair,
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

/// The pair of addresses for the retransmission of a Multipath TCP connection's SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SynRetransmission {
    /// The same pair.
    #[default]
    Single,
    /// The next pair of the hosts' addresses (multipath SYN retransmission, Becke2014 §5.1.2.1).
    Multipath,
}
