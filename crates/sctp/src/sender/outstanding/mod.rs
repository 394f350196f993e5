//! The sender's scoreboard: every chunk from the first one that is not cumulatively acknowledged to the newest.
//!
//! TSNs are unwrapped to 64 bits and are contiguous, so the chunks live in a ring indexed by the distance from the
//! oldest: any chunk is found in constant time, and the cumulative point moves by popping the front.
//!
//! The totals ([`ChunkTotals`]: of all chunks, and per path of those that it carried last) always match the chunks,
//! because only this module changes the state and the path of a chunk. [`Outstanding::recount`] verifies this.
//!
//! Every transmission of a chunk, first or not, gets a number; the numbers ascend over the whole association. A path
//! keeps its transmissions in this order in queues ([`Flight`]). An entry is *live* while it is the chunk's last
//! transmission and the chunk is still in flight. Other entries are dropped when they reach the front. No queue is ever
//! searched, and each entry costs constant time over its life.

use crate::path::copies::ChunkCopy;
use crate::path::state::{Flight, Path};
use crate::totals::{ChunkState, ChunkTotals, RetransmissionReason};
use anabranch_base::time::Time;
use anabranch_wire::sctp::DataFlags;
use std::collections::VecDeque;

/// One chunk of user data that has a TSN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub offset: u64,
    pub sent_at: Time,
    /// Number of the chunk's last transmission.
    pub sent_as: u64,
    pub len: u32,
    /// SSN of DATA, MID of I-DATA.
    pub message: u32,
    /// Position of its message in the order of writing, modulo 2^32.
    pub serial: u32,
    /// The field of I-DATA: payload protocol identifier in the first fragment, else the fragment sequence number.
    pub ppid_or_fsn: u32,
    /// Number of the recovery phase or timeout that last counted this chunk as lost; 0 for none.
    pub recovery: u32,
    pub stream: u16,
    pub flags: DataFlags,
    /// The path that carried the chunk last.
    pub path: u8,
    pub transmissions: u8,
    pub state: ChunkState,
    /// True if more than one path has carried the chunk, so that its acknowledgement cannot be attributed to a path
    /// (RFC 9260 §8.2).
    pub moved: bool,
    /// True if the chunk was fast retransmitted, which happens at most once (RFC 9260 §7.2.4 rule 5).
    pub fast: bool,
}

impl Chunk {
    /// The chunk's last transmission as a copy, which uses `bytes` of a window.
    pub const fn as_copy(&self, tsn: u64, bytes: u32) -> ChunkCopy {
        let &Self { sent_as, sent_at, len, .. } = self;
        ChunkCopy { tsn, sent_as, sent_at, len, bytes }
    }

    /// The chunk as if this copy, on path `at`, were its only transmission.
    pub const fn sent_only_as(self, copy: &ChunkCopy, at: usize) -> Self {
        let &ChunkCopy { sent_as, sent_at, .. } = copy;
        Self { sent_as, sent_at, path: at as u8, transmissions: 1, moved: false, ..self }
    }
}

/// The ring of chunks.
#[derive(Debug)]
pub(crate) struct Outstanding {
    chunks: VecDeque<Chunk>,
    /// TSN of the first chunk, or the next TSN if there is none.
    base: u64,
    /// Totals of all chunks.
    totals: ChunkTotals,
}

