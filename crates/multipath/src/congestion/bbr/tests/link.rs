//! BBR, the estimator of delivery rates and the pacer, over a simulated bottleneck with a queue and random losses. On
//! every network, the congestion control stays within its bounds, and every state ends.

use super::*;
use crate::delivery::{DeliveryRate, Snapshot};
use crate::pacing::Pacer;
use anabranch_base::rng::Rng;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Properties of the simulated network.
#[derive(Clone, Copy, Debug)]
struct Network {
    /// Rate of the bottleneck, bytes per second.
    rate: u64,
    rtt: Duration,
    /// Size of the queue, bytes.
    queue: u64,
    loss: f64,
    seed: u64,
}

/// A packet in flight: its snapshot, and the time at which its acknowledgement or the report of its loss arrives.
struct Packet {
    snapshot: Snapshot,
    report_at: Time,
    lost: bool,
}

/// Result of a simulation: the longest duration of each state, the number of packets that arrived, and the sequence of
/// states.
struct Outcome {
    longest: [(State, Duration); 7],
    delivered: u64,
    visited: Vec<State>,
}

const STATES: [State; 7] =
    [State::Startup, State::Drain, State::Down, State::Cruise, State::Refill, State::Up, State::ProbeRtt];

struct Simulation {
    network: Network,
    bench: Bench,
    estimator: DeliveryRate,
    pacer: Pacer,
    rng: Rng,
    flying: VecDeque<Packet>,
    in_flight: u64,
    /// The time at which the bottleneck has sent its whole queue.
    free: Time,
    /// Time at which the last packet left before the loss was reported. Its acknowledgement ends recovery.
    recovery: Option<Time>,
}

impl Simulation {
    fn new(network: Network) -> Self {
        Self {
            network,
            bench: Bench::new(),
            estimator: DeliveryRate::new(),
            pacer: Pacer::default(),
            rng: Rng::new(network.seed),
            flying: VecDeque::new(),
            in_flight: 0,
            free: Time::ZERO,
            recovery: None,
        }
    }

    fn may_send(&self) -> bool {
        self.in_flight + MSS <= self.bench.path.window()
    }

    fn send(&mut self) {
        let now = self.bench.now;
        self.pacer.sent(now, MSS, (self.bench.path.pacing(), MSS));
        let app_limited = self.estimator.is_app_limited();
        self.in_flight += MSS;
        let snapshot = self.estimator.sent(now, MSS, self.in_flight, false);
        self.bench.send(self.in_flight, app_limited);
        let service = Duration::from_nanos(MSS * 1_000_000_000 / self.network.rate);
        let waiting = self.free.since(now);
        let queued = waiting.as_nanos() * self.network.rate / 1_000_000_000;
        let lost = queued > self.network.queue || self.rng.chance(self.network.loss);
        if !lost {
            self.free = self.free.max(now) + service;
        }
        // If a packet is lost, the report arrives when the acknowledgement of a packet sent right after it would.
        let report_at = self.free.max(now) + self.network.rtt;
        self.flying.push_back(Packet { snapshot, report_at, lost });
    }

    fn process_report(&mut self) {
        let Some(packet) = self.flying.pop_front() else { return };
        let now = self.bench.now;
        let at = (now, PathId(0));
        self.in_flight -= MSS;
        if packet.lost {
            if self.recovery.is_none() {
                self.recovery = Some(now);
                self.bench.path.enter_recovery();
            }
            let lost = self.estimator.lost(at, &packet.snapshot, MSS);
            self.bench.path.on_lost(&lost);
            return;
        }
        self.estimator.delivered(now, &packet.snapshot, MSS);
        if self.recovery.is_some_and(|since| now > since + self.network.rtt) {
            self.recovery = None;
            self.bench.path.leave_recovery();
        }
        let limited = self.in_flight + 2 * MSS > self.bench.path.window();
        if let Some(sample) = self.estimator.sample(at, self.in_flight, limited) {
            self.bench.delivered = sample.total_delivered;
            self.bench.path.on_sample(&sample);
            if self.bench.path.is_probing_rtt() {
                self.estimator.set_app_limited(self.in_flight);
            }
        }
    }

