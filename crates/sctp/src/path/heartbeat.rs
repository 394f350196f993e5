//! Heartbeats: they confirm paths, measure idle paths, and detect the recovery of failed paths (RFC 9260 §5.4, §8.3).

use super::state::{Heartbeat, Path, Reachability, Setup};
use crate::common::Core;
use crate::config::{Paths, is_routed};
use anabranch_base::time::{Duration, Time};
use anabranch_wire::sctp::{self, Chunk};
use core::net::IpAddr;

/// Maximum time between two heartbeats on a suspected path, unless its round-trip time requires more. RFC 7829 §3.2
/// sends one per retransmission timeout, which doubles each time. A heartbeat every two seconds costs little, and a
/// recovered path is used again within three seconds.
const SUSPECT_INTERVAL: Duration = Duration::from_secs(2);

/// Result of the response to a heartbeat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub at: usize,
    /// Time at which the heartbeat was sent.
    pub sent: Time,
    /// True if the path had errors.
    pub doubted: bool,
    /// True if the pair of addresses of the path has changed.
    pub moved: bool,
}

impl Path {
    /// Handles the response to a heartbeat that was no longer awaited, since data was acknowledged on the path first or the
    /// response is late. Its sample ends the back-off of the timer (RFC 9260 §8.3), which retransmitted data cannot do.
    fn handle_late_answer(&mut self, now: Time, nonce: u64, sent: Time) {
        if self.late_answer != Some((nonce, self.local.ip())) {
            return;
        }
        self.late_answer = None;
        self.rtt.sample(now.since(sent));
        if let Some(due) = &mut self.retransmission_timer {
            *due = (*due).min(now + self.rtt.rto());
        }
    }
}

impl Core {
    /// Sends a heartbeat with the path, an unpredictable nonce, and the time.
    pub fn send_heartbeat(&mut self, now: Time, at: usize, tag: u32) {
        let (nonce, source) = (self.secrets.next_u64(), self.heartbeat_source(at));
        self.send_heartbeat_with((now, at), tag, (nonce, source));
    }

    /// Sends another heartbeat at once; the response to an outstanding one stays valid.
    pub fn repeat_heartbeat(&mut self, now: Time, at: usize, tag: u32) {
        match self.paths[at].heartbeat {
            Heartbeat::Waiting { nonce, source, .. } => {
                self.send_heartbeat_with((now, at), tag, (nonce, source));
            }
            _ => self.send_heartbeat(now, at, tag),
        }
    }

    fn send_heartbeat_with(&mut self, (now, at): (Time, usize), tag: u32, (nonce, source): (u64, IpAddr)) {
        let mut info = vec![at as u8];
        info.extend_from_slice(&nonce.to_be_bytes());
        info.extend_from_slice(&now.as_nanos().to_be_bytes());
        self.totals.heartbeats_sent += 1;
        let until = now + self.heartbeat_timeout(at);
        let path = &mut self.paths[at];
        path.heartbeat = Heartbeat::Waiting { nonce, source, until };
        path.counters.packets_sent += 1;
        let (pair, udp) = ((source, path.remote.ip()), path.udp);
        let chunk = Chunk::Heartbeat(sctp::Heartbeat { info: info.into() });
        self.out.push_back(self.envelope(pair, udp, tag, chunk.into()));
    }

    /// Returns true if heartbeats are sent from each local address in turn: the only destination has not answered,
    /// and there are several local addresses (RFC 9260 §6.4.1: another pair of source and destination for
    /// retransmissions).
    pub fn tries_other_sources(&self, at: usize) -> bool {
        let path = &self.paths[at];
        let own = path.local.ip();
        path.errors > 0
            && path.active()
            && self.config.paths == Paths::Destination
            && self.source_after(own, path.remote.ip()) != own
            && !self.paths.iter().any(|other| other.active() && other.id != path.id)
    }

    /// Source address of the next heartbeat on a path.
    fn heartbeat_source(&self, at: usize) -> IpAddr {
        let path = &self.paths[at];
        let own = path.local.ip();
        let last = if let Heartbeat::Waiting { source, .. } = path.heartbeat { source } else { own };
        if self.tries_other_sources(at) { self.source_after(last, path.remote.ip()) } else { own }
    }

