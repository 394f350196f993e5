//! The handshake: INIT, INIT ACK, COOKIE ECHO, COOKIE ACK (RFC 9260 §5.1), and the handling of these chunks
//! when they are unexpected (§5.2).

use super::state::{Association, CookieEchoed, CookieWait, State};
use crate::common::{Core, violation};
use crate::cookie::{Cookie, Extensions, Peer};
use crate::extensions::auth::{ADDRESS_CHANGES, AuthCheck, Authentication, Offer, RANDOM_BYTES};
use crate::open::Open;
use crate::origin::{Origin, back};
use crate::path::state::{Heartbeat, Reachability};
use crate::phase::Phase;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{Event, Reason};
use anabranch_wire::sctp::{
    self, Abort, AddressType, Auth, Cause, Chunk, Chunks, CookieEcho, Error, Init, Parameter, kind, parameter,
};
use anabranch_wire::seq::Serial;
use core::net::{IpAddr, SocketAddr};

/// Maximum number of peer addresses that are stored: they are part of the cookie, which must fit a packet.
const MAX_PEER_ADDRESSES: usize = 32;

/// The actions in the table of RFC 9260 §5.2.4 for a COOKIE ECHO of an existing association.
enum CookieCase {
    /// Action A: the peer has restarted.
    Restart,
    /// Action B: both endpoints sent an INIT at the same time.
    Collision,
    /// Action D: the COOKIE ACK was lost.
    Duplicate,
    /// Action C, also for all other cases: the chunk is discarded.
    Discard,
}

/// Existing association with the peer when an INIT is received (§5.2.1, §5.2.2).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// The peer is unknown.
    Nothing,
    /// Both endpoints sent an INIT: the response has the tag and TSN of the local INIT.
    Begun { tag: u32, tsn: u32, ties: (u32, u32) },
    /// There is an association, and the cookie contains the tags of both endpoints.
    Association { ties: (u32, u32) },
}

impl Association {
    /// Sends the first INIT.
    pub(crate) fn open(&mut self, now: Time) {
        let (tag, tsn) = (self.core.draw_tag(), self.core.secrets.next_u32());
        let (attempts, stale) = (0, 0);
        self.state = State::CookieWait(CookieWait { tag, tsn, attempts, due: now, more_life: None, stale });
        self.send_init(now);
    }

    pub(crate) fn send_init(&mut self, now: Time) {
        let State::CookieWait(wait) = &mut self.state else { return };
        let at = self.core.primary;
        wait.due = now + self.core.timeout_on(at);
        let (tag, tsn, more_life) = (wait.tag, wait.tsn, wait.more_life);
        let mut init = self.core.build_init((tag, tsn), None);
        if let Some(increment_ms) = more_life {
            init.parameters.push(Parameter::CookiePreservative { increment_ms });
        }
        self.core.send_control(at, 0, Chunk::Init(init));
    }

    pub(crate) fn send_cookie(&mut self, now: Time) {
        let State::CookieEchoed(echoed) = &mut self.state else { return };
        let at = self.core.primary;
        echoed.due = now + self.core.timeout_on(at);
        echoed.sent = now;
        let (tag, cookie) = (echoed.peer.tag, echoed.cookie.clone());
        let mut chunks = Chunks::from(Chunk::CookieEcho(CookieEcho { cookie }));
        if !echoed.unknown.is_empty() {
            let causes = vec![Cause::UnrecognizedParameters(parameter::to_bytes(&echoed.unknown))];
            let error = Chunk::Error(Error { causes });
            let auth_len = echoed.auth.as_ref().map_or(0, Authentication::overhead);
            // The error report is omitted if the packet would be too large.
            if chunks[0].wire_len() + error.wire_len() + auth_len <= self.core.paths[at].room {
                chunks.push(error);
            }
        }
        self.core.paths[at].counters.packets_sent += 1;
        let packet = self.core.packet(at, tag, chunks);
        self.core.out.push_back(packet);
    }

    /// Timeout of T1.
    pub(crate) fn handshake_timeout(&mut self, now: Time) {
        let most = self.core.config.init_max_retrans;
        let attempts = match &mut self.state {
            State::CookieWait(wait) if wait.due <= now => &mut wait.attempts,
            State::CookieEchoed(echoed) if echoed.due <= now => &mut echoed.attempts,
            _ => return,
        };
        *attempts += 1;
        if *attempts > most {
            self.end(Reason::TimedOut);
            return;
        }
        let at = self.core.primary;
        self.core.paths[at].rtt.back_off();
        if matches!(self.state, State::CookieWait(_)) {
            self.next_pair();
            self.send_init(now);
        } else {
            self.send_cookie(now);
        }
    }

