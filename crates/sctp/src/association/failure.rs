//! Reachability of the peer and its paths: errors, suspicion and failure (RFC 9260 §8.1, §8.2; RFC 7829), and signs of
//! life.
//!
//! # The peer
//! RFC 9260 §8.1 counts the retransmissions to all destinations together, and lost heartbeats only on the path that
//! carries data. With such a sum, an outage of all paths ends the association sooner if there are more paths. Therefore
//! each path counts the errors since the last packet from the peer, at most one per retransmission timeout. The error
//! count of the association is that of the path with the fewest. An outage of all paths and the outage of a single path
//! then end the association after the same time.
//!
//! Every packet from the peer is a sign of life, data included, because a receiver that sends no data has no other. The
//! first packet after a silence on all paths also triggers a heartbeat on each path with errors. Data then need not
//! wait for a backed-off timer.
//!
//! # The paths
//! After an error, only the acknowledgement of data sent after that error proves that a path works. An acknowledgement
//! of earlier data may have been delayed, or may concern a retransmission on another path.

use crate::common::Core;
use crate::path::state::{Heartbeat, Path, Reachability};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::Event;
use anabranch_multipath::rtt::{RtoBounds, RttEstimator};

impl Path {
    /// Counts an error. It increments the association's count at most once per retransmission timeout.
    fn count_error(&mut self, now: Time) {
        self.errors += 1;
        self.doubted = Some(now);
        if now >= self.next_miss {
            self.missed += 1;
            self.next_miss = now + self.rtt.rto();
        }
    }

    /// Resets the error count: a packet sent after the last error was answered.
    pub fn forget_errors(&mut self) {
        (self.errors, self.doubted) = (0, None);
        self.forget_misses();
    }

    fn forget_misses(&mut self) {
        (self.missed, self.next_miss) = (0, Time::ZERO);
    }

    /// Returns true if data is in flight on a path that has never answered, because no other path was left.
    pub fn carries_unconfirmed(&self) -> bool {
        self.reachability == Reachability::Unconfirmed && self.retransmission_timer.is_some()
    }

    /// Discards errors and timeouts, because the interface of the path has just come up. The path stays suspected or
    /// inactive until it answers.
    pub fn forget_errors_of_outage(&mut self, rto: RtoBounds) {
        if self.errors > 0 || !self.active() {
            self.rtt = RttEstimator::new(rto);
            self.late_answer = None;
        }
        self.errors = 0;
        self.forget_misses();
    }
}

impl Core {
    /// Consecutive errors of the association (RFC 9260 §8.1): those of the path with the fewest.
    fn errors(&self) -> u32 {
        let there = self.paths.iter().filter(|path| path.reachability != Reachability::Removed);
        there.map(|path| path.missed).min().unwrap_or(0)
    }

    /// True if the error count exceeds Association.Max.Retrans (RFC 9260 §8.1).
    pub fn exhausted(&self) -> bool {
        self.errors() > self.config.association_max_retrans
    }

    /// Records a packet from the peer. After a silence on all paths, a heartbeat is sent at once on each path with
    /// errors.
    #[inline]
    pub fn note_peer_alive(&mut self, now: Time, tag: u32) {
        if self.is_silent() {
            self.end_silence(now, tag);
        }
    }

    /// Returns true if every path has errors since the last packet from the peer.
    #[inline]
    fn is_silent(&self) -> bool {
        let mut there = self.paths.iter().filter(|path| path.reachability != Reachability::Removed);
        there.next().is_some_and(|first| first.missed > 0 && there.all(|path| path.missed > 0))
    }

    #[cold]
    fn end_silence(&mut self, now: Time, tag: u32) {
        for at in 0..self.paths.len() {
            let path = &mut self.paths[at];
            path.forget_misses();
            if path.errors > 0 {
                self.probe_now(now, at, tag);
            }
        }
    }

    /// Probes a path at once. An unconfirmed path is probed as soon as HB.Max.Burst allows.
    pub fn probe_now(&mut self, now: Time, at: usize, tag: u32) {
        let path = &mut self.paths[at];
        let waits = matches!(path.heartbeat, Heartbeat::Waiting { .. });
        match path.reachability {
            Reachability::Removed => {}
            Reachability::Unconfirmed if !waits => {
                path.heartbeat = Heartbeat::Queued;
                self.verify_paths(now, tag);
            }
            _ => self.repeat_heartbeat(now, at, tag),
        }
    }

    /// Handles an answer on a path: the path becomes confirmed and active, and its errors are reset.
    pub fn confirm(&mut self, now: Time, at: usize) {
        let path = &mut self.paths[at];
        path.forget_errors();
        let suspected = core::mem::take(&mut path.suspect);
        let active = path.active();
        if active && !suspected || path.reachability == Reachability::Removed {
            return;
        }
        path.reachability = Reachability::Active;
        let id = path.id;
        self.congestion.set_usable(id, true);
        if !active {
            self.events.push_back(Event::PathUp(id));
        }
        if suspected || self.paths.iter().any(|path| path.suspect || path.carries_unconfirmed()) {
            self.end_backoff(now, at);
        }
        self.rest(now, at);
    }

    /// Handles an answer on a path: the back-off of its timer ends, and data on suspected paths moves to it.
    pub fn end_backoff(&mut self, now: Time, at: usize) {
        for (other, path) in self.paths.iter_mut().enumerate() {
            if let Some(due) = &mut path.retransmission_timer {
                if other == at {
                    *due = (*due).min(now + path.rtt.rto());
                } else if path.suspect || path.reachability == Reachability::Unconfirmed {
                    *due = now;
                }
            }
        }
    }

    /// Counts an error against a path; it may become suspected (RFC 7829 §3.2) or inactive (RFC 9260 §8.2).
    pub fn path_error(&mut self, now: Time, at: usize) {
        self.paths[at].count_error(now);
        self.update_path_state(at);
    }

    /// Handles an ICMP report that a destination is unreachable. It counts as an error of the path, like a lost
    /// heartbeat (RFC 9260 §10, ICMP9). It does not count as silence of the peer, because there may be one such
    /// report per packet.
    pub fn path_unreachable(&mut self, now: Time, at: usize) {
        let path = &mut self.paths[at];
        (path.errors, path.doubted) = (path.errors + 1, Some(now));
        self.update_path_state(at);
    }

    /// Updates the state of a path after an error.
    fn update_path_state(&mut self, at: usize) {
        let there = |path: &Path| path.reachability != Reachability::Removed;
        let replaceable = self.paths.iter().enumerate().any(|(other, path)| other != at && there(path));
        let path = &mut self.paths[at];
        let threshold = self.config.potentially_failed_threshold;
        if threshold.is_some_and(|most| path.errors > most) && replaceable && path.healthy() {
            path.suspect = true;
            self.congestion.set_usable(path.id, false);
            self.totals.path_suspicions += 1;
            if !matches!(path.heartbeat, Heartbeat::Waiting { .. }) {
                path.heartbeat = Heartbeat::Idle { due: Time::ZERO };
            }
        }
        if path.errors > self.config.path_max_retrans && path.active() {
            path.reachability = Reachability::Inactive;
            let id = path.id;
            self.congestion.set_usable(id, false);
            self.events.push_back(Event::PathDown(id));
            self.totals.path_failures += 1;
        }
        self.probe_other_sources(at);
    }
}
