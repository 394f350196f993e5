//! Addresses and subflows: which to open, what happens when one is lost (RFC 8684 §3.2, §3.4), and the timers.

use super::connection::{Connection, LINGER, LocalAddress, Phase, RemoteAddress, Role};
use super::data::DataFin;
use super::keys::address_hmac;
use super::subflow::{Handshake, Subflow};
use crate::Address;
use crate::endpoint::{Event, Reason};
use crate::tcp::{Numbers, Route, State, Tcb};
use core::net::{IpAddr, SocketAddr};
use multipath::path_manager::{AddressId, Pair};
use multipath::time::{Duration, Time};
use multipath::{MOST_PATHS, PathId};
use wire::tcp::mptcp::{AddAddress, Control};

/// A pair of addresses that could not be connected is tried again after this long.
const RETRY: Duration = Duration::from_secs(30);
/// An address is announced again after this long without an echo, and so often at most.
const ANNOUNCE: (Duration, u32) = (Duration::from_secs(1), 5);
/// Back-off of the data-level timer, doublings at most.
const MAX_DATA_BACKOFF: u32 = 6;

impl Connection {
    /// The index for a new subflow: a dead one's place if `fits`, else a new place. A path identifier stays with its
    /// pair of addresses, so that counters outlive a flap.
    pub(super) fn slot(&self, fits: impl Fn(&Subflow) -> bool) -> usize {
        self.subflows.iter().position(fits).unwrap_or(self.subflows.len())
    }

    /// There may be another subflow. Each that there ever was keeps its identifier, and these are bytes.
    pub(super) fn has_room(&self) -> bool {
        let living = self.subflows.iter().filter(|s| !s.dead).count();
        living < MOST_PATHS && u8::try_from(self.subflows.len()).is_ok()
    }

    pub(super) fn install(&mut self, index: usize, mut subflow: Subflow) {
        if index == self.subflows.len() {
            self.subflows.push(subflow);
            return;
        }
        let old = &self.subflows[index];
        *subflow.block.counters_mut() = *old.block.counters();
        subflow.new = old.new;
        subflow.blocked = old.blocked;
        self.subflows[index] = subflow;
    }

    /// Opens the subflows that the path manager wants and that do not exist.
    pub(super) fn open_wanted(&mut self, now: Time) {
        if self.role != Role::Client || self.phase != Phase::Multipath {
            return;
        }
        let locals: Vec<AddressId> =
            (self.locals.iter().enumerate()).filter(|(_, l)| l.up).map(|(i, _)| AddressId(i as u8)).collect();
        let remotes: Vec<AddressId> =
            self.remotes.iter().filter(|r| !r.removed).map(|r| AddressId(r.id)).collect();
        self.retry_at = None;
        let mut wanted = self.path_manager.wanted(&locals, &remotes);
        // With no path left, every pair that has worked is worth a try, also to an address that the peer withdrew: it
        // cannot say that the address is back.
        if !self.subflows.iter().any(Subflow::is_alive) {
            let up = |s: &&Subflow| self.locals[usize::from(s.pair.local.0)].up;
            wanted
                .extend(self.subflows.iter().filter(|s| s.dead && s.has_worked()).filter(up).map(|s| s.pair));
        }
        for pair in wanted {
            let living = self.subflows.iter().filter(|s| !s.dead).count();
            if living >= MOST_PATHS || self.subflows.iter().any(|s| s.pair == pair && !s.dead) {
                continue;
            }
            let wait = self.subflows.iter().find(|s| s.pair == pair).and_then(|s| s.retry_at);
            match wait.filter(|&at| at > now) {
                Some(at) => self.retry_at = Some(self.retry_at.map_or(at, |r| r.min(at))),
                None if self.portless.contains(&pair) => {}
                None => self.portless.push_back(pair),
            }
        }
    }

    /// The two ends of the next subflow that waits for a port: the address that it is from, and where it goes.
    pub(super) fn wanted_ends(&self) -> Option<(IpAddr, SocketAddr)> {
        let pair = self.portless.front()?;
        let remote = self.remotes.iter().find(|r| r.id == pair.remote.0)?;
        Some((self.locals.get(usize::from(pair.local.0))?.address.ip, remote.at))
    }

    /// The subflow that has waited longest for a port gets one, or none and is tried again later.
    pub(super) fn on_port(&mut self, now: Time, port: Option<u16>) {
        let Some((_, remote)) = self.wanted_ends() else { return };
        let Some(pair) = self.portless.pop_front() else { return };
        let up = self.locals[usize::from(pair.local.0)].up;
        if self.phase != Phase::Multipath || !up || self.subflows.iter().any(|s| s.pair == pair && !s.dead) {
            return;
        }
        match port {
            Some(port) => self.open(now, pair, (port, remote)),
            None => self.retry_at = Some(self.retry_at.map_or(now + RETRY, |at| at.min(now + RETRY))),
        }
    }