    /// Selects the next pair of addresses for an unanswered INIT: first other destinations, then other sources.
    /// Interfaces that cannot send are skipped.
    pub(crate) fn next_pair(&mut self) {
        let core = &mut self.core;
        let backoff = core.paths[core.primary].rtt.backoff();
        let n = core.paths.len();
        let mut next = core.primary;
        for _ in 0..n {
            next = (next + 1) % n;
            if next == core.first {
                (0..n).for_each(|at| core.change_source(at));
            }
            if core.can_send(next) {
                break;
            }
        }
        core.primary = next;
        while core.paths[next].rtt.backoff() < backoff {
            core.paths[next].rtt.back_off();
        }
    }

    /// Handles an INIT (§5.1 A, §5.2.1, §5.2.2). Its contents are stored only in the cookie of the response.
    pub(crate) fn handle_init(&mut self, now: Time, origin: Origin, init: &Init) {
        let known = match &self.state {
            State::Idle | State::Closed => {
                if init.initiate_tag != 0 {
                    self.core.abort_to(origin, init.initiate_tag, violation("no listener on this port"));
                }
                return;
            }
            State::Listening => Known::Nothing,
            State::CookieWait(wait) => Known::Begun { tag: wait.tag, tsn: wait.tsn, ties: (0, 0) },
            State::CookieEchoed(echoed) => {
                Known::Begun { tag: echoed.tag, tsn: echoed.tsn, ties: (echoed.tag, echoed.peer.tag) }
            }
            State::Open(open) if matches!(open.phase, Phase::ShutdownAckSent { .. }) => {
                let (at, tag) = (self.core.preferred(), open.peer_tag);
                self.core.send_control(at, tag, Chunk::ShutdownAck);
                return;
            }
            State::Open(open) => Known::Association { ties: (open.local_tag, open.peer_tag) },
        };
        self.core.answer_init(now, origin, init, known);
    }

    /// Handles an INIT ACK (§5.1 C).
    pub(crate) fn handle_init_ack(&mut self, now: Time, origin: Origin, init: &Init) {
        let State::CookieWait(wait) = &self.state else { return };
        let (tag, tsn, stale) = (wait.tag, wait.tsn, wait.stale);
        let cookie = init.parameters.iter().find_map(|parameter| match parameter {
            Parameter::StateCookie(bytes) => Some(bytes.clone()),
            _ => None,
        });
        let peer = Box::new(self.core.read_peer(init, origin));
        let cause = match (self.core.init_error(init), &cookie) {
            (Some(cause), _) => Some(cause),
            // The peer knows that this endpoint uses authentication, and would discard unauthenticated chunks.
            _ if self.core.auth_offer((tag, tsn)).is_some() && authenticates(init) && peer.auth.is_none() => {
                Some(violation("chunks that cannot be authenticated"))
            }
            (None, None) => Some(Cause::MissingParameters([parameter::kind::STATE_COOKIE].into())),
            _ => None,
        };
        let (Some(cookie), None) = (cookie, &cause) else {
            if init.initiate_tag != 0
                && let Some(cause) = cause
            {
                self.core.abort_to(origin, init.initiate_tag, cause);
            }
            self.end(Reason::Refused);
            return;
        };
        self.core.adopt_peer_paths(origin, &peer);
        let (unknown, attempts, due, sent) = (unrecognised(init), 0, now, now);
        let auth = self.core.authentication((tag, tsn), &peer);
        let proven = origin.destination;
        let echoed =
            CookieEchoed { tag, tsn, peer, auth, cookie, unknown, attempts, due, sent, stale, proven };
        self.state = State::CookieEchoed(echoed);
        self.send_cookie(now);
    }

    /// Handles a COOKIE ACK (§5.1 E).
    pub(crate) fn handle_cookie_ack(&mut self, now: Time) {
        let State::CookieEchoed(echoed) = &self.state else { return };
        let own = (echoed.tag, echoed.tsn);
        let (peer, sent, attempts) = (echoed.peer.clone(), echoed.sent, echoed.attempts);
        self.begin(now, own, &peer);
        if attempts == 0 {
            let at = self.core.primary;
            self.core.paths[at].rtt.sample(now.since(sent));
        }
    }