impl Outstanding {
    pub fn new(first_tsn: u64) -> Self {
        Self { chunks: VecDeque::new(), base: first_tsn, totals: ChunkTotals::default() }
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

    /// Sets the TSN of the next chunk; the scoreboard must be empty.
    pub fn rebase(&mut self, tsn: u64) {
        assert!(self.chunks.is_empty(), "no chunk may be outstanding");
        self.base = tsn;
    }

    /// Totals of all chunks.
    pub const fn totals(&self) -> &ChunkTotals {
        &self.totals
    }

    pub fn get(&self, tsn: u64) -> Option<&Chunk> {
        self.chunks.get(tsn.checked_sub(self.base)? as usize)
    }

    fn get_mut(&mut self, tsn: u64) -> Option<&mut Chunk> {
        self.chunks.get_mut(tsn.checked_sub(self.base)? as usize)
    }

    /// Adds a new chunk in flight, which takes the next TSN.
    pub fn push(&mut self, chunk: Chunk, paths: &mut [Path]) {
        self.totals.add(chunk.state, chunk.len);
        paths[usize::from(chunk.path)].totals.add(chunk.state, chunk.len);
        self.chunks.push_back(chunk);
    }

    /// Removes the oldest chunk, which is cumulatively acknowledged.
    pub fn pop(&mut self, paths: &mut [Path]) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.base += 1;
        self.totals.remove(chunk.state, chunk.len);
        paths[usize::from(chunk.path)].totals.remove(chunk.state, chunk.len);
        Some(chunk)
    }

    /// Changes the state of a chunk and updates the totals, if `allowed` accepts its old state. Returns the old chunk.
    fn change(
        &mut self,
        paths: &mut [Path],
        tsn: u64,
        allowed: impl FnOnce(ChunkState) -> bool,
        state: ChunkState,
    ) -> Option<Chunk> {
        let chunk = self.get_mut(tsn).filter(|chunk| allowed(chunk.state))?;
        let before = *chunk;
        chunk.state = state;
        let (len, path) = (before.len, &mut paths[usize::from(before.path)]);
        for totals in [&mut self.totals, &mut path.totals] {
            totals.remove(before.state, len);
            totals.add(state, len);
        }
        Some(before)
    }

    /// Marks a lost chunk as in flight again on a path, as transmission `sent_as`. Returns the old chunk.
    pub fn transmit(
        &mut self,
        paths: &mut [Path],
        tsn: u64,
        sent_as: u64,
        (at, now): (usize, Time),
    ) -> Option<Chunk> {
        let chunk = self.get_mut(tsn).filter(|chunk| matches!(chunk.state, ChunkState::Lost(_)))?;
        let before = *chunk;
        chunk.state = ChunkState::InFlight;
        chunk.path = at as u8;
        chunk.sent_as = sent_as;
        chunk.sent_at = now;
        chunk.transmissions = chunk.transmissions.saturating_add(1);
        let from = usize::from(before.path);
        chunk.moved |= from != at;
        self.totals.remove(before.state, before.len);
        self.totals.add(ChunkState::InFlight, before.len);
        paths[from].totals.remove(before.state, before.len);
        paths[at].totals.add(ChunkState::InFlight, before.len);
        Some(before)
    }

    /// Lets a copy in flight on a path replace the lost transmission of its chunk. Returns true if the chunk was
    /// lost.
    pub fn replace(&mut self, paths: &mut [Path], copy: &ChunkCopy, at: usize) -> bool {
        let place = (at, copy.sent_at);
        let Some(before) = self.transmit(paths, copy.tsn, copy.sent_as, place) else { return false };
        if let Some(chunk) = self.get_mut(copy.tsn) {
            // The chunk was not retransmitted.
            (chunk.transmissions, chunk.fast) = (before.transmissions, false);
        }
        true
    }

    /// Marks a chunk in flight as lost, for retransmission. Returns the old chunk.
    pub fn lose(&mut self, paths: &mut [Path], tsn: u64, why: RetransmissionReason) -> Option<Chunk> {
        self.change(paths, tsn, |state| state == ChunkState::InFlight, ChunkState::Lost(why))
    }

    /// Records the number of the recovery phase or timeout in which a chunk was lost; `fast` if by missing reports.
    pub fn lost_in(&mut self, tsn: u64, reaction: u32, fast: bool) {
        if let Some(chunk) = self.get_mut(tsn) {
            (chunk.fast, chunk.recovery) = (chunk.fast || fast, reaction);
        }
    }

