//! Converts the tables of connections to the report.

use crate::association::{Association, Direction, Path, PathCounts};
use crate::connection::Connection;
use crate::data::Data;
use crate::oddity::{Kind, Noted, Oddities, Oddity};
use crate::report::{ConnectionReport, DirectionReport, Piece, SubflowDirection, SubflowReport, WaitsReport};
use crate::sending::{Scale, Sending};
use crate::series::Pieces;
use crate::stream::Stream;
use crate::subflow::{Membership, Subflow};
use crate::table::Table;
use crate::waits::{RoundTrips, Waits};
use std::collections::BTreeMap;

/// Share of the round-trip time below which an interface counts as being at the sender. Above one minus this share,
/// it counts as being at the receiver.
const SENDER_RTT_SHARE: f64 = 0.15;
const SECOND_NS: f64 = 1e9;

/// Converts times to seconds since the beginning of the capture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub begin_ns: u64,
}

impl Clock {
    fn seconds(self, at_ns: u64) -> f64 {
        at_ns.saturating_sub(self.begin_ns) as f64 / SECOND_NS
    }
}

/// All TCP and Multipath TCP connections of a table.
pub(crate) fn connections(table: &Table, clock: Clock) -> Vec<ConnectionReport> {
    let mut found: Vec<ConnectionReport> =
        table.connections.values().filter_map(|connection| multipath(table, connection, clock)).collect();
    let plain = table.subflows.iter().filter(|(_, subflow)| subflow.member.is_none());
    found.extend(plain.map(|(id, subflow)| single(subflow, table.oddities.get(id), clock)));
    found
}

/// A plain TCP connection.
fn single(subflow: &Subflow, oddities: Option<&Oddities>, clock: Clock) -> ConnectionReport {
    let turn = turn_of(subflow);
    let directions = [0, 1].map(|side| tcp_direction(&subflow.sending[side ^ turn], clock));
    let empty = Oddities::default();
    let oddities = oddities.unwrap_or(&empty);
    let numbers = BTreeMap::new();
    let mut list = listed(oddities, &numbers, clock);
    list.extend(unanswered(subflow, None, clock));
    ConnectionReport {
        protocol: "tcp",
        ends: ends_of(subflow, turn),
        has_handshake: subflow.initiator.is_some(),
        version: None,
        tokens: [None, None],
        unknown: unknown_of_subflow(subflow),
        unused_addresses: Vec::new(),
        oddities: list,
        oddities_left_out: oddities.left_out,
        directions,
        subflows: vec![subflow_report(subflow, turn, clock)],
    }
}

/// The side of a conversation that counts as the client: the initiator, or the end with the higher port.
fn turn_of(subflow: &Subflow) -> usize {
    subflow.initiator.unwrap_or(usize::from(subflow.ends[0].port() < subflow.ends[1].port()))
}

fn ends_of(subflow: &Subflow, turn: usize) -> [String; 2] {
    [subflow.ends[turn].to_string(), subflow.ends[1 - turn].to_string()]
}

