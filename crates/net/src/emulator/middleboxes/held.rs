//! Packets in a middlebox, with their bytes.
//!
//! A middlebox works with payloads that are ranges of a stream. The ranges of different payloads do not overlap, and
//! those of consecutive segments of a connection are consecutive, so that the middlebox can merge them. As in the
//! simulator, the data of segments of Multipath TCP has to be consecutive, too.

use crate::emulator::packet::RawPacket;
use anabranch_middlebox::FlowKey;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::Segment;
use anabranch_wire::tcp::mptcp::DataNumber;
use anabranch_wire::{Body, Packet, Payload};
use core::ops::Range;
use std::collections::BTreeMap;

/// Room for the consecutive segments of a connection, bytes.
const RUN_BYTES: u64 = 1 << 32;

/// The route of a packet in a middlebox, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// Index of the next hop in the stored routes.
    pub place: u32,
    pub number: u64,
}

/// A packet as it has arrived.
#[derive(Debug)]
struct HeldPacket {
    raw: RawPacket,
    packet: Packet,
}

/// A payload of a packet.
#[derive(Debug)]
struct Piece {
    /// Number of the packet.
    number: u64,
    /// Place in the bytes of the packet.
    place: Range<usize>,
    /// The direction of a connection to which the segment belongs.
    segment_of: Option<FlowKey>,
}

/// Consecutive segments of a direction of a connection.
#[derive(Debug)]
struct Run {
    next: Serial,
    /// Distance of the data from the subflow's positions; `None` without a mapping.
    shift: Option<u32>,
    /// Range of offsets that is not used yet.
    room: Range<u64>,
}

/// The packets in a middlebox.
#[derive(Debug, Default)]
pub(super) struct Held {
    packets: BTreeMap<u64, HeldPacket>,
    /// Pieces by their first offset.
    pieces: BTreeMap<u64, Piece>,
    runs: BTreeMap<FlowKey, Run>,
    next_number: u64,
    next_offset: u64,
}

impl Held {
    /// Stores a packet and gives its payloads offsets; returns it with its number.
    pub fn insert(&mut self, raw: RawPacket, mut packet: Packet) -> (Packet, u64) {
        let number = self.next_number;
        self.next_number += 1;
        let segment = match &packet.body {
            Body::Tcp(segment) => FlowKey::of(&packet).zip(Some((segment.seq, shift(segment)))),
            _ => None,
        };
        packet.for_each_payload(|payload| {
            if payload.is_empty() {
                return;
            }
            let start = payload.offset as usize;
            payload.offset = match segment {
                Some((key, place)) => self.continue_run(key, place, payload.len),
                None => self.reserve(payload.len.into()),
            };
            let place = start..start + payload.len as usize;
            let segment_of = segment.map(|(key, _)| key);
            self.pieces.insert(payload.offset, Piece { number, place, segment_of });
        });
        self.packets.insert(number, HeldPacket { raw, packet: packet.clone() });
        (packet, number)
    }

    /// The packet with a number, as it has arrived.
    pub fn packet(&self, number: u64) -> Option<&Packet> {
        self.packets.get(&number).map(|held| &held.packet)
    }

    /// The bytes of a packet that leaves; `None` if it has no encoding. An unchanged one has its former bytes.
    pub fn write(&mut self, packet: &Packet, next: Option<Next>) -> Option<RawPacket> {
        if let Some(next) = next
            && self.packet(next.number) == Some(packet)
        {
            return self.packets.remove(&next.number).map(|held| held.raw);
        }
        packet.validate().ok()?;
        let mut bytes = Vec::with_capacity(packet.wire_len() as usize);
        packet.emit_with(&mut bytes, |payload, out| self.copy(payload, out));
        RawPacket::new(bytes).ok()
    }

    /// Removes a packet that has left, completely or in part, with the payloads that have left.
    pub fn forget(&mut self, mut packet: Packet, number: Option<u64>) {
        if let Some(number) = number {
            self.packets.remove(&number);
        }
        packet.for_each_payload(|payload| {
            let range = payload.offset..payload.end();
            let gone: Vec<u64> = self.pieces.range(range).map(|(&offset, _)| offset).collect();
            for piece in gone.into_iter().filter_map(|offset| self.pieces.remove(&offset)) {
                self.packets.remove(&piece.number);
                // A segment that has left cannot be merged with later ones.
                if let Some(key) = piece.segment_of
                    && self.runs.get(&key).is_some_and(|run| run.room.start == payload.end())
                {
                    self.runs.remove(&key);
                }
            }
        });
    }

    /// The offset of a segment: behind the previous segment of its connection if it continues that one, else in a new
    /// range.
    fn continue_run(&mut self, key: FlowKey, (seq, shift): (Serial, Option<u32>), len: u32) -> u64 {
        let follows = |run: &&mut Run| {
            let has_room = run.room.end - run.room.start >= u64::from(len);
            // A mapping may cover further segments, which do not repeat it, and MP_CAPABLE maps the first data.
            let same = shift.is_none() || run.shift.is_none() || shift == run.shift;
            run.next == seq && same && has_room
        };
        let next = seq.add(len);
        if let Some(run) = self.runs.get_mut(&key).filter(follows) {
            let offset = run.room.start;
            run.next = next;
            run.shift = shift.or(run.shift);
            run.room.start += u64::from(len);
            return offset;
        }
        let offset = self.reserve(RUN_BYTES);
        let room = offset + u64::from(len)..offset + RUN_BYTES;
        self.runs.insert(key, Run { next, shift, room });
        offset
    }

    fn reserve(&mut self, len: u64) -> u64 {
        let offset = self.next_offset;
        self.next_offset = offset.wrapping_add(len);
        offset
    }

    /// Copies the bytes of a payload, which may come from several packets.
    fn copy(&self, payload: Payload, out: &mut [u8]) {
        let first = self.pieces.range(..=payload.offset).next_back().map_or(0, |(&start, _)| start);
        for (&start, piece) in self.pieces.range(first..payload.end()) {
            let Some(held) = self.packets.get(&piece.number) else { continue };
            let bytes = &held.raw.bytes()[piece.place.clone()];
            let end = start + bytes.len() as u64;
            let (from, to) = (start.max(payload.offset), end.min(payload.end()));
            if from < to {
                let [source, target] = [start, payload.offset].map(|base| {
                    let at = |offset: u64| (offset - base) as usize;
                    at(from)..at(to)
                });
                out[target].copy_from_slice(&bytes[source]);
            }
        }
    }
}

/// The distance of a segment's data from the subflow's positions, by its mapping.
fn shift(segment: &Segment) -> Option<u32> {
    let mapping = segment.options.mptcp.dss?.mapping?;
    let dsn = match mapping.dsn {
        DataNumber::Short(dsn) => dsn,
        DataNumber::Long(dsn) => dsn as u32,
    };
    Some(dsn.wrapping_sub(mapping.subflow_seq))
}
