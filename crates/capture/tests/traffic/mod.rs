//! Packets of connections between two hosts, and captures of them.

#![allow(dead_code, reason = "each test file uses a part")]

use anabranch_wire::pcapng::Writer;
use anabranch_wire::sctp::{self, Chunk, Data, Init, Sack};
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::{self, Capable, Control, DataNumber, Dss, Join, Key, Mapping};
use anabranch_wire::tcp::{Flags, Options, Segment, Timestamps};
use anabranch_wire::{Body, Ecn, Packet, Payload};
use core::net::{IpAddr, Ipv4Addr};

pub const CLIENT_KEY: u64 = 11;
pub const SERVER_KEY: u64 = 22;
pub const PIECE_LEN: u32 = 1_000;
/// One-way delay, nanoseconds.
pub const DELAY_NS: u64 = 10_000_000;

/// A packet with its time at an interface.
#[derive(Clone, Debug)]
pub struct Timed {
    pub at_ns: u64,
    pub interface: usize,
    pub packet: Packet,
}

fn address(host: u8, path: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, path, host))
}

/// A segment of a subflow, from the server if `is_reply`.
pub fn segment(path: u8, is_reply: bool, segment: Segment) -> Packet {
    let (client, server) = ((address(1, path), 40_000 + u16::from(path)), (address(2, path), 80));
    let ((source, source_port), (destination, destination_port)) =
        if is_reply { (server, client) } else { (client, server) };
    let body = Body::Tcp(Segment { source_port, destination_port, ..segment });
    Packet { source, destination, ecn: Ecn::NotEct, body }
}

fn options(mptcp: mptcp::Options, at_ns: u64) -> Options {
    let timestamps = Some(Timestamps { value: (at_ns / 1_000_000) as u32 + 1, echo: 0 });
    Options { timestamps, mptcp: mptcp.into(), ..Options::default() }
}

/// The handshake of a subflow from time `at_ns` on, at the client's interface; path 0 is the first one.
pub fn handshake(at_ns: u64, path: u8) -> Vec<Timed> {
    let others = |control| mptcp::Options { dss: None, others: vec![control] };
    let capable = Capable { version: 1, hmac_sha256: true, ..Capable::default() };
    let (asked, answered) = if path == 0 {
        (Control::Capable(capable), Control::Capable(Capable { sender_key: Some(SERVER_KEY), ..capable }))
    } else {
        let token = Key::new(SERVER_KEY).token;
        let syn = Join::Syn { backup: false, address_id: path, token, nonce: 5 };
        (
            Control::Join(syn),
            Control::Join(Join::SynAck { backup: false, address_id: path, hmac: 1, nonce: 6 }),
        )
    };
    let last = if path == 0 {
        Control::Capable(Capable { sender_key: Some(CLIENT_KEY), receiver_key: Some(SERVER_KEY), ..capable })
    } else {
        Control::Join(Join::Ack { hmac: [7; 20] })
    };
    let plain = |flags, seq, ack, control, window_scale| Segment {
        flags,
        seq: Serial(seq),
        ack: Serial(ack),
        window: 1_000,
        options: Options { window_scale, mptcp: others(control).into(), ..Options::default() },
        ..Segment::default()
    };
    let interface = usize::from(path);
    let timed = |at_ns, packet| Timed { at_ns, interface, packet };
    vec![
        timed(at_ns, segment(path, false, plain(Flags::SYN, 99, 0, asked, Some(7)))),
        timed(
            at_ns + 2 * DELAY_NS,
            segment(path, true, plain(Flags::SYN | Flags::ACK, 499, 100, answered, Some(7))),
        ),
        timed(at_ns + 2 * DELAY_NS + 10_000, segment(path, false, plain(Flags::ACK, 100, 500, last, None))),
    ]
}

/// A segment with data of the client, and its acknowledgement. The segment is the one with index `number` on
/// the subflow, and contains the data with index `data` of the connection.
pub fn data(at_ns: u64, path: u8, (number, data): (u32, u64)) -> [Timed; 2] {
    let interface = usize::from(path);
    let first = Key::new(CLIENT_KEY).idsn.wrapping_add(1);
    let dsn = first + data * u64::from(PIECE_LEN);
    let mapping = Mapping {
        dsn: DataNumber::Long(dsn),
        subflow_seq: 1 + number * PIECE_LEN,
        len: PIECE_LEN as u16,
        checksum: None,
    };
    let dss = |dss| mptcp::Options { dss: Some(dss), others: Vec::new() };
    let sent = Segment {
        flags: Flags::ACK,
        seq: Serial(100 + number * PIECE_LEN),
        ack: Serial(500),
        window: 1_000,
        payload: Payload::new(0, PIECE_LEN),
        options: options(dss(Dss { mapping: Some(mapping), ..Dss::default() }), at_ns),
        ..Segment::default()
    };
    let data_ack = Some(DataNumber::Long(dsn + u64::from(PIECE_LEN)));
    let answered = Segment {
        flags: Flags::ACK,
        seq: Serial(500),
        ack: Serial(100 + (number + 1) * PIECE_LEN),
        window: 1_000,
        options: options(dss(Dss { data_ack, ..Dss::default() }), at_ns),
        ..Segment::default()
    };
    [
        Timed { at_ns, interface, packet: segment(path, false, sent) },
        Timed { at_ns: at_ns + 2 * DELAY_NS, interface, packet: segment(path, true, answered) },
    ]
}

