//! Time of the paths and of the association by the cause that limits sending.

use super::state::{Association, State};
use crate::common::Core;
use crate::counters::{Blocking, Stop};
use crate::path::state::{Path, Reachability};
use crate::sender::outbound::Outbound;
use anabranch_base::time::Time;
use anabranch_endpoint::blocked::Causes;
use anabranch_endpoint::limits::{Limit, Limits};

impl Path {
    /// The cause that limits this path even with data to send, if there is one: for example, the path is not active.
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
    /// Records that `stop` limits path `at` from `now` on, unless the state of the path is the cause.
    #[inline]
    pub fn note_limit(&mut self, now: Time, at: usize, stop: Stop) {
        let limit = match self.paths[at].standing() {
            Some(limit) => limit,
            None => self.limit(at, stop),
        };
        let path = &mut self.paths[at];
        if limit >= Limit::Pacing {
            // If the window, the pacing rate or the path's state is the limit, no free window is wasted.
            path.clock.set(now, limit, (0, None));
        } else if path.counters.data_packets_sent > 0 {
            let room = self.congestion.window(path.id).saturating_sub(path.in_window());
            path.clock.set(now, limit, (room, path.rtt.srtt()));
        } else {
            path.clock.set(now, limit, (0, None));
        }
    }

    /// Records that there is still no data.
    #[inline]
    pub fn note_no_data(&mut self, now: Time) {
        let same = |path: &Path| {
            let idle = matches!(path.clock.current(), Some(Limit::Application | Limit::Backup));
            path.standing().map_or(idle, |limit| path.clock.current() == Some(limit))
        };
        if !self.paths.iter().all(same) {
            self.unblock(now);
        }
    }

    /// Updates the association's times from those of its paths.
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

    #[inline]
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

    /// Congestion-control phase of a path whose window is full.
    #[inline]
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

impl Outbound {
    /// Records why each path is blocked, and the association if all of them are. Informs the scheduler if a path has
    /// room in its window but a full buffer prevents its use.
    pub fn note_blocking(&self, core: &mut Core, (len, now): (Option<u32>, Time)) {
        let shared = self.shared(core);
        let preferred = core.preferred();
        let several = core.config.cmt && shared.paths > 0;
        let (mut open, mut free, mut whole) = (false, false, None);
        for at in 0..core.paths.len() {
            let counts = if several { core.in_use(at) } else { at == preferred };
            let cause = if counts { self.blocking(core, at, (len, &shared)) } else { None };
            open |= counts && cause.is_none();
            if matches!(whole, None | Some(Blocking::CongestionWindow)) {
                whole = cause.or(whole);
            }
            core.paths[at].blocked = cause;
            core.note_limit(now, at, self.stop(core, (at, now), (counts, cause)));
            free |= cause.is_some_and(|cause| cause != Blocking::CongestionWindow);
        }
        // A path's share of a buffer limits only this path.
        if several && free && len.is_none_or(|len| u64::from(len) > self.window()) {
            core.scheduler.on_blocked();
        }
        core.blocked.set(now, whole.filter(|_| !open));
        core.follow_limits(now);
    }

    /// The cause for which nothing more is sent on path `at`; `counts` if new data may use the path.
    #[inline]
    fn stop(&self, core: &Core, (at, now): (usize, Time), (counts, cause): (bool, Option<Blocking>)) -> Stop {
        let path = &core.paths[at];
        match cause {
            // Lost chunks wait for the pacer.
            Some(Blocking::CongestionWindow)
                if path.is_paced_out(now) && core.window_admits(path, path.mss) =>
            {
                Stop::Paced
            }
            Some(cause) => Stop::Blocked(cause),
            None if !counts => Stop::Standby,
            None if self.held_back(core) => Stop::HeldBack,
            None if !path.is_released(now) => Stop::Paced,
            None => Stop::NotChosen,
        }
    }
}

impl Association {
    /// Records, outside the open state, that the paths are being established or that the association has ended.
    #[cold]
    pub(crate) fn note_limits_of_handshake(&mut self, now: Time) {
        match self.state {
            State::CookieWait(_) | State::CookieEchoed(_) => {
                self.core.paths.iter_mut().for_each(|path| path.clock.set(now, Limit::Opening, (0, None)));
                self.core.follow_limits(now);
            }
            State::Closed => {
                self.core.paths.iter_mut().for_each(|path| path.clock.end(now));
                self.core.clock.end(now);
                self.core.gap.note(now, None, |_| None);
            }
            State::Idle | State::Listening | State::Open(_) => {}
        }
    }

    pub(crate) fn limits_up_to(&self, now: Time) -> Limits {
        let mut buffers = self.core.blocked.report(now);
        buffers.retain(|&(cause, _)| cause != Blocking::CongestionWindow.name());
        Limits {
            gaps: self.core.gap.up_to(now, self.core.paths.len()),
            connection: self.core.clock.up_to(now),
            paths: self.core.paths.iter().map(|path| path.clock.up_to(now)).collect(),
            buffers,
        }
    }
}
