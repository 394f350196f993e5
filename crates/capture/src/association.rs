//! An SCTP association: its paths, and the data chunks of both directions over all paths.

use crate::nearest::{NearestInterfaces, Roles};
use crate::oddity::{Kind, Noted, Oddities};
use crate::ranges::Seen;
use crate::recent::Recent;
use crate::series::{Pieces, Point, Series};
use crate::waits::{RoundTrips, State, Waits};
use anabranch_wire::sctp::{Chunk, Packet, Sack};
use anabranch_wire::seq::Serial;
use core::net::IpAddr;

/// Maximum number of paths of an association; further paths count as the last one.
const MAX_PATHS: usize = 64;
const UNWRAP_BASE: u64 = 1 << 32;
/// Maximum distance of a TSN from the others; a larger distance shows a damaged or forged packet.
const MAX_STEP: u64 = 1 << 24;
/// Maximum number of chunks that the gap blocks of one SACK acknowledge.
const MAX_GAP_CHUNKS: usize = 8_192;
/// Minimum time without a packet after which a retransmission counts as one by timeout (RFC 9260 §16 recommends 1 s
/// for `RTO.Min`; CMT and others use less).
const MIN_TIMEOUT_NS: u64 = 190_000_000;

/// Counts of one direction of a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathCounts {
    pub packets: u64,
    pub data_packets: u64,
    pub payload: u64,
    pub new: u64,
    pub retransmitted: u64,
    pub retransmitted_packets: u64,
    /// Count of those `retransmitted` bytes that another path carried first.
    pub moved: u64,
    pub timeouts: u64,
    pub marked: u64,
    /// Payload at the interface nearest to the receiver, if that differs from the one nearest to the sender.
    pub arrived: u64,
    pub arrived_packets: u64,
    pub first_ns: Option<u64>,
    pub first_data_ns: Option<u64>,
    pub last_data_ns: u64,
    pub last_ns: u64,
    pub longest: u32,
    pub round_trips: RoundTrips,
    pub delivered: Series,
    pub waits: Waits,
    /// Largest number of bytes in flight.
    pub flight: u64,
    outstanding: u64,
    pending: Option<(u64, u64)>,
}

/// A pair of addresses; the first is that of side 0.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub ends: [IpAddr; 2],
    pub nearest: NearestInterfaces,
    pub counts: [PathCounts; 2],
}

/// One direction of the association's data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Direction {
    pub distinct: u64,
    pub waits: Waits,
    pub delivered: Series,
    pub pieces: Pieces,
    pub flight: u64,
    pub window: Option<u64>,
    pub first_ns: Option<u64>,
    pub last_ns: u64,
    pub acknowledged: u64,
    pub has_sack: bool,
    seen: Option<Seen>,
    cumulative: Option<u64>,
    recent: Recent,
    outstanding: u64,
    room: Option<u64>,
    recover: Option<u64>,
    longest: u32,
}

/// State of an association. Side 0 is the one that sent the INIT or, if the capture contains none, the one that
/// counts as the client.
#[derive(Clone, Debug)]
pub(crate) struct Association {
    pub ports: [u16; 2],
    /// The verification tag in packets from each side.
    pub tags: [Option<u32>; 2],
    pub paths: Vec<Path>,
    pub directions: [Direction; 2],
    pub oddities: Oddities,
    pub has_init: bool,
    pub inits: u32,
    pub packets: [u64; 2],
    pub payload: u64,
}

/// A packet as an interface shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting<'a> {
    pub at_ns: u64,
    pub tap: u32,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub is_marked: bool,
    /// True if the capture has cut the packet: a SACK then has only its first gap blocks.
    pub is_cut: bool,
    pub packet: &'a Packet,
}

impl Association {
    /// An association with the ports of side 0 and side 1.
    pub fn new(ports: [u16; 2]) -> Self {
        Self {
            ports,
            tags: [None; 2],
            paths: Vec::new(),
            directions: Default::default(),
            oddities: Oddities::default(),
            has_init: false,
            inits: 0,
            packets: [0; 2],
            payload: 0,
        }
    }

