//! Keys that several protocols share.

use super::key::{Key, Part, Takes};
use super::protocols::Protocols;
use super::setting::Value;
use super::words::{congestion, words};
use anabranch_base::time::Duration;
use anabranch_multipath::congestion::SlowStart;

pub(crate) const CONGESTION: Key = Key::new(
    "congestion",
    Takes::OneOf(congestion),
    "Congestion control. The default is that of the protocol's specification. No specification defines one for \
     cmt-sctp, which has the default of mptcp: `cmt-rpv2`, which was designed for cmt-sctp, reduces the window to one \
     packet after a loss on one of two equal paths, and so does not fill separate paths.",
)
.part(Part::Connection);

pub(crate) const SLOW_START: Key = Key::new(
    "slow_start",
    Takes::OneOf(words::<SlowStart>),
    "Slow start of `lia`; the other controls have only one variant.",
)
.only(Protocols::MULTIPATH)
.part(Part::Connection)
.unless_default();

pub(crate) const NETWORK_CONTROL: Key = Key::new(
    "network_control",
    Takes::Either(&[Takes::Flag, Takes::Time { zero: false }]),
    "Experimental: with its first data, and then once per interval, each path requests a separate route from the routers \
     that have `network_control` in `[[router]]` (Becke2014 §8.1.2). cmt-sctp gets their records back; mptcp requests by \
     an option of IP without room for records. `true` is 1 s.",
)
.on(|| Value::Time(Duration::from_secs(1)))
.only(Protocols::MULTIPATH)
.part(Part::Multipath)
.unless_default();

pub(crate) const SEND_BUFFER: Key = Key::new(
    "send_buffer",
    Takes::Buffer,
    "Send buffer of the connection, shared by all of its paths. With `\"auto\"`, for tcp only, it begins \
     with 128 kB and grows with the congestion window, up to 64 MB.",
)
.part(Part::Connection);

pub(crate) const RECEIVE_BUFFER: Key = Key::new(
    "receive_buffer",
    Takes::Buffer,
    "Receive buffer of the connection, shared by all of its paths. With `\"auto\"`, for tcp only, it \
     begins with 128 kB and grows with the bytes read per round trip, up to 64 MB.",
)
.part(Part::Connection);

pub(crate) const RTO_INITIAL: Key = Key::new(
    "rto_initial",
    Takes::Time { zero: false },
    "Retransmission timeout before the first sample (RFC 6298, RFC 9260).",
)
.part(Part::Connection);

pub(crate) const RTO_MIN: Key = Key::new(
    "rto_min",
    Takes::Time { zero: false },
    "Lower bound of the retransmission timeout: Linux's for TCP (that of the RFC is 1 s), that of RFC \
     9260 for SCTP.",
)
.part(Part::Connection);

pub(crate) const RTO_MAX: Key = Key::new(
    "rto_max",
    Takes::Time { zero: false },
    "Upper bound of the retransmission timeout, back-off included (RFC 6298, RFC 9260); at least the \
     other two.",
)
.part(Part::Connection);

pub(crate) const ECN: Key =
    Key::new("ecn", Takes::Flag, "Use ECN (RFC 3168; RFC 4960 appendix A for SCTP).").part(Part::Connection);

pub(crate) const ABC_LIMIT: Key = Key::new(
    "abc_limit",
    Takes::Either(&[Takes::Flag, Takes::Integer { min: 1, max: 1000 }]),
    "Maximum growth of the window per acknowledgement in slow start, in packets (L of RFC 3465 §2.2 and \
     RFC 9260 §7.2.1; RFC 5681: 1). `false` is no limit, as in Linux, and `true` the default of the \
     protocol.",
);

pub(crate) const SSTHRESH_FLOOR: Key = Key::new(
    "ssthresh_floor",
    Takes::Integer { min: 1, max: 1000 },
    "Lowest slow-start threshold after a loss with `reno` and `cubic`, in packets (RFC 5681 eq. 4, RFC \
     9260 §7.2.3; Becke2014 §2.2.4.1 has 4 for TCP too). With coupled controls it is at least one.",
)
.unless_default();

pub(crate) const NAGLE: Key = Key::new(
    "nagle",
    Takes::Flag,
    "Use Nagle's algorithm: data that does not fill a packet waits while other data is in flight (RFC 9260 §6.1). \
     `false` suits small urgent messages.",
);

pub(crate) const MECHANISMS_IN_START_UP: Key = Key::new(
    "mechanisms_in_start_up",
    Takes::Flag,
    "Use opportunistic retransmission and penalisation (with cmt-sctp: buffer splitting, chunk \
     rescheduling and penalisation) from the beginning. `false`: only once the window of the fastest \
     path has reached its maximum, that is, has shrunk for the first time or is as large as the buffers \
     (Becke2014 §8.1.1.3).",
)
.only(Protocols::MULTIPATH)
.part(Part::Multipath)
.unless_default();
