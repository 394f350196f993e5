//! Phase of a sender between losses, and its counters in that phase.

/// Effects of one acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckEffects {
    /// Sequence numbers by which the cumulative acknowledgement advanced.
    pub acked: u64,
    /// Bytes newly known to have arrived, cumulatively or selectively.
    pub delivered: u64,
    /// Start of the first newly acknowledged segment that was sent only once.
    pub original: Option<u64>,
    /// Positions that the receiver reported as a duplicate (D-SACK).
    pub duplicate: Option<(u64, u64)>,
    /// A newer acknowledgement came before.
    pub overtaken: bool,
}

/// Progress of F-RTO after a timeout (RFC 5682 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frto {
    /// After the timeout: the lowest segment was retransmitted, and the first acknowledgement decides the next step.
    First,
    /// After that: new data is sent in place of retransmissions, and its acknowledgement decides.
    NewData,
    /// The decision was made, or is impossible.
    Over,
}

/// Loss recovery phase of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecoveryPhase {
    /// No data is known to be lost.
    Open,
    /// Fast recovery until everything below `until` is acknowledged.
    Recovery { until: u64, rescued: bool },
    /// After a timeout, until everything below `until` is acknowledged.
    Loss { until: u64, frto: Frto },
    /// Segments too long for the path are retransmitted as shorter segments, until everything below `until`
    /// is acknowledged. They show no congestion, so the window stays.
    Resegmented { until: u64 },
}

/// Proportional rate reduction (RFC 9937 §6).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    delivered: u64,
    out: u64,
    flight_at_start: u64,
    /// Bytes that may be sent after the newest acknowledgement.
    pub allowance: u64,
}

impl Prr {
    pub(super) fn start(flight: u64) -> Self {
        Self { flight_at_start: flight.max(1), ..Self::default() }
    }

    /// Updates the allowance after an acknowledgement; `safe` means that it advanced and showed no further loss.
    pub(super) fn on_ack(&mut self, delivered: u64, safe: bool, (pipe, threshold, mss): (u64, u64, u64)) {
        if delivered == 0 {
            return;
        }
        self.delivered += delivered;
        let allowance = if pipe > threshold {
            (self.delivered * threshold).div_ceil(self.flight_at_start).saturating_sub(self.out)
        } else {
            let bound = self.delivered.saturating_sub(self.out).max(delivered) + if safe { mss } else { 0 };
            bound.min(threshold - pipe)
        };
        // The first retransmission of a recovery is always permitted.
        self.allowance = if self.out == 0 && allowance == 0 { mss } else { allowance };
    }

    /// Subtracts `len` sent bytes from the allowance.
    pub(super) fn sent(&mut self, len: u64) {
        self.out += len;
        self.allowance = self.allowance.saturating_sub(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prr_sends_in_proportion_to_delivered_bytes() {
        // 20 segments of 100 bytes in flight, threshold 10: every second delivery sends one.
        let mut prr = Prr::start(2000);
        let mut out = 0;
        let mut pipe = 1900;
        for _ in 0..10 {
            prr.on_ack(100, true, (pipe, 1000, 100));
            pipe -= 100;
            while prr.allowance >= 100 {
                prr.sent(100);
                pipe += 100;
                out += 1;
            }
        }
        assert_eq!(out, 5);
        // Below ssthresh, PRR may send delivered bytes minus sent bytes (600) plus one segment (RFC 6937).
        prr.on_ack(100, true, (200, 1000, 100));
        assert_eq!(prr.allowance, 700);
        // The allowance ends at the threshold.
        prr.on_ack(100, true, (900, 1000, 100));
        assert_eq!(prr.allowance, 100);
    }
}
