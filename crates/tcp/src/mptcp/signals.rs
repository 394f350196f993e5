//! Options that need repetition: `ADD_ADDR` until the peer echoes it (RFC 8684 §3.4.1); `REMOVE_ADDR` (§3.4.2) and
//! `MP_PRIO` (§3.3.8), which are never acknowledged, a few times at increasing intervals.

use super::connection::{Connection, ConnectionPhase, Repeated, Role};
use super::keys::address_hmac;
use super::subflow::{Resend, Subflow};
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_wire::tcp::mptcp::{AddAddress, Control};
use core::net::IpAddr;

/// Interval between transmissions of an `ADD_ADDR` without an echo, and their limit.
const ANNOUNCE_SCHEDULE: (Duration, u32) = (Duration::from_millis(500), 10);
/// First interval between transmissions of an option that is never acknowledged, and their limit.
const REPEAT_SCHEDULE: (Duration, u32) = (Duration::from_millis(500), 4);
/// Limit of queued options.
const MAX_SIGNALS: usize = 64;

impl Resend {
    /// State after a transmission at `now`; `None` once the limit is reached.
    fn after(self, now: Time) -> Option<Self> {
        let (first, limit) = REPEAT_SCHEDULE;
        let times = self.times + 1;
        (times < limit).then(|| Self { at: now + first.saturating_mul(1 << self.times), times })
    }
}

impl Subflow {
    /// Time of the next `MP_PRIO`. Until a join is confirmed, the segments of the subflow contain the HMAC in place
    /// of other options.
    fn priority_at(&self) -> Option<Time> {
        self.priority.filter(|_| self.is_alive() && self.is_confirmed()).map(|again| again.at)
    }

    /// Returns true if an `MP_PRIO` is due.
    pub fn is_priority_due(&self, now: Time) -> bool {
        self.priority_at().is_some_and(|at| at <= now)
    }

    /// Records that an `MP_PRIO` was sent.
    pub fn note_priority_sent(&mut self, now: Time) {
        self.priority = self.priority.and_then(|again| again.after(now));
    }
}

impl Connection {
    /// Makes a subflow a backup in both directions, or a regular one, and informs the peer (`MP_PRIO`, RFC 8684
    /// §3.3.8). Returns false if there is no such subflow, or the connection is plain TCP.
    pub fn set_backup(&mut self, now: Time, path: PathId, backup: bool) -> bool {
        if self.phase != ConnectionPhase::Multipath {
            return false;
        }
        let Some(subflow) = self.subflows.get_mut(path.index()).filter(|s| s.is_alive()) else {
            return false;
        };
        if subflow.backup != backup {
            self.outdated = None;
            subflow.backup = backup;
            subflow.priority = Some(Resend { at: now, times: 0 });
            self.update_counted();
        }
        true
    }

    /// Makes the addresses that satisfy `is_backup` backups, and the others regular, for present and later subflows.
    /// The connecting end informs its peer.
    pub fn set_backup_addresses(&mut self, now: Time, is_backup: &dyn Fn(IpAddr) -> bool) {
        for local in &mut self.locals {
            local.address.backup = is_backup(local.address.ip);
        }
        if self.role == Role::Server {
            return;
        }
        self.outdated = None;
        for index in 0..self.subflows.len() {
            let block = &self.subflows[index].block;
            let backup = is_backup(block.local().ip()) || is_backup(block.remote().ip());
            let subflow = &mut self.subflows[index];
            if subflow.is_alive() {
                self.set_backup(now, PathId(index as u8), backup);
            } else if !subflow.is_dead() {
                // The handshake continues. Its SYN may have contained another flag, so an `MP_PRIO` follows.
                (subflow.backup, subflow.priority) = (backup, Some(Resend { at: now, times: 0 }));
            }
        }
    }

    /// Queues an option to be sent once. An option that already waits is not queued again, and at `MAX_SIGNALS` a new
    /// one is dropped: a peer may request answers faster than it accepts them.
    pub(super) fn signal(&mut self, control: Control) {
        if self.control.len() < MAX_SIGNALS && !self.control.contains(&control) {
            self.control.push_back(control);
        }
    }

    /// Queues an option that is never acknowledged to be sent now and a few times more.
    pub(super) fn signal_repeatedly(&mut self, now: Time, control: Control) {
        self.repeated.retain(|repeated| repeated.control != control);
        if self.repeated.len() < MAX_SIGNALS {
            self.repeated.push(Repeated { control, again: Resend { at: now, times: 0 } });
        }
    }

    /// Stops repeating the `REMOVE_ADDR` of an address that has returned.
    pub(super) fn forget_removal(&mut self, id: u8) {
        let removal = Control::RemoveAddress(vec![id]);
        self.repeated.retain(|repeated| repeated.control != removal);
        self.control.retain(|control| *control != removal);
    }

    /// Queues the options that are due, to be sent with the next segment.
    pub(super) fn signal_due_options(&mut self, now: Time) {
        if let Some(control) = self.due_announcement(now) {
            self.signal(control);
        }
        if self.repeated.is_empty() {
            return;
        }
        let mut due = Vec::new();
        self.repeated.retain_mut(|Repeated { control, again }| {
            if again.at > now {
                return true;
            }
            due.push(control.clone());
            again.after(now).map(|next| *again = next).is_some()
        });
        for control in due {
            self.signal(control);
        }
    }

    /// Time at which the next option is due.
    pub(super) fn next_signal(&self) -> Time {
        let mut next = Time::MAX;
        for (at, _) in self.locals.iter().filter_map(|local| local.announce) {
            next = next.min(at);
        }
        for repeated in &self.repeated {
            next = next.min(repeated.again.at);
        }
        for at in self.subflows.iter().filter_map(Subflow::priority_at) {
            next = next.min(at);
        }
        next
    }

    /// The `ADD_ADDR` that is due, if any.
    fn due_announcement(&mut self, now: Time) -> Option<Control> {
        let remote = self.keys.remote?;
        let (interval, limit) = ANNOUNCE_SCHEDULE;
        for (id, local) in self.locals.iter_mut().enumerate() {
            let Some((at, times)) = local.announce.filter(|&(at, _)| at <= now) else { continue };
            local.announce = (times + 1 < limit).then_some((at.max(now) + interval, times + 1));
            let address = local.address.ip;
            let hmac = Some(address_hmac(&self.keys.local, &remote, (id as u8, address, None)));
            return Some(Control::AddAddress(AddAddress { address_id: id as u8, address, port: None, hmac }));
        }
        None
    }
}
