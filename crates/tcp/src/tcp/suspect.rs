//! Record of a reaction to a loss that may prove spurious. `undo.rs` acts on it.

use anabranch_wire::seq::Serial;

/// State of Eifel detection: whether the echoed timestamp of an acknowledgement can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Eifel {
    /// Nothing has been retransmitted yet.
    Waiting,
    /// The lowest outstanding segment was retransmitted with this timestamp.
    Sent(u32),
    /// Eifel detection is over: it has decided, or another segment than the lowest was retransmitted first.
    Over,
}

/// A reaction to a loss or timeout that may prove spurious.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspect {
    /// Lowest unacknowledged position at the reaction.
    from: u64,
    /// Next position to be sent at the reaction.
    until: u64,
    eifel: Eifel,
    /// Retransmitted bytes that the receiver has not reported as duplicates; `None` before the first retransmission.
    unexplained: Option<u64>,
}

impl Suspect {
    pub(super) const fn new(from: u64, until: u64) -> Self {
        Self { from, until, eifel: Eifel::Waiting, unexplained: None }
    }

    /// Records that the segment at `start` with `len` sequence numbers was retransmitted with timestamp `stamp`.
    pub(super) fn retransmitted(&mut self, start: u64, len: u32, stamp: u32) {
        if self.eifel == Eifel::Waiting {
            self.eifel = if start == self.from { Eifel::Sent(stamp) } else { Eifel::Over };
        }
        *self.unexplained.get_or_insert(0) += u64::from(len);
    }

    /// Returns true if `echo`, in the acknowledgement of the lowest segment, is from before the retransmission.
    pub(super) fn is_decided_by(&mut self, echo: u32) -> bool {
        let before = matches!(self.eifel, Eifel::Sent(stamp) if Serial(echo).before(Serial(stamp)));
        if self.eifel != Eifel::Waiting {
            self.eifel = Eifel::Over;
        }
        before
    }

    /// Subtracts `[start, end)`, which the receiver has reported as a duplicate.
    pub(super) fn duplicated(&mut self, (start, end): (u64, u64)) {
        if let Some(bytes) = &mut self.unexplained
            && self.from <= start
            && end <= self.until
        {
            *bytes = bytes.saturating_sub(end - start);
        }
    }

    /// Returns true if all data that was outstanding at the reaction has arrived, and every retransmitted byte of it
    /// has arrived twice.
    pub(super) fn is_explained(&self, una: u64) -> bool {
        una >= self.until && self.unexplained == Some(0)
    }
}
