//! Cost of an event: the event queue, and the transmission of a frame over a link.

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_sim::engine::events::EventQueue;
use anabranch_sim::engine::link::{LookaheadLink, PacketRef};
use anabranch_sim::presets;
use anabranch_wire::Ecn;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;

/// Benchmark of the usual cycle of an event: the earliest one is replaced by a later one of the same component.
fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replace the earliest of n events");
    for pending in [14, 200, 6000] {
        let mut rng = Rng::new(1);
        let mut queue = EventQueue::new();
        for component in 0..pending {
            queue.push(Time::from_nanos(rng.below(1_000_000)), component);
        }
        group.bench_function(BenchmarkId::from_parameter(pending), |bencher| {
            bencher.iter(|| {
                if let Some((now, component)) = queue.peek() {
                    queue.replace_top(now + Duration::from_nanos(1 + rng.below(2_000_000)));
                    black_box(component);
                }
            });
        });
    }
    group.finish();
}

/// Benchmark of a frame that enters a link and leaves it at the other end.
fn hops(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a frame over a link");
    for (name, load) in [("idle", 1), ("queue of 50", 50)] {
        let mut link = LookaheadLink::new(&presets::wire(100, 1, 100), &Rng::new(1));
        let mut now = Time::ZERO;
        for id in 0..load {
            link.offer(now, PacketRef::new(id, 1500, Ecn::NotEct));
        }
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                now = link.next_event().unwrap_or(now);
                if let Some(frame) = link.take(now) {
                    link.offer(now, black_box(frame));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, events, hops);
criterion_main!(benches);