    fn open(&mut self, now: Time, pair: Pair, (port, remote): (u16, SocketAddr)) {
        let at = usize::from(pair.local.0);
        let index = self.slot(|s| s.dead && s.pair == pair);
        if index > usize::from(u8::MAX) {
            return;
        }
        let Address { ip, mtu, backup } = self.locals[at].address;
        let local = SocketAddr::new(ip, port);
        let nonce = self.random.next_u32();
        let handshake = Handshake::Joining { nonce, proof: None, confirmed: false, resend_at: None };
        let route = Route { local, remote, path: PathId(index as u8), mtu };
        let mut block = Tcb::client(self.config.tcp.clone(), route);
        block.begin(Numbers::new(&self.secrets, now, (local, remote)));
        self.install(index, Subflow::new(block, pair, handshake, backup));
    }

    /// A subflow is over: its data goes elsewhere.
    pub(super) fn on_subflow_over(&mut self, now: Time, index: usize) {
        if self.subflows[index].dead {
            return;
        }
        self.send.clear_avoidance(Some(PathId(index as u8)));
        self.reinject_all(index, None);
        let subflow = &mut self.subflows[index];
        subflow.dead = true;
        subflow.blocked.set(now, None);
        subflow.sent.clear();
        for doubtful in subflow.mappings.clear() {
            self.placed.settle(doubtful, false);
        }
        let reason = match subflow.block.state() {
            State::Closed(reason) => reason,
            _ => Reason::Closed,
        };
        // One that worked before is tried again at once, one that did not later.
        subflow.retry_at = match reason {
            _ if subflow.announced => Some(now),
            _ => Some(now + RETRY),
        };
        let was_up = core::mem::take(&mut subflow.announced);
        self.congestion.remove_path(PathId(index as u8));
        if was_up {
            self.tell(Event::PathDown(PathId(index as u8)));
        }
        self.update_counted();
        match self.phase {
            Phase::Opening | Phase::Plain => self.finish(reason),
            Phase::Multipath => {
                if !self.subflows.iter().any(Subflow::is_alive) {
                    // From the last path that worked on: attempts that fail do not count.
                    self.linger_until.get_or_insert(now + LINGER);
                }
                if !self.is_done() {
                    self.open_wanted(now);
                }
            }
            Phase::Closed(_) => {}
        }
    }

    /// Everything that a subflow has not acknowledged is to be sent again, if there is another one.
    pub(super) fn reinject_all(&mut self, index: usize, avoid: Option<PathId>) {
        if self.phase != Phase::Multipath {
            return;
        }
        for i in 0..self.subflows[index].sent.len() {
            let mapping = self.subflows[index].sent[i];
            self.send.reinject(mapping.data, mapping.data + u64::from(mapping.len), avoid);
        }
    }

    /// Tells congestion control which paths count: usable ones, and backups only while nothing else is usable.
    pub(super) fn update_counted(&mut self) {
        let regular = self.subflows.iter().any(|s| s.is_usable() && !s.backup);
        for (index, subflow) in self.subflows.iter_mut().enumerate() {
            let counts = subflow.is_usable() && !(subflow.backup && regular);
            if counts != subflow.counted && subflow.block.is_synchronised() && !subflow.dead {
                subflow.counted = counts;
                self.congestion.set_usable(PathId(index as u8), counts);
            }
        }
    }

    /// Tells the peer about addresses that the path manager would use. The client's become known as they are used.
    pub(super) fn announce_addresses(&mut self, now: Time) {
        if self.role != Role::Server {
            return;
        }
        let used = self.subflows[0].block.local().ip();
        let ids: Vec<AddressId> = (0..self.locals.len()).map(|i| AddressId(i as u8)).collect();
        let wanted = self.path_manager.wanted(&ids, &ids);
        for (i, local) in self.locals.iter_mut().enumerate() {
            let useful = wanted.iter().any(|pair| usize::from(pair.remote.0) == i);
            if local.up && useful && local.address.ip != used {
                local.announce = Some((now, 0));
            }
        }
    }

