//! All TCP conversations of a capture, and the Multipath TCP connections to which they belong, with bounded memory.

use crate::connection::Connection;
use crate::nearest::Roles;
use crate::oddity::{Kind, Noted, Oddities};
use crate::sending::{Scale, Sent};
use crate::series::Point;
use crate::stream::Stream;
use crate::subflow::{Membership, Subflow};
use anabranch_wire::tcp::mptcp::{Capable, Control, Dss, Join};
use anabranch_wire::tcp::{Flags, Segment};
use core::net::SocketAddr;
use std::collections::BTreeMap;

/// Maximum number of conversations; at this number the half with the fewest bytes is removed.
pub(crate) const MAX_SUBFLOWS: usize = 16_384;
/// Maximum number of connections whose data sequence numbers are compared with those of a subflow without a captured
/// handshake.
const MAX_COMPARED: usize = 256;

/// Conversations that were removed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemovedCounts {
    pub conversations: u64,
    pub payload: u64,
}

/// The conversations and connections.
#[derive(Debug)]
pub(crate) struct Table {
    pub subflows: BTreeMap<u32, Subflow>,
    pub connections: BTreeMap<u32, Connection>,
    pub forgotten: RemovedCounts,
    /// Oddities of conversations that belong to no Multipath TCP connection.
    pub oddities: BTreeMap<u32, Oddities>,
    by_ends: BTreeMap<(SocketAddr, SocketAddr), u32>,
    tokens: BTreeMap<u32, (u32, usize)>,
    next: u32,
    /// Number of pieces of data that may still be added for figures.
    budget: usize,
    max: usize,
}

/// A segment as an interface shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting<'a> {
    pub at_ns: u64,
    pub tap: u32,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub identification: u16,
    pub is_marked: bool,
    pub segment: &'a Segment,
}

/// The origin of a segment: its conversation, the side of the conversation, and the roles of the interface.
#[derive(Clone, Copy, Debug)]
struct Place {
    id: u32,
    side: usize,
    roles: Roles,
}

impl Table {
    /// An empty table of at most `max` conversations and at most `budget` pieces of data for figures.
    pub fn new(max: usize, budget: usize) -> Self {
        Self {
            subflows: BTreeMap::new(),
            connections: BTreeMap::new(),
            forgotten: RemovedCounts::default(),
            oddities: BTreeMap::new(),
            by_ends: BTreeMap::new(),
            tokens: BTreeMap::new(),
            next: 0,
            budget,
            max: max.max(2),
        }
    }

    /// Processes a segment at an interface.
    pub fn on_segment(&mut self, seen: Sighting<'_>) {
        let (at_ns, segment) = (seen.at_ns, seen.segment);
        let id = self.find(&seen);
        let Some(subflow) = self.subflows.get_mut(&id) else { return };
        let side = usize::from(subflow.ends[0] != seen.source);
        if subflow.is_copy((side, seen.tap), seen.identification, segment) {
            return;
        }
        let roles = subflow.nearest.roles(side, seen.tap);
        let sent = subflow.on_segment(at_ns, (side, seen.tap, roles), segment);
        subflow.sending[side].marked += u64::from(seen.is_marked && roles.is_near);
        let place = Place { id, side, roles };
        if roles.is_near {
            if let Some(options) = segment.options.mptcp.get() {
                self.on_controls(at_ns, place, &options.others);
            }
            self.record_fall_back_and_reset(at_ns, place, segment);
        }
        if roles.is_near && segment.payload.len > 0 {
            self.map_first_data(place, segment);
        }
        if let Some(dss) = segment.options.mptcp.dss {
            self.ensure_connection(place, &dss);
            self.on_dss(at_ns, place, (&dss, segment));
        }
        if let Some(sent) = sent.filter(|sent| sent.range.0 < sent.range.1) {
            self.on_data(at_ns, place, &sent);
        }
    }

