//! Data shared by all states of an association: the settings, the paths, and the queues of packets and
//! events.

use crate::config::{Config, Paths, base_mtu, is_routed, least_mtu};
use crate::cookie::CookieKey;
use crate::counters::{Blocking, Stop, Totals};
use crate::inbox::Inbox;
use crate::origin::{Origin, back};
use crate::path::pmtu::Discovery;
use crate::path::state::{Heartbeat, Path, Reachability, Setup};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::blocked::Blocked;
use anabranch_endpoint::endpoint::{Arrival, Event, Placement, SchedulingDecision};
use anabranch_endpoint::ends::{Address, Ends};
use anabranch_endpoint::gap::GapClock;
use anabranch_endpoint::limits::LimitClock;
use anabranch_endpoint::secrets::Secrets;
use anabranch_multipath::buffer::{Splitting, StartUp};
use anabranch_multipath::congestion::{CongestionControl, Idle, PathSetup, Rules};
use anabranch_multipath::scheduler::Scheduler;
use anabranch_multipath::{MAX_PATHS, PathId};
use anabranch_wire::sctp::encapsulation::Ports;
use anabranch_wire::sctp::{Cause, Chunk, Chunks};
use anabranch_wire::{Body, Ecn, Packet, sctp};
use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

/// The part of an association that exists in all of its states.
#[derive(Debug)]
pub(super) struct Core {
    pub config: Config,
    /// Local addresses, all listed in the handshake (RFC 9260 §5.1.2).
    pub local: Vec<Address>,
    pub local_port: u16,
    /// Peer's addresses as first known. Their order determines the pairs of the initial paths.
    pub remote: Vec<IpAddr>,
    /// Peer's port; a server learns it from the first packet.
    pub remote_port: u16,
    /// Congestion control of all paths.
    pub congestion: Box<dyn CongestionControl>,
    /// Chooses the path of new data with CMT.
    pub scheduler: Box<dyn Scheduler>,
    /// True if the scheduler sends all data on every path; and the path on which the current SACK arrived.
    pub sends_copies: bool,
    pub sack_path: Option<usize>,
    /// The scheduler may leave usable paths without data.
    pub scheduler_selects: bool,
    /// Start-up phase; buffer splitting and chunk rescheduling may be off until it ends.
    pub start_up: StartUp,
    /// Source of tags, initial TSNs, nonces and jitter.
    pub secrets: Secrets,
    /// UDP ports of packets to an address from which no packet has been received yet.
    pub udp: Option<Ports>,
    pub paths: Vec<Path>,
    /// Bytes received, by pair of local and remote address.
    pub arrivals: Vec<Arrival>,
    /// Path of new data without CMT; with CMT, used if no other path is available.
    pub primary: usize,
    /// Path of the first INIT.
    pub first: usize,
    /// Time for which no path could carry the data.
    pub blocked: Blocked<Blocking, 5>,
    /// Times by cause.
    pub clock: LimitClock,
    /// Times of gaps in the TSNs that the peer has received.
    pub gap: GapClock,
    /// Packets ready to send.
    pub out: VecDeque<Packet>,
    pub events: VecDeque<Event>,
    /// Scheduling decisions, if recording is enabled.
    pub decisions: Option<VecDeque<SchedulingDecision>>,
    pub inbox: Inbox,
    /// Offset of unwrapped TSNs, a multiple of 2^32. It prevents underflow below the first TSN, and separates TSNs
    /// before a restart of the peer from those after it.
    pub unwrapped: u64,
    /// Placements in the stream for the stored payloads of the last packet.
    pub placements: VecDeque<Placement>,
    /// Fragments that were placed but will never be read.
    pub forgotten: VecDeque<(u64, u32)>,
    /// Local addresses whose interfaces cannot send now.
    pub down: Vec<IpAddr>,
    /// Bytes written since the start of the association.
    pub written: u64,
    /// The part of these bytes that was not acknowledged when the association ended.
    pub unacknowledged: u64,
    pub cookie_key: CookieKey,
    pub totals: Totals,
    /// True if I-DATA is in use, which changes the room for payload.
    pub i_data: bool,
    /// Bytes of the AUTH chunk in packets to the peer, if the peer requires one.
    pub auth_len: u32,
}