    /// Handles a Stale Cookie error: restarts the handshake and requests a longer cookie lifetime (§5.2.6).
    pub(crate) fn handle_stale_cookie(&mut self, now: Time, staleness_us: u32) {
        let State::CookieEchoed(echoed) = &self.state else { return };
        let (tag, tsn) = (echoed.tag, echoed.tsn);
        let (attempts, stale) = (echoed.attempts + 1, echoed.stale + 1);
        if attempts.max(stale) > self.core.config.init_max_retrans {
            self.end(Reason::TimedOut);
            return;
        }
        // Twice the staleness, because the next round trip may take as long.
        let more_life = Some((staleness_us / 500).max(1));
        self.state = State::CookieWait(CookieWait { tag, tsn, attempts, due: now, more_life, stale });
        self.send_init(now);
    }

    /// Handles a COOKIE ECHO (§5.1 D, §5.2.4), with or without an AUTH before it. True if the rest of the packet
    /// belongs to the association.
    pub(crate) fn handle_cookie(
        &mut self,
        now: Time,
        origin: Origin,
        tag: u32,
        (auth, echo): (Option<&Auth>, &CookieEcho),
    ) -> bool {
        let Ok(cookie) = Cookie::open(&echo.cookie, &self.core.cookie_key) else { return false };
        if tag != cookie.local_tag || origin.source_port != cookie.source_port {
            return false;
        }
        if auth.is_some_and(|auth| !self.is_genuine(auth, &cookie)) {
            return false;
        }
        let case = self.cookie_case(&cookie);
        if let Some(late) = cookie.staleness(now)
            && !matches!(case, Some(CookieCase::Duplicate))
        {
            let staleness_us = u32::try_from(late.as_nanos() / 1000).unwrap_or(u32::MAX);
            let causes = vec![Cause::StaleCookie { staleness_us }];
            self.core.reply(origin, cookie.peer.tag, Chunk::Error(Error { causes }));
            return false;
        }
        let own = (cookie.local_tag, cookie.local_tsn);
        // Only the destination of the INIT ACK is confirmed (§5.4); the source of the COOKIE ECHO may be forged.
        let begun = Origin { source: cookie.source, destination: cookie.destination, ..origin };
        match case {
            // The usual case: there is no association yet.
            None => {
                self.core.remote_port = cookie.source_port;
                self.core.adopt_peer_paths(begun, &cookie.peer);
                self.begin(now, own, &cookie.peer);
                // If the COOKIE ECHO arrives before the peer's timer can have expired, it is the first transmission,
                // and gives a sample of the round-trip time.
                let age = now.since(cookie.created);
                if age < self.core.config.rto.initial {
                    self.core.paths[self.core.primary].rtt.sample(age);
                }
            }
            Some(CookieCase::Duplicate | CookieCase::Collision) if !matches!(self.state, State::Open(_)) => {
                self.core.adopt_peer_paths(begun, &cookie.peer);
                self.begin(now, own, &cookie.peer);
            }
            Some(CookieCase::Duplicate) => {}
            Some(CookieCase::Collision) => self.collide(now, begun, own, &cookie.peer),
            Some(CookieCase::Restart) => {
                if let State::Open(open) = &self.state
                    && matches!(open.phase, Phase::ShutdownAckSent { .. })
                {
                    // The new association must wait until the old one has ended (§5.2.4 A, §9.2).
                    let causes = vec![Cause::CookieWhileShuttingDown];
                    self.core.reply(origin, cookie.peer.tag, Chunk::ShutdownAck);
                    self.core.reply(origin, cookie.peer.tag, Chunk::Error(Error { causes }));
                    return false;
                }
                self.restart(now, begun, own, &cookie.peer);
            }
            Some(CookieCase::Discard) => return false,
        }
        self.core.reply(origin, cookie.peer.tag, Chunk::CookieAck);
        true
    }

    /// Checks the AUTH before a COOKIE ECHO: with the keys of the existing association, or with those from the cookie
    /// if there is none (RFC 4895 §6.3).
    fn is_genuine(&mut self, auth: &Auth, cookie: &Cookie) -> bool {
        let verdict = if let State::Open(open) = &self.state {
            open.auth.as_ref().map(|own| own.verify(auth))
        } else {
            let own = self.core.authentication((cookie.local_tag, cookie.local_tsn), &cookie.peer);
            own.map(|own| own.verify(auth))
        };
        self.core.totals.forgeries += u64::from(verdict == Some(AuthCheck::Forged));
        verdict == Some(AuthCheck::Genuine)
    }

