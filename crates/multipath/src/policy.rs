//! Choices that a protocol carries out by itself, named here so that what describes an experiment can name them
//! without knowing any protocol.

use anabranch_base::time::Duration;

/// How TCP finds and repairs lost segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// RFC 6675: SACK scoreboard, pipe algorithm, window at the threshold from the first moment of recovery.
    Sack,
    /// RFC 9937: the same scoreboard; the window comes down in proportion to what is delivered.
    Prr,
    /// RFC 8985: time-based loss detection with tail-loss probes, and PRR; reactions to what proves to be no loss are undone
    /// (RFC 3522, RFC 3708, RFC 5682, RFC 4015).
    #[default]
    Rack,
}

/// Which subflow penalisation halves the window of, when one has held up a full buffer (Raiciu2012 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Penalisation {
    /// None.
    Never,
    /// The one that holds the left edge, unless it carries more than the one that is free to send.
    #[default]
    Weaker,
    /// The one that holds the left edge, whichever it is, as in the publication.
    Any,
}

/// What a path of an SCTP association is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SctpPaths {
    /// A destination address (RFC 9260 §1.3). The i-th destination is reached from the i-th local address (modulo
    /// their number); a destination that does not answer is tried from the other local addresses in turn.
    #[default]
    Destination,
    /// Every pair of local and remote address.
    FullMesh,
}

/// Where a lost SCTP chunk goes. All but the first are the policies of Iyengar et al. 2006 for CMT.
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

/// Where an SCTP receiver sends an acknowledgement that answers packets which came on different paths (RFC 9260 §6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SackPath {
    /// To where the last of them came from.
    #[default]
    Last,
    /// To where the one of them came from whose path has the shortest round-trip time.
    Nearest,
}

/// Which SCTP stream's message goes out next (RFC 8260 §3). With I-DATA the choice is made for every fragment, with
/// DATA only between messages.
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

/// How long a message is worth sending (partial reliability, RFC 3758, RFC 7496 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// Until it has arrived.
    #[default]
    Full,
    /// Until it is so old, from the moment of writing (timed reliability, RFC 3758 §4): what has not left by then does not
    /// leave, and what is lost does not leave again.
    Lifetime(Duration),
    /// Until a part of it would have to be sent again more often than that (RFC 7496 §3.1).
    Retransmissions(u8),
    /// Until a message with a smaller number needs its room in the send buffer (RFC 7496 §3.2).
    Priority(u32),
}

/// When a sender asks for a SACK at once, by the I bit of its last chunk (RFC 7053 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImmediateSack {
    /// Never.
    Never,
    /// When nothing more follows for now: the application has no more to say, or what is left must wait for a full packet
    /// (Nagle), or the association is about to end.
    #[default]
    End,
    /// The same, and when the chunk fills the congestion or the receive window.
    Window,
}

/// Over which pair of addresses an unanswered SYN of a Multipath TCP connection is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SynRetransmission {
    /// Over the pair that it went over.
    #[default]
    Single,
    /// Over the next pair of the hosts' addresses (multipath SYN retransmission, Becke2014 §5.1.2.1).
    Multipath,
}
