//! Times of the paths and of the association by the cause that limits what is sent.

use super::association::{Association, State};
use super::common::Core;
use super::counters::Blocking;
use super::path::{Path, Reachability};
use anabranch_base::time::Time;
use anabranch_endpoint::blocked::Causes;
use anabranch_endpoint::limits::{Limit, Limits};

/// The cause for which new data does not leave on a path that may carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// There is none.
    NoData,
    /// A buffer or the congestion window.
    Blocked(Blocking),
    /// A small rest is held back (Nagle).
    HeldBack,
    /// The pacing rate or the limit on bursts.
    Paced,
    /// The scheduler chose another path, or none.
    NotChosen,
    /// Without CMT, new data leaves on another path.
    Standby,
}

impl Path {
    /// The cause that limits this path whatever data there is.
    #[inline]
    fn standing(&self) -> Option<Limit> {
        match self.reachability {
            Reachability::Unconfirmed => Some(Limit::Opening),
            Reachability::Inactive | Reachability::Removed => Some(Limit::Unusable),
            Reachability::Active => match self.errors {
                0 if !self.suspect => None,
                0 | 1 => Some(Limit::Timeout),
                _ => Some(Limit::Unusable),
            },
        }
    }
}

impl Core {
    /// From `now` on, `stop` limits path `at`, unless its state alone does.
    #[inline]
    pub fn note_limit(&mut self, now: Time, at: usize, stop: Stop) {
        let limit = match self.paths[at].standing() {
            Some(limit) => limit,
            None => self.limit(at, stop),
        };
        let path = &mut self.paths[at];
        if limit >= Limit::Pacing {
            // A full window, a pacing rate and a path that cannot send miss nothing.
            path.clock.set(now, limit, (0, None));
        } else if path.counters.data_packets_sent > 0 {
            let room = self.congestion.window(path.id).saturating_sub(path.in_window());
            path.clock.set(now, limit, (room, path.rtt.srtt()));
        } else {
            path.clock.set(now, limit, (0, None));
        }
    }

    /// There is no data, as before.
    #[inline]
    pub fn note_rest(&mut self, now: Time) {
        let same = |path: &Path| {
            let idle = matches!(path.clock.current(), Some(Limit::Application | Limit::Backup));
            path.standing().map_or(idle, |limit| path.clock.current() == Some(limit))
        };
        if !self.paths.iter().all(same) {
            self.unblock(now);
        }
    }

    /// The association's times follow those of its paths.
    #[inline]
    pub fn follow_limits(&mut self, now: Time) {
        let mut changed = false;
        for path in &mut self.paths {
            changed |= path.clock.take_change();
        }
        if changed {
            self.clock.follow(now, self.paths.iter().map(|path| &path.clock));
        }
    }

    fn limit(&mut self, at: usize, stop: Stop) -> Limit {
        match stop {
            Stop::NoData | Stop::HeldBack => Limit::Application,
            Stop::Paced => Limit::Pacing,
            Stop::NotChosen => Limit::Scheduler,
            Stop::Standby => Limit::Backup,
            Stop::Blocked(Blocking::Transmission | Blocking::Gap) => Limit::SendBuffer,
            Stop::Blocked(Blocking::Reordering | Blocking::AdvertisedWindow) => Limit::ReceiveWindow,
            Stop::Blocked(Blocking::CongestionWindow) => self.window_limit(at),
        }
    }

    /// Phase of congestion control that the full window of a path is in.
    fn window_limit(&mut self, at: usize) -> Limit {
        let path = &mut self.paths[at];
        if path.recovery.is_some() {
            path.avoids = false;
            return Limit::Recovery;
        }
        if !path.avoids {
            let modelled = path.rate.as_ref().is_some_and(|rate| rate.is_modelled());
            path.avoids = modelled || self.congestion.window(path.id) >= self.congestion.ssthresh(path.id);
        }
        if path.avoids { Limit::Avoidance } else { Limit::SlowStart }
    }
}

impl Association {
    /// Nothing more is sent now, and the association is not open: notes that its paths are being established, or that
    /// it has ended.
    #[cold]
    pub(super) fn note_limits_of_handshake(&mut self, now: Time) {
        match self.state {
            State::CookieWait(_) | State::CookieEchoed(_) => {
                self.core.paths.iter_mut().for_each(|path| path.clock.set(now, Limit::Opening, (0, None)));
                self.core.follow_limits(now);
            }
            State::Closed => {
                self.core.paths.iter_mut().for_each(|path| path.clock.end(now));
                self.core.clock.end(now);
            }
            State::Idle | State::Listening | State::Open(_) => {}
        }
    }

    pub(super) fn limits_up_to(&self, now: Time) -> Limits {
        let mut buffers = self.core.blocked.report(now);
        buffers.retain(|&(cause, _)| cause != Blocking::CongestionWindow.name());
        Limits {
            connection: self.core.clock.up_to(now),
            paths: self.core.paths.iter().map(|path| path.clock.up_to(now)).collect(),
            buffers,
        }
    }
}
