//! The scheduler of the Linux kernel, including its queues. Data is assigned to a subflow before the window of the
//! subflow admits it, as far as the send buffer allows (`__mptcp_push_pending` in net/mptcp/protocol.c), and stays with
//! this subflow.
//!
//! While rates do not change, all subflows would send their queued data in the same time. But if the window of one of
//! them collapses, the data that it was assigned before, up to a send buffer, takes much longer at the new rate. The
//! other subflows then fill the receive buffer, have no data to send, and restart as idle connections.

use super::ahead::Ahead;
use super::linux::{BURST, Pace};
use super::{Data, Decision, Entry, Offer, PathState, Piece, Scheduler, eligible, takes_part};

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "linux-ahead",
    summary: "like linux, but data is assigned to paths ahead of their windows and waits there, as in the kernel",
    source: "Linux, net/mptcp/protocol.c",
    wants_rates: true,
    places: true,
    wants_information: false,
    build: &|| Box::new(LinuxAhead::default()),
};

#[derive(Debug, Default)]
struct LinuxAhead {
    pace: Pace,
    ahead: Ahead,
}

impl LinuxAhead {
    /// Assigns all available data: each burst to the path that would have sent it first.
    fn assign(&mut self, data: &Data<'_>, paths: &[PathState]) {
        loop {
            let mut best: Option<(u128, u64, &PathState)> = None;
            for path in paths.iter().filter(|path| takes_part(path, paths)) {
                let queued = path.queued + self.ahead.waiting(path);
                let time_to_send_queue = self.pace.time_to_send_queue(path, queued);
                if best.is_none_or(|(shortest, ..)| time_to_send_queue < shortest) {
                    best = Some((time_to_send_queue, queued, path));
                }
            }
            let Some((_, queued, path)) = best else { return };
            let packet = u64::from(path.mss).max(1);
            let Some(burst) = self.ahead.take(data, BURST.next_multiple_of(packet), packet) else { return };
            self.pace.average(path, queued, burst.1 - burst.0);
            self.ahead.assign(path, burst);
        }
    }
}

impl Scheduler for LinuxAhead {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    /// Selects the path of a reinjection: the path that would have sent it first.
    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        if offer.is_empty() {
            return Decision::Wait;
        }
        let room = paths.iter().filter(|path| eligible(path, paths));
        let best = room.min_by_key(|path| self.pace.time_to_send_queue(path, path.queued));
        best.map_or(Decision::Wait, |path| Decision::Send(path.id))
    }

    fn place(&mut self, data: &Data<'_>, paths: &[PathState]) -> Option<Piece> {
        self.ahead.update(data, paths);
        self.assign(data, paths);
        self.ahead.piece(paths)
    }
}
