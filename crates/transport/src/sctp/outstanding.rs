//! The sender's scoreboard: every chunk between the first one not cumulatively acknowledged and the newest.
//!
//! TSNs are unwrapped to 64 bits and are contiguous, so the chunks live in a ring indexed by the distance from the
//! oldest: any chunk is found in constant time, and the cumulative point moves by popping the front.
//!
//! Every transmission of a chunk, first or repeated, gets a number of its own, ascending over the whole association.
//! A path keeps its transmissions in that order in queues ([`Flight`]); an entry is *live* while the chunk's last
//! transmission is the one that the entry names and it is still in flight. Dead entries are dropped when they reach
//! the front, so that no queue is ever searched and each entry costs constant time over its life.

use multipath::time::Time;
use std::collections::VecDeque;
use wire::sctp::DataFlags;

/// What the sender believes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Sent, neither acknowledged nor believed lost.
    InFlight,
    /// To be sent again.
    Lost,
    /// Covered by a gap block that the receiver may take back.
    Acked,
    /// Covered by a gap block for good; it no longer occupies the send buffer.
    Gone,
}

/// Why a chunk is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It is not.
    None,
    /// Missing reports.
    Fast,
    /// The retransmission timer ran out.
    Timeout,
    /// It blocks a buffer, and another path carries it once more.
    Rescheduled,
    /// A zero-window probe that was not taken.
    Probe,
}

/// One chunk of user data that has a TSN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub offset: u64,
    pub sent_at: Time,
    /// Number of the chunk's last transmission.
    pub sent_as: u64,
    pub len: u32,
    /// SSN of DATA, MID of I-DATA.
    pub message: u32,
    /// As in I-DATA: the payload protocol identifier, or the number of a fragment that is not the first.
    pub ppid_or_fsn: u32,
    /// The recovery phase that began with, or found, the loss of this chunk; 0 for none.
    pub recovery: u32,
    pub stream: u16,
    pub flags: DataFlags,
    /// The path that carried it last.
    pub path: u8,
    pub transmissions: u8,
    pub fate: Fate,
    pub cause: Cause,
    /// It was retransmitted fast; that happens once (RFC 9260 §7.2.4 rule 5).
    pub fast: bool,
}

/// One transmission on a path's queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub tsn: u64,
    pub sent_as: u64,
}

/// The ring of chunks.
#[derive(Debug)]
pub(super) struct Outstanding {
    chunks: VecDeque<Chunk>,
    /// TSN of the front, or the next TSN if there is none.
    base: u64,
}

impl Outstanding {
    pub fn new(first_tsn: u64) -> Self {
        Self { chunks: VecDeque::new(), base: first_tsn }
    }

    /// The lowest TSN not cumulatively acknowledged.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// The TSN of the next new chunk.
    pub fn next_tsn(&self) -> u64 {
        self.base + self.chunks.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The lowest offset of a chunk that still occupies the send buffer.
    pub fn lowest_offset(&self) -> Option<u64> {
        self.chunks.iter().filter(|chunk| chunk.fate != Fate::Gone).map(|chunk| chunk.offset).min()
    }

    pub fn get(&self, tsn: u64) -> Option<&Chunk> {
        self.chunks.get(tsn.checked_sub(self.base)? as usize)
    }

    pub fn get_mut(&mut self, tsn: u64) -> Option<&mut Chunk> {
        self.chunks.get_mut(tsn.checked_sub(self.base)? as usize)
    }

    pub fn push(&mut self, chunk: Chunk) {
        self.chunks.push_back(chunk);
    }

    /// Takes the oldest chunk out: it is cumulatively acknowledged.
    pub fn pop(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.base += 1;
        Some(chunk)
    }

    /// True if `flight` is the last transmission of a chunk that is still in flight on `path`.
    pub fn live(&self, flight: Flight, path: u8) -> bool {
        self.get(flight.tsn)
            .is_some_and(|c| c.fate == Fate::InFlight && c.sent_as == flight.sent_as && c.path == path)
    }

    /// Drops dead entries from the front of a path's queue; returns the first live one.
    pub fn front(&self, queue: &mut VecDeque<Flight>, path: u8) -> Option<Flight> {
        while let Some(&flight) = queue.front() {
            if self.live(flight, path) {
                return Some(flight);
            }
            queue.pop_front();
        }
        None
    }
}

/// The highest transmission numbers newly acknowledged on a path, one for each acknowledgement that reported
/// something missing below: the `n` largest of them.
///
/// A chunk has `n` missing reports exactly if the n-th largest of these numbers is above its own, because every
/// acknowledgement counts against all chunks sent before the highest one that it newly acknowledges (HTNA, RFC 9260
/// §7.2.4; per path under split fast retransmit). So no chunk needs a counter, and the lost ones are always at the
/// front of the path's queue.
#[derive(Debug)]
pub(super) struct Reports {
    largest: Vec<u64>,
}

impl Reports {
    pub fn new(threshold: u32) -> Self {
        Self { largest: vec![0; threshold.max(1) as usize] }
    }

    pub fn push(&mut self, sent_as: u64) {
        let at = self.largest.partition_point(|&known| known >= sent_as);
        if at < self.largest.len() {
            self.largest.pop();
            self.largest.insert(at, sent_as);
        }
    }

    /// Chunks with a transmission number below this one have enough missing reports.
    pub fn lost_below(&self) -> u64 {
        self.largest.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_reports_make_a_loss() {
        let mut reports = Reports::new(3);
        reports.push(5);
        reports.push(9);
        assert_eq!(reports.lost_below(), 0);
        reports.push(7);
        assert_eq!(reports.lost_below(), 5); // 1..=4 were below all three
        reports.push(3); // below the third largest: changes nothing
        assert_eq!(reports.lost_below(), 5);
        reports.push(8);
        assert_eq!(reports.lost_below(), 7);
    }
}