    /// True if a path between two addresses is known; the first address is that of side 0.
    pub fn has_path(&self, ends: [IpAddr; 2]) -> bool {
        self.paths.iter().any(|path| path.ends == ends)
    }

    /// Processes a packet from a side. `number` identifies the association in figures.
    pub fn on_packet(&mut self, side: usize, seen: &Sighting<'_>, budget: &mut usize) {
        let mut ends = [seen.source, seen.destination];
        if side == 1 {
            ends.reverse();
        }
        let at = self.path(ends);
        let roles = self.paths[at].nearest.roles(side, seen.tap);
        self.packets[side] += 1;
        let counts = &mut self.paths[at].counts[side];
        if roles.is_near {
            counts.packets += 1;
            counts.first_ns.get_or_insert(seen.at_ns);
            counts.last_ns = seen.at_ns;
            counts.marked += u64::from(seen.is_marked);
        } else if roles.is_far {
            counts.arrived_packets += 1;
        }
        let mut data = 0;
        for chunk in &seen.packet.chunks {
            match (chunk, chunk.tsn(), chunk.payload()) {
                (_, Some(tsn), Some(payload)) => {
                    data += payload.len;
                    if roles.is_near {
                        self.on_data(seen.at_ns, (side, at), (tsn, payload.len), budget);
                    }
                }
                (Chunk::Sack(sack), ..) if roles.is_far => self.on_sack(seen, side, sack),
                (Chunk::NrSack(sack), ..) if roles.is_far => {
                    let mut all = sack.sack.clone();
                    all.gaps.extend_from_slice(&sack.nr_gaps);
                    self.on_sack(seen, side, &all);
                }
                _ if roles.is_near => self.on_control(seen.at_ns, (side, at), chunk),
                _ => {}
            }
        }
        if data > 0 {
            self.on_data_packet(seen.at_ns, (side, at, roles), data);
        }
    }

    fn path(&mut self, ends: [IpAddr; 2]) -> usize {
        if let Some(at) = self.paths.iter().position(|path| path.ends == ends) {
            return at;
        }
        if self.paths.len() < MAX_PATHS {
            self.paths.push(Path { ends, nearest: NearestInterfaces::default(), counts: Default::default() });
        }
        self.paths.len() - 1
    }

    fn on_data_packet(&mut self, at_ns: u64, (side, at, roles): (usize, usize, Roles), data: u32) {
        let counts = &mut self.paths[at].counts[side];
        if roles.is_near {
            counts.data_packets += 1;
            counts.payload += u64::from(data);
            counts.first_data_ns.get_or_insert(at_ns);
            counts.last_data_ns = at_ns;
            self.payload += u64::from(data);
        } else if roles.is_far {
            counts.arrived += u64::from(data);
        }
    }

    fn on_data(
        &mut self,
        at_ns: u64,
        (side, at): (usize, usize),
        (tsn, len): (Serial, u32),
        budget: &mut usize,
    ) {
        let direction = &mut self.directions[side];
        let counts = &mut self.paths[at].counts[side];
        let number = direction.unwrap(tsn);
        let seen = direction.seen.get_or_insert_with(|| Seen::new(number));
        if number.abs_diff(seen.end()) > MAX_STEP {
            return;
        }
        let added = seen.add((number, number + 1), at_ns, 0);
        let end = seen.end();
        let is_repeated = added.repeated > 0;
        if is_repeated {
            let silence_ns = at_ns.saturating_sub(direction.last_ns);
            if direction.cumulative.is_some_and(|cumulative| number == cumulative + 1)
                && silence_ns >= MIN_TIMEOUT_NS
            {
                counts.timeouts += 1;
                counts.waits.account_timeout(at_ns);
                direction.waits.account_timeout(at_ns);
            }
            counts.retransmitted += u64::from(len);
            counts.retransmitted_packets += 1;
            counts.pending = None;
            direction.recover = Some(end);
            if let Some(chunk) = direction.recent.get_mut(number) {
                move_to(at, (number, chunk), (side, &mut self.paths));
            }
        } else {
            counts.new += u64::from(len);
            direction.distinct += u64::from(len);
            direction.outstanding += u64::from(len);
            let kept = len.min(u32::from(u16::MAX)) as u16;
            direction.recent.insert(number, kept, at as u8);
            counts.outstanding += u64::from(kept);
            counts.pending.get_or_insert((number, at_ns));
        }
        let counts = &mut self.paths[at].counts[side];
        counts.longest = counts.longest.max(len);
        counts.flight = counts.flight.max(counts.outstanding);
        direction.longest = direction.longest.max(len);
        direction.flight = direction.flight.max(direction.outstanding);
        direction.first_ns.get_or_insert(at_ns);
        direction.last_ns = at_ns;
        direction.waits.account(at_ns);
        direction.update(at_ns, true);
        let point = Point { at_ns, subflow: at as u32, from: number, len };
        direction.pieces.add(point, is_repeated, budget);
        self.account_paths(at_ns, side, Some(at));
    }

