//! Cost of a DATA packet in the SCTP core, by the number of chunks in flight, with and without loss. It includes
//! sending, receiving, and the packet's share of the SACKs. The cost must not grow faster than the logarithm of the
//! number of chunks in flight.

use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::drive::{Collected, drive};
use anabranch_endpoint::{Address, Endpoint, Ends, Secrets, Write};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::CongestionControl;
use anabranch_multipath::{congestion, scheduler};
use anabranch_sctp::{Association, Config};
use anabranch_wire::seq::Serial;
use anabranch_wire::{Body, Packet, sctp};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_testkit::takes_no_notice;

const MESSAGE_BYTES: u64 = 1452;

/// A congestion control with a constant window.
#[derive(Debug)]
struct Fixed(u64);

/// Window of the next [`Fixed`], bytes.
static WINDOW_BYTES: AtomicU64 = AtomicU64::new(0);

static FIXED: congestion::Entry = congestion::Entry {
    name: "fixed",
    aliases: &[],
    summary: "a constant window",
    source: "for this benchmark",
    coupled: false,
    signal: congestion::Signal::Loss,
    build: &|_| Box::new(Fixed(WINDOW_BYTES.load(Ordering::Relaxed))),
};

impl CongestionControl for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }
    takes_no_notice!();
    fn window(&self, _: PathId) -> u64 {
        self.0
    }
    fn ssthresh(&self, _: PathId) -> u64 {
        u64::MAX
    }
}

/// Two endpoints and a pipe from the first to the second, with `depth` chunks in flight. Every `loss`-th chunk is
/// lost once.
struct Pipe {
    ends: [Association; 2],
    now: Time,
    flying: VecDeque<Packet>,
    depth: usize,
    loss: Option<u64>,
    newest: Option<Serial>,
    sent: u64,
    written: u64,
    read: u64,
    /// Last output of an end; kept to reuse its allocations.
    out: Collected,
}

impl Pipe {
    fn new(paths: u8, depth: usize, loss: Option<u64>) -> Self {
        let address = |end: u8, path: u8| IpAddr::from([10, path, 0, end + 1]);
        WINDOW_BYTES.store(MESSAGE_BYTES * (depth as u64).div_ceil(u64::from(paths)), Ordering::Relaxed);
        let config = || {
            let fixed = congestion::Choice { entry: &FIXED, options: congestion::Options::default() };
            let base = Config::new(fixed, scheduler::find("round-robin").expect("listed"));
            let base = if paths > 1 { base.with_cmt() } else { base };
            base.send_buffer(1 << 40).receive_buffer(u64::from(u32::MAX)).max_burst(None)
        };
        let ends = [0, 1].map(|end| Ends {
            local: (0..paths).map(|path| Address::new(address(end, path), 1500)).collect(),
            local_port: 1,
            remote: (0..paths).map(|path| address(1 - end, path)).collect(),
            remote_port: 1,
        });
        let secrets = |end| Secrets::new([end; 32]);
        let ends = [
            Association::connecting(config(), &ends[0], secrets(0)),
            Association::listening(config(), &ends[1], secrets(1)),
        ];
        let ends = ends.map(|end| end.expect("the settings work"));
        let now = Time::ZERO;
        let mut pipe = Self {
            ends,
            now,
            flying: VecDeque::new(),
            depth,
            loss,
            newest: None,
            sent: 0,
            written: 0,
            read: 0,
            out: Collected::default(),
        };
        pipe.open();
        pipe.run(3 * depth as u64);
        pipe
    }

    fn open(&mut self) {
        self.ends[0].connect(self.now);
        for _ in 0..20 {
            self.now += Duration::from_millis(1);
            for end in 0..2 {
                self.ends[end].handle_timeout(self.now);
                self.drive(end);
                for packet in self.out.packets.drain(..) {
                    self.ends[1 - end].handle_packet(self.now, packet, &anabranch_wire::Pattern);
                }
            }
        }
    }

    /// Runs until the receiver has read this number of further messages.
    fn run(&mut self, messages: u64) {
        let goal = self.read + messages;
        while self.read < goal {
            self.now += Duration::from_nanos(100);
            // The send queue never becomes empty, whatever the number of chunks that a SACK acknowledges.
            while self.written < self.read + 2 * self.depth as u64 + 1_000 {
                self.ends[0].write(self.now, Write { unordered: true, ..Write::bytes(MESSAGE_BYTES) });
                self.written += 1;
            }
            self.drive(0);
            let mut packets = core::mem::take(&mut self.out.packets);
            for packet in packets.drain(..) {
                if !self.lost(&packet) {
                    self.flying.push_back(packet);
                }
            }
            self.out.packets = packets;
            // The window is full or the queue is empty, so one packet arrives.
            self.deliver();
            if self.flying.is_empty() {
                self.now = self.ends[0].next_timeout().unwrap_or(self.now).max(self.now);
                self.ends[0].handle_timeout(self.now);
            }
        }
    }

    fn deliver(&mut self) {
        let Some(packet) = self.flying.pop_front() else { return };
        self.ends[1].handle_packet(self.now, packet, &anabranch_wire::Pattern);
        while self.ends[1].read(self.now, u64::MAX).is_some() {
            self.read += 1;
        }
        self.drive(1);
        for packet in self.out.packets.drain(..) {
            self.ends[0].handle_packet(self.now, packet, &anabranch_wire::Pattern);
        }
    }

    fn drive(&mut self, end: usize) {
        drive(&mut self.ends[end], self.now, &mut self.out);
        self.out.events.clear();
        self.out.placements.clear();
    }

    /// Returns true if the packet is lost: every `loss`th new chunk is, and no retransmission.
    fn lost(&mut self, packet: &Packet) -> bool {
        let Body::Sctp(body) = &packet.body else { return false };
        let Some(sctp::Chunk::Data(data)) = body.chunks.last() else { return false };
        if self.newest.is_some_and(|newest| data.tsn.at_or_before(newest)) {
            return false;
        }
        self.newest = Some(data.tsn);
        self.sent += 1;
        self.loss.is_some_and(|loss| self.sent.is_multiple_of(loss))
    }
}

fn packet(c: &mut Criterion) {
    for (name, paths, loss) in [("clean", 1, None), ("loss", 1, Some(100)), ("cmt-loss", 2, Some(100))] {
        let mut group = c.benchmark_group(format!("sctp_packet/{name}"));
        group.throughput(Throughput::Elements(100));
        for depth in [100, 1_000, 10_000, 100_000, 1_000_000] {
            let mut pipe = Pipe::new(paths, depth, loss);
            group.bench_function(BenchmarkId::from_parameter(depth), |b| b.iter(|| pipe.run(100)));
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    targets = packet
}
criterion_main!(benches);