    /// Longest payload of an unacknowledged chunk, bytes.
    pub fn longest_open(&self) -> u32 {
        let open = |chunk: &&Chunk| chunk.state.is_open();
        self.chunks.iter().filter(open).map(|chunk| chunk.len).max().unwrap_or(0)
    }

    /// Requests an immediate acknowledgement of a chunk (RFC 7053).
    pub fn request_immediate_sack(&mut self, tsn: u64) {
        if let Some(chunk) = self.get_mut(tsn) {
            chunk.flags |= DataFlags::IMMEDIATE;
        }
    }

    /// Marks a lost chunk as in flight again, without a retransmission. Returns the old chunk.
    pub fn restore(&mut self, paths: &mut [Path], tsn: u64) -> Option<Chunk> {
        self.change(paths, tsn, |state| matches!(state, ChunkState::Lost(_)), ChunkState::InFlight)
    }

    /// Marks a chunk as covered by a gap block for the first time; non-renegable if `kept`. Returns the old chunk.
    pub fn acknowledge(&mut self, paths: &mut [Path], tsn: u64, kept: bool) -> Option<Chunk> {
        let state = if kept { ChunkState::Freed } else { ChunkState::GapAcked };
        self.change(paths, tsn, ChunkState::is_open, state)
    }

    /// Frees a chunk that is acknowledged after a gap and non-renegable from the send buffer. Returns the old chunk.
    pub fn free(&mut self, paths: &mut [Path], tsn: u64) -> Option<Chunk> {
        self.change(paths, tsn, |state| state == ChunkState::GapAcked, ChunkState::Freed)
    }

    /// Marks a chunk whose message was abandoned. Returns the old chunk.
    pub fn abandon(&mut self, paths: &mut [Path], tsn: u64) -> Option<Chunk> {
        let there = |state| state != ChunkState::Abandoned;
        self.change(paths, tsn, there, ChunkState::Abandoned)
    }

    /// Marks a chunk on which the receiver has reneged as in flight again, as transmission `sent_as`. A freed chunk
    /// cannot be retransmitted. Returns the old chunk.
    pub fn renege(&mut self, paths: &mut [Path], tsn: u64, sent_as: u64) -> Option<Chunk> {
        let taken_back = |state| state == ChunkState::GapAcked;
        let before = self.change(paths, tsn, taken_back, ChunkState::InFlight)?;
        self.get_mut(tsn)?.sent_as = sent_as;
        Some(before)
    }

    /// True if `flight` is the last transmission of a chunk that is still in flight on `path`.
    pub fn live(&self, flight: Flight, path: u8) -> bool {
        self.get(flight.tsn)
            .is_some_and(|c| c.state == ChunkState::InFlight && c.sent_as == flight.sent_as && c.path == path)
    }

    /// Drops entries that are not live from the front of a path's queue; returns the first live one.
    pub fn front(&self, queue: &mut VecDeque<Flight>, path: u8) -> Option<Flight> {
        while let Some(&flight) = queue.front() {
            if self.live(flight, path) {
                return Some(flight);
            }
            queue.pop_front();
        }
        None
    }

    /// Checks that the totals equal the sums over the chunks.
    #[cfg(test)]
    pub fn recount(&self, paths: &[Path]) -> Result<(), String> {
        let mut all = ChunkTotals::default();
        let mut each = vec![ChunkTotals::default(); paths.len()];
        for chunk in &self.chunks {
            all.add(chunk.state, chunk.len);
            each[usize::from(chunk.path)].add(chunk.state, chunk.len);
        }
        for (path, totals) in paths.iter().zip(each) {
            if path.totals != totals {
                return Err(format!(
                    "path {:?} has {:?} and its chunks are {totals:?}",
                    path.id, path.totals
                ));
            }
        }
        if self.totals == all {
            Ok(())
        } else {
            Err(format!("{:?}, and the chunks are {all:?}", self.totals))
        }
    }
}

#[cfg(test)]
mod tests;
