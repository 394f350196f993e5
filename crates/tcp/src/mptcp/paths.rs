//! Addresses and subflows: the choice of subflows to open, the reaction to the loss of one (RFC 8684 §3.2, §3.4), and
//! the timers.

use super::DeadPathProbe;
use super::connection::{Connection, ConnectionPhase, LINGER_TIMEOUT, LocalAddress, RemoteAddress, Role};
use super::reset::ResetReason;
use super::subflow::{Confirmation, Handshake, Life, Retry, Subflow};
use super::wanted::obstacle_of;
use crate::tcp::{self, Numbers, Route, State, Tcb};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::Address;
use anabranch_endpoint::endpoint::{Event, Reason};
use anabranch_multipath::path_manager::{AddressId, Pair};
use anabranch_multipath::scheduler::KnownPath;
use anabranch_multipath::{MAX_PATHS, PathId};
use anabranch_wire::tcp::mptcp::{AddAddress, Control};
use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Delay before the next attempt on a pair of addresses that was never connected, after an end or a host refused it.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Unanswered SYNs of a join before it moves to another port.
const MAX_JOIN_SYNS: u32 = 120;
/// Consecutive transient resets by the peer (RFC 8684 §3.6, T) before the next join is delayed.
const MAX_TRANSIENT_RESETS: u32 = 3;
/// Uptime after which a subflow counts as stable.
const STABLE_UPTIME: Duration = Duration::from_secs(10);

impl Connection {
    /// Index for a new subflow: that of a dead one that satisfies `fits`, else a new one. A path identifier stays
    /// with its pair of addresses, so that counters survive a short outage.
    pub(super) fn free_index(&self, fits: impl Fn(&Subflow) -> bool) -> usize {
        self.subflows.iter().position(fits).unwrap_or(self.subflows.len())
    }

    /// Returns true if another subflow may be created. Every subflow keeps its identifier, and identifiers have one
    /// byte.
    pub(super) fn has_room(&self) -> bool {
        let living = self.subflows.iter().filter(|s| !s.is_dead()).count();
        living < MAX_PATHS && u8::try_from(self.subflows.len()).is_ok()
    }

    /// Replaces the characteristics of paths that the scenario declares.
    pub fn set_known_paths(&mut self, known: &Arc<[KnownPath]>) {
        self.config.known_paths = known.clone();
        for (index, subflow) in self.subflows.iter().enumerate() {
            let (local, remote) = (subflow.block.local().ip(), subflow.block.remote().ip());
            let information = self.config.information_of(local, remote);
            self.scheduler.on_information(PathId(index as u8), information);
        }
        self.discard_snapshot();
    }

    pub(super) fn install(&mut self, now: Time, index: usize, mut subflow: Subflow) {
        let taken = self.source_route_len(subflow.pair, subflow.block.local().ip());
        subflow.block.reserve_ip_options(taken);
        subflow.make_room(&mut *self.congestion, self.receive.long);
        let (local, remote) = (subflow.block.local().ip(), subflow.block.remote().ip());
        if let Some(information) = self.config.information_of(local, remote) {
            self.scheduler.on_information(PathId(index as u8), Some(information));
        }
        if index == self.subflows.len() {
            self.subflows.push(subflow);
            return;
        }
        let reset = self.with_block(now, index, |block, context| {
            block.abort();
            block.poll_urgent(context)
        });
        let reset = reset.map(|reset| self.add_options(now, index, reset));
        let old = &mut self.subflows[index];
        subflow.predecessor = reset.or(old.predecessor.take());
        subflow.new = old.new;
        (subflow.opened, subflow.obstacle) = (old.opened, old.obstacle);
        subflow.block.keep_measurements(&old.block);
        subflow.retry.failures = old.retry.failures;
        self.subflows[index] = subflow;
    }