    /// Adds the time since the last event to the state of each path; `sender` is the path that sends data at this
    /// time.
    fn account_paths(&mut self, at_ns: u64, side: usize, sender: Option<usize>) {
        let is_full = self.directions[side].is_full();
        for (at, path) in self.paths.iter_mut().enumerate() {
            let counts = &mut path.counts[side];
            counts.waits.account(at_ns);
            let state = match (is_full, counts.outstanding) {
                (true, _) => State::Window,
                (false, 0) => State::Idle,
                (false, _) => State::Sending,
            };
            counts.waits.set(at_ns, (state, counts.outstanding), sender == Some(at));
        }
    }

    /// Processes a SACK from a side, which acknowledges data of the other side.
    fn on_sack(&mut self, seen: &Sighting<'_>, side: usize, sack: &Sack) {
        let (at_ns, is_cut) = (seen.at_ns, seen.is_cut);
        let direction = &mut self.directions[1 - side];
        direction.waits.account(at_ns);
        direction.has_sack = true;
        let number = direction.unwrap(sack.cumulative_tsn);
        let seen = direction.seen.get_or_insert_with(|| Seen::new(number + 1));
        let (start, end) = (seen.start(), seen.end());
        if number >= end && number - end < MAX_STEP {
            seen.skip_to(number + 1);
        }
        let number = number.min(seen.end() - 1);
        let before = *direction.cumulative.get_or_insert(number.min(start.saturating_sub(1)));
        let mut acked = 0;
        for tsn in Recent::span(before + 1, number + 1) {
            acked += acknowledge(direction.recent.get_mut(tsn), (at_ns, tsn), side, &mut self.paths);
        }
        let gaps =
            sack.gaps.iter().flat_map(|gap| number + u64::from(gap.start)..=number + u64::from(gap.end));
        for tsn in gaps.take(MAX_GAP_CHUNKS) {
            acked += acknowledge(direction.recent.get_mut(tsn), (at_ns, tsn), side, &mut self.paths);
        }
        if is_cut {
            let known = sack.gaps.iter().map(|gap| number + u64::from(gap.end)).max().unwrap_or(number);
            forget_pending_behind(known, (1 - side, &mut self.paths));
        }
        direction.cumulative = Some(before.max(number));
        direction.outstanding = direction.outstanding.saturating_sub(acked);
        direction.acknowledged += acked;
        direction.delivered.add(at_ns, acked);
        if direction.recover.is_some_and(|recover| number + 1 >= recover) {
            direction.recover = None;
        }
        if !sack.gaps.is_empty() && number == before && direction.recover.is_none() {
            direction.recover = direction.seen.as_ref().map(Seen::end);
        }
        let window = u64::from(sack.a_rwnd);
        direction.window = Some(direction.window.map_or(window, |old| old.max(window)));
        direction.room = Some(window.saturating_sub(direction.outstanding));
        direction.update(at_ns, false);
        self.account_paths(at_ns, 1 - side, None);
    }

