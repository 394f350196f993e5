//! Random sequences of events.

use super::{Event, PATHS, Report};
use crate::congestion::{LossKind, PathSetup, PenaltyInSlowStart, Rules};
use crate::shared_bottleneck::RelativeDelay;
use anabranch_base::rng::Rng;
use anabranch_base::time::Duration;

/// Number of acknowledgements among 100 events.
const ACKS: u64 = 40;

/// Returns a random sequence of events.
pub fn sequence(rng: &mut Rng, length: usize) -> Vec<Event> {
    // Most connections add their paths before other events.
    let paths =
        (0..rng.between(0, 2) as u8).map(|path| Event::Add(path, setup(&mut rng.fork(&path.to_string()))));
    let mut events: Vec<_> = paths.collect();
    events.resize_with(length, || event(rng));
    events
}

fn event(rng: &mut Rng) -> Event {
    let path = rng.below(PATHS.into()) as u8;
    match rng.below(100) {
        0..ACKS => Event::Ack {
            path,
            acked: bytes(rng),
            rtt: nanoseconds(rng),
            srtt: nanoseconds(rng),
            limited: rng.chance(0.9),
        },
        40..=43 => Event::Add(path, setup(rng)),
        44 => Event::Remove(path),
        45..=46 => Event::Usable(path, rng.chance(0.5)),
        47..=48 => Event::Mss(path, packet(rng)),
        49..=53 => Event::Loss(path, kind(rng), bytes(rng)),
        54..=58 => Event::Recovered(path),
        59..=61 => Event::Timeout(path, rng.chance(0.5), bytes(rng)),
        62..=63 => Event::Idle(path, rng.next_u32()),
        64..=65 => Event::Penalise(path, penalty(rng)),
        66..=68 => Event::Spurious(path),
        69..=72 => {
            Event::Sent { path, bytes: bytes(rng), in_flight: bytes(rng), app_limited: rng.chance(0.2) }
        }
        73..=82 => Event::Sample(path, report(rng)),
        83..=85 => Event::Lost(path, report(rng)),
        86..=88 => Event::Bottleneck(path, rng.below(4) as u16),
        89..=93 => Event::Delay(path, delay(rng), bytes(rng)),
        _ => Event::Wait(if rng.chance(0.1) { rng.next_u64() } else { rng.below(200_000_000) }),
    }
}

fn setup(rng: &mut Rng) -> PathSetup {
    let rules = if rng.chance(0.5) { Rules::Tcp } else { Rules::Sctp };
    PathSetup {
        mss: packet(rng),
        initial_window: bytes(rng),
        initial_ssthresh: bytes(rng),
        whole_packets: rng.chance(0.5),
        ..PathSetup::new(rules, 0)
    }
}

fn packet(rng: &mut Rng) -> u32 {
    if rng.chance(0.1) { rng.next_u32() } else { rng.between(500, 9_000) as u32 }
}

fn bytes(rng: &mut Rng) -> u64 {
    match rng.below(14) {
        0..8 => rng.below(3_000),
        8..12 => rng.between(3_000, 1_000_000),
        12 => rng.next_u64(),
        _ => u64::MAX,
    }
}

fn nanoseconds(rng: &mut Rng) -> Option<u64> {
    match rng.below(11) {
        0..8 => Some(rng.between(1_000_000, 500_000_000)),
        8 => None,
        9 => Some(0),
        _ => Some(rng.next_u64()),
    }
}

fn kind(rng: &mut Rng) -> LossKind {
    if rng.chance(0.5) { LossKind::FastRetransmit } else { LossKind::Ecn }
}

fn penalty(rng: &mut Rng) -> PenaltyInSlowStart {
    if rng.chance(0.5) { PenaltyInSlowStart::Unbounded } else { PenaltyInSlowStart::Bounded }
}

fn report(rng: &mut Rng) -> Report {
    Report {
        rtt: nanoseconds(rng),
        bytes: bytes(rng),
        prior: bytes(rng),
        total: bytes(rng),
        rate: (rng.chance(0.9)).then(|| rng.between(10_000, 1_000_000_000)),
        in_flight: bytes(rng),
        lost: bytes(rng),
        app_limited: rng.chance(0.2),
        cwnd_limited: rng.chance(0.5),
    }
}

fn delay(rng: &mut Rng) -> RelativeDelay {
    if rng.chance(0.8) {
        RelativeDelay::OneWay(rng.below(300) as u32)
    } else {
        RelativeDelay::RoundTrip(Duration::from_nanos(rng.next_u64()))
    }
}