    /// Opens the subflows that the path manager wants and that do not exist yet.
    pub(super) fn open_wanted(&mut self, now: Time) {
        if self.role != Role::Client || self.phase != ConnectionPhase::Multipath {
            return;
        }
        let locals: Vec<AddressId> =
            (self.locals.iter().enumerate()).filter(|(_, l)| l.up).map(|(i, _)| AddressId(i as u8)).collect();
        let remotes = self.joinable();
        self.retry_at = None;
        let mut wanted = self.path_manager.wanted(&locals, &remotes);
        // Without any path left, every pair that has worked is tried, even if the peer withdrew its address: the peer
        // cannot announce the return of the address.
        if !self.subflows.iter().any(Subflow::is_alive) {
            let up = |s: &&Subflow| self.locals[usize::from(s.pair.local.0)].up;
            let worked = self.subflows.iter().filter(|s| s.is_dead() && s.has_worked()).filter(up);
            wanted.extend(worked.map(|s| s.pair));
        }
        wanted.retain(|&pair| self.is_routed(pair));
        for pair in wanted {
            let living = self.subflows.iter().filter(|s| !s.is_dead()).count();
            if living >= MAX_PATHS || self.subflows.iter().any(|s| s.pair == pair && !s.is_dead()) {
                continue;
            }
            let wait = self.subflows.iter().find(|s| s.pair == pair).and_then(|s| s.retry.at);
            match wait.filter(|&at| at > now) {
                Some(at) => self.retry_at = Some(self.retry_at.map_or(at, |r| r.min(at))),
                None if self.portless.contains(&pair) => {}
                None => self.portless.push_back(pair),
            }
        }
    }

    /// Identifiers of the addresses at which the peer accepts joins. An address counts once, even if it was announced
    /// under several identifiers.
    fn joinable(&self) -> Vec<AddressId> {
        let mut found: Vec<&RemoteAddress> = Vec::new();
        for remote in self.remotes.iter().filter(|r| !(r.removed || self.refuses_joins && r.id == 0)) {
            if !found.iter().any(|other| other.at == remote.at) {
                found.push(remote);
            }
        }
        found.into_iter().map(|remote| AddressId(remote.id)).collect()
    }

    /// Returns true if packets can pass between a pair's addresses: both have one IP version, and no obstacle is
    /// known.
    fn is_routed(&self, pair: Pair) -> bool {
        let local = self.locals.get(usize::from(pair.local.0)).map(|local| local.address.ip);
        let remote =
            self.remotes.iter().find(|remote| remote.id == pair.remote.0).map(|remote| remote.at.ip());
        let (Some(local), Some(remote)) = (local, remote) else { return false };
        local.is_ipv4() == remote.is_ipv4() && !self.config.unroutable.contains(&(local, remote))
    }

    /// Local and remote address of the next subflow that waits for a port.
    pub(super) fn wanted_ends(&self) -> Option<(IpAddr, SocketAddr)> {
        if self.opening.needs_port {
            return self.opening_ends();
        }
        let pair = self.portless.front()?;
        let remote = self.remotes.iter().find(|r| r.id == pair.remote.0)?;
        Some((self.locals.get(usize::from(pair.local.0))?.address.ip, remote.at))
    }

    /// Gives a port to the subflow that has waited longest. If there is no port, the subflow is tried again later.
    pub(super) fn on_port(&mut self, now: Time, port: Option<u16>) {
        if self.opening.needs_port {
            return self.begin_on(now, port);
        }
        let Some((_, remote)) = self.wanted_ends() else { return };
        let Some(pair) = self.portless.pop_front() else { return };
        let up = self.locals[usize::from(pair.local.0)].up;
        if self.phase != ConnectionPhase::Multipath
            || !up
            || self.subflows.iter().any(|s| s.pair == pair && !s.is_dead())
        {
            return;
        }
        match port {
            Some(port) => self.open(now, pair, (port, remote)),
            None => {
                self.retry_at =
                    Some(self.retry_at.map_or(now + RETRY_INTERVAL, |at| at.min(now + RETRY_INTERVAL)));
            }
        }
    }

    fn open(&mut self, now: Time, pair: Pair, (port, remote): (u16, SocketAddr)) {
        let at = usize::from(pair.local.0);
        let index = self.free_index(|s| s.is_dead() && s.pair == pair);
        if index > usize::from(u8::MAX) {
            return;
        }
        let Address { ip, mtu, backup } = self.locals[at].address;
        let local = SocketAddr::new(ip, port);
        let nonce = self.random.next_u32();
        let handshake = Handshake::Joining { nonce, proof: None, confirmed: false, resend: None };
        let route = Route { local, remote, path: PathId(index as u8), mtu };
        let interval = self.join_interval();
        let syn_retries = if interval.is_some() { MAX_JOIN_SYNS } else { self.config.tcp.syn_retries };
        let mut block = Tcb::client(self.config.tcp.clone().syn_retries(syn_retries), route);
        if let Some(interval) = interval {
            block.repeat_syn_every(interval);
        }
        block.begin(Numbers::new(&self.secrets, now, (local, remote)));
        self.install(now, index, Subflow::new(block, pair, handshake, backup));
    }