/// A Multipath TCP connection.
fn multipath(table: &Table, connection: &Connection, clock: Clock) -> Option<ConnectionReport> {
    let subflows: Vec<(u32, &Subflow)> =
        connection.subflows.iter().filter_map(|id| Some((*id, table.subflows.get(id)?))).collect();
    let &(_, first) = subflows.first()?;
    let numbers: BTreeMap<u32, usize> = subflows.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
    let mut oddities = listed(&connection.oddities, &numbers, clock);
    for (at, (_, subflow)) in subflows.iter().enumerate() {
        oddities.extend(unanswered(subflow, Some(at), clock));
    }
    oddities.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
    let is_plain = subflows.len() == 1 && first.handshake.has_fallen_back;
    let directions = [0, 1].map(|side| {
        if is_plain {
            return tcp_direction(&first.sending[first.of_connection(side)], clock);
        }
        let unmapped =
            subflows.iter().map(|(_, subflow)| subflow.per_stream[subflow.of_connection(side)].unmapped);
        stream_direction(&connection.streams[side], unmapped.sum(), &numbers, clock)
    });
    let mut unknown = unknown_of_connection(connection);
    for (at, (_, subflow)) in subflows.iter().enumerate() {
        unknown.extend(
            unknown_of_subflow(subflow).into_iter().map(|text| format!("{text} of subflow {}", at + 1)),
        );
    }
    Some(ConnectionReport {
        protocol: "mptcp",
        ends: ends_of(first, usize::from(first.is_flipped)),
        has_handshake: first.initiator.is_some(),
        version: connection.version,
        tokens: connection.tokens.map(|token| token.map(|token| format!("{token:08x}"))),
        unknown,
        unused_addresses: unused(connection),
        oddities,
        oddities_left_out: connection.oddities.left_out,
        directions,
        subflows: subflows
            .iter()
            .map(|(_, subflow)| subflow_report(subflow, usize::from(subflow.is_flipped), clock))
            .collect(),
    })
}

/// Advertised addresses on which no subflow was seen.
fn unused(connection: &Connection) -> Vec<String> {
    let is_unused =
        |(side, address): &&(usize, core::net::IpAddr)| !connection.known[*side].contains(address);
    connection.addresses.iter().filter(is_unused).map(|(_, address)| address.to_string()).collect()
}

fn unknown_of_connection(connection: &Connection) -> Vec<String> {
    let mut found = Vec::new();
    for (stream, who) in connection.streams.iter().zip(["client", "server"]) {
        if stream.key.is_none() {
            found.push(format!("key of the {who}"));
        }
    }
    found
}

fn unknown_of_subflow(subflow: &Subflow) -> Vec<String> {
    let turn = usize::from(subflow.is_flipped) ^ if subflow.member.is_none() { turn_of(subflow) } else { 0 };
    let mut found = Vec::new();
    for (side, who) in ["client", "server"].into_iter().enumerate() {
        let sending = &subflow.sending[side ^ turn];
        if sending.scale == Scale::Unknown {
            found.push(format!("window scale of the {who}"));
        }
        if sending.packets == 0 {
            found.push(format!("packets of the {who}"));
        }
    }
    found
}

/// The event of a handshake without an answer.
fn unanswered(subflow: &Subflow, number: Option<usize>, clock: Clock) -> Option<Oddity> {
    let initiator = subflow.initiator?;
    let [own, other] = [initiator, 1 - initiator].map(|side| &subflow.sending[side]);
    if other.packets > 0 || own.syns == 0 {
        return None;
    }
    let text =
        format!("{} sends {} SYN{} without an answer", subflow.ends[initiator], own.syns, plural(own.syns));
    Some(Oddity { at_s: clock.seconds(own.first_ns?), kind: Kind::NoAnswer, subflow: number, text })
}

const fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn listed(oddities: &Oddities, numbers: &BTreeMap<u32, usize>, clock: Clock) -> Vec<Oddity> {
    let one = |noted: &Noted| Oddity {
        at_s: clock.seconds(noted.at_ns),
        kind: noted.kind,
        subflow: numbers.get(&noted.subflow).copied(),
        text: noted.text.clone(),
    };
    oddities.list.iter().map(one).collect()
}

fn subflow_report(subflow: &Subflow, turn: usize, clock: Clock) -> SubflowReport {
    let joined = match subflow.member {
        Some((_, Membership::Numbers)) => "numbers",
        Some((_, Membership::Token)) => "token",
        _ => "handshake",
    };
    SubflowReport {
        ends: ends_of(subflow, turn),
        joined,
        is_backup: subflow.handshake.is_backup,
        is_open: subflow.sending.iter().all(|sending| sending.packets > 0),
        has_fallen_back: subflow.handshake.has_fallen_back,
        is_reset: subflow.handshake.is_reset,
        copies: subflow.copies,
        directions: [turn, 1 - turn].map(|side| subflow_direction(subflow, side, clock)),
    }
}

