//! Drop-tail.

use super::{Arrival, Verdict};
use crate::link::Cause;
use crate::scenario::model::QueueLimit;

/// Name and description.
pub(super) const ENTRY: (&str, &str) =
    ("fifo", "first in, first out; what exceeds `limit` (packets or bytes) is dropped");

/// Drops what does not fit.
#[derive(Clone, Debug)]
pub struct Fifo {
    limit: QueueLimit,
}

impl Fifo {
    /// A queue of this capacity.
    pub const fn new(limit: QueueLimit) -> Self {
        Self { limit }
    }

    /// What happens to an arriving packet.
    #[inline]
    pub fn admit(&mut self, arrival: &Arrival) -> Verdict {
        if arrival.overflows(self.limit) { Verdict::Drop(Cause::Queue) } else { Verdict::Accept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multipath::time::{Duration, Time};
    use wire::Ecn;

    #[test]
    fn limits_by_hand() {
        let arrival = |packets, bytes, idle| Arrival {
            now: Time::ZERO,
            len: 500,
            ecn: Ecn::NotEct,
            packets,
            bytes,
            idle,
        };
        let mut packets = Fifo::new(QueueLimit::Packets(2));
        assert_eq!(packets.admit(&arrival(1, 40, None)), Verdict::Accept);
        assert_eq!(packets.admit(&arrival(2, 80, None)), Verdict::Drop(Cause::Queue));
        let mut bytes = Fifo::new(QueueLimit::Bytes(1000));
        assert_eq!(bytes.admit(&arrival(1, 500, None)), Verdict::Accept);
        assert_eq!(bytes.admit(&arrival(1, 501, None)), Verdict::Drop(Cause::Queue));
        // A packet larger than the whole queue still passes an idle link.
        assert_eq!(
            Fifo::new(QueueLimit::Bytes(100)).admit(&arrival(0, 0, Some(Duration::ZERO))),
            Verdict::Accept
        );
    }
}
