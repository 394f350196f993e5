//! Whether the peer and its paths are there: errors, suspicion and failure (RFC 9260 §8.1, §8.2; RFC 7829), and signs of life.
//!
//! # The peer
//! RFC 9260 §8.1 counts the retransmissions to all destinations together, and lost heartbeats only on the path that carries
//! data. A sum over paths that fail together ends the association sooner the more paths there are. Therefore each path counts
//! what was missed on it since the peer was last heard, at most once per retransmission timeout, and the association has as many
//! errors as the path with the fewest. An outage of all paths takes as long to end it as the outage of a single one.
//!
//! Every packet of the peer is a sign of life, data included: a receiver that sends no data has no other. The first one after a
//! silence on all paths also starts a heartbeat on each path with errors, so that data does not wait for a timer that has been
//! doubled.
//!
//! # The paths
//! After an error, only what was sent since that error proves that a path works. An acknowledgement of earlier data may have been
//! delayed or repeated over another path.

use super::common::Core;
use super::path::{Heartbeat, Path, Reachability};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::Event;
use anabranch_multipath::rtt::{RtoBounds, RttEstimator};

impl Path {
    /// An error was counted; it is missed time once per retransmission timeout.
    fn count_error(&mut self, now: Time) {
        self.errors += 1;
        self.doubted = Some(now);
        if now >= self.next_miss {
            self.missed += 1;
            self.next_miss = now + self.rtt.rto();
        }
    }

    /// Something that was sent after the last error has been answered.
    pub fn forget_errors(&mut self) {
        (self.errors, self.doubted) = (0, None);
        self.forget_misses();
    }

    fn forget_misses(&mut self) {
        (self.missed, self.next_miss) = (0, Time::ZERO);
    }

    /// The path's interface has just come up: earlier errors and timeouts are no longer relevant. The path
    /// stays suspected or inactive until it answers.
    pub fn begin_again(&mut self, rto: RtoBounds) {
        if self.errors > 0 || !self.active() {
            self.rtt = RttEstimator::new(rto);
        }
        self.errors = 0;
        self.forget_misses();
    }
}

impl Core {
    /// Errors of the association in a row (RFC 9260 §8.1).
    fn errors(&self) -> u32 {
        let there = self.paths.iter().filter(|path| path.reachability != Reachability::Removed);
        there.map(|path| path.missed).min().unwrap_or(0)
    }

    /// The peer has not answered for too long (RFC 9260 §8.1).
    pub fn exhausted(&self) -> bool {
        self.errors() > self.config.association_max_retrans
    }

    /// A packet of the peer has come: the peer is reachable. After a silence on all paths, each path with
    /// errors gets a heartbeat at once.
    #[inline]
    pub fn hear_peer(&mut self, now: Time, tag: u32) {
        if self.errors() > 0 {
            self.end_silence(now, tag);
        }
    }

    #[cold]
    fn end_silence(&mut self, now: Time, tag: u32) {
        for at in 0..self.paths.len() {
            let path = &mut self.paths[at];
            path.forget_misses();
            if path.errors > 0 {
                self.ask(now, at, tag);
            }
        }
    }

    /// Asks a path at once whether it answers; one that was never confirmed as soon as it may be.
    pub fn ask(&mut self, now: Time, at: usize, tag: u32) {
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

    /// An answer came over a path: it is confirmed and active, and its errors are forgotten.
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
        if suspected || self.paths.iter().any(|path| path.suspect) {
            self.trust(now, at);
        }
        self.rest(now, at);
    }

    /// A path has answered: its data does not wait for a timer that has been doubled, and data on paths that are suspected comes
    /// over to it.
    pub fn trust(&mut self, now: Time, at: usize) {
        for (other, path) in self.paths.iter_mut().enumerate() {
            if let Some(due) = &mut path.retransmission_timer {
                if other == at {
                    *due = (*due).min(now + path.rtt.rto());
                } else if path.suspect {
                    *due = now;
                }
            }
        }
    }

    /// Counts an error against a path; it may become suspected (RFC 7829 §3.2) or inactive (RFC 9260 §8.2).
    pub fn path_error(&mut self, now: Time, at: usize) {
        self.paths[at].count_error(now);
        self.judge(at);
    }

    /// A router reports that a destination cannot be reached: an error of its path, as if a heartbeat had not been answered
    /// (RFC 9260 §10, ICMP9). It counts no silence of the peer, as there may be one such report for each packet.
    pub fn path_unreachable(&mut self, now: Time, at: usize) {
        let path = &mut self.paths[at];
        (path.errors, path.doubted) = (path.errors + 1, Some(now));
        self.judge(at);
    }

    /// Draws the conclusions from the errors of a path.
    fn judge(&mut self, at: usize) {
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
        self.scout(at);
    }
}