    pub(super) fn on_add_address(&mut self, now: Time, add: &AddAddress) {
        let Some(hmac) = add.hmac else {
            if let Some(local) = self.locals.get_mut(usize::from(add.address_id)) {
                local.announce = None;
            }
            return;
        };
        let at = SocketAddr::new(add.address, add.port.unwrap_or(self.remote.port()));
        if !self.is_genuine(add.address_id, at, add.port, hmac) {
            return;
        }
        self.signal(Control::AddAddress(AddAddress { hmac: None, ..*add }));
        let known = RemoteAddress { id: add.address_id, at, removed: false };
        match self.remotes.iter_mut().find(|r| r.id == add.address_id) {
            Some(remote) => *remote = known,
            None => self.remotes.push(known),
        }
        for subflow in self.subflows.iter_mut().filter(|s| s.pair.remote.0 == add.address_id) {
            subflow.retry_at = None;
        }
        self.open_wanted(now);
    }

    pub(super) fn on_remove_address(&mut self, now: Time, ids: &[u8]) {
        for remote in self.remotes.iter_mut().filter(|r| ids.contains(&r.id)) {
            remote.removed = true;
        }
        for index in 0..self.subflows.len() {
            let pair = self.subflows[index].pair;
            let theirs = if self.role == Role::Client { pair.remote } else { pair.local };
            if ids.contains(&theirs.0) && !self.subflows[index].dead {
                self.subflows[index].block.abort();
                self.on_subflow_over(now, index);
            }
        }
    }

    /// The host has an address (again), or its interface has another MTU.
    pub(super) fn on_address_up(&mut self, now: Time, ip: IpAddr, mtu: u32) {
        if self.is_closed() {
            return;
        }
        let id = match self.locals.iter().position(|l| l.address.ip == ip) {
            Some(id) if self.locals[id].up => return self.on_interface_mtu(now, id, mtu),
            Some(id) => {
                // What comes back is not wider for it than its paths were known to be.
                self.on_interface_mtu(now, id, mtu.min(self.locals[id].address.mtu));
                id
            }
            None if self.locals.len() > usize::from(u8::MAX) => return, // there is no identifier left
            None => {
                self.locals.push(LocalAddress { address: Address::new(ip, mtu), up: false, announce: None });
                self.locals.len() - 1
            }
        };
        self.locals[id].up = true;
        if self.phase != Phase::Multipath {
            return;
        }
        for subflow in self.subflows.iter_mut().filter(|s| s.block.local().ip() == ip) {
            subflow.retry_at = None;
            if core::mem::take(&mut subflow.reset_pending) {
                subflow.block.abort();
            }
        }
        if self.role == Role::Server {
            self.announce_addresses(now);
            if self.subflows.iter().any(|s| s.is_alive() && s.block.local().ip() != ip) {
                self.locals[id].announce = Some((now, 0));
            }
        }
        self.open_wanted(now);
    }

    fn on_interface_mtu(&mut self, now: Time, id: usize, mtu: u32) {
        let ip = self.locals[id].address.ip;
        self.locals[id].address.mtu = mtu;
        for index in 0..self.subflows.len() {
            if !self.subflows[index].dead && self.subflows[index].block.local().ip() == ip {
                self.with_block(now, index, |block, context| block.set_interface_mtu(context, mtu));
            }
        }
    }

    pub(super) fn on_address_down(&mut self, now: Time, ip: IpAddr) {
        let Some(id) = self.locals.iter().position(|l| l.address.ip == ip) else { return };
        if !self.locals[id].up || self.is_closed() {
            return;
        }
        self.locals[id].up = false;
        if self.phase == Phase::Multipath {
            self.lose_address(now, id);
        }
    }

    /// A local address is gone. With another path left its subflows end at once and the peer is told; without one they
    /// stay, because the address may come back (RFC 8684 §3.4.2 leaves it to policy).
    fn lose_address(&mut self, now: Time, id: usize) {
        let address = self.locals[id].address.ip;
        self.locals[id].announce = None;
        let elsewhere = self.subflows.iter().any(|s| s.is_usable() && s.block.local().ip() != address);
        if self.role == Role::Server && !elsewhere {
            return;
        }
        for index in 0..self.subflows.len() {
            let subflow = &self.subflows[index];
            // Nothing can join a connection whose keys the peer may not have: its first subflow has to hold on.
            let first = matches!(subflow.handshake, Handshake::Capable { confirmed: false });
            if subflow.block.local().ip() == address && !subflow.dead && !first {
                self.subflows[index].reset_pending = self.subflows[index].block.is_synchronised();
                self.subflows[index].block.suspend();
                self.on_subflow_over(now, index);
            }
        }
        if elsewhere {
            self.signal(Control::RemoveAddress(vec![id as u8]));
        }
    }

