//! Data that is assigned to paths before their windows admit it. It waits for its path; while that path is usable, no
//! other path sends it.

use super::{Data, PathState, Piece};
use std::collections::VecDeque;

/// Ranges of the stream, in the order in which they are sent.
#[derive(Debug, Default)]
struct Queue {
    ranges: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl Queue {
    fn push(&mut self, (start, end): (u64, u64)) {
        self.bytes += end - start;
        match self.ranges.back_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.ranges.push_back((start, end)),
        }
    }

    /// Takes at most `most` bytes of the first range.
    fn take(&mut self, most: u64) -> Option<(u64, u64)> {
        let first = self.ranges.front_mut()?;
        let (start, end) = (first.0, first.1.min(first.0 + most));
        first.0 = end;
        if end == first.1 {
            self.ranges.pop_front();
        }
        self.bytes -= end - start;
        Some((start, end))
    }

    /// Removes the data below `una`, which has been acknowledged.
    fn forget_below(&mut self, una: u64) {
        // Data may be acknowledged anywhere in the queue, because it was reinjected over another path.
        if self.ranges.iter().any(|(start, _)| *start < una) {
            self.ranges.retain(|(_, end)| *end > una);
            self.ranges.iter_mut().for_each(|(start, _)| *start = (*start).max(una));
            self.bytes = self.ranges.iter().map(|(start, end)| end - start).sum();
        }
    }
}

/// Data assigned to the paths of a connection.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Data that each path was assigned and has not sent yet, by path index.
    queues: Vec<Queue>,
    /// Data that was assigned to paths which have failed since.
    orphans: Queue,
    /// All data below this offset has been assigned to a path at least once.
    given: u64,
    una: u64,
}

impl Ahead {
    /// Removes acknowledged data from the queues. Moves the data of failed paths to the orphans.
    pub fn update(&mut self, data: &Data<'_>, paths: &[PathState]) {
        if self.queues.len() < paths.len() {
            self.queues.resize_with(paths.len(), Queue::default);
        }
        for path in paths.iter().filter(|path| !path.usable) {
            for range in core::mem::take(&mut self.queues[path.id.index()]).ranges {
                self.orphans.push(range);
            }
        }
        if data.una > self.una {
            self.una = data.una;
            self.given = self.given.max(data.una);
            for queue in self.queues.iter_mut().chain([&mut self.orphans]) {
                queue.forget_below(data.una);
            }
        }
    }

    /// Returns the number of bytes that a path was assigned and has not sent yet.
    pub fn waiting(&self, path: &PathState) -> u64 {
        self.queues.get(path.id.index()).map_or(0, |queue| queue.bytes)
    }

    /// Takes the next unassigned data, at most `most` bytes. If the window ends within this data, takes only whole
    /// packets.
    pub fn take(&mut self, data: &Data<'_>, most: u64, packet: u64) -> Option<(u64, u64)> {
        if let Some(orphan) = self.orphans.take(most) {
            return Some(orphan);
        }
        let mut len = most.min(data.end.saturating_sub(self.given));
        if data.more && len < most {
            len -= len % packet;
        }
        let start = self.given;
        self.given += len;
        (len > 0).then_some((start, start + len))
    }

    /// Assigns data that was [taken](Self::take) to a path.
    pub fn assign(&mut self, path: &PathState, range: (u64, u64)) {
        self.queues[path.id.index()].push(range);
    }

    /// Returns the next packet to send: a packet of assigned data, for the first path that has such data and room.
    pub fn piece(&mut self, paths: &[PathState]) -> Option<Piece> {
        paths.iter().filter(|path| path.usable && path.queueable > 0).find_map(|path| {
            let packet = u64::from(path.mss).min(path.queueable);
            let (start, end) = self.queues[path.id.index()].take(packet)?;
            Some(Piece { path: path.id, start, end, repeated: false })
        })
    }
}
