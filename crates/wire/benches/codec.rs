//! What a packet costs: its length (once a link in the simulator), its bytes, its check.

use core::hint::black_box;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use wire::seq::Serial;
use wire::tcp::mptcp::{self, DataNumber, Dss, Mapping};
use wire::tcp::{Flags, Options, SackBlocks, Segment, Timestamps};
use wire::{Body, Ecn, Packet, Payload};

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
    let mptcp = mptcp::Options { dss: Some(dss), others: Vec::new() };
    let mut sack = SackBlocks::default();
    sack.push(Serial(1), Serial(2));
    sack.push(Serial(3), Serial(4));
    [
        ("tcp-data", packet(Options::default(), 1_448)),
        ("tcp-ack-sack2", packet(Options { sack, ..Options::default() }, 0)),
        ("mptcp-data", packet(Options { mptcp, ..Options::default() }, 1_428)),
    ]
}

fn codec(criterion: &mut Criterion) {
    for (name, packet) in packets() {
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
        group.bench_function("check", |bencher| {
            bencher.iter_batched_ref(
                || Vec::with_capacity(2_000),
                |scratch| wire::check(black_box(&packet), scratch),
                BatchSize::LargeInput,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, codec);
criterion_main!(benches);
