//! The scheduler of the Linux kernel with its queues: data is given to a subflow long before its window admits it, as far as the
//! send buffer goes (`__mptcp_push_pending` of net/mptcp/protocol.c), and stays there.
//!
//! As long as rates do not change, all subflows are through with theirs at the same time. But where the window of one collapses,
//! all the rest waits for what it was given before: up to a send buffer, at its new rate. Its siblings fill the receive buffer, run
//! dry, and begin anew as idle connections do.

use super::linux::{BURST, Pace};
use super::{Data, Decision, Entry, Offer, PathState, Piece, Scheduler, eligible, takes_part};
use std::collections::VecDeque;

/// The line of the table.
pub(super) const ENTRY: Entry = Entry {
    name: "linux-ahead",
    summary: "as linux, and paths have data ahead of their windows, which waits for them, as in the kernel",
    source: "Linux, net/mptcp/protocol.c",
    wants_rates: true,
    places: true,
    build: || Box::new(LinuxAhead::default()),
};

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

    /// All below `una` is acknowledged.
    fn forget_below(&mut self, una: u64) {
        // A range that was sent again over another path stands anywhere in the queue of the one that has it next.
        if self.ranges.iter().any(|(start, _)| *start < una) {
            self.ranges.retain(|(_, end)| *end > una);
            self.ranges.iter_mut().for_each(|(start, _)| *start = (*start).max(una));
            self.bytes = self.ranges.iter().map(|(start, end)| end - start).sum();
        }
    }
}

#[derive(Debug, Default)]
struct LinuxAhead {
    pace: Pace,
    /// What each path has been given and has not sent, by identifier.
    queues: Vec<Queue>,
    /// What a path had been given that has failed since.
    orphans: Queue,
    /// All below has been given to a path once.
    given: u64,
    una: u64,
}

impl LinuxAhead {
    /// Forgets what is acknowledged, and takes back what failed paths were to send.
    fn follow(&mut self, data: &Data<'_>, paths: &[PathState]) {
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

    /// Takes the next burst that no path has, at most `most` bytes; only whole packets of what the window cuts off.
    fn take(&mut self, data: &Data<'_>, most: u64, packet: u64) -> Option<(u64, u64)> {
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

    /// Gives all that there is to paths: each burst to the one that would be through first.
    fn give(&mut self, data: &Data<'_>, paths: &[PathState]) {
        loop {
            let mut best: Option<(u128, u64, &PathState)> = None;
            for path in paths.iter().filter(|path| takes_part(path, paths)) {
                let queued = path.queued + self.queues[path.id.index()].bytes;
                let linger = self.pace.linger(path, queued);
                if best.is_none_or(|(shortest, ..)| linger < shortest) {
                    best = Some((linger, queued, path));
                }
            }
            let Some((_, queued, path)) = best else { return };
            let packet = u64::from(path.mss).max(1);
            let Some(burst) = self.take(data, BURST.next_multiple_of(packet), packet) else { return };
            self.pace.average(path, queued, burst.1 - burst.0);
            self.queues[path.id.index()].push(burst);
        }
    }
}

impl Scheduler for LinuxAhead {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    /// Who gets what may have been lost: again the path that would be through first.
    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        if offer.is_empty() {
            return Decision::Wait;
        }
        let room = paths.iter().filter(|path| eligible(path, paths));
        let best = room.min_by_key(|path| self.pace.linger(path, path.queued));
        best.map_or(Decision::Wait, |path| Decision::Send(path.id))
    }

    fn place(&mut self, data: &Data<'_>, paths: &[PathState]) -> Option<Piece> {
        self.follow(data, paths);
        self.give(data, paths);
        let room = paths.iter().filter(|path| path.usable && path.queueable > 0);
        room.into_iter().find_map(|path| {
            let packet = u64::from(path.mss).min(path.queueable);
            let (start, end) = self.queues[path.id.index()].take(packet)?;
            Some(Piece { path: path.id, start, end, repeated: false })
        })
    }
}
