//! Measures the cost of processing an acknowledgement in congestion avoidance, by algorithm and number of paths.

use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{ALGORITHMS, Ack, Build, CongestionControl, Options, PathSetup, Rules};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;

const MSS: u32 = 1_448;

/// Creates a connection in congestion avoidance. Its window is so large that growth hardly changes it.
fn connection(build: Build, paths: u8) -> Box<dyn CongestionControl> {
    let mut control = build(&Options::default());
    for id in 0..paths {
        let setup = PathSetup {
            initial_window: 100_000 * u64::from(MSS),
            initial_ssthresh: u64::from(MSS),
            ..PathSetup::new(Rules::Tcp, MSS)
        };
        control.add_path(PathId(id), setup);
    }
    control
}

fn on_ack(c: &mut Criterion) {
    let mut group = c.benchmark_group("on_ack");
    for entry in ALGORITHMS {
        for paths in [1_u8, 2, 4] {
            let mut control = connection(entry.build, paths);
            let mut now = Time::ZERO;
            let mut turn = 0_u8;
            group.bench_function(BenchmarkId::new(entry.name, paths), |b| {
                b.iter(|| {
                    turn = if turn + 1 == paths { 0 } else { turn + 1 };
                    now += Duration::from_micros(10);
                    let rtt = Duration::from_nanos(40_000_000 + (now.as_nanos() & 0xffff));
                    control.on_ack(black_box(&Ack::timed(now, PathId(turn), u64::from(MSS), rtt)));
                    control.window(PathId(turn))
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, on_ack);
criterion_main!(benches);
