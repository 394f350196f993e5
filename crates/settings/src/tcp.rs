//! Settings of a TCP connection, or of one subflow of a Multipath TCP connection.

pub use crate::policy::{Recovery, SynRetransmission};
use anabranch_base::time::Duration;
use anabranch_multipath::congestion::{self, Rules};
use anabranch_multipath::rtt::RtoBounds;

/// Settings of one TCP connection or MPTCP subflow.
#[derive(Clone, Debug)]
pub struct Config {
    /// Congestion control.
    pub congestion: congestion::Choice,
    /// Send buffer, bytes.
    pub send_buffer: u64,
    /// Receive buffer, bytes.
    pub receive_buffer: u64,
    /// The send buffer of a TCP connection begins small and grows with the congestion window, up to `send_buffer`.
    pub send_autotuning: bool,
    /// The receive buffer of a TCP connection begins small and grows with the bytes read in a round trip, up to
    /// `receive_buffer`.
    pub receive_autotuning: bool,
    /// Bounds of the retransmission timer (RFC 6298).
    pub rto: RtoBounds,
    /// Longest delay of an acknowledgement; `None` acknowledges every segment.
    pub delayed_ack: Option<Duration>,
    /// Initial window, segments (RFC 6928: 10).
    pub initial_window: u32,
    /// By how many segments one acknowledgement may open the window in slow start: L of RFC 3465 §2.2; `None`, as in Linux,
    /// for as many as it acknowledges.
    pub abc_limit: Option<u32>,
    /// Lowest slow-start threshold that an uncoupled loss reaction leaves, packets (RFC 5681 eq. 4: 2).
    pub ssthresh_floor: u32,
    /// The congestion window counts whole segments, as in Linux: a smaller remainder waits. For controls that do not
    /// model their path.
    pub whole_packets: bool,
    /// Loss recovery.
    pub recovery: Recovery,
    /// Use timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offer SACK (RFC 2018). Without it recovery is that of RFC 6582.
    pub sack: bool,
    /// Nagle's algorithm.
    pub nagle: bool,
    /// Use ECN (RFC 3168).
    pub ecn: bool,
    /// Try smaller segments when full-sized ones time out repeatedly: a router may silently drop packets that are too
    /// long (RFC 2923 §2.1).
    pub black_hole_detection: bool,
    /// Send a keep-alive to a peer that has been silent for this time, and abort the connection after nine
    /// keep-alives without an answer (RFC 9293 §3.8.4).
    pub keepalive: Option<Duration>,
    /// Abort the connection if outstanding data stays unacknowledged for this time (RFC 5482).
    pub user_timeout: Option<Duration>,
    /// How often a SYN is repeated before the attempt is given up.
    pub syn_retries: u32,
    /// Selects the pair of addresses over which an unanswered SYN is repeated. TCP has one pair only.
    pub syn_retransmission: SynRetransmission,
    /// Limit of address pairs that a connection tries if it repeats its SYN over others; at least one.
    pub syn_pairs: u32,
    /// How often the timer may run out for the same data before the connection is given up.
    pub retries: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            congestion: congestion::Choice::find("reno").expect("it is in the table"),
            send_buffer: 4_000_000,
            receive_buffer: 4_000_000,
            send_autotuning: false,
            receive_autotuning: false,
            rto: RtoBounds {
                initial: Duration::from_secs(1),
                min: Duration::from_millis(200),
                max: Duration::from_secs(60),
            },
            delayed_ack: Some(Duration::from_millis(40)),
            initial_window: 10,
            abc_limit: None,
            ssthresh_floor: Rules::Tcp.floor(),
            whole_packets: false,
            recovery: Recovery::Rack,
            timestamps: true,
            sack: true,
            nagle: false,
            ecn: false,
            black_hole_detection: false,
            keepalive: None,
            user_timeout: None,
            syn_retries: 6,
            syn_retransmission: SynRetransmission::Single,
            syn_pairs: 64,
            retries: 15,
        }
    }
}