    /// Interval at which the SYN of a join is repeated, at least the connection's shortest round trip: only such a
    /// SYN detects that a remote link has come up. `None` means exponential backoff.
    fn join_interval(&self) -> Option<Duration> {
        let DeadPathProbe::Every(interval) = self.config.dead_path_probe else { return None };
        let measured = self.subflows.iter().filter(|s| s.is_alive() && s.block.rtt().srtt().is_some());
        Some(measured.map(|s| s.block.rtt().min_rtt()).min().unwrap_or_default().max(interval))
    }

    /// Handles the end of a subflow: reinjects its data on other subflows, and decides on the next attempt.
    pub(super) fn on_subflow_over(&mut self, now: Time, index: usize) {
        if self.subflows[index].is_dead() {
            return;
        }
        self.send.clear_avoidance(Some(PathId(index as u8)));
        self.reinject_all(index, None);
        let subflow = &mut self.subflows[index];
        subflow.sent.clear();
        for doubtful in subflow.mappings.clear() {
            self.placed.settle(doubtful, false);
        }
        let reason = match subflow.block.state() {
            State::Closed(reason) => reason,
            _ => Reason::Closed,
        };
        subflow.retry = next_attempt(now, subflow, reason);
        subflow.obstacle = obstacle_of(reason).or(subflow.obstacle);
        let was_up = subflow.is_announced();
        subflow.life = Life::Dead;
        self.collect_waiting();
        let subflow = &self.subflows[index];
        // The RST may answer a late SYN/ACK of a join that the peer has closed, and looks like that for an unknown
        // connection.
        let asked = matches!(subflow.handshake, Handshake::Joining { .. });
        let unknown = reason == Reason::Refused && asked && subflow.has_worked();
        let gone = unknown || reason == Reason::Reset && was_up;
        let final_word = gone && !subflow.transient;
        self.congestion.remove_path(PathId(index as u8));
        if was_up {
            self.notify(Event::PathDown(PathId(index as u8)));
        }
        self.update_counted();
        match self.phase {
            ConnectionPhase::Opening | ConnectionPhase::Plain => self.finish(reason),
            // The RST shows that the peer no longer knows the connection.
            ConnectionPhase::Multipath if final_word && !self.has_other(index) && !self.is_done() => {
                self.finish(Reason::Reset);
            }
            ConnectionPhase::Multipath => {
                if !self.subflows.iter().any(Subflow::is_alive) {
                    // The time runs from the end of the last working path; failed attempts do not restart it.
                    if self.linger_until.is_none() {
                        self.linger(now);
                    }
                }
                if !self.is_done() {
                    self.open_wanted(now);
                }
            }
            ConnectionPhase::Closed(_) => {}
        }
    }

    /// Reinjects all data that a subflow has not acknowledged, if there is another subflow.
    pub(super) fn reinject_all(&mut self, index: usize, avoid: Option<PathId>) {
        if self.phase != ConnectionPhase::Multipath {
            return;
        }
        for i in 0..self.subflows[index].sent.len() {
            let mapping = self.subflows[index].sent[i];
            self.send.reinject(mapping.data, mapping.data + u64::from(mapping.len), avoid);
        }
    }

    /// Sets the paths that congestion control includes in its sums: usable ones, and backups only while no other path
    /// is usable.
    pub(super) fn update_counted(&mut self) {
        let regular = self.subflows.iter().any(|s| s.is_usable() && !s.backup);
        for (index, subflow) in self.subflows.iter_mut().enumerate() {
            let counts = subflow.may_count() && !(subflow.backup && regular);
            if counts != subflow.counted && subflow.block.is_synchronised() && !subflow.is_dead() {
                subflow.counted = counts;
                self.congestion.set_usable(PathId(index as u8), counts);
            }
        }
    }