    /// The `ADD_ADDR` that is due, if any.
    pub(super) fn due_announcement(&mut self, now: Time) -> Option<Control> {
        let remote = self.keys.remote?;
        let (interval, limit) = ANNOUNCE;
        for (id, local) in self.locals.iter_mut().enumerate() {
            let Some((at, times)) = local.announce.filter(|&(at, _)| at <= now) else { continue };
            local.announce = (times + 1 < limit).then_some((at.max(now) + interval, times + 1));
            let address = local.address.ip;
            let hmac = Some(address_hmac(&self.keys.local, &remote, (id as u8, address, None)));
            return Some(Control::AddAddress(AddAddress { address_id: id as u8, address, port: None, hmac }));
        }
        None
    }

    /// Ends everything at once (RFC 8684 §3.5): an RST with `MP_FASTCLOSE` on every subflow.
    pub(super) fn fast_close(&mut self) {
        self.fast_closing = true;
        for index in 0..self.subflows.len() {
            if !self.subflows[index].dead {
                self.subflows[index].block.abort();
                self.subflows[index].dead = true;
            }
        }
        self.finish(Reason::Aborted);
    }

    /// After how long without a `DATA_ACK` data is sent again.
    pub(super) fn data_timeout(&self) -> Duration {
        let slowest = (self.subflows.iter())
            .filter(|s| s.is_alive())
            .map(|s| s.block.rtt().rto())
            .max()
            .unwrap_or(self.config.tcp.rto.initial);
        slowest.saturating_mul(2 << self.data_backoff).min(self.config.tcp.rto.max)
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        for index in 0..self.subflows.len() {
            self.on_subflow_timeout(now, index);
        }
        if due(self.data_timer) {
            self.data_timer = None;
            self.on_data_timeout(now);
        }
        if due(self.retry_at) {
            self.retry_at = None;
            self.open_wanted(now);
        }
        if due(self.linger_until) {
            self.linger_until = None;
            if self.is_done() {
                self.finish(Reason::Closed);
            } else if !self.subflows.iter().any(Subflow::is_alive) {
                self.finish(Reason::TimedOut);
            }
        }
    }

    fn on_subflow_timeout(&mut self, now: Time, index: usize) {
        let subflow = &mut self.subflows[index];
        if subflow.dead {
            return;
        }
        if let Handshake::Joining { resend_at, confirmed: false, .. } = &mut subflow.handshake
            && resend_at.is_some_and(|at| at <= now)
        {
            *resend_at = Some(now + subflow.block.rtt().rto());
            subflow.block.ack_now();
        }
        if subflow.block.next_timeout().is_none_or(|at| at > now) {
            return;
        }
        let attempts = subflow.block.attempts();
        self.with_block(now, index, Tcb::on_timeout);
        let subflow = &self.subflows[index];
        if subflow.block.is_over() {
            self.on_subflow_over(now, index);
        } else if subflow.block.attempts() > attempts && subflow.block.is_synchronised() {
            // Believed to have failed until it acknowledges something: the others take over.
            self.reinject_all(index, Some(PathId(index as u8)));
            self.update_counted();
        }
    }

    fn on_data_timeout(&mut self, now: Time) {
        let (una, highest) = (self.send.una, self.send.highest());
        if una < highest {
            self.tally.data_timeouts += 1;
            self.send.clear_avoidance(None);
            let mss = u64::from(self.locals[0].address.mtu);
            self.send.reinject(una, highest.min(una + mss), None);
        } else if self.send.fin == DataFin::Sent {
            self.send.fin = DataFin::Wanted;
        } else if !self.send.all_assigned()
            && let Some(subflow) = self.subflows.iter_mut().find(|s| s.is_usable())
        {
            subflow.block.probe();
        }
        self.data_backoff = (self.data_backoff + 1).min(MAX_DATA_BACKOFF);
        self.data_timer = Some(now + self.data_timeout());
    }

    /// The application has read: if the window opens enough to be worth telling, some subflow tells it.
    pub(super) fn tell_window(&mut self) {
        let buffer = self.config.tcp.receive_buffer;
        let standing = self.receive.edge.saturating_sub(self.receive.nxt);
        let open = (self.receive.read + buffer) - self.receive.nxt;
        let step = (2 * u64::from(self.locals[0].address.mtu)).min(buffer / 2).max(1);
        if standing < buffer / 2
            && open >= standing + step
            && let Some(subflow) = self.subflows.iter_mut().find(|s| s.is_usable())
        {
            subflow.block.ack_now();
        }
    }
}