    /// The conversation of a segment; a new conversation for a SYN with another initial sequence number.
    fn find(&mut self, seen: &Sighting<'_>) -> u32 {
        let (source, destination) = (seen.source, seen.destination);
        let key = (source.min(destination), source.max(destination));
        if let Some(&id) = self.by_ends.get(&key) {
            let known = self.subflows.get(&id);
            let is_another = known.is_none_or(|subflow| {
                subflow.is_another(usize::from(subflow.ends[0] != source), seen.segment)
            });
            if !is_another {
                return id;
            }
        }
        if self.subflows.len() >= self.max {
            self.forget_half();
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.subflows.insert(id, Subflow::new(source, destination));
        self.by_ends.insert(key, id);
        id
    }

    /// Removes the half of the conversations with the fewest bytes.
    fn forget_half(&mut self) {
        let payload = |subflow: &Subflow| subflow.sending.iter().map(|sending| sending.payload).sum::<u64>();
        let mut all: Vec<(u64, u32)> =
            self.subflows.iter().map(|(&id, subflow)| (payload(subflow), id)).collect();
        all.sort_unstable();
        for &(payload, id) in &all[..all.len() / 2] {
            self.forgotten.conversations += 1;
            self.forgotten.payload += payload;
            let Some(mut subflow) = self.subflows.remove(&id) else { continue };
            for sending in &mut subflow.sending {
                self.budget += sending.data.pieces.clear();
            }
            let [one, other] = subflow.ends;
            let key = (one.min(other), one.max(other));
            if self.by_ends.get(&key) == Some(&id) {
                self.by_ends.remove(&key);
            }
            self.oddities.remove(&id);
            if let Some((connection, _)) = subflow.member {
                self.leave(connection, id);
            }
        }
    }

    /// Removes a subflow from its connection, and removes the connection if the subflow was its last one.
    fn leave(&mut self, number: u32, id: u32) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.subflows.retain(|subflow| *subflow != id);
        if !connection.subflows.is_empty() {
            return;
        }
        for stream in &mut connection.streams {
            self.budget += stream.data.pieces.clear();
        }
        for token in connection.tokens.into_iter().flatten() {
            self.tokens.remove(&token);
        }
        self.connections.remove(&number);
    }

    /// Adds a subflow to a connection. If `is_flipped`, side 0 of the subflow is side 1 of the connection.
    fn join(&mut self, id: u32, (number, membership): (u32, Membership), is_flipped: bool) {
        let Some(subflow) = self.subflows.get_mut(&id) else { return };
        let [first, second] = subflow.ends;
        (subflow.member, subflow.is_flipped) = (Some((number, membership)), is_flipped);
        let connection = self.connections.entry(number).or_default();
        connection.learn(if is_flipped { [second, first] } else { [first, second] });
        connection.subflows.push(id);
    }

    /// Creates a connection without subflows.
    fn begin(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.connections.insert(number, Connection::default());
        number
    }

    fn on_controls(&mut self, at_ns: u64, place: Place, controls: &[Control]) {
        for control in controls {
            match control {
                Control::Capable(capable) => self.on_capable(place, capable),
                Control::Join(Join::Syn { backup, token, .. }) => self.on_join(place, *token, *backup),
                Control::Join(Join::SynAck { backup, .. }) => {
                    if let Some(subflow) = self.subflows.get_mut(&place.id) {
                        subflow.handshake.is_backup |= backup;
                    }
                }
                _ => {}
            }
            let Some(subflow) = self.subflows.get(&place.id) else { return };
            if let Some((number, _)) = subflow.member
                && let Some(connection) = self.connections.get_mut(&number)
            {
                connection.on_control(at_ns, (place.id, subflow.of_connection(place.side)), control);
            }
        }
    }

    fn on_capable(&mut self, place: Place, capable: &Capable) {
        let Some(subflow) = self.subflows.get(&place.id) else { return };
        if subflow.member.is_none() {
            // Only the `MP_CAPABLE` of a SYN/ACK has the sender's key alone; it comes from the accepting side. All
            // other forms come from the connecting side.
            let is_answer = capable.sender_key.is_some() && capable.receiver_key.is_none();
            let is_flipped = (place.side == 1) != is_answer;
            let number = self.begin();
            self.join(place.id, (number, Membership::Capable), is_flipped);
        }
        let Some(subflow) = self.subflows.get(&place.id) else { return };
        let side = subflow.of_connection(place.side);
        let Some((number, _)) = subflow.member else { return };
        let Some(connection) = self.connections.get_mut(&number) else { return };
        for (token, side) in connection.on_capable(side, capable) {
            self.tokens.entry(token).or_insert((number, side));
        }
    }

    /// Adds the mapping of the first data: its `MP_CAPABLE` contains only the length (RFC 8684 §3.1).
    fn map_first_data(&mut self, place: Place, segment: &Segment) {
        let data = segment.options.mptcp.others.iter().find_map(|option| match option {
            Control::Capable(capable) => capable.data,
            _ => None,
        });
        let Some(data) = data else { return };
        let Some(subflow) = self.subflows.get_mut(&place.id) else { return };
        let Some((number, _)) = subflow.member else { return };
        let stream =
            self.connections.get(&number).map(|found| &found.streams[subflow.of_connection(place.side)]);
        let Some(first) = stream.and_then(Stream::start) else { return };
        let from = subflow.sending[place.side].unwrap(segment.seq);
        subflow.mappings[place.side].add((from, from + u64::from(data.len)), first);
    }