    /// The row of the table in §5.2.4 that applies to a cookie; `None` if there is no association yet.
    fn cookie_case(&self, cookie: &Cookie) -> Option<CookieCase> {
        let (local, peer) = match &self.state {
            State::Idle | State::Closed => return Some(CookieCase::Discard),
            State::Listening => return None,
            State::CookieWait(wait) => (wait.tag, None),
            State::CookieEchoed(echoed) => (echoed.tag, Some(echoed.peer.tag)),
            State::Open(open) => (open.local_tag, Some(open.peer_tag)),
        };
        let same_local = cookie.local_tag == local;
        let same_peer = peer == Some(cookie.peer.tag);
        let tied = cookie.local_tie == local && Some(cookie.peer_tie) == peer;
        Some(match (same_local, same_peer) {
            (true, true) => CookieCase::Duplicate,
            (true, false) => CookieCase::Collision,
            (false, false) if tied => CookieCase::Restart,
            _ => CookieCase::Discard,
        })
    }

    /// Establishes the association for the first time.
    fn begin(&mut self, now: Time, own: (u32, u32), peer: &Peer) {
        self.core.events.push_back(Event::Connected);
        self.establish(now, own, peer);
    }

    /// Resets all state when the association is established or has restarted. Only the address used in the handshake
    /// is confirmed (§5.4).
    pub(crate) fn establish(&mut self, now: Time, own: (u32, u32), peer: &Peer) {
        let auth = self.core.authentication(own, peer);
        self.core.i_data = peer.extensions.i_data;
        self.core.auth_len = auth.as_ref().map_or(0, Authentication::overhead);
        self.core.reset_paths();
        let primary = self.core.primary;
        self.state = State::Open(Box::new(Open::new(&mut self.core, own, peer, auth)));
        self.core.confirm(now, primary);
        for at in 0..self.core.paths.len() {
            match self.core.paths[at].reachability {
                Reachability::Active => self.core.rest(now, at),
                Reachability::Removed => {}
                _ => self.core.paths[at].heartbeat = Heartbeat::Idle { due: now },
            }
        }
    }
}

impl Core {
    /// Answers an INIT with an INIT ACK, or with an ABORT that contains the error.
    pub fn answer_init(&mut self, now: Time, origin: Origin, init: &Init, known: Known) {
        if init.initiate_tag == 0 {
            return;
        }
        if let Some(cause) = self.init_error(init) {
            self.abort_to(origin, init.initiate_tag, cause);
            return;
        }
        let ((local_tag, local_tsn), ties) = match known {
            Known::Nothing => ((self.draw_tag(), self.secrets.next_u32()), (0, 0)),
            Known::Begun { tag, tsn, ties } => ((tag, tsn), ties),
            Known::Association { ties } => ((self.draw_tag(), self.secrets.next_u32()), ties),
        };
        // During setup and in an association, no handshake over a new address is accepted (§5.2.1).
        if ties != (0, 0) {
            let new: Vec<IpAddr> =
                self.addresses(init, origin).into_iter().filter(|&a| !self.knows_remote(a)).collect();
            if !new.is_empty() {
                self.abort_to(origin, init.initiate_tag, Cause::RestartWithNewAddresses(new));
                return;
            }
        }
        let mut life = self.config.cookie_life;
        for parameter in &init.parameters {
            if let Parameter::CookiePreservative { increment_ms } = parameter {
                // The increment is limited to the normal lifetime, so that a cookie does not stay valid indefinitely.
                life += Duration::from_millis(u64::from(*increment_ms)).min(self.config.cookie_life);
            }
        }
        let cookie = Cookie {
            created: now,
            life,
            local_tag,
            local_tsn,
            local_tie: ties.0,
            peer_tie: ties.1,
            source: origin.source,
            source_port: origin.source_port,
            destination: origin.destination,
            peer: self.read_peer(init, origin),
        };
        let mut answer = self.build_init((local_tag, local_tsn), Some((init, &cookie.peer)));
        answer.parameters.push(Parameter::StateCookie(cookie.seal(&self.cookie_key)));
        let room = self.room_to(origin);
        for unknown in unrecognised(init) {
            answer.parameters.push(Parameter::Unrecognized(unknown.to_bytes()));
            // The packet has no room for more.
            if sctp::padded(answer.length()) > room {
                answer.parameters.pop();
            }
        }
        self.reply(origin, init.initiate_tag, Chunk::InitAck(answer));
    }