fn subflow_direction(subflow: &Subflow, side: usize, clock: Clock) -> SubflowDirection {
    let (own, other) = (&subflow.sending[side], &subflow.sending[1 - side]);
    let counts = &subflow.per_stream[side];
    let arrived = subflow.arrived(side);
    let is_plain = subflow.member.is_none();
    SubflowDirection {
        packets: own.packets,
        data_packets: own.data_packets,
        bytes: own.payload,
        new_bytes: own.data.distinct(),
        retransmitted_bytes: own.retransmitted,
        retransmitted_packets: own.retransmitted_packets,
        lost_before_bytes: own.repaired,
        reordered_bytes: own.reordered,
        unseen_bytes: own.data.unseen(),
        stream_new_bytes: if is_plain { own.data.distinct() } else { counts.new },
        reinjected_bytes: counts.reinjected,
        unmapped_bytes: counts.unmapped,
        acknowledged_bytes: own.data.acknowledged(),
        arrived_bytes: arrived.map(|arrived| arrived.payload),
        arrived_new_bytes: arrived.map(crate::sending::Arrived::distinct),
        arrived_packets: arrived.map(|arrived| arrived.packets),
        timeouts: own.timeouts,
        marked: own.marked,
        mss: other.mss,
        longest: own.data.view.longest,
        flight_bytes: own.data.view.flight,
        flight_mean_bytes: own.data.view.waits.mean_flight(),
        goodput_bps: rate(own.data.distinct(), own.data.first_ns, own.data.last_ns),
        largest_rate_bps: own.data.delivered.largest_bps(),
        start_s: own.first_ns.map(|at_ns| clock.seconds(at_ns)),
        end_s: own.first_ns.map(|_| clock.seconds(own.last_ns)),
        waits: waits(&own.data.view.waits, own.data.view.has_window()),
        ..round_trips(&own.far, subflow.near_ns(side).map(|near_ns| (near_ns, &own.near)))
    }
}

/// A direction of which only the round-trip times and the position of the interface are known. `near`
/// contains the smallest round-trip time between the interface and the sender, and all samples of it.
fn round_trips(far: &RoundTrips, near: Option<(u64, &RoundTrips)>) -> SubflowDirection {
    let near_ns = near.map(|(near_ns, _)| near_ns);
    let share = near_ns.zip(far.min_ns()).map(|(near, far)| near as f64 / (near + far).max(1) as f64);
    let position = share.map(|share| match share {
        share if share < SENDER_RTT_SHARE => "sender",
        share if share > 1.0 - SENDER_RTT_SHARE => "receiver",
        _ => "middle",
    });
    // At the sender, larger samples than the smallest are due to times without data to send; elsewhere they are due
    // to queues.
    let is_sender = share.is_none_or(|share| share < SENDER_RTT_SHARE);
    let base = near_ns.unwrap_or(0) as f64;
    let samples = near.map(|(_, samples)| samples).filter(|_| !is_sender);
    let mean = samples.and_then(RoundTrips::mean_ns).unwrap_or(base);
    let largest = samples.and_then(RoundTrips::max_ns).map_or(base, |ns| ns as f64);
    SubflowDirection {
        rtt_min_s: far.min_ns().map(|ns| (ns as f64 + base) / SECOND_NS),
        rtt_mean_s: far.mean_ns().map(|ns| (ns + mean) / SECOND_NS),
        rtt_max_s: far.max_ns().map(|ns| (ns as f64 + largest) / SECOND_NS),
        rtt_samples: far.count(),
        position,
        ..SubflowDirection::default()
    }
}

/// A rate over the time from the first to the last data, bit/s.
fn rate(bytes: u64, first_ns: Option<u64>, last_ns: u64) -> Option<f64> {
    let lasts_ns = last_ns.checked_sub(first_ns?).filter(|ns| *ns > 0)?;
    Some(bytes as f64 * 8.0 * SECOND_NS / lasts_ns as f64)
}