    /// The local address to try after `last`: it has a route to the remote address, and its interface can send. Returns
    /// `last` if there is no other.
    fn source_after(&self, last: IpAddr, remote: IpAddr) -> IpAddr {
        let here = self.local.iter().position(|own| own.ip == last).unwrap_or(0);
        let in_turn = (1..=self.local.len()).map(|step| self.local[(here + step) % self.local.len()].ip);
        let leads_there = |local: &IpAddr| {
            local.is_ipv4() == remote.is_ipv4()
                && is_routed(&self.config, *local, remote)
                && !self.down.contains(local)
        };
        in_turn.into_iter().find(leads_there).unwrap_or(last)
    }

    /// Number of local addresses from which the destination of a path is tried.
    fn sources_to(&self, at: usize) -> u64 {
        let path = &self.paths[at];
        let (own, remote) = (path.local.ip(), path.remote.ip());
        let mut count = 1;
        let mut next = self.source_after(own, remote);
        while self.config.paths == Paths::Destination && next != own && count < self.local.len() as u64 {
            count += 1;
            next = self.source_after(next, remote);
        }
        count
    }

    /// Sends a heartbeat from another usable local address, because nothing was acknowledged in time on a path.
    pub fn probe_other_sources(&mut self, at: usize) {
        if !matches!(self.paths[at].heartbeat, Heartbeat::Waiting { .. }) && self.tries_other_sources(at) {
            self.paths[at].heartbeat = Heartbeat::Idle { due: Time::ZERO };
        }
    }

    /// Sends a heartbeat in a packet of `len` bytes (RFC 8899 §6.2.1.2), with padding (RFC 4820).
    pub fn send_probe(&mut self, now: Time, at: usize, (tag, len): (u32, u32)) {
        let nonce = self.secrets.next_u64();
        let mut info = vec![at as u8];
        info.extend_from_slice(&nonce.to_be_bytes());
        info.extend_from_slice(&now.as_nanos().to_be_bytes());
        let heartbeat = Chunk::Heartbeat(sctp::Heartbeat { info: info.into() });
        let path = &mut self.paths[at];
        let rto = path.rtt.rto();
        if let Some(discovery) = &mut path.discovery {
            discovery.sent(now, (len, nonce), rto);
        }
        let setup = Setup { mtu: len, ..self.setup_of(at) };
        let rest = setup.room().saturating_sub(heartbeat.wire_len() + sctp::CHUNK_HEADER_LEN);
        let pad = Chunk::Pad(sctp::Pad { len: u16::try_from(rest).unwrap_or(u16::MAX) });
        self.totals.mtu_probes += 1;
        self.send_chunks(at, tag, vec![heartbeat, pad].into());
    }

    /// Timer event of a path's heartbeat. An unconfirmed path waits until HB.Max.Burst allows a heartbeat.
    pub fn heartbeat_due(&mut self, now: Time, at: usize, tag: u32) {
        if self.paths[at].reachability == Reachability::Unconfirmed {
            self.paths[at].heartbeat = Heartbeat::Queued;
            self.verify_paths(now, tag);
        } else {
            self.send_heartbeat(now, at, tag);
        }
    }

    /// Sends the heartbeats that confirm paths, to at most HB.Max.Burst addresses at once (RFC 9260 §5.4), so that a
    /// peer that lists foreign addresses cannot make this endpoint flood them. Paths without errors are probed before
    /// paths that have not answered. If a path is a pair of addresses, all pairs with an address are probed together;
    /// an address that has answered before belongs to the peer.
    pub fn verify_paths(&mut self, now: Time, tag: u32) {
        let queued = |path: &&Path| matches!(path.heartbeat, Heartbeat::Queued);
        while let Some(next) = self.paths.iter().filter(queued).min_by_key(|path| path.errors) {
            let (at, remote, errors) = (next.id.index(), next.remote.ip(), next.errors);
            let proven = self.paths.iter().any(|path| path.remote.ip() == remote && path.active());
            let mut asked: Vec<IpAddr> = Vec::new();
            let unconfirmed = self.paths.iter().filter(|path| path.reachability == Reachability::Unconfirmed);
            // Timeouts double with each error. A path with more errors must not delay a newer path.
            for path in unconfirmed.filter(|path| path.errors <= errors) {
                if matches!(path.heartbeat, Heartbeat::Waiting { .. }) && !asked.contains(&path.remote.ip()) {
                    asked.push(path.remote.ip());
                }
            }
            let full = asked.len() >= self.config.heartbeat_max_burst.max(1) as usize;
            if full && !proven && !asked.contains(&remote) {
                return;
            }
            self.send_heartbeat(now, at, tag);
        }
    }