    /// Builds the INIT or INIT ACK of this endpoint. Both have the same contents, but an INIT ACK contains only options
    /// of the peer's INIT.
    fn build_init(&self, own: (u32, u32), asked: Option<(&Init, &Peer)>) -> Init {
        let mut parameters = Vec::new();
        let addresses = self
            .own_addresses()
            .filter(|&address| asked.is_none_or(|(init, _)| supports_family(init, address)));
        if self.local.len() > 1 {
            parameters.extend(addresses.map(Parameter::from));
        }
        let mut families: Vec<AddressType> = Vec::new();
        for address in self.own_addresses() {
            let family = if address.is_ipv4() { AddressType::IPV4 } else { AddressType::IPV6 };
            if !families.contains(&family) {
                families.push(family);
            }
        }
        parameters.push(Parameter::SupportedAddressTypes(families.into()));
        if self.config.ecn {
            parameters.push(Parameter::EcnCapable);
        }
        parameters
            .extend(self.config.error_detection.map(|method| Parameter::ZeroChecksumAcceptable { method }));
        if self.delays_for_cmt() {
            parameters.push(Parameter::DelayedAckForCmt);
        }
        if self.config.partial_reliability {
            parameters.push(Parameter::ForwardTsnSupported);
        }
        // No authentication parameters are sent to a peer that does not support authentication as required.
        let auth = self.auth_offer(own).filter(|_| asked.is_none_or(|(_, peer)| peer.auth.is_some()));
        parameters.extend(auth.iter().flat_map(Offer::parameters));
        let mut extensions = Vec::new();
        for (on, kinds) in [
            (self.config.nr_sack, &[kind::NR_SACK][..]),
            (self.config.i_data, &[kind::I_DATA]),
            (self.config.reconfiguration, &[kind::RECONFIG]),
            (self.config.partial_reliability, &[kind::FORWARD_TSN]),
            (self.config.partial_reliability && self.config.i_data, &[kind::I_FORWARD_TSN]),
            (auth.is_some(), &[kind::AUTH]),
            (auth.is_some() && self.config.asconf, &ADDRESS_CHANGES),
        ] {
            if on {
                extensions.extend_from_slice(kinds);
            }
        }
        if !extensions.is_empty() {
            parameters.push(Parameter::SupportedExtensions(extensions.into()));
        }
        let (initiate_tag, initial_tsn) = (own.0, Serial(own.1));
        Init {
            initiate_tag,
            a_rwnd: u32::try_from(self.config.receive_buffer).unwrap_or(u32::MAX),
            outbound_streams: self.config.streams,
            inbound_streams: self.config.streams,
            initial_tsn,
            parameters,
        }
    }

    /// True if this endpoint supports delayed acknowledgements for CMT and they are enabled.
    pub const fn delays_for_cmt(&self) -> bool {
        self.config.dac && self.config.cmt
    }

    /// Reads the peer's parameters from an INIT or INIT ACK, limited to the options that this endpoint supports.
    fn read_peer(&self, init: &Init, origin: Origin) -> Peer {
        let listed = |kind: u8| {
            init.parameters.iter().any(|parameter| {
                matches!(parameter, Parameter::SupportedExtensions(kinds) if kinds.contains(&kind))
            })
        };
        let auth = if self.authenticates() { Offer::of(init) } else { None };
        let i_data = self.config.i_data && listed(kind::I_DATA);
        let forward_tsn = if i_data {
            listed(kind::I_FORWARD_TSN)
        } else {
            init.parameters.contains(&Parameter::ForwardTsnSupported) || listed(kind::FORWARD_TSN)
        };
        Peer {
            tag: init.initiate_tag,
            tsn: init.initial_tsn.0,
            window: init.a_rwnd,
            outbound: self.config.streams.min(init.inbound_streams),
            inbound: self.config.streams.min(init.outbound_streams),
            extensions: Extensions {
                nr_sack: self.config.nr_sack && listed(kind::NR_SACK),
                i_data,
                asconf: self.config.asconf && auth.is_some() && listed(kind::ASCONF),
                forward_tsn: self.config.partial_reliability && forward_tsn,
                zero_checksum: self.config.error_detection.is_some_and(|method| {
                    init.parameters.contains(&Parameter::ZeroChecksumAcceptable { method })
                }),
                reconfig: self.config.reconfiguration && listed(kind::RECONFIG),
                dac: self.delays_for_cmt() && init.parameters.contains(&Parameter::DelayedAckForCmt),
                ecn: self.config.ecn && init.parameters.contains(&Parameter::EcnCapable),
            },
            auth,
            addresses: self.addresses(init, origin),
        }
    }

