//! Events from the network: packets that are too big, unreachable destinations, and local addresses that are added or
//! removed.
//!
//! An ICMP message is accepted if the packet that it quotes has the verification tag of this association's packets,
//! which is unknown to off-path attackers (RFC 9260 §10).
//!
//! # The path MTU
//! An MTU that a router reports is used at once, or, with [`Config::pmtu_discovery`](crate::Config::pmtu_discovery),
//! only probed ([`pmtu`](crate::path::pmtu)).
//!
//! # A smaller path MTU
//! The room for chunks, the congestion control's packet size and the fragmentation point of new data follow at once
//! (RFC 9260 §7.3). A chunk that was cut before keeps its TSN and therefore its length. If it no longer fits, it is
//! sent again in a separate packet that routers may fragment ([`anabranch_wire::sctp::Packet::may_fragment`]), as
//! §7.3 allows. IPv6 routers do not fragment, and this implementation does not fragment at the source: over IPv6 such
//! a chunk needs a path that it fits. If there is none, and the chunk has not arrived when a retransmission timer
//! expires, the chunk can never arrive. The association then ends with an ABORT that gives this reason.

use super::state::{Association, CookieEchoed, CookieWait, State};
use crate::common::Core;
use crate::config::{Paths, least_mtu};
use crate::open::Open;
use crate::path::state::{Path, Reachability, Setup};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{NetworkEvent, Quote, Reason, Unreachable};
use anabranch_endpoint::ends::Address;
use core::net::IpAddr;

impl Association {
    pub(crate) fn network_event(&mut self, now: Time, event: NetworkEvent) {
        match event {
            NetworkEvent::AddressUp { address, mtu } => self.address_up(now, Address::new(address, mtu)),
            NetworkEvent::AddressDown { address } => self.address_down(now, address),
            NetworkEvent::PacketTooBig { quote, mtu } => {
                if let State::Open(open) = &mut self.state
                    && quote.number == open.peer_tag
                    && let Some(at) = self.core.quoted(&quote)
                {
                    open.lower_mtu(&mut self.core, at, mtu);
                }
            }
            NetworkEvent::Unreachable { quote, what } => self.unreachable(now, &quote, what),
        }
    }

    fn address_down(&mut self, now: Time, address: IpAddr) {
        if !self.core.down.contains(&address) {
            self.core.down.push(address);
        }
        match &mut self.state {
            State::Open(open) => open.address_down(&mut self.core, now, address),
            State::CookieWait(_) => self.leave_interface(now),
            State::Idle | State::Listening | State::CookieEchoed(_) | State::Closed => {}
        }
    }

    fn address_up(&mut self, now: Time, own: Address) {
        let returned = self.core.down.contains(&own.ip);
        self.core.down.retain(|down| *down != own.ip);
        let before = self.core.local.iter_mut().find(|known| known.ip == own.ip);
        let Some(before) = before.map(|known| core::mem::replace(&mut known.mtu, own.mtu)) else {
            if let State::Open(open) = &mut self.state {
                open.address_new(&mut self.core, now, own);
            }
            return;
        };
        for at in 0..self.core.paths.len() {
            let path = &self.core.paths[at];
            if path.discovery.is_some() && path.local.ip() == own.ip {
                self.core.discover_mtu(at);
                continue;
            }
            // A smaller MTU that a router has reported for the path remains valid.
            if path.local.ip() == own.ip && (path.mtu == before || path.mtu > own.mtu) {
                self.core.set_mtu(at, own.mtu.max(least_mtu(own.ip)));
            }
        }
        match &mut self.state {
            State::Open(open) => {
                open.outbound.paths_changed(&self.core);
                open.interface_up(&mut self.core, now, (own.ip, returned));
            }
            State::CookieWait(CookieWait { attempts, .. })
            | State::CookieEchoed(CookieEchoed { attempts, .. }) => {
                if returned || *attempts > 0 {
                    self.try_interface(now, own.ip);
                }
            }
            State::Idle | State::Listening | State::Closed => {}
        }
    }

    /// Continues the handshake with another pair of addresses, if there is one, because the interface of the current
    /// pair cannot send. This does not count as an unanswered attempt.
    fn leave_interface(&mut self, now: Time) {
        let stuck = !self.core.can_send(self.core.primary);
        if stuck && (0..self.core.paths.len()).any(|at| self.core.can_send(at)) {
            self.next_pair();
            self.send_init(now);
        }
    }

    /// Continues the handshake at once on an interface that can send (again), and resets the timer.
    fn try_interface(&mut self, now: Time, local: IpAddr) {
        let core = &mut self.core;
        let waits = matches!(self.state, State::CookieWait(_));
        // The pair that received the INIT ACK works. The COOKIE ECHO uses another pair only while this interface cannot
        // send.
        let is_proven = matches!(&self.state, State::CookieEchoed(echoed) if echoed.proven == local);
        for at in 0..core.paths.len() {
            if waits || is_proven || !core.can_send(at) {
                core.try_source(at, local);
            }
        }
        let here = |path: &Path| path.local.ip() == local && path.reachability != Reachability::Removed;
        let found = if here(&core.paths[core.primary]) {
            Some(core.primary)
        } else {
            // The COOKIE ECHO uses the pair of addresses that received the INIT ACK.
            core.paths.iter().position(here).filter(|_| waits)
        };
        let Some(at) = found else { return };
        core.primary = at;
        core.paths[at].forget_errors_of_outage(core.config.rto);
        if waits {
            self.send_init(now);
        } else {
            self.send_cookie(now);
        }
    }