impl Core {
    pub fn new(config: Config, ends: &Ends, secrets: Secrets, cookie_key: CookieKey) -> Self {
        let scheduler = (config.scheduler.build)();
        let mut core = Self {
            local: ends.local.clone(),
            local_port: ends.local_port,
            remote: ends.remote.clone(),
            remote_port: ends.remote_port,
            congestion: config.congestion.build(),
            sends_copies: config.cmt && scheduler.duplicates(),
            scheduler,
            sack_path: None,
            scheduler_selects: config.scheduler.wants_information,
            start_up: StartUp::new(config.mechanisms_in_start_up),
            secrets,
            udp: config.encapsulation,
            config,
            paths: Vec::new(),
            arrivals: Vec::new(),
            primary: 0,
            first: 0,
            blocked: Blocked::default(),
            clock: LimitClock::default(),
            gap: GapClock::default(),
            out: VecDeque::new(),
            events: VecDeque::new(),
            decisions: None,
            inbox: Inbox::default(),
            unwrapped: 1 << 32,
            placements: VecDeque::new(),
            forgotten: VecDeque::new(),
            down: Vec::new(),
            written: 0,
            unacknowledged: 0,
            cookie_key,
            totals: Totals::default(),
            i_data: false,
            auth_len: 0,
        };
        for remote in core.remote.clone() {
            core.learn_remote(remote);
        }
        core.first = core.initial_path();
        core.primary = core.first;
        core
    }

    /// Current buffer splitting: none during a start-up phase without it, and none if every path carries all data.
    pub fn splitting(&self) -> Splitting {
        if self.start_up.is_over() && !self.sends_copies {
            self.config.splitting
        } else {
            Splitting::default()
        }
    }

    /// Checks whether the start-up phase is over. `widest` is the largest window that the peer has offered, bytes.
    pub fn observe_start_up(&mut self, widest: u64) {
        if self.start_up.is_over() {
            return;
        }
        let congestion = &*self.congestion;
        let seen = self.paths.iter().map(|path| {
            let srtt = path.rtt.srtt().filter(|_| path.healthy());
            (srtt, congestion.window(path.id))
        });
        self.start_up.observe(seen, widest.min(self.config.send_buffer));
    }

    /// Path to the initial destination, from the local address with the same index.
    fn initial_path(&self) -> usize {
        let Some(&remote) = self.remote.get(self.config.initial_path) else { return 0 };
        let local = self.local[self.config.initial_path % self.local.len()];
        let to_there = || self.paths.iter().position(|path| path.remote.ip() == remote);
        self.find(local.ip, remote).or_else(to_there).unwrap_or(0)
    }

