//! The scheduler of the Linux kernel with its queues: data is given to a subflow long before its window admits it, as far as the
//! send buffer goes (`__mptcp_push_pending` of net/mptcp/protocol.c), and stays there.
//!
//! As long as rates do not change, all subflows are through with theirs at the same time. But where the window of one collapses,
//! all the rest waits for what it was given before: up to a send buffer, at its new rate. Its siblings fill the receive buffer, run
//! dry, and begin anew as idle connections do.

use super::ahead::Ahead;
use super::linux::{BURST, Pace};
use super::{Data, Decision, Entry, Offer, PathState, Piece, Scheduler, eligible, takes_part};

/// The line of the table.
pub(super) const ENTRY: Entry = Entry {
    name: "linux-ahead",
    summary: "as linux, and paths have data ahead of their windows, which waits for them, as in the kernel",
    source: "Linux, net/mptcp/protocol.c",
    wants_rates: true,
    places: true,
    build: || Box::new(LinuxAhead::default()),
};

#[derive(Debug, Default)]
struct LinuxAhead {
    pace: Pace,
    ahead: Ahead,
}

impl LinuxAhead {
    /// Gives all that there is to paths: each burst to the one that would be through first.
    fn give(&mut self, data: &Data<'_>, paths: &[PathState]) {
        loop {
            let mut best: Option<(u128, u64, &PathState)> = None;
            for path in paths.iter().filter(|path| takes_part(path, paths)) {
                let queued = path.queued + self.ahead.waiting(path);
                let linger = self.pace.linger(path, queued);
                if best.is_none_or(|(shortest, ..)| linger < shortest) {
                    best = Some((linger, queued, path));
                }
            }
            let Some((_, queued, path)) = best else { return };
            let packet = u64::from(path.mss).max(1);
            let Some(burst) = self.ahead.take(data, BURST.next_multiple_of(packet), packet) else { return };
            self.pace.average(path, queued, burst.1 - burst.0);
            self.ahead.give(path, burst);
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
        self.ahead.follow(data, paths);
        self.give(data, paths);
        self.ahead.piece(paths)
    }
}