    fn on_join(&mut self, place: Place, token: u32, is_backup: bool) {
        let Some(subflow) = self.subflows.get_mut(&place.id) else { return };
        subflow.handshake.is_backup |= is_backup;
        if subflow.member.is_some() {
            return;
        }
        // The token belongs to the receiver of the SYN.
        let (number, receiver) = if let Some(&found) = self.tokens.get(&token) {
            found
        } else {
            let number = self.begin();
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.tokens[1] = Some(token);
            }
            self.tokens.insert(token, (number, 1));
            (number, 1)
        };
        let is_flipped = place.side == receiver;
        self.join(place.id, (number, Membership::Token), is_flipped);
    }

    /// Assigns a subflow to the connection with near data sequence numbers, unless it belongs to a connection with
    /// known numbers.
    fn ensure_connection(&mut self, place: Place, dss: &Dss) {
        let Some(subflow) = self.subflows.get(&place.id) else { return };
        let (ends, member) = (subflow.ends, subflow.member);
        let is_blank = |number: &u32| self.connections.get(number).is_none_or(Connection::is_blank);
        if let Some((number, membership)) = member
            && (membership != Membership::Token || !is_blank(&number))
        {
            return;
        }
        let own = member.map(|(number, _)| number);
        let all = self.connections.iter().rev().take(MAX_COMPARED);
        let found = all.filter(|(number, _)| Some(**number) != own).find_map(|(&number, connection)| {
            let flipped = [ends[1], ends[0]];
            [(false, ends), (true, flipped)].into_iter().find_map(|(is_flipped, ends)| {
                let side = place.side ^ usize::from(is_flipped);
                connection.fits(side, dss, ends).then_some((number, is_flipped))
            })
        });
        match (found, own) {
            (Some((number, is_flipped)), None) => {
                self.join(place.id, (number, Membership::Numbers), is_flipped);
            }
            (Some((number, is_flipped)), Some(own)) => self.absorb(own, (number, place.id, is_flipped)),
            (None, Some(_)) => {}
            (None, None) => {
                let number = self.begin();
                let is_flipped = subflow_is_flipped(ends);
                self.join(place.id, (number, Membership::Numbers), is_flipped);
            }
        }
    }

    /// Moves all subflows of a connection of which only the token is known to the connection that their data belongs
    /// to.
    fn absorb(&mut self, own: u32, (number, by, is_flipped): (u32, u32, bool)) {
        let Some(old) = self.connections.remove(&own) else { return };
        let was_flipped = self.subflows.get(&by).is_some_and(|subflow| subflow.is_flipped);
        let turn = was_flipped != is_flipped;
        for (side, token) in old.tokens.into_iter().enumerate() {
            let Some(token) = token else { continue };
            let side = side ^ usize::from(turn);
            self.tokens.insert(token, (number, side));
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.tokens[side].get_or_insert(token);
            }
        }
        for id in old.subflows {
            let flipped = self.subflows.get(&id).is_some_and(|subflow| subflow.is_flipped);
            self.join(id, (number, Membership::Token), flipped != turn);
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            old.oddities.list.into_iter().for_each(|noted| connection.oddities.add(noted));
        }
    }

    /// Processes the mapping and the acknowledgement of a DSS option.
    fn on_dss(&mut self, at_ns: u64, place: Place, (dss, segment): (&Dss, &Segment)) {
        let Some(subflow) = self.subflows.get_mut(&place.id) else { return };
        let Some((number, _)) = subflow.member else { return };
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let side = subflow.of_connection(place.side);
        if let Some(number) = dss.data_ack.filter(|_| place.roles.is_far) {
            let window = match subflow.scale_of(place.side) {
                Scale::Shift(shift) => Some(u64::from(segment.window) << shift),
                Scale::Unknown => None,
            };
            let delay_ns = subflow.delay_ns(1 - place.side);
            connection.streams[1 - side].on_ack(at_ns, (number, window), delay_ns);
        }
        if !place.roles.is_near {
            return;
        }
        connection.streams[side].data.has_fin |= dss.data_fin;
        let Some(mapping) = dss.mapping.filter(|_| segment.payload.len > 0) else { return };
        if mapping.len == 0 {
            let text = "infinite mapping: the connection goes on as TCP".to_owned();
            fall_back(
                &mut subflow.handshake.has_fallen_back,
                &mut connection.oddities,
                (at_ns, place.id, text),
            );
            return;
        }
        let dsn = connection.streams[side].unwrap(mapping.dsn);
        let first = subflow.mappings[place.side].absolute(mapping.subflow_seq, segment.seq);
        let from = subflow.sending[place.side].unwrap(first);
        subflow.mappings[place.side].add((from, from + u64::from(mapping.len)), dsn);
    }

    /// Counts data on a subflow as new to the connection or as sent before.
    fn on_data(&mut self, at_ns: u64, place: Place, sent: &Sent) {
        let Some(subflow) = self.subflows.get_mut(&place.id) else { return };
        let Some((number, _)) = subflow.member else {
            subflow.sending[place.side].record(at_ns, sent, &mut self.budget);
            return;
        };
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let side = subflow.of_connection(place.side);
        let counts = &mut subflow.per_stream[place.side];
        let is_new_here = sent.added.new + sent.added.filled > 0;
        let (mut at, to) = sent.range;
        while at < to {
            let Some(((from, end), dsn)) = subflow.mappings[place.side].of((at, to)) else { break };
            let stream = &mut connection.streams[side];
            let mut is_repeated = !is_new_here;
            if is_new_here {
                let added = stream.on_data(at_ns, (dsn, dsn.wrapping_add(end - from)));
                counts.new += added.new + added.filled;
                counts.reinjected += added.repeated;
                is_repeated = added.repeated > 0;
            }
            let point = Point { at_ns, subflow: place.id, from: dsn, len: (end - from) as u32 };
            stream.data.pieces.add(point, is_repeated, &mut self.budget);
            at = end;
        }
        if subflow.handshake.has_fallen_back {
            subflow.sending[place.side].record(at_ns, sent, &mut self.budget);
        }
        if at < to && is_new_here {
            subflow.per_stream[place.side].unmapped += to - at;
            let has_handshake = subflow.handshake.answer_has_option == Some(true);
            if has_handshake && !subflow.mappings[place.side].has_any {
                let text =
                    "data without DSS behind the handshake: the option was removed on the way".to_owned();
                let has_fallen_back = &mut subflow.handshake.has_fallen_back;
                fall_back(has_fallen_back, &mut connection.oddities, (at_ns, place.id, text));
            }
        }
    }

    /// Records a fall-back during the handshake and resets.
    fn record_fall_back_and_reset(&mut self, at_ns: u64, place: Place, segment: &Segment) {
        let Some(subflow) = self.subflows.get_mut(&place.id) else { return };
        let (is_syn, is_ack) = (segment.flags.intersects(Flags::SYN), segment.flags.intersects(Flags::ACK));
        let is_reset = segment.flags.intersects(Flags::RST) && !subflow.handshake.is_reset;
        let hand = &mut subflow.handshake;
        let asked = hand.syn_has_option == Some(true);
        let noted = if is_syn
            && is_ack
            && asked
            && hand.answer_has_option == Some(false)
            && !hand.has_fallen_back
        {
            hand.has_fallen_back = true;
            let option = if hand.is_join { "MP_JOIN" } else { "MP_CAPABLE" };
            Some((
                Kind::FallBack,
                format!(
                    "the SYN/ACK lacks {option}: the server does not support it, or it was removed on the way"
                ),
            ))
        } else if is_syn && !is_ack && asked && segment.options.mptcp.is_empty() && !hand.has_fallen_back {
            hand.has_fallen_back = true;
            Some((
                Kind::FallBack,
                "the SYN was sent again without MP_CAPABLE, since the first had no answer".to_owned(),
            ))
        } else if is_reset {
            hand.is_reset = true;
            let is_refusal =
                subflow.initiator == Some(1 - place.side) && subflow.sending[place.side].packets == 1;
            let has_reason =
                segment.options.mptcp.others.iter().any(|option| matches!(option, Control::Reset { .. }));
            let from = subflow.ends[place.side];
            match (is_refusal, has_reason) {
                (true, false) => Some((Kind::Refused, format!("{from} refuses the connection"))),
                (_, true) => None,
                (false, false) => {
                    Some((Kind::Reset, format!("{from} resets the connection without a reason")))
                }
            }
        } else {
            None
        };
        let Some((kind, text)) = noted else { return };
        let member = subflow.member;
        let noted = Noted { at_ns, kind, subflow: place.id, text };
        match member.and_then(|(number, _)| self.connections.get_mut(&number)) {
            Some(connection) => connection.oddities.add(noted),
            None => self.oddities.entry(place.id).or_default().add(noted),
        }
    }
}

/// Records, once per subflow, that it continues as TCP.
fn fall_back(
    has_fallen_back: &mut bool,
    oddities: &mut Oddities,
    (at_ns, subflow, text): (u64, u32, String),
) {
    if !core::mem::replace(has_fallen_back, true) {
        oddities.add(Noted { at_ns, kind: Kind::FallBack, subflow, text });
    }
}

/// True if side 0 counts as the server of a conversation without a captured handshake: the end with the lower port.
fn subflow_is_flipped(ends: [SocketAddr; 2]) -> bool {
    ends[0].port() < ends[1].port()
}