fn waits(waits: &Waits, has_window: bool) -> WaitsReport {
    let seconds = |ns: u64| ns as f64 / SECOND_NS;
    WaitsReport {
        idle_s: seconds(waits.idle_ns),
        window_s: has_window.then(|| seconds(waits.window_ns)),
        sending_s: seconds(waits.sending_ns),
        recovery_s: seconds(waits.recovery_ns),
        timeout_s: seconds(waits.timeout_ns),
    }
}

/// One direction of a plain TCP connection.
fn tcp_direction(own: &Sending, clock: Clock) -> DirectionReport {
    direction(&own.data, own.data.distinct(), (own.data.start(), None), clock)
}

/// One direction of a Multipath TCP connection; `unmapped` bytes arrived after a fall-back or before the first
/// mapping.
fn stream_direction(
    stream: &Stream,
    unmapped: u64,
    numbers: &BTreeMap<u32, usize>,
    clock: Clock,
) -> DirectionReport {
    let bytes = stream.data.distinct() + unmapped;
    let found = direction(&stream.data, bytes, (stream.start(), Some(numbers)), clock);
    DirectionReport { reinjected_bytes: stream.reinjected, ..found }
}

/// One direction with `bytes` bytes of data. `start` is the first number of the data, and `numbers` maps the
/// identifiers of subflows to their numbers in the report.
fn direction(
    data: &Data,
    bytes: u64,
    (start, numbers): (Option<u64>, Option<&BTreeMap<u32, usize>>),
    clock: Clock,
) -> DirectionReport {
    DirectionReport {
        bytes,
        acknowledged_bytes: data.acknowledged(),
        unseen: data.unseen(),
        reinjected_bytes: 0,
        goodput_bps: rate(bytes, data.first_ns, data.last_ns),
        largest_rate_bps: data.delivered.largest_bps(),
        start_s: data.first_ns.map(|at_ns| clock.seconds(at_ns)),
        end_s: data.first_ns.map(|_| clock.seconds(data.last_ns)),
        flight_bytes: data.view.flight,
        flight_mean_bytes: data.view.waits.mean_flight(),
        window_bytes: data.view.window,
        has_end: data.has_fin,
        waits: waits(&data.view.waits, data.view.has_window()),
        first_number: start,
        pieces: pieces(&data.pieces, (start, numbers), clock),
        packets_per_piece: data.pieces.step(),
    }
}

/// New and retransmitted pieces of data in the order of their times.
fn pieces(
    found: &Pieces,
    (start, numbers): (Option<u64>, Option<&BTreeMap<u32, usize>>),
    clock: Clock,
) -> Vec<Piece> {
    let both = [(&found.sent, false), (&found.repeated, true)];
    let mut found: Vec<Piece> = both
        .into_iter()
        .flat_map(|(list, is_repeated)| list.list().iter().map(move |point| (point, is_repeated)))
        .filter_map(|(point, is_repeated)| {
            let subflow = match numbers {
                Some(numbers) => *numbers.get(&point.subflow)?,
                None => point.subflow as usize,
            };
            let from = point.from.wrapping_sub(start?);
            Some(Piece { at_s: clock.seconds(point.at_ns), subflow, from, len: point.len, is_repeated })
        })
        .collect();
    found.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
    found
}

