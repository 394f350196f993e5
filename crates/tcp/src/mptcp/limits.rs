//! Time of the subflows and of the connection by the cause that limits sending.

use super::connection::{Connection, ConnectionPhase, WaitCause};
use super::subflow::{Life, Subflow};
use crate::tcp::Demand;
use anabranch_base::time::Time;
use anabranch_endpoint::limits::Limit;

impl Subflow {
    /// The cause that would limit this subflow even if there was data to send; `None` if only data is
    /// missing. `regular`: true if a subflow other than a backup is usable. `done`: true if all data of both
    /// directions has arrived.
    #[inline]
    fn standing(&self, (regular, done): (bool, bool)) -> Option<Limit> {
        match self.life {
            Life::Dead | Life::ResetPending => return Some(Limit::Unusable),
            Life::Closing if done => return Some(Limit::Application),
            Life::Opening | Life::Up { .. } | Life::Closing => {}
        }
        if let Some(limit) = self.block.standing() {
            return Some(limit);
        }
        if !self.is_confirmed() {
            return Some(Limit::Opening);
        }
        if !self.block.is_open() {
            return Some(Limit::Unusable);
        }
        (self.backup && regular).then_some(Limit::Backup)
    }
}

impl Connection {
    /// Records for each subflow the cause that limits it; called when nothing more can be sent now. Unless the
    /// connection is `idle`, the scheduler has just been offered data with the state of each subflow.
    pub(super) fn note_limits(&mut self, now: Time, idle: bool) {
        if self.is_closed() {
            self.end_limits(now);
            return;
        }
        let backups = self.subflows.iter().any(|s| s.backup);
        let regular = backups && self.subflows.iter().any(|s| !s.backup && s.is_usable());
        let demand = self.demand(idle);
        // With a duplicating scheduler each path has a separate position in the data, so its cause is determined per
        // path.
        let known = match demand {
            Demand::Data(_) if !self.scheduler.duplicates() => Some(Limit::Scheduler),
            Demand::Shut(_) if !self.scheduler.duplicates() => Some(Limit::ReceiveWindow),
            _ => None,
        };
        let mut changed = false;
        for index in 0..self.subflows.len() {
            let limit = match known {
                Some(with_room) if self.states[index].usable && !(regular && self.subflows[index].backup) => {
                    let block = &mut self.subflows[index].block;
                    if self.states[index].queueable > 0 {
                        with_room
                    } else {
                        block.limit_without_room(&*self.congestion)
                    }
                }
                _ => self.limit_of(now, index, (regular, demand)),
            };
            let block = &mut self.subflows[index].block;
            block.note_limit(now, limit);
            changed |= block.limiting.clock.take_change();
        }
        if changed {
            self.clock.follow(now, self.subflows.iter().map(|s| &s.block.limiting.clock));
        }
    }

    /// The cause that limits a subflow; `regular` is true if a subflow other than a backup is usable.
    fn limit_of(&mut self, now: Time, index: usize, (regular, demand): (bool, Demand)) -> Limit {
        let done = self.is_done();
        let subflow = &self.subflows[index];
        if let Some(limit) = subflow.standing((regular, done)) {
            return limit;
        }
        if demand == Demand::Nothing && subflow.block.sent() == 0 {
            return Limit::Application;
        }
        let copies = demand != Demand::Nothing && self.scheduler.duplicates();
        let demand = if copies { self.demand_of_copy(index) } else { demand };
        self.with_block(now, index, |block, context| block.limit(context, demand))
    }

    /// Records the limits of a connection that is plain TCP on its first subflow.
    pub(super) fn note_limits_of_plain(&mut self, now: Time, available: u64) {
        if self.is_closed() {
            self.end_limits(now);
            return;
        }
        let refused = self.seen.starved;
        for index in 0..self.subflows.len() {
            let limit = match index {
                0 => self.subflows[0].block.standing(),
                _ => Some(Limit::Unusable),
            };
            let limit = limit.unwrap_or_else(|| {
                self.with_block(now, 0, |block, context| block.limit_alone(context, (available, refused)))
            });
            self.subflows[index].block.note_limit(now, limit);
        }
        self.clock.follow(now, self.subflows.iter().map(|s| &s.block.limiting.clock));
    }

    fn end_limits(&mut self, now: Time) {
        self.clock.end(now);
        self.subflows.iter_mut().for_each(|s| s.block.limiting.clock.end(now));
    }

    /// Data that waits for any subflow, unless the connection is `idle`.
    #[inline]
    fn demand(&self, idle: bool) -> Demand {
        if idle || self.phase != ConnectionPhase::Multipath {
            return if self.seen.starved { Demand::Refused } else { Demand::Nothing };
        }
        let (_, available) = self.send.unassigned();
        match self.waiting_for {
            Some(WaitCause::ReceiveWindow) => Demand::Shut(available),
            Some(WaitCause::CongestionWindow) | None => Demand::Data(available.max(1)),
        }
    }

    /// Data that waits for one subflow, under a scheduler that sends all data on each.
    fn demand_of_copy(&mut self, index: usize) -> Demand {
        let cursor = self.subflows[index].cursor.max(self.send.una);
        if cursor >= self.send.written {
            return if self.seen.starved { Demand::Refused } else { Demand::Nothing };
        }
        let left = self.send.written - cursor;
        if cursor >= self.send.edge { Demand::Shut(left) } else { Demand::Data(left) }
    }
}