    /// Time allowed for the response to a heartbeat. A suspected path gets the next heartbeat then, so that its
    /// recovery is detected early even if its timer is long. If only heartbeats count the errors of a path, they follow
    /// its timer.
    fn heartbeat_timeout(&self, at: usize) -> Duration {
        let path = &self.paths[at];
        let rto = path.rtt.rto();
        let tries_others = self.tries_other_sources(at);
        let counts = path.totals.in_flight() == 0 && (tries_others || !self.paths.iter().any(Path::healthy));
        let usual = path.rtt.srtt().map_or(Duration::ZERO, |srtt| srtt.saturating_mul(3));
        if !path.suspect && !tries_others || counts {
            // All source addresses of an inactive destination are tried within one RTO; together they count as one
            // error of the association.
            let inactive = path.reachability == Reachability::Inactive;
            return if inactive { rto.min(usual.max(rto.div(self.sources_to(at)))) } else { rto };
        }
        // A destination that does not answer is tried from each local address, and their number divides the interval.
        let in_turn = tries_others || !path.active() && self.config.paths == Paths::Destination;
        let sources = if in_turn { self.local.len() } else { 1 };
        rto.min(usual.max(SUSPECT_INTERVAL.div(sources as u64)))
    }

    /// Handles a response; `None` if it does not match the outstanding heartbeat.
    pub fn heartbeat_answered(&mut self, now: Time, info: &[u8], tag: u32) -> Option<Answer> {
        let (&[at], rest) = info.split_first_chunk::<1>()?;
        let (nonce, rest) = rest.split_first_chunk::<8>()?;
        let (sent, _) = rest.split_first_chunk::<8>()?;
        let at = usize::from(at);
        let path = self.paths.get_mut(at)?;
        let nonce = u64::from_be_bytes(*nonce);
        if let Some(discovery) = &mut path.discovery
            && discovery.answered(now, nonce)
        {
            return None;
        }
        let sent = Time::from_nanos(u64::from_be_bytes(*sent));
        let source = match path.heartbeat {
            Heartbeat::Waiting { nonce: known, source, .. } if nonce == known => source,
            _ => {
                path.handle_late_answer(now, nonce, sent);
                return None;
            }
        };
        path.rtt.sample(now.since(sent));
        path.heard = now;
        let doubted = path.doubted.is_some();
        let moved = path.errors > 0 && self.learn_pair(at, source);
        self.confirm(now, at);
        if moved {
            self.end_backoff(now, at);
        }
        self.rest(now, at);
        self.paths[at].late_answer = None;
        self.verify_paths(now, tag);
        Some(Answer { at, sent, doubted, moved })
    }