/// A connection of two subflows with ten pieces each, sent in turn. The first subflow retransmits its segment
/// 3, which contains piece 6 of the connection; the second subflow reinjects the same piece.
pub fn two_subflows() -> Vec<Timed> {
    let mut all = [handshake(1_000_000_000, 0), handshake(1_100_000_000, 1)].concat();
    for number in 0..10_u32 {
        let at_ns = 1_200_000_000 + u64::from(number) * 50_000_000;
        all.extend(data(at_ns, 0, (number, 2 * u64::from(number))));
        all.extend(data(at_ns + 1_000_000, 1, (number, 2 * u64::from(number) + 1)));
    }
    all.extend(data(1_250_000_000 + 200_000_000, 0, (3, 6)));
    all.extend(data(1_900_000_000, 1, (10, 6)));
    all.sort_by_key(|timed| timed.at_ns);
    all
}

/// An association over two paths: the chunks are sent in turn, and the second chunk is retransmitted on the other
/// path.
pub fn association() -> Vec<Timed> {
    let packet = |path, is_reply, tag, chunk| {
        let (source, destination) = (address(1, path), address(2, path));
        let (source, destination) = if is_reply { (destination, source) } else { (source, destination) };
        let (source_port, destination_port) = if is_reply { (9, 5_000) } else { (5_000, 9) };
        let chunks = vec![chunk].into();
        let (udp, may_fragment, zero_checksum) = (None, false, false);
        let body = sctp::Packet {
            source_port,
            destination_port,
            verification_tag: tag,
            chunks,
            udp,
            may_fragment,
            zero_checksum,
        };
        Packet { source, destination, ecn: Ecn::NotEct, body: Body::Sctp(body) }
    };
    let init = |tag| Init { initiate_tag: tag, a_rwnd: 100_000, initial_tsn: Serial(1), ..Init::default() };
    let chunk =
        |tsn| Chunk::Data(Data { tsn: Serial(tsn), payload: Payload::new(0, PIECE_LEN), ..Data::default() });
    let sack = |tsn| Chunk::Sack(Sack { cumulative_tsn: Serial(tsn), a_rwnd: 100_000, ..Sack::default() });
    let timed = |at_ns, path: u8, packet| Timed { at_ns, interface: usize::from(path), packet };
    let mut all = vec![
        timed(0, 0, packet(0, false, 0, Chunk::Init(init(71)))),
        timed(20_000_000, 0, packet(0, true, 71, Chunk::InitAck(init(72)))),
    ];
    for tsn in 1..=6_u32 {
        let (at_ns, path) = (100_000_000 * u64::from(tsn), (tsn % 2) as u8);
        all.push(timed(at_ns, path, packet(path, false, 72, chunk(tsn))));
        if tsn == 2 {
            all.push(timed(at_ns + 50_000_000, 1, packet(1, false, 72, chunk(tsn))));
        }
        all.push(timed(at_ns + 60_000_000, path, packet(path, true, 71, sack(tsn))));
    }
    all
}

/// The bytes of a packet.
pub fn bytes(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    bytes
}

/// A capture in pcapng, with one interface per path.
pub fn pcapng(packets: &[Timed], snaplen: u32) -> Vec<u8> {
    let mut writer = Writer::with_snaplen(Vec::new(), snaplen).expect("memory");
    let interfaces = [0, 1].map(|at| writer.add_interface(&format!("eth{at}")).expect("memory"));
    for Timed { at_ns, interface, packet } in packets {
        writer.packet(interfaces[*interface].at(*at_ns), packet).expect("memory");
    }
    writer.finish().expect("memory")
}

/// A capture in pcap, of microseconds, big-endian, in Ethernet frames.
pub fn pcap(packets: &[Timed]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 96, 1] {
        out.extend(word.to_be_bytes());
    }
    for Timed { at_ns, packet, .. } in packets {
        let frame = [[0_u8; 12].as_slice(), &[8, 0], &bytes(packet)].concat();
        let kept = &frame[..frame.len().min(96)];
        let (seconds, micros) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000 / 1_000);
        for word in [seconds as u32, micros as u32, kept.len() as u32, frame.len() as u32] {
            out.extend(word.to_be_bytes());
        }
        out.extend(kept);
    }
    out
}
