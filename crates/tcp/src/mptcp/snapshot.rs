//! The paths' states for the scheduler.

use super::connection::Connection;
use crate::tcp::Context;
use anabranch_base::time::Time;
use anabranch_multipath::PathId;
use anabranch_multipath::scheduler::PathState;

impl Connection {
    /// Discards the last snapshot, because an event may have changed the state of any path.
    pub(super) const fn discard_snapshot(&mut self) {
        (self.blocked_since, self.outdated) = (None, None);
    }

    /// Takes a snapshot of the paths' states for the scheduler. If the last one is of the same time, and only one
    /// path has sent since, only the state of that path is taken.
    pub(super) fn snapshot_paths(&mut self, now: Time) {
        let least = self.send.unassigned().1.max(1);
        let waiting = (least, self.receive_window());
        let one = self.outdated.take().filter(|&(at, _)| at == now && self.fills_segments(least));
        if let Some((_, path)) = one {
            self.states[path.index()] = self.state_of(now, path.index(), waiting);
        } else {
            self.states.clear();
            for index in 0..self.subflows.len() {
                let state = self.state_of(now, index, waiting);
                self.states.push(state);
            }
            self.ample = self.fills_segments(least);
        }
        if !self.start_up.is_over() {
            let room = self.send_window();
            let seen = self.states.iter().map(|path| (path.srtt.filter(|_| path.usable), path.cwnd));
            self.start_up.observe(seen, room);
        }
    }

    /// Returns true if this number of bytes fills a segment on each path.
    fn fills_segments(&self, bytes: u64) -> bool {
        self.states.iter().all(|state| bytes >= state.mss.into())
    }

    /// State of a path. Free window below a full segment counts as none, unless it suffices for `least`, the waiting
    /// data.
    fn state_of(&mut self, now: Time, index: usize, (least, receive_window): (u64, u64)) -> PathState {
        let id = PathId(index as u8);
        let rates = self.config.scheduler.wants_rates;
        let mss = self.segment_limit(now, index);
        let subflow = &mut self.subflows[index];
        let usable = subflow.is_usable();
        let (mut cwnd, mut queueable) = (0, 0);
        if usable {
            let mut context = Context { now, congestion: &mut *self.congestion, receive_window };
            queueable = subflow.block.sendable(&mut context);
            cwnd = self.congestion.window(id);
            if queueable < u64::from(mss).min(least) {
                queueable = 0;
                subflow.restart = None;
            } else if subflow.restart.is_some_and(|restart| restart.holds(now)) {
                queueable = 0;
                subflow.block.note_paced();
            }
        }
        PathState {
            id,
            usable,
            backup: subflow.backup,
            cwnd,
            outstanding: subflow.block.outstanding(),
            queueable,
            queued: subflow.block.sent() - subflow.block.acknowledged(),
            recovering: subflow.block.is_recovering(),
            srtt: subflow.block.rtt().srtt(),
            rtt_variation: subflow.block.rtt().rttvar(),
            ssthresh: if rates { self.congestion.ssthresh(id) } else { u64::MAX },
            pacing_rate: if rates { self.congestion.pacing_rate(id) } else { None },
            mss,
        }
    }
}
