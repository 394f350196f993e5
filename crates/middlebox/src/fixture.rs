//! Packets for tests.

use crate::{Middlebox, Outcome, Settings, Transit};
use anabranch_base::time::{Duration, Time};
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::{Control, DataNumber, Dss, Join, Mapping, Options};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Ecn, Packet, Payload};
use core::net::{IpAddr, Ipv4Addr};

pub const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// The router's inside address.
pub const INSIDE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// The router's outside address.
pub const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 5));
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 6));

pub fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

pub fn tcp(segment: Segment) -> Packet {
    let segment = Segment { source_port: 1000, destination_port: 80, ..segment };
    Packet { source: CLIENT, destination: SERVER, ecn: Ecn::NotEct, body: Body::Tcp(segment) }
}

/// `len` bytes from `offset` on of the client's stream, with a mapping of exactly these bytes.
pub fn data(offset: u64, len: u32) -> Packet {
    let mapping = Mapping {
        dsn: DataNumber::Long(7_000 + offset),
        subflow_seq: 1 + offset as u32,
        len: len as u16,
        checksum: None,
    };
    let dss = Dss { data_ack: Some(DataNumber::Long(1)), mapping: Some(mapping), data_fin: false };
    let mut segment = Segment {
        seq: Serial(1).add(offset as u32),
        flags: Flags::ACK,
        payload: Payload::new(offset, len),
        ..Segment::default()
    };
    segment.options.mptcp = Options { dss: Some(dss), others: Vec::new() }.into();
    tcp(segment)
}

/// A SYN that joins a connection.
pub fn join() -> Packet {
    let mut segment = Segment { flags: Flags::SYN, ..Segment::default() };
    let join = Join::Syn { backup: false, address_id: 1, token: 7, nonce: 9 };
    segment.options.mptcp = Options { dss: None, others: vec![Control::Join(join)] }.into();
    tcp(segment)
}

/// A packet from inside that is routed to the outside; `onward` identifies its next link.
pub fn out(packet: Packet, onward: u32) -> Transit<u32> {
    let arrives_at = INSIDE;
    Transit { packet, inside: true, crosses: true, arrives_at, leaves_from: Some(ROUTER), onward }
}

/// A packet from outside.
pub fn back(packet: Packet, onward: u32) -> Transit<u32> {
    let leaves_from = (packet.destination != ROUTER).then_some(INSIDE);
    Transit { packet, inside: false, crosses: true, arrives_at: ROUTER, leaves_from, onward }
}

/// The outcome of one packet.
pub fn pass(middlebox: &mut Middlebox<u32>, now: Time, transit: Transit<u32>) -> Outcome<u32> {
    let mut outcome = Outcome::default();
    middlebox.pass(now, transit, &mut outcome);
    outcome
}

/// The outcome of several packets in one middlebox.
pub fn pass_all(settings: Settings, packets: impl IntoIterator<Item = Packet>) -> Outcome<u32> {
    let mut middlebox = Middlebox::new(&settings);
    let mut outcome = Outcome::default();
    for (number, packet) in packets.into_iter().enumerate() {
        middlebox.pass(at(number as u64), out(packet, number as u32), &mut outcome);
    }
    outcome
}

pub fn segment_of(packet: &Packet) -> &Segment {
    match &packet.body {
        Body::Tcp(segment) => segment,
        other => panic!("{other:?}"),
    }
}
