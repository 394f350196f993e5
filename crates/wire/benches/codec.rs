//! Cost of a packet: computing its length (once per link in the simulator), encoding it, checking it.

use anabranch_wire::sctp::{self, Chunk, Data, DataFlags, GapBlock, NrSack, Sack, SackFlags};
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::{self, DataNumber, Dss, Mapping};
use anabranch_wire::tcp::{Flags, Options, SackBlocks, Segment, Timestamps};
use anabranch_wire::{Body, Ecn, Packet, Payload};
use core::hint::black_box;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn packet(options: Options, len: u32) -> Packet {
    let options = Options { timestamps: Some(Timestamps { value: 1, echo: 2 }), ..options };
    let segment = Segment {
        source_port: 5_000,
        destination_port: 80,
        flags: Flags::ACK,
        window: 500,
        options,
        payload: Payload::new(1 << 33, len),
        ..Segment::default()
    };
    Packet {
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        ecn: Ecn::Ect0,
        body: Body::Tcp(segment),
    }
}

/// The three packets that make up nearly all traffic.
fn packets() -> [(&'static str, Packet); 3] {
    let mapping = Mapping { dsn: DataNumber::Long(1 << 40), subflow_seq: 1, len: 1_428, checksum: None };
    let dss = Dss { data_ack: Some(DataNumber::Short(7)), mapping: Some(mapping), data_fin: false };
    let mptcp = mptcp::Options { dss: Some(dss), others: Vec::new() }.into();
    let mut sack = SackBlocks::default();
    sack.push(Serial(1), Serial(2));
    sack.push(Serial(3), Serial(4));
    [
        ("tcp-data", packet(Options::default(), 1_448)),
        ("tcp-ack-sack2", packet(Options { sack, ..Options::default() }, 0)),
        ("mptcp-data", packet(Options { mptcp, ..Options::default() }, 1_428)),
    ]
}

fn sctp_packet(chunks: Vec<Chunk>) -> Packet {
    let body = sctp::Packet {
        source_port: 5_000,
        destination_port: 80,
        verification_tag: 7,
        chunks: chunks.into(),
        udp: None,
        may_fragment: false,
        zero_checksum: false,
    };
    Packet { body: Body::Sctp(body), ..packet(Options::default(), 0) }
}

fn data(at: u32, len: u32) -> Chunk {
    let payload = Payload::new(u64::from(at * len), len);
    Chunk::Data(Data { tsn: Serial(at), flags: DataFlags::WHOLE, payload, ..Data::default() })
}

/// A SACK as sent by a receiver whose two paths alternate.
fn sack(gaps: u16) -> Sack {
    let gaps = (0..gaps).map(|at| GapBlock::new(2 + 2 * at, 2 + 2 * at)).collect();
    let flags = SackFlags::answering(2);
    Sack { cumulative_tsn: Serial(9), a_rwnd: 500_000, flags, gaps, ..Sack::default() }
}

fn nr_sack(gaps: u16) -> Chunk {
    let nr_gaps = sack(gaps).gaps;
    Chunk::NrSack(Box::new(NrSack { sack: sack(0), nr_gaps }))
}

/// Typical packets of a CMT-SCTP association.
fn sctp_packets() -> [(&'static str, Packet); 5] {
    [
        ("sctp-data", sctp_packet(vec![data(1, 1_452)])),
        ("sctp-bundle10", sctp_packet((0..10).map(|at| data(at, 100)).collect())),
        ("sctp-sack0", sctp_packet(vec![Chunk::Sack(sack(0))])),
        ("sctp-sack20", sctp_packet(vec![Chunk::Sack(sack(20))])),
        ("sctp-nr-sack20", sctp_packet(vec![nr_sack(20)])),
    ]
}

/// Cost of making the packets in a core and of dropping them in a simulator.
fn make(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("make");
    group.throughput(Throughput::Elements(1));
    group.bench_function("sctp-data", |bencher| {
        bencher.iter(|| sctp_packet(vec![data(black_box(1), 1_452)]));
    });
    for gaps in [0, 4, 20] {
        group.bench_function(format!("sctp-sack{gaps}"), |bencher| {
            bencher.iter(|| sctp_packet(vec![Chunk::Sack(sack(black_box(gaps)))]));
        });
        group.bench_function(format!("sctp-nr-sack{gaps}"), |bencher| {
            bencher.iter(|| sctp_packet(vec![nr_sack(black_box(gaps))]));
        });
    }
    group.finish();
}

fn codec(criterion: &mut Criterion) {
    for (name, packet) in packets().into_iter().chain(sctp_packets()) {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(1));
        group.bench_function("wire_len", |bencher| bencher.iter(|| black_box(&packet).wire_len()));
        let mut bytes = Vec::with_capacity(2_000);
        group.bench_function("emit", |bencher| {
            bencher.iter(|| {
                bytes.clear();
                black_box(&packet).emit(&mut bytes);
            });
        });
        group.bench_function("parse", |bencher| bencher.iter(|| Packet::parse(black_box(&bytes))));
        let mut scratch = Vec::new();
        group.bench_function("check", |bencher| {
            bencher.iter(|| anabranch_wire::check(black_box(&packet), &mut scratch));
        });
        group.finish();
    }
}

criterion_group!(benches, codec, make);
criterion_main!(benches);
