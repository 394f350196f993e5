//! Settings of a TCP connection, or of one subflow of a Multipath TCP connection.

use super::key::{AUTO_BUFFER, Key, Takes};
pub use super::policy::Recovery;
use super::row::settings;
use super::setting::Value;
use super::shared::{
    ABC_LIMIT, CONGESTION, ECN, NAGLE, RECEIVE_BUFFER, RTO_INITIAL, RTO_MAX, RTO_MIN, SEND_BUFFER,
    SSTHRESH_FLOOR,
};
use super::words::words;
use anabranch_base::time::Duration;
use anabranch_multipath::congestion::{self, Rules};
use anabranch_multipath::rtt::RtoBounds;

/// Maximum of an automatic buffer size, bytes: twice the bandwidth-delay product of 1 Gbit/s and 250 ms.
pub const MAX_AUTO_BYTES: u64 = 64_000_000;

settings! {
    /// Settings of one TCP connection or MPTCP subflow.
    pub struct Config for ANY_TCP {
        /// Congestion control.
        congestion: congestion::Choice = congestion::Choice::find("reno").expect("the name is in the table")
            => CONGESTION, at entry;
        /// Send buffer, bytes.
        send_buffer: u64 = 4_000_000
            => SEND_BUFFER, by
                |config| buffer(config.send_buffer, config.send_autotuning),
                |config, value| {
                    (config.send_buffer, config.send_autotuning) = bytes(&value)?;
                    Some(())
                };
        /// Receive buffer, bytes.
        receive_buffer: u64 = 4_000_000
            => RECEIVE_BUFFER, by
                |config| buffer(config.receive_buffer, config.receive_autotuning),
                |config, value| {
                    (config.receive_buffer, config.receive_autotuning) = bytes(&value)?;
                    Some(())
                };
        /// If true, the send buffer of a TCP connection begins small and grows with the congestion window, up to
        /// `send_buffer`.
        send_autotuning: bool = false;
        /// If true, the receive buffer of a TCP connection begins small and grows with the bytes read per round trip,
        /// up to `receive_buffer`.
        receive_autotuning: bool = false;
        /// Bounds of the retransmission timer (RFC 6298).
        rto: RtoBounds = RtoBounds {
            initial: Duration::from_secs(1),
            min: Duration::from_millis(200),
            max: Duration::from_secs(60),
        }
            => RTO_INITIAL, at initial
            => RTO_MIN, at min
            => RTO_MAX, at max;
        /// Use ECN (RFC 3168).
        ecn: bool = false
            => ECN;
        /// Maximum delay of an acknowledgement; `None` acknowledges every segment immediately.
        delayed_ack: Option<Duration> = Some(Duration::from_millis(40))
            => Key::new(
                "delayed_ack",
                Takes::Either(&[Takes::Flag, Takes::Time { zero: false }]),
                "Maximum delay of an acknowledgement; every second segment is acknowledged at once. `false` \
                 acknowledges every segment, `true` is the default.",
            );
        /// Initial window, segments (RFC 6928: 10).
        initial_window: u32 = 10
            => Key::new(
                "initial_window",
                Takes::Integer { min: 1, max: 1000 },
                "Initial congestion window, in segments (RFC 6928).",
            );
        /// Maximum number of segments by which one acknowledgement opens the window in slow start (L of RFC 3465
        /// §2.2); `None`, as in Linux, for the number of segments that it acknowledges.
        abc_limit: Option<u32> = None
            => ABC_LIMIT;
        /// Minimum of the slow-start threshold after an uncoupled reaction to a loss, packets (RFC 5681 eq. 4: 2).
        ssthresh_floor: u32 = Rules::Tcp.floor()
            => SSTHRESH_FLOOR;
        /// Round the free congestion window down to whole segments, as Linux does. Applies to congestion controls
        /// without a model of the path.
        whole_packets: bool = false
            => Key::new(
                "whole_packets",
                Takes::Flag,
                "The congestion window counts whole segments, as in Linux: fractions accumulate to a whole segment, \
                 a reduction removes them, and the window after a loss is at least two segments. `olia`, `cmt-rpv1` \
                 and `cmt-rpv2` keep their count of acknowledgements across a loss. Not for `bbr`.",
            );
        /// Loss recovery.
        recovery: Recovery = Recovery::Rack
            => Key::new("recovery", Takes::OneOf(words::<Recovery>), "Detection and repair of lost segments.");
        /// Use timestamps (RFC 7323).
        timestamps: bool = true
            => Key::new("timestamps", Takes::Flag, "Use timestamps (RFC 7323).");
        /// Offer SACK (RFC 2018). If this is false, loss recovery follows RFC 6582.
        sack: bool = true;
        /// Use Nagle's algorithm (RFC 9293 §3.7.4).
        nagle: bool = false
            => NAGLE;
        /// Try smaller segments after repeated timeouts of full-sized ones, because a router may drop packets that
        /// are too long without an ICMP error (RFC 2923 §2.1).
        black_hole_detection: bool = false;
        /// Send a keep-alive to a peer that has sent nothing for this time, and abort the connection after nine
        /// keep-alives without an answer (RFC 9293 §3.8.4).
        keepalive: Option<Duration> = None
            => Key::new(
                "keepalive",
                Takes::Either(&[Takes::Flag, Takes::Time { zero: false }]),
                "Idle time after which each end sends a keepalive probe; after nine unanswered probes it aborts the \
                 connection (RFC 9293 §3.8.4). `true` is two hours.",
            )
            // RFC 1122 §4.2.3.6: at least two hours.
            .on(|| Value::Time(Duration::from_secs(7200)));
        /// Abort the connection if outstanding data stays unacknowledged for this time (RFC 5482).
        user_timeout: Option<Duration> = None
            => Key::new(
                "user_timeout",
                Takes::Time { zero: false },
                "Time without acknowledgement of outstanding data after which the connection is aborted (RFC 5482).",
            )
            .absent("until the limit of retransmissions");
        /// Maximum number of retransmissions of a SYN; then the connection attempt fails.
        syn_retries: u32 = 6;
        /// Maximum number of retransmission timeouts for the same data; then the connection is aborted.
        retries: u32 = 15;
    }
}

/// The value of a buffer's fields.
fn buffer(bytes: u64, autotuning: bool) -> Value {
    if autotuning { Value::Word(AUTO_BUFFER) } else { Value::Size(bytes) }
}

/// The fields of a buffer: its bytes, and whether its size is automatic.
fn bytes(value: &Value) -> Option<(u64, bool)> {
    match value {
        Value::Size(bytes) => Some((*bytes, false)),
        Value::Word(word) if *word == AUTO_BUFFER => Some((MAX_AUTO_BYTES, true)),
        _ => None,
    }
}