    /// Announces the addresses that the path manager would use. A client announces none, because the server sees the
    /// source address of each join.
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
            subflow.retry = Retry::default();
        }
        self.open_wanted(now);
    }

    pub(super) fn on_remove_address(&mut self, now: Time, ids: &[u8]) {
        // The address is withdrawn under every identifier with which it was announced.
        let gone: Vec<SocketAddr> =
            self.remotes.iter().filter(|r| ids.contains(&r.id)).map(|r| r.at).collect();
        for remote in self.remotes.iter_mut().filter(|r| gone.contains(&r.at)) {
            remote.removed = true;
        }
        for index in 0..self.subflows.len() {
            let subflow = &mut self.subflows[index];
            let theirs = if self.role == Role::Client { subflow.pair.remote } else { subflow.pair.local };
            if (ids.contains(&theirs.0) || gone.contains(&subflow.block.remote())) && !subflow.is_dead() {
                subflow.reset(ResetReason::Unspecified);
                self.on_subflow_over(now, index);
            }
        }
    }

    /// Handles a new or returned local address, or another MTU of its interface.
    pub(super) fn on_address_up(&mut self, now: Time, ip: IpAddr, mtu: u32) {
        if self.is_closed() {
            return;
        }
        let id = match self.locals.iter().position(|l| l.address.ip == ip) {
            Some(id) if self.locals[id].up => return self.on_interface_mtu(now, id, mtu),
            Some(id) => {
                // The interface returns. A path keeps its discovered MTU if that is smaller.
                self.on_interface_mtu(now, id, mtu.min(self.locals[id].address.mtu));
                id
            }
            None if self.locals.len() > usize::from(u8::MAX) => return, // all identifiers are in use
            None => {
                self.locals.push(LocalAddress { address: Address::new(ip, mtu), up: false, announce: None });
                self.locals.len() - 1
            }
        };
        self.locals[id].up = true;
        if self.phase == ConnectionPhase::Opening
            && let Some(first) = self.subflows.first_mut().filter(|s| s.block.local().ip() == ip)
        {
            first.block.restart_syn();
        }
        if self.phase != ConnectionPhase::Multipath {
            return;
        }
        self.restart_linger(now);
        self.forget_removal(id as u8);
        for subflow in self.subflows.iter_mut().filter(|s| s.block.local().ip() == ip) {
            subflow.retry = Retry::default();
            if subflow.life == Life::ResetPending {
                subflow.life = Life::Dead;
                subflow.reset(ResetReason::Unspecified);
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

    /// Replaces an address of either host by another on the same interface, which has the same routes. The new
    /// address is not up yet. For an address of this host, the peer is informed that the old one is withdrawn (RFC
    /// 8684 §3.4.2).
    pub fn renumber(&mut self, now: Time, old: IpAddr, new: IpAddr) {
        self.config.renumber(old, new);
        let Some(id) = self.locals.iter().position(|local| local.address.ip == old) else { return };
        let LocalAddress { address, up, .. } = self.locals[id];
        if u8::try_from(self.locals.len()).is_ok() {
            let address = Address { ip: new, ..address };
            self.locals.push(LocalAddress { address, up: false, announce: None });
        }
        let is_known = self.role == Role::Server || self.subflows.iter().any(|s| s.block.local().ip() == old);
        if self.phase == ConnectionPhase::Multipath && !up && is_known {
            self.discard_snapshot();
            self.signal_repeatedly(now, Control::RemoveAddress(vec![id as u8]));
        }
    }

    fn on_interface_mtu(&mut self, now: Time, id: usize, mtu: u32) {
        let ip = self.locals[id].address.ip;
        self.locals[id].address.mtu = mtu;
        for index in 0..self.subflows.len() {
            if !self.subflows[index].is_dead() && self.subflows[index].block.local().ip() == ip {
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
        if self.phase == ConnectionPhase::Multipath {
            self.lose_address(now, id);
            self.restart_linger(now);
        }
    }

    /// Handles the loss of a local address. Its subflows end at once, and if another path is left, the peer is
    /// informed. A server without another path keeps them, because the address may return (RFC 8684 §3.4.2 leaves
    /// this to policy).
    fn lose_address(&mut self, now: Time, id: usize) {
        let address = self.locals[id].address.ip;
        self.locals[id].announce = None;
        let elsewhere = self.subflows.iter().any(|s| s.is_usable() && s.block.local().ip() != address);
        if self.role == Role::Server && !elsewhere {
            return;
        }
        for index in 0..self.subflows.len() {
            let subflow = &self.subflows[index];
            // The peer may not have the keys yet, so no other subflow could join: the initial subflow has to stay.
            let first = matches!(
                subflow.handshake,
                Handshake::Capable(Confirmation::Awaited | Confirmation::KeysSent)
            );
            if subflow.block.local().ip() == address && !subflow.is_dead() && !first {
                let known = subflow.block.is_synchronised();
                self.subflows[index].block.suspend();
                self.on_subflow_over(now, index);
                if known {
                    self.subflows[index].life = Life::ResetPending;
                }
            }
        }
        if elsewhere {
            self.signal_repeatedly(now, Control::RemoveAddress(vec![id as u8]));
        }
    }

    /// Ends everything at once (RFC 8684 §3.5): an RST with `MP_FASTCLOSE` on every subflow.
    pub(super) fn fast_close(&mut self) {
        self.fast_closing = true;
        for index in 0..self.subflows.len() {
            if !self.subflows[index].is_dead() {
                self.subflows[index].block.abort();
                self.subflows[index].life = Life::Dead;
            }
        }
        self.waiting = None;
        self.finish(Reason::Aborted);
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        for index in 0..self.subflows.len() {
            if let Some(restart) = &mut self.subflows[index].restart {
                restart.expire(now);
            }
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
                self.give_up_without_path(now);
            }
        }
    }

    /// Returns true if the host has no address left for the connection.
    fn is_cut_off(&self) -> bool {
        self.locals.iter().all(|local| !local.up)
    }

    /// Starts the timeout of a connection without a path: [`LINGER_TIMEOUT`] while its host has an address, otherwise
    /// at most the time that TCP's retries take.
    fn linger(&mut self, now: Time) {
        let tcp::Config { rto, retries, .. } = &self.config.tcp;
        let longest = rto.max.saturating_mul(u64::from(*retries) + 1);
        self.linger_until =
            Some(now + if self.is_cut_off() { longest.max(LINGER_TIMEOUT) } else { LINGER_TIMEOUT });
    }

    /// Recomputes that timeout after a local address was added or removed.
    fn restart_linger(&mut self, now: Time) {
        if self.linger_until.is_some() && !self.is_done() && !self.subflows.iter().any(Subflow::is_alive) {
            self.linger(now);
        }
    }

    /// Ends a connection to which no path returned in time. A TCP connection without data would stay open, so this
    /// connection stays open as well until the host has an address.
    fn give_up_without_path(&mut self, now: Time) {
        let owes = self.send.una < self.send.written || self.closing;
        if self.is_cut_off() && !owes {
            self.linger(now);
        } else {
            self.finish(Reason::TimedOut);
        }
    }

    /// Makes some subflow send a window update, if the application has read enough for one.
    pub(super) fn update_window(&mut self) {
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

/// Time of the next attempt on the pair of a subflow that is over. It is tried at once if the subflow was stable, got
/// no answer (a path may come up at any time), or was given up because data waited on it. If an end or a host refused
/// it, the delay grows with each failure.
fn next_attempt(now: Time, subflow: &Subflow, reason: Reason) -> Retry {
    let lasted = matches!(subflow.life, Life::Up { since } if now.since(since) >= STABLE_UPTIME);
    let failures = if lasted { 0 } else { subflow.retry.failures + 1 };
    let is_unanswered = matches!(reason, Reason::TimedOut | Reason::Unreachable);
    let is_overtaken = subflow.reset_reason == Some(ResetReason::Outstanding)
        || subflow.transient && failures <= MAX_TRANSIENT_RESETS && subflow.has_worked();
    let wait = match reason {
        _ if is_unanswered || is_overtaken => Duration::ZERO,
        _ if !subflow.has_worked() && !subflow.is_announced() => RETRY_INTERVAL,
        _ if failures == 0 => Duration::ZERO,
        _ => Duration::from_secs(1).saturating_mul(1 << (failures - 1).min(5)),
    };
    Retry { at: Some(now + wait), failures }
}