    /// Local addresses.
    pub fn own_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.local.iter().map(|own| own.ip)
    }

    /// Largest packet that can be sent from a local address, bytes.
    pub fn mtu_from(&self, local: IpAddr) -> u32 {
        let own = self.local.iter().find(|own| own.ip == local);
        own.map_or_else(|| least_mtu(local), |own| own.mtu)
    }

    /// Assumed MTU of an unmeasured path from this address, bytes.
    fn first_mtu(&self, local: IpAddr) -> u32 {
        let most = self.mtu_from(local);
        if self.config.pmtu_discovery { most.min(base_mtu(local)) } else { most }
    }

    /// Restarts path MTU discovery.
    pub fn discover_mtu(&mut self, at: usize) {
        let local = self.paths[at].local.ip();
        self.paths[at].discovery = self.discovery(local);
        self.set_mtu(at, self.first_mtu(local));
    }

    fn discovery(&self, local: IpAddr) -> Option<Box<Discovery>> {
        let most = self.mtu_from(local);
        let new = || Box::new(Discovery::new((least_mtu(local), base_mtu(local)), most));
        self.config.pmtu_discovery.then(new)
    }

    /// The path between two addresses; a path that is identified by its destination is found by the remote address
    /// alone.
    pub fn find(&self, local: IpAddr, remote: IpAddr) -> Option<usize> {
        let pairs = self.config.paths == Paths::FullMesh;
        self.paths.iter().position(|path| {
            path.remote.ip() == remote
                && (!pairs || path.local.ip() == local)
                && path.reachability != Reachability::Removed
        })
    }

    /// Peer's addresses; each occurs once per path to it.
    pub fn remote_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let there = |path: &&Path| path.reachability != Reachability::Removed;
        self.paths.iter().filter(there).map(|path| path.remote.ip())
    }

    /// True if the address belongs to the peer.
    pub fn knows_remote(&self, remote: IpAddr) -> bool {
        self.remote_addresses().any(|known| known == remote)
    }

    /// True if an address that the peer lists in a packet from `source` is usable. A link-local address is meaningful
    /// only on one interface (RFC 4007 §6). A path identified by its destination has no interface. In this case, all
    /// link-local addresses are ignored except the source of the packet (Becke2014 §5.2.3.2).
    pub fn can_use(&self, address: IpAddr, source: IpAddr) -> bool {
        let link_local = match address {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        !link_local || address == source || self.config.paths == Paths::FullMesh
    }

    /// Adds the paths to a new remote address. Paths to an address that was removed earlier are revived.
    pub fn learn_remote(&mut self, remote: IpAddr) {
        if self.knows_remote(remote) {
            return;
        }
        if self.revive(remote) {
            return;
        }
        let locals: Vec<IpAddr> =
            self.own_addresses().filter(|local| local.is_ipv4() == remote.is_ipv4()).collect();
        let routed = |local: &IpAddr| is_routed(&self.config, *local, remote);
        match self.config.paths {
            Paths::FullMesh => {
                let sources: Vec<IpAddr> = locals.into_iter().filter(routed).collect();
                for local in sources {
                    self.add_path(local, remote);
                }
            }
            Paths::Destination => {
                let place = self.remote.iter().position(|known| *known == remote);
                let place = place.unwrap_or(self.paths.len());
                let in_turn = (0..locals.len()).map(|step| locals[(place + step) % locals.len()]);
                if let Some(local) = in_turn.into_iter().find(routed) {
                    self.add_path(local, remote);
                }
            }
        }
    }

    fn revive(&mut self, remote: IpAddr) -> bool {
        let mut paths = core::mem::take(&mut self.paths);
        let mut found = false;
        for path in paths.iter_mut().filter(|path| path.remote.ip() == remote) {
            path.revive(self.config.rto);
            self.announce(path);
            found = true;
        }
        self.paths = paths;
        found
    }

    pub fn add_path(&mut self, local: IpAddr, remote: IpAddr) {
        // The limit of paths is reached: further addresses of the peer are ignored.
        if self.paths.len() >= MAX_PATHS {
            return;
        }
        let id = PathId(self.paths.len() as u8);
        let mut path = Path::new(id, &self.setup(local, remote));
        self.announce(&mut path);
        self.paths.push(path);
        if let Some(information) = self.config.information_of(local, remote) {
            self.scheduler.on_information(id, Some(information));
        }
    }

    /// Passes the characteristics of all paths from the scenario to the scheduler.
    pub fn inform_scheduler(&mut self) {
        for path in &self.paths {
            let information = self.config.information_of(path.local.ip(), path.remote.ip());
            self.scheduler.on_information(path.id, information);
        }
    }

    pub fn setup(&self, local: IpAddr, remote: IpAddr) -> Setup {
        Setup {
            local: SocketAddr::new(local, self.local_port),
            remote: SocketAddr::new(remote, self.remote_port),
            mtu: self.first_mtu(local),
            i_data: self.i_data,
            auth_len: self.auth_len,
            udp: self.udp,
            rto: self.config.rto,
            missing_reports: self.config.missing_reports,
        }
    }

    /// Current setup of a path.
    pub fn setup_of(&self, at: usize) -> Setup {
        let path = &self.paths[at];
        Setup { udp: path.udp, mtu: path.mtu, ..self.setup(path.local.ip(), path.remote.ip()) }
    }

    /// Registers a path with the congestion control; it is unusable until confirmed.
    fn announce(&mut self, path: &mut Path) {
        let setup = PathSetup {
            mss: path.room,
            initial_window: path.initial_window(),
            initial_ssthresh: self.config.initial_ssthresh,
            rules: Rules::Sctp,
            floor: self.config.ssthresh_floor,
            abc_limit: self.config.abc_limit,
            whole_packets: false,
        };
        self.congestion.add_path(path.id, setup);
        self.congestion.set_usable(path.id, false);
        self.start_rate(path);
        path.discovery = self.discovery(path.local.ip());
    }

    /// Resets windows, timers and round-trip times of every path to their initial state. Used at the end of a handshake
    /// and when the peer restarts.
    pub fn reset_paths(&mut self) {
        let mut paths = core::mem::take(&mut self.paths);
        for path in &mut paths {
            let setup = self.setup(path.local.ip(), path.remote.ip());
            path.reset(&Setup { udp: path.udp, ..setup });
            if path.reachability == Reachability::Removed {
                continue;
            }
            self.congestion.remove_path(path.id);
            self.announce(path);
            self.congestion.set_usable(path.id, path.active());
        }
        self.paths = paths;
    }

    /// Builds a packet for a path.
    pub fn packet(&self, at: usize, tag: u32, chunks: Chunks) -> Packet {
        let path = &self.paths[at];
        self.envelope((path.local.ip(), path.remote.ip()), path.udp, tag, chunks)
    }

    /// Builds a packet between two addresses.
    pub fn envelope(
        &self,
        (source, destination): (IpAddr, IpAddr),
        udp: Option<Ports>,
        tag: u32,
        chunks: Chunks,
    ) -> Packet {
        Packet {
            source,
            destination,
            ecn: Ecn::NotEct,
            body: Body::Sctp(sctp::Packet {
                source_port: self.local_port,
                destination_port: self.remote_port,
                verification_tag: tag,
                chunks,
                udp,
                may_fragment: false,
                zero_checksum: false,
            }),
        }
    }

    /// Called for a packet with the correct tag on path `at` with these UDP ports. Replies use the same ports, or no
    /// UDP if there are none (RFC 6951 §5.4). True if that changes the room for chunks.
    #[inline]
    pub fn follow_encapsulation(&mut self, at: usize, udp: Option<Ports>) -> bool {
        let udp = udp.map(back);
        self.paths[at].udp != udp && self.change_encapsulation(at, udp)
    }

    #[cold]
    fn change_encapsulation(&mut self, at: usize, udp: Option<Ports>) -> bool {
        let setup = Setup { udp, ..self.setup_of(at) };
        let path = &mut self.paths[at];
        let resized = path.resize(&setup);
        if resized {
            self.congestion.set_mss(path.id, path.room);
        }
        resized
    }

    /// Bytes for chunks in a reply to `origin`: those of its path, or of the smallest MTU if there is no path.
    pub fn room_to(&self, origin: Origin) -> u32 {
        let known = self.find(origin.destination, origin.source).map(|at| self.paths[at].room);
        known.unwrap_or_else(|| {
            let setup = Setup {
                mtu: least_mtu(origin.source),
                udp: origin.udp,
                ..self.setup(origin.destination, origin.source)
            };
            setup.room()
        })
    }

    /// Queues a packet with one control chunk on a path.
    pub fn send_control(&mut self, at: usize, tag: u32, chunk: Chunk) {
        self.send_chunks(at, tag, chunk.into());
    }

    /// Queues a packet with one chunk on a path, from a local address.
    pub fn send_control_from(&mut self, source: IpAddr, at: usize, tag: u32, chunk: Chunk) {
        let path = &mut self.paths[at];
        path.counters.packets_sent += 1;
        let (pair, udp) = ((source, path.remote.ip()), path.udp);
        self.out.push_back(self.envelope(pair, udp, tag, chunk.into()));
    }

    /// Queues a packet with these chunks on a path.
    pub fn send_chunks(&mut self, at: usize, tag: u32, chunks: Chunks) {
        self.paths[at].counters.packets_sent += 1;
        let packet = self.packet(at, tag, chunks);
        self.out.push_back(packet);
    }

    /// Draws a random verification tag, which is not zero.
    pub fn draw_tag(&mut self) -> u32 {
        loop {
            let tag = self.secrets.next_u32();
            if tag != 0 {
                return tag;
            }
        }
    }

    /// True if a path may carry data: it is active and not suspected. If all active paths are suspected, those with the
    /// fewest errors are used (RFC 7829 §3.2).
    pub fn in_use(&self, at: usize) -> bool {
        let path = &self.paths[at];
        let better = |other: &Path| other.healthy() || other.active() && other.errors < path.errors;
        path.healthy() || path.active() && !self.paths.iter().any(better)
    }

    /// The path for packets that may use any path: the primary path while it is in use, else another path in use, else
    /// a path that has not been removed.
    pub fn preferred(&self) -> usize {
        let there = |path: &Path| path.reachability != Reachability::Removed;
        let primary = &self.paths[self.primary];
        if self.in_use(self.primary) {
            return self.primary;
        }
        let other = (0..self.paths.len()).find(|&at| self.in_use(at));
        other.unwrap_or_else(|| {
            if there(primary) {
                self.primary
            } else {
                self.paths.iter().position(there).unwrap_or(self.primary)
            }
        })
    }

    /// Schedules the next heartbeat of a path.
    pub fn rest(&mut self, now: Time, at: usize) {
        // The draw is uniform in [0, 1).
        let draw = (self.secrets.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let path = &mut self.paths[at];
        if let Heartbeat::Waiting { nonce, source, .. } = path.heartbeat {
            path.late_answer = Some((nonce, source));
        }
        path.heartbeat = match self.config.heartbeat_interval {
            Some(interval) => Heartbeat::Idle { due: now + path.heartbeat_period(interval, draw) },
            None if path.active() => Heartbeat::Off,
            // Without regular heartbeats, a path that does not answer still needs heartbeats to recover.
            None => Heartbeat::Idle { due: now + path.rtt.rto() },
        };
    }

    /// Ends the blocked times: from `now` on, no data is waiting.
    pub fn unblock(&mut self, now: Time) {
        self.blocked.set(now, None);
        let preferred = if self.config.cmt || self.paths.is_empty() { 0 } else { self.preferred() };
        for at in 0..self.paths.len() {
            self.paths[at].blocked = None;
            self.note_limit(
                now,
                at,
                if self.takes_data(at, preferred) { Stop::NoData } else { Stop::Standby },
            );
        }
        self.follow_limits(now);
    }

    /// True if new data may be sent on a path: with CMT on any, otherwise only on the preferred path.
    pub fn takes_data(&self, at: usize, preferred: usize) -> bool {
        self.config.cmt || at == preferred
    }

    /// Current retransmission timeout of a path.
    pub fn timeout_on(&self, at: usize) -> Duration {
        self.paths[at].rtt.rto()
    }

    /// True if the congestion window of a path has room for a chunk with `len` bytes of payload.
    pub fn window_admits(&self, path: &Path, len: u32) -> bool {
        self.admits((self.congestion.window(path.id), path.in_window()), path, len)
    }

    /// True if a congestion window of `cwnd` bytes, of which `in_window` are used, has room for a chunk with `len`
    /// bytes of payload.
    pub fn admits(&self, (cwnd, in_window): (u64, u64), path: &Path, len: u32) -> bool {
        let needed = if self.config.overshoot { 1 } else { u64::from(path.chunk_len(len)) };
        in_window + needed <= cwnd
    }

    /// Shrinks the window of a path that was idle for longer than its RTO (RFC 9260 §7.2.1).
    pub fn restart_if_idle(&mut self, at: usize, now: Time) {
        let path = &self.paths[at];
        if path.totals.in_flight() == 0
            && path.counters.data_packets_sent > 0
            && let Some(timeouts) = path.rtt.timeouts_in(now.since(path.last_sent))
        {
            self.congestion.on_idle(&Idle { now, path: path.id, timeouts });
            self.paths[at].avoids = false;
        }
    }
}

/// Protocol Violation error cause with a description.
pub(super) fn violation(what: &str) -> Cause {
    Cause::ProtocolViolation(what.as_bytes().into())
}
