//! How much of the congestion window the data in flight used. A window grows only if it was used.
//!
//! In congestion avoidance, data has to fill the window. In slow start it suffices that more than half of the window was
//! outstanding, if only the application limits the sender. The window is then in the validated phase of RFC 7661 §4.3;
//! Linux has the same rule (`tcp_is_cwnd_limited`), whatever limits the sender.

/// How much of the congestion window was used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowUse {
    /// Data below this position was sent while the window was full.
    full_until: u64,
    /// Largest number of outstanding bytes in the present window of data.
    peak: u64,
    /// Data below this position was sent in that window of data.
    peak_until: u64,
}

impl WindowUse {
    /// Records that data `[una, nxt)` is outstanding after a transmission of new data. Once the data of the largest number
    /// is acknowledged, a new window of data begins.
    #[inline]
    pub fn note_outstanding(&mut self, una: u64, nxt: u64) {
        let outstanding = nxt - una;
        if outstanding > self.peak || una >= self.peak_until {
            (self.peak, self.peak_until) = (outstanding, nxt);
        }
    }

    /// Records that data below `end` was sent in a full window.
    pub fn note_full(&mut self, end: u64) {
        self.full_until = self.full_until.max(end);
    }

    /// Returns true if the data at `una`, or later data, was sent in a full window.
    pub const fn was_full(&self, una: u64) -> bool {
        una < self.full_until
    }

    /// Returns true if the outstanding data that contained `una` exceeded half of a window of `bytes`.
    pub const fn exceeded_half(&self, una: u64, bytes: u64) -> bool {
        una < self.peak_until && bytes < 2 * self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_window_counts_until_acknowledged() {
        let mut used = WindowUse::default();
        for nxt in [100, 200, 300, 400, 500, 600] {
            used.note_outstanding(0, nxt);
        }
        // 600 bytes: more than half of 1100, and half of 1200.
        assert!(used.exceeded_half(0, 1199) && used.exceeded_half(599, 1199) && !used.exceeded_half(0, 1200));
        assert!(!used.exceeded_half(600, 1000), "all data of the window is acknowledged");
        // Less data is outstanding now, but the window of data has not ended.
        used.note_outstanding(500, 700);
        assert!(used.exceeded_half(500, 1199));
        used.note_outstanding(600, 900);
        assert!(used.exceeded_half(600, 599) && !used.exceeded_half(600, 600));
        assert!(!used.was_full(0));
    }

    #[test]
    fn full_window_counts_until_acknowledged() {
        let mut used = WindowUse::default();
        used.note_full(300);
        used.note_full(200); // a retransmission
        assert!(used.was_full(0) && used.was_full(299) && !used.was_full(300));
    }
}