    /// Creates the paths to the peer's listed addresses and removes all others. The primary path is the one used by the
    /// handshake.
    pub(crate) fn adopt_peer_paths(&mut self, origin: Origin, peer: &Peer) {
        // The peer's UDP port is assumed for all its addresses (RFC 6951 §5.4).
        self.udp = origin.udp.map(back);
        peer.addresses.iter().for_each(|&address| self.learn_remote(address));
        for path in &mut self.paths {
            path.remote.set_port(self.remote_port);
            path.udp = self.udp;
            if !peer.addresses.contains(&path.remote.ip()) && path.reachability != Reachability::Removed {
                path.reachability = Reachability::Removed;
                self.congestion.remove_path(path.id);
            }
        }
        if self.find(origin.destination, origin.source).is_none() {
            // A packet has arrived on this pair of addresses, so the pair is used whatever the configured routes are.
            self.add_path(origin.destination, origin.source);
        }
        if let Some(at) = self.find(origin.destination, origin.source) {
            let path = &mut self.paths[at];
            path.local = SocketAddr::new(origin.destination, self.local_port);
            self.primary = at;
        }
    }

    /// Sends a response to the source of a packet.
    pub fn reply(&mut self, origin: Origin, tag: u32, chunk: Chunk) {
        if let Some(at) = self.find(origin.destination, origin.source) {
            self.paths[at].counters.packets_sent += 1;
        }
        self.out.push_back(origin.reply(tag, chunk));
    }

    /// The peer's usable addresses: those that it lists, and its source address.
    fn addresses(&self, init: &Init, origin: Origin) -> Vec<IpAddr> {
        let listed = init.parameters.iter().filter_map(Parameter::address);
        let mut all: Vec<IpAddr> = listed.filter(|&address| self.can_use(address, origin.source)).collect();
        if !all.contains(&origin.source) {
            // Further addresses of the peer are ignored.
            all.truncate(MAX_PEER_ADDRESSES - 1);
            all.push(origin.source);
        }
        all.truncate(MAX_PEER_ADDRESSES);
        all
    }

    /// The error cause for an invalid INIT or INIT ACK.
    fn init_error(&self, init: &Init) -> Option<Cause> {
        if init.initiate_tag == 0
            || init.outbound_streams == 0
            || init.inbound_streams == 0
            || init.a_rwnd < 1500
        {
            return Some(Cause::InvalidMandatoryParameter(Box::default()));
        }
        init.parameters.iter().find_map(|parameter| match parameter {
            Parameter::HostName(_) => Some(Cause::UnresolvableAddress(parameter.to_bytes())),
            // RFC 4895 §6.1. Without authentication, the parameter is unknown.
            Parameter::Random(bytes) if self.authenticates() && bytes.len() != RANDOM_BYTES => {
                Some(violation("a random number with a length other than 32 bytes"))
            }
            _ => None,
        })
    }

    fn abort_to(&mut self, origin: Origin, tag: u32, cause: Cause) {
        self.reply(origin, tag, Chunk::Abort(Abort { reflected_tag: false, causes: vec![cause] }));
    }
}

/// True if the sender supports the family of `address`; without a list of families it supports all (§3.3.2.1.5).
fn supports_family(init: &Init, address: IpAddr) -> bool {
    let family = if address.is_ipv4() { AddressType::IPV4 } else { AddressType::IPV6 };
    init.parameters.iter().all(|parameter| match parameter {
        Parameter::SupportedAddressTypes(families) => families.contains(&family),
        _ => true,
    })
}

/// True if the sender supports authentication.
fn authenticates(init: &Init) -> bool {
    init.parameters.iter().any(|parameter| matches!(parameter, Parameter::Random(_)))
}

/// The part of an INIT or INIT ACK that is processed: up to an unknown parameter whose type requires the receiver to
/// stop (§3.2.1).
pub(crate) fn readable(init: &Init) -> Init {
    let stops = |p: &Parameter| matches!(p, Parameter::Unknown { .. }) && p.action().stops();
    let mut init = init.clone();
    if let Some(at) = init.parameters.iter().position(stops) {
        init.parameters.truncate(at + 1);
    }
    init
}

/// Parameters of unknown type that must be reported to their sender (§3.2.1).
fn unrecognised(init: &Init) -> Vec<Parameter> {
    let reported = |p: &&Parameter| matches!(p, Parameter::Unknown { .. }) && p.action().reports();
    init.parameters.iter().filter(reported).cloned().collect()
}