    fn on_control(&mut self, at_ns: u64, (side, at): (usize, usize), chunk: &Chunk) {
        let from = ["the client", "the server"][side];
        let (kind, text) = match chunk {
            Chunk::Init(_) => {
                self.inits += 1;
                self.has_init = true;
                return;
            }
            Chunk::Abort(_) => (Kind::Abort, format!("{from} aborts the association (ABORT)")),
            Chunk::Asconf(_) => (Kind::AddressAdded, format!("{from} changes its addresses (ASCONF)")),
            _ => return,
        };
        self.oddities.add(Noted { at_ns, kind, subflow: at as u32, text });
    }
}

/// Marks a chunk as acknowledged; returns its bytes, or 0 if it was acknowledged before.
fn acknowledge(
    chunk: Option<&mut crate::recent::Chunk>,
    (at_ns, tsn): (u64, u64),
    side: usize,
    paths: &mut [Path],
) -> u64 {
    let Some(chunk) = chunk.filter(|chunk| !chunk.is_acked) else { return 0 };
    chunk.is_acked = true;
    let len = u64::from(chunk.len);
    if let Some(path) = paths.get_mut(usize::from(chunk.path)) {
        let counts = &mut path.counts[1 - side];
        counts.delivered.add(at_ns, len);
        counts.outstanding = counts.outstanding.saturating_sub(len);
        if let Some((pending, sent_ns)) = counts.pending
            && pending == tsn
        {
            counts.round_trips.add(at_ns.saturating_sub(sent_ns));
            counts.pending = None;
        }
    }
    len
}

/// Moves a retransmitted chunk to the path that carried it last. The path before takes its round-trip sample from
/// another chunk.
fn move_to(at: usize, (tsn, chunk): (u64, &mut crate::recent::Chunk), (side, paths): (usize, &mut [Path])) {
    let (before, len) = (usize::from(chunk.path), u64::from(chunk.len));
    if before == at {
        return;
    }
    chunk.path = at as u8;
    paths[at].counts[side].moved += len;
    // Only a chunk that is not acknowledged can be that of a sample.
    if !chunk.is_acked {
        paths[at].counts[side].outstanding += len;
        let old = &mut paths[before].counts[side];
        old.outstanding = old.outstanding.saturating_sub(len);
        old.pending.take_if(|(pending, _)| *pending == tsn);
    }
}

/// Discards round-trip samples of chunks behind `known`: a SACK with unknown gap blocks may have acknowledged them,
/// so a later SACK gives no sample.
fn forget_pending_behind(known: u64, (side, paths): (usize, &mut [Path])) {
    for path in paths {
        path.counts[side].pending.take_if(|(number, _)| *number > known);
    }
}

impl Direction {
    /// True if the receive window is too small for another packet.
    fn is_full(&self) -> bool {
        self.room.is_some_and(|room| room < u64::from(self.longest.clamp(1, 1_460)))
    }

    fn unwrap(&self, tsn: Serial) -> u64 {
        let near = self.seen.as_ref().map(Seen::end).or(self.cumulative);
        tsn.unwrap_near(near.unwrap_or(UNWRAP_BASE | u64::from(tsn.0))).max(1)
    }

    /// Number of chunks that were acknowledged or skipped but that the capture does not contain.
    pub fn unseen(&self) -> u64 {
        self.seen
            .as_ref()
            .zip(self.cumulative)
            .map_or(0, |(seen, cumulative)| seen.missing_below(cumulative + 1))
    }

    /// The lowest TSN.
    pub fn start(&self) -> Option<u64> {
        self.seen.as_ref().map(Seen::start)
    }

    fn update(&mut self, at_ns: u64, is_data: bool) {
        let is_full = self.is_full();
        if let (true, Some(room)) = (is_data, &mut self.room) {
            *room = room.saturating_sub(u64::from(self.longest));
        }
        let state = match (is_full, self.outstanding) {
            (_, 1..) if self.recover.is_some() => State::Recovery,
            (true, _) => State::Window,
            (false, 0) => State::Idle,
            (false, _) => State::Sending,
        };
        self.waits.set(at_ns, (state, self.outstanding), is_data);
    }
}