    /// Runs until `end`, or until all packets in flight have been lost.
    fn run(&mut self, end: Time) -> Outcome {
        let mut outcome =
            Outcome { longest: STATES.map(|s| (s, Duration::ZERO)), delivered: 0, visited: Vec::new() };
        let (mut state, mut since) = (self.bench.path.state, self.bench.now);
        while self.bench.now < end {
            let release = self.pacer.held_until(self.bench.now);
            if self.may_send() && release.is_none() {
                self.send();
                continue;
            }
            let report_at = self.flying.front().map(|packet| packet.report_at);
            let wake = release.filter(|_| self.may_send());
            let Some(next) = report_at.into_iter().chain(wake).min() else { break };
            self.bench.now = self.bench.now.max(next);
            if report_at == Some(next) {
                self.process_report();
            }
            let path = &self.bench.path;
            assert!(path.window() >= 4 * MSS, "{:?}: {}", path.state, path.window());
            assert!(path.pacing().bits_per_second() >= MSS * 8);
            if path.state != state {
                let spent = self.bench.now.since(since);
                let longest = &mut outcome
                    .longest
                    .iter_mut()
                    .find(|(s, _)| *s == state)
                    .expect("every state has an entry")
                    .1;
                *longest = spent.max(*longest);
                outcome.visited.push(path.state);
                (state, since) = (path.state, self.bench.now);
            }
        }
        outcome.delivered = self.bench.delivered;
        outcome
    }
}

fn networks() -> impl Strategy<Value = Network> {
    let queue = prop_oneof![Just(0.05_f64), 0.1_f64..4.0];
    let loss = prop_oneof![2 => Just(0.0), 1 => 0.0_f64..0.05, 1 => 0.0_f64..0.3];
    (8_000_u64..4_000_000, 2_u64..300, queue, loss, any::<u64>()).prop_map(
        |(rate, rtt, queue, loss, seed)| {
            let rtt = Duration::from_millis(rtt);
            let product = rate as f64 * rtt.as_secs_f64();
            Network { rate, rtt, queue: (product * queue) as u64, loss, seed }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_state_ends_and_the_path_is_utilised(network in networks()) {
        let mut world = Simulation::new(network);
        let outcome = world.run(Time::ZERO + Duration::from_secs(31));
        // The duration of a round trip with a full queue: the maximum window is in the queue of the bottleneck.
        let queue = Duration::from_secs_f64((network.queue + 20 * MSS) as f64 / network.rate as f64);
        let round = network.rtt + queue;
        for (state, longest) in outcome.longest {
            let limit = match state {
                // The rate doubles each round from one packet to the full rate; then three rounds follow. A ProbeRtt
                // may come between.
                State::Startup => round.saturating_mul(40) + Duration::from_secs(6),
                State::Drain => round.saturating_mul(8),
                State::Down | State::Cruise => round.saturating_mul(4) + Duration::from_secs(4),
                State::Refill => round.saturating_mul(4),
                // The plateau can be detected only after the long-term bound has grown to it, in doubling steps.
                State::Up => round.saturating_mul(60),
                State::ProbeRtt => round.saturating_mul(8) + Duration::from_millis(400),
            };
            prop_assert!(longest <= limit, "{state:?} lasted {longest:?} of {limit:?}");
        }
        if network.loss == 0.0 && network.queue >= 10 * MSS && round < Duration::from_millis(400) {
            let share = outcome.delivered as f64 / (network.rate as f64 * 30.0);
            prop_assert!(share > 0.7, "{share}");
            for state in STATES {
                prop_assert!(state == State::Startup || outcome.visited.contains(&state), "{state:?} was never reached");
            }
        }
    }
}

#[test]
fn single_flow_fills_path_with_a_short_queue() {
    let network = Network { rate: 1_250_000, rtt: ms(40), queue: 100_000, loss: 0.0, seed: 1 };
    let mut world = Simulation::new(network);
    world.run(Time::ZERO + Duration::from_secs(6));
    let before = world.bench.delivered;
    world.run(Time::ZERO + Duration::from_secs(36));
    let share = (world.bench.delivered - before) as f64 / (30.0 * 1_250_000.0);
    assert!(share > 0.95, "{share}");
    assert_eq!(world.bench.path.model.min_rtt.map(Duration::as_millis), Some(40));
    let rate = world.bench.path.model.max_bw();
    assert!((1_240_000.0..=1_260_000.0).contains(&rate), "{rate}");
}