    /// Handles an ICMP error for a packet of this endpoint.
    fn unreachable(&mut self, now: Time, quote: &Quote, what: Unreachable) {
        // The verification tag of an INIT is zero; it is validated by the initiate tag (ICMP6).
        let own = match &self.state {
            State::CookieWait(wait) => quote.number == 0 && quote.initiate_tag == Some(wait.tag),
            State::CookieEchoed(echoed) => quote.number == echoed.peer.tag,
            State::Open(open) => quote.number == open.peer_tag,
            State::Idle | State::Listening | State::Closed => false,
        };
        let Some(at) = self.core.quoted(quote).filter(|_| own) else { return };
        match (&mut self.state, what) {
            // The host does not support SCTP or its UDP encapsulation: handled like an ABORT (RFC 9260 §10, ICMP8).
            (State::Open(_), Unreachable::Protocol) => self.end(Reason::Reset),
            (State::Open(_), _) => {
                self.core.path_unreachable(now, at);
                self.core.move_lost_chunks();
                // Heartbeats probe a failed path again.
                if self.core.paths[at].reachability == Reachability::Inactive {
                    self.core.rest(now, at);
                }
            }
            (_, Unreachable::Protocol | Unreachable::Port) => self.end(Reason::Refused),
            // The timer of the handshake selects the other addresses.
            (_, Unreachable::Host | Unreachable::Prohibited) => {}
        }
    }
}

impl Open {
    /// Handles a router's report of a path MTU of `mtu` bytes. Only a value smaller than the current one has an
    /// effect.
    fn lower_mtu(&mut self, core: &mut Core, at: usize, mtu: u32) {
        if let Some(discovery) = &mut core.paths[at].discovery {
            discovery.too_big(mtu);
            self.follow_discovery(core, at);
            return;
        }
        let mtu = mtu.max(least_mtu(core.paths[at].remote.ip()));
        if mtu < core.paths[at].mtu {
            core.set_mtu(at, mtu);
            self.outbound.paths_changed(core);
            // Dropped chunks are retransmitted without waiting for the timer; the drop is no sign of congestion.
            self.outbound.lose_too_big(core, at);
        }
    }
}

impl Open {
    /// Handles an interface that can send; `returned` if it could not before. A heartbeat is sent at once on each of
    /// its paths that is not healthy.
    pub fn interface_up(&mut self, core: &mut Core, now: Time, (local, returned): (IpAddr, bool)) {
        for at in 0..core.paths.len() {
            let has_moved = core.try_source(at, local);
            let path = &mut core.paths[at];
            let concerned = path.local.ip() == local && path.reachability != Reachability::Removed;
            if concerned && (returned || path.errors > 0 || !path.active()) {
                path.forget_errors_of_outage(core.config.rto);
                core.send_heartbeat(now, at, self.peer_tag);
            }
            if has_moved {
                // Data in flight and a pending request could not leave the host.
                core.expire(now, at);
                self.transmit_request(core, now, core.preferred());
            }
        }
        let is_used = |path: &Path| path.local.ip() == local && path.reachability != Reachability::Removed;
        if returned && core.config.paths == Paths::Destination && !core.paths.iter().any(is_used) {
            core.probe_unused_source(local, self.peer_tag);
        }
        self.outbound.paths_changed(core);
    }

    /// Sends a path MTU probe if one is due.
    pub fn probe_mtu(&mut self, core: &mut Core, at: usize, now: Time) {
        let path = &mut core.paths[at];
        let Some(discovery) = path.discovery.as_mut().filter(|_| path.reachability == Reachability::Active)
        else {
            return;
        };
        let due = discovery.poll(now);
        self.follow_discovery(core, at);
        if let Some(len) = due {
            core.send_probe(now, at, (self.peer_tag, len));
        }
    }

    /// Sets the path MTU to the discovered value.
    pub fn follow_discovery(&mut self, core: &mut Core, at: usize) {
        let path = &core.paths[at];
        let Some(mtu) = path.discovery.as_ref().map(|discovery| discovery.current()) else { return };
        if mtu == path.mtu {
            return;
        }
        let shorter = mtu < path.mtu;
        core.set_mtu(at, mtu);
        self.outbound.paths_changed(core);
        if shorter {
            self.outbound.lose_too_big(core, at);
        }
    }
}

impl Core {
    /// Handles an interface that cannot send any more. If a path over another interface is healthy, the
    /// retransmission timers of the paths from this interface expire at once; a path without data in flight counts an
    /// error. Otherwise its destinations are reached from another interface, if there is one.
    pub fn interface_down(&mut self, now: Time, local: IpAddr) {
        let spared = (0..self.paths.len()).any(|at| self.paths[at].healthy() && self.can_send(at));
        if !spared {
            for at in 0..self.paths.len() {
                if self.paths[at].local.ip() == local {
                    self.leave_source(now, at);
                }
            }
            return;
        }
        for at in 0..self.paths.len() {
            let path = &mut self.paths[at];
            if path.local.ip() != local || !path.healthy() {
                continue;
            }
            if path.totals.in_flight() > 0 {
                path.retransmission_timer = Some(now);
            } else {
                self.path_error(now, at);
            }
        }
    }

    /// The path of the packet quoted in an ICMP message.
    fn quoted(&self, quote: &Quote) -> Option<usize> {
        let at = self.find(quote.local.ip(), quote.remote.ip())?;
        self.local.iter().any(|own| own.ip == quote.local.ip()).then_some(at)
    }

    /// Changes the MTU of a path, and with it the chunk size and the congestion control's packet size.
    pub fn set_mtu(&mut self, at: usize, mtu: u32) {
        let setup = Setup { mtu, ..self.setup_of(at) };
        let path = &mut self.paths[at];
        if path.resize(&setup) {
            self.congestion.set_mss(path.id, path.room);
        }
    }
}