/// The report of an association.
pub(crate) fn association(found: &Association, clock: Clock) -> ConnectionReport {
    let numbers: BTreeMap<u32, usize> = (0..found.paths.len()).map(|at| (at as u32, at)).collect();
    let mut unknown = Vec::new();
    for (tag, who) in found.tags.iter().zip(["server", "client"]) {
        if tag.is_none() {
            unknown.push(format!("verification tag of the {who}"));
        }
    }
    for (side, who) in ["client", "server"].into_iter().enumerate() {
        if found.packets[side] == 0 {
            unknown.push(format!("packets of the {who}"));
        }
    }
    let mut oddities = listed(&found.oddities, &numbers, clock);
    if found.packets[1] == 0 && found.inits > 0 {
        let text = format!("{} INIT{} without an answer", found.inits, plural(found.inits));
        oddities.push(Oddity { at_s: 0.0, kind: Kind::NoAnswer, subflow: None, text });
    }
    let first = found.paths.first().map(|path| path.ends.map(|end| end.to_string()));
    let [client, server] = first.unwrap_or_default();
    ConnectionReport {
        protocol: "sctp",
        ends: [format!("{client} port {}", found.ports[0]), format!("{server} port {}", found.ports[1])],
        has_handshake: found.has_init,
        version: None,
        // A side's packets contain the tag of the other side.
        tokens: [1, 0].map(|side| found.tags[side].map(|tag| format!("{tag:08x}"))),
        unknown,
        unused_addresses: Vec::new(),
        oddities,
        oddities_left_out: found.oddities.left_out,
        directions: [0, 1].map(|side| sctp_direction(&found.directions[side], clock)),
        subflows: found.paths.iter().map(|path| path_report(path, clock)).collect(),
    }
}

fn sctp_direction(own: &Direction, clock: Clock) -> DirectionReport {
    DirectionReport {
        bytes: own.distinct,
        acknowledged_bytes: own.has_sack.then_some(own.acknowledged),
        unseen: own.unseen(),
        reinjected_bytes: 0,
        goodput_bps: rate(own.distinct, own.first_ns, own.last_ns),
        largest_rate_bps: own.delivered.largest_bps(),
        start_s: own.first_ns.map(|at_ns| clock.seconds(at_ns)),
        end_s: own.first_ns.map(|_| clock.seconds(own.last_ns)),
        flight_bytes: own.flight,
        flight_mean_bytes: own.waits.mean_flight(),
        window_bytes: own.window,
        has_end: false,
        waits: waits(&own.waits, own.has_sack),
        first_number: own.start(),
        pieces: pieces(&own.pieces, (own.start(), None), clock),
        packets_per_piece: own.pieces.step(),
    }
}

fn path_report(path: &Path, clock: Clock) -> SubflowReport {
    SubflowReport {
        ends: path.ends.map(|end| end.to_string()),
        joined: "handshake",
        is_backup: false,
        is_open: path.counts.iter().all(|counts| counts.packets > 0),
        has_fallen_back: false,
        is_reset: false,
        copies: 0,
        directions: [0, 1].map(|side| path_direction(path, &path.counts[side], side, clock)),
    }
}

fn path_direction(path: &Path, own: &PathCounts, side: usize, clock: Clock) -> SubflowDirection {
    let arrives = path.nearest.other(side).is_some();
    SubflowDirection {
        packets: own.packets,
        data_packets: own.data_packets,
        bytes: own.payload,
        new_bytes: own.new,
        retransmitted_bytes: own.retransmitted,
        retransmitted_packets: own.retransmitted_packets,
        stream_new_bytes: own.new,
        reinjected_bytes: own.moved,
        arrived_bytes: arrives.then_some(own.arrived),
        arrived_packets: arrives.then_some(own.arrived_packets),
        timeouts: own.timeouts,
        marked: own.marked,
        longest: own.longest,
        flight_bytes: own.flight,
        flight_mean_bytes: own.waits.mean_flight(),
        waits: waits(&own.waits, own.waits.is_begun()),
        goodput_bps: rate(own.new, own.first_data_ns, own.last_data_ns),
        largest_rate_bps: own.delivered.largest_bps(),
        start_s: own.first_ns.map(|at_ns| clock.seconds(at_ns)),
        end_s: own.first_ns.map(|_| clock.seconds(own.last_ns)),
        ..round_trips(&own.round_trips, None)
    }
}