    /// Handles a lost heartbeat. An unconfirmed path gets the next one as soon as allowed, until it has reached its
    /// limit of errors. Then it waits like any other inactive path. A suspected path gets the next one at once (RFC
    /// 7829 §3.2).
    pub fn heartbeat_lost(&mut self, now: Time, at: usize, tag: u32) {
        // If data is in flight, its retransmission timer counts the errors.
        let tries_others = self.tries_other_sources(at);
        let path = &self.paths[at];
        let counted = path.doubted == Some(now);
        if !counted && (!path.suspect && !tries_others || path.totals.in_flight() == 0) {
            self.path_error(now, at);
            self.paths[at].rtt.back_off();
        }
        let path = &mut self.paths[at];
        if path.reachability == Reachability::Unconfirmed && path.errors > self.config.path_max_retrans {
            path.reachability = Reachability::Inactive;
        }
        let unconfirmed = path.reachability == Reachability::Unconfirmed;
        // Data received meanwhile may have changed the source address.
        let own = path.local.ip();
        let tried = matches!(path.heartbeat, Heartbeat::Waiting { source, .. } if source == own);
        if !path.active() && tried {
            self.change_source(at);
        }
        if unconfirmed {
            self.paths[at].heartbeat = Heartbeat::Queued;
        } else if self.paths[at].suspect || tries_others {
            self.send_heartbeat(now, at, tag);
        } else {
            self.rest(now, at);
        }
        self.verify_paths(now, tag);
    }

    /// Selects the next local address for a destination that does not answer (RFC 9260 §6.4: another pair of source and
    /// destination). If a path is a pair of addresses, the other pairs are separate paths.
    pub fn change_source(&mut self, at: usize) {
        if self.config.paths != Paths::Destination {
            return;
        }
        let (own, remote) = (self.paths[at].local.ip(), self.paths[at].remote.ip());
        // With only one address, the address and the measured state of the path are kept.
        self.learn_pair(at, self.source_after(own, remote));
    }

    /// Reaches the destination of a path from another interface, because the present one cannot send any more. Data
    /// in flight is retransmitted there at once.
    pub fn leave_source(&mut self, now: Time, at: usize) {
        let before = self.paths[at].local;
        self.change_source(at);
        if self.paths[at].local != before {
            self.expire(now, at);
        }
    }

    /// Retransmits the data in flight on a path at once.
    pub fn expire(&mut self, now: Time, at: usize) {
        let path = &mut self.paths[at];
        if path.totals.in_flight() > 0 {
            path.retransmission_timer = Some(now);
        }
    }

    /// Sends a heartbeat from a local address that no path uses, because the peer may believe that this address does
    /// not answer. The response is ignored.
    pub fn probe_unused_source(&mut self, local: IpAddr, tag: u32) {
        let at = self.preferred();
        let remote = self.paths[at].remote.ip();
        if local.is_ipv4() == remote.is_ipv4() && is_routed(&self.config, local, remote) {
            let info = vec![at as u8];
            let heartbeat = Chunk::Heartbeat(sctp::Heartbeat { info: info.into() });
            self.totals.heartbeats_sent += 1;
            self.send_control_from(local, at, tag, heartbeat);
        }
    }

    /// Uses a pair of addresses over which data has arrived while the destination does not answer, with packets that
    /// fit the MTU of the local address. Returns true if the pair has changed.
    #[inline]
    pub fn learn_source(&mut self, at: usize, local: IpAddr) -> bool {
        !self.paths[at].active() && self.learn_pair(at, local)
    }

    /// True if the interface of a path can send.
    pub fn can_send(&self, at: usize) -> bool {
        !self.down.contains(&self.paths[at].local.ip())
    }

    /// Tries an interface that can send (again) for a destination that does not answer, or whose present source
    /// cannot send, if there is a route. If a path is a pair of addresses, that pair is a separate path. Returns true
    /// if an active destination has moved, whose data waits for its timer.
    pub fn try_source(&mut self, at: usize, local: IpAddr) -> bool {
        let path = &self.paths[at];
        let remote = path.remote.ip();
        let is_stranded = path.active() && !self.can_send(at);
        let may = self.config.paths == Paths::Destination
            && (is_stranded || !path.active())
            && local.is_ipv4() == remote.is_ipv4()
            && is_routed(&self.config, local, remote);
        may && self.learn_pair(at, local) && is_stranded
    }

    /// Sets the local address of a path. True if it has changed.
    pub fn learn_pair(&mut self, at: usize, local: IpAddr) -> bool {
        let path = &mut self.paths[at];
        let news = path.local.ip() != local && self.local.iter().any(|own| own.ip == local);
        if news {
            path.local.set_ip(local);
            self.discover_mtu(at);
        }
        news
    }
}
