//! Simulates wVegas over links with queues, and checks that the backlog stays at the target.

use crate::rig::MSS;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{Ack, CongestionControl, Options, PathSetup, Rules, find};
use anabranch_multipath::rtt::{RtoBounds, RttEstimator};
use std::collections::VecDeque;

/// A path with its own bottleneck. The queue is unbounded, because the congestion controls of this file should keep it
/// short.
struct Bottleneck {
    path: PathId,
    /// Time in which the bottleneck sends one packet.
    service: Duration,
    base: Duration,
    /// Time at which the bottleneck will have sent all packets of its queue.
    free_at: Time,
    /// Packets in flight, each with the times of its transmission and its acknowledgement.
    flying: VecDeque<(Time, Time)>,
    rtt: RttEstimator,
    /// Number of acknowledged packets, and the sum of the queueing delays of these packets, ns.
    delivered: u64,
    waited: u64,
}

impl Bottleneck {
    fn new(id: u8, packets_per_second: u64, base_ms: u64) -> Self {
        let (min, max) = (Duration::from_millis(200), Duration::from_secs(60));
        Self {
            path: PathId(id),
            service: Duration::from_nanos(1_000_000_000 / packets_per_second),
            base: Duration::from_millis(base_ms),
            free_at: Time::ZERO,
            flying: VecDeque::new(),
            rtt: RttEstimator::new(RtoBounds { initial: min, min, max }),
            delivered: 0,
            waited: 0,
        }
    }

    fn send(&mut self, now: Time, window: u64) {
        while (self.flying.len() as u64 + 1) * MSS <= window {
            self.free_at = self.free_at.max(now) + self.service;
            self.flying.push_back((now, self.free_at + self.base));
        }
    }

    fn acknowledge(&mut self, control: &mut dyn CongestionControl) {
        let (sent, now) = self.flying.pop_front().expect("the window is never zero");
        let sample = now.since(sent);
        self.rtt.sample(sample);
        self.delivered += 1;
        self.waited += sample.saturating_sub(self.base + self.service).as_nanos();
        let ack = Ack { rtt: Some(sample), srtt: self.rtt.srtt(), ..Ack::new(now, self.path, MSS) };
        control.on_ack(&ack);
        self.send(now, control.window(self.path));
    }

    fn forget(&mut self) {
        (self.delivered, self.waited) = (0, 0);
    }

    /// Returns the utilisation of the bottleneck over `seconds`, and the mean backlog in packets.
    fn utilisation_and_backlog(&self, seconds: f64) -> (f64, f64) {
        let service = self.service.as_secs_f64();
        let waited = self.waited as f64 / 1e9 / self.delivered.max(1) as f64;
        (self.delivered as f64 * service / seconds, waited / service)
    }
}

/// Runs wVegas for 60 s after a warm-up of 10 s, and returns utilisation and mean backlog of each path.
fn run(paths: &mut [Bottleneck]) -> Vec<(f64, f64)> {
    let mut control = (find("wvegas").expect("in the table").build)(&Options::default());
    for path in &mut *paths {
        let setup = PathSetup::new(Rules::Tcp, MSS as u32);
        control.add_path(path.path, setup);
        path.send(Time::ZERO, 10 * MSS);
    }
    let mut warm = false;
    loop {
        let next = paths.iter_mut().min_by_key(|path| path.flying[0].1).expect("there are paths");
        let now = next.flying[0].1;
        next.acknowledge(&mut *control);
        if now.as_secs_f64() >= 70.0 {
            return paths.iter().map(|path| path.utilisation_and_backlog(60.0)).collect();
        }
        if !warm && now.as_secs_f64() >= 10.0 {
            warm = true;
            paths.iter_mut().for_each(Bottleneck::forget);
        }
    }
}

/// With base round-trip times of 2 ms, the bandwidth-delay product is only 3 packets, so the backlog makes up most of
/// the window.
#[test]
fn backlog_is_ten_packets_shared_by_rate() {
    let check = |rates: &[u64], backlogs: &[f64]| {
        let mut paths: Vec<_> = (0_u8..).zip(rates).map(|(id, &rate)| Bottleneck::new(id, rate, 2)).collect();
        for ((used, backlog), &expected) in run(&mut paths).into_iter().zip(backlogs) {
            println!(
                "{rates:?} packets/s: used {used:.3}, backlog {backlog:.2} packets, expected {expected:.2}"
            );
            assert!(used > 0.999 && (backlog / expected - 1.0).abs() < 0.10);
        }
    };
    check(&[1_667], &[10.0]);
    check(&[1_667, 1_667], &[5.0, 5.0]);
    check(&[2_000, 1_000], &[20.0 / 3.0, 10.0 / 3.0]);
}

/// A single flow on a long path: the short queues behind the sender's bursts must neither end slow start nor start a
/// drain.
#[test]
fn single_flow_fills_a_long_path() {
    for (rate, base) in [(1_667, 12), (1_667, 20), (1_667, 100), (8_333, 20), (833, 200)] {
        let (used, backlog) = run(&mut [Bottleneck::new(0, rate, base)])[0];
        println!("{rate} packets/s, {base} ms: used {used:.3}, backlog {backlog:.2} packets");
        // After slow start, the window shrinks by one packet per round trip, so on a long path the backlog stays larger
        // than the target for a while.
        let most = if base > 20 { 100.0 } else { 15.0 };
        assert!(used > 0.95 && backlog < most, "{rate} packets/s, {base} ms: {used} {backlog}");
    }
}

/// In the publication, two paths of 20 and 100 ms, with 30 Mbit/s in total, carried 27.6 Mbit/s.
#[test]
fn two_paths_of_different_length_are_filled() {
    let mut paths = [Bottleneck::new(0, 1_250, 20), Bottleneck::new(1, 1_250, 100)];
    for (used, backlog) in run(&mut paths) {
        println!("used {used:.3}, backlog {backlog:.2} packets");
        assert!(used > 0.92 && backlog < 10.0, "{used} {backlog}");
    }
}
