//! Events of connections: random events, or those of the shared vectors.

use crate::pair::{Event, Kind, MSS, Pair};
use anabranch_base::rng::Rng;
use serde_json::Value;

/// State of one path of a random connection.
struct Life {
    /// Round-trip time, µs.
    base: u64,
    srtt: u64,
    recovering: u32,
    /// Loss rate: one of this number of acknowledgements reports a loss.
    loss: u64,
}

/// Generates a random connection: paths that are added and removed, round-trip times from 0.2 ms to 0.6 s, losses, ECN
/// marks and timeouts.
pub struct Random {
    rng: Rng,
    length: usize,
    now: u64,
    paths: [Option<Life>; 8],
}

impl Random {
    pub fn new(seed: u64, length: usize) -> Self {
        Self { rng: Rng::new(seed).fork("twins"), length, now: 1_000_000, paths: [const { None }; 8] }
    }

    pub fn apply_all(mut self, pair: &mut Pair) {
        let most = self.rng.between(1, 8) as usize;
        self.join(pair, 0);
        for _ in 0..self.length {
            self.now += self.rng.between(100, 4_000);
            let at = self.rng.below(most as u64) as usize;
            if self.paths[at].is_none() {
                // Sometimes a path is added, more often if the connection has few paths.
                if self.rng.below(60) == 0 || at == 0 {
                    self.join(pair, at);
                }
            } else {
                self.acknowledge_or_lose(pair, at);
            }
        }
    }

    fn event(&self, at: usize, kind: Kind, number: u32) -> Event {
        let srtt = self.paths[at].as_ref().map_or(0, |life| life.srtt);
        Event { kind, path: at as u8, number, srtt, rtt: 0, limited: false, now: self.now }
    }

    /// Adds a path. Its handshake measures the round-trip time.
    fn join(&mut self, pair: &mut Pair, at: usize) {
        let scale = [200, 5_000, 40_000, 300_000][self.rng.below(4) as usize];
        let base = self.rng.between(scale, 2 * scale);
        let loss = [30, 200, 2_000][self.rng.below(3) as usize];
        self.paths[at] = Some(Life { base, srtt: base, recovering: 0, loss });
        pair.apply(self.event(at, Kind::Add, 10));
        pair.apply(Event { rtt: base, ..self.event(at, Kind::Ack, 0) });
    }

    fn acknowledge_or_lose(&mut self, pair: &mut Pair, at: usize) {
        let (window, threshold) = pair.window(at as u8);
        let Some(life) = self.paths[at].as_mut() else { return };
        if life.recovering > 0 {
            life.recovering -= 1;
            if life.recovering == 0 {
                pair.apply(self.event(at, Kind::Recovered, 0));
                return;
            }
        } else if self.rng.below(life.loss) == 0 {
            return self.report_loss(pair, at, window);
        }
        match self.rng.below(4_000) {
            0 => pair.apply(self.event(at, Kind::Usable, 0)),
            1..=9 => pair.apply(self.event(at, Kind::Usable, 1)),
            10 if at > 0 => {
                pair.apply(self.event(at, Kind::Remove, 0));
                self.paths[at] = None;
            }
            _ => self.acknowledge(pair, at, window < threshold),
        }
    }

    fn report_loss(&mut self, pair: &mut Pair, at: usize, window: u32) {
        // In some cases the application has not filled the window.
        let in_flight = if self.rng.chance(0.8) { window } else { (window / 2).max(1) };
        match self.rng.below(20) {
            0 => {
                let skipped = self.rng.below(20) == 0;
                let kind = if skipped { Kind::TimedOutSkipped } else { Kind::TimedOut };
                pair.apply(self.event(at, kind, in_flight));
                if self.rng.chance(0.3) {
                    pair.apply(self.event(at, Kind::TimedOutAgain, in_flight));
                }
            }
            1 => pair.apply(self.event(at, Kind::Ecn, in_flight)),
            other => {
                let kind = if other == 2 { Kind::LostSkipped } else { Kind::Lost };
                pair.apply(self.event(at, kind, in_flight));
                if let Some(life) = self.paths[at].as_mut() {
                    life.recovering = 5;
                }
            }
        }
    }

    fn acknowledge(&mut self, pair: &mut Pair, at: usize, starting: bool) {
        let Some(life) = self.paths[at].as_mut() else { return };
        let sample = life.base + self.rng.below(life.base);
        life.srtt = (7 * life.srtt + sample) / 8;
        let rtt = if self.rng.chance(0.9) { sample } else { 0 };
        // In slow start, each acknowledgement is for one packet, because both sides intentionally differ for several
        // packets: see acknowledgements() in path.h.
        let packets = match self.rng.below(10) {
            _ if starting => 1,
            0 => self.rng.between(3, 20),
            _ => self.rng.between(1, 2),
        };
        let limited = self.rng.chance(0.95);
        pair.apply(Event { rtt, limited, ..self.event(at, Kind::Ack, packets as u32) });
    }
}

/// Applies the events in a file of vectors, in whole packets. Omits idle times and penalties, which the kernel does not
/// report to congestion controls.
pub fn recorded(text: &str, pair: &mut Pair) {
    let mut rest = [0_u64; 8];
    let mut srtts = [0_u64; 8];
    for line in text.lines().skip(1) {
        let event: Value = serde_json::from_str(line).expect("a line of JSON");
        let number = |key: &str| event[key].as_u64().unwrap_or(0);
        let at = number("path") as usize;
        let packets = |bytes: u64| (bytes / MSS) as u32;
        let now = number("now_ns") / 1_000;
        let base = Event {
            kind: Kind::Ack,
            path: at as u8,
            number: 0,
            srtt: srtts[at],
            rtt: 0,
            limited: false,
            now,
        };
        match event["event"].as_str().expect("every line has an event") {
            "add_path" => {
                // In Linux, the handshake of a path has measured its round-trip time.
                srtts[at] = 30_000;
                pair.apply(Event { kind: Kind::Add, number: packets(number("initial_window")), ..base });
                pair.apply(Event { srtt: srtts[at], rtt: srtts[at], ..base });
            }
            "remove_path" => pair.apply(Event { kind: Kind::Remove, ..base }),
            "set_usable" => {
                let usable = u32::from(event["usable"] == true);
                pair.apply(Event { kind: Kind::Usable, number: usable, ..base });
            }
            "recovered" => pair.apply(Event { kind: Kind::Recovered, ..base }),
            "loss" => {
                let kind = if event["kind"] == "ecn" { Kind::Ecn } else { Kind::Lost };
                pair.apply(Event { kind, number: packets(number("in_flight")), ..base });
            }
            "timeout" => {
                let kind = if event["repeated"] == true { Kind::TimedOutAgain } else { Kind::TimedOut };
                pair.apply(Event { kind, number: packets(number("in_flight")), ..base });
            }
            "ack" => {
                let (window, threshold) = pair.window(at as u8);
                let acked = rest[at] + number("acked");
                rest[at] = acked % MSS;
                srtts[at] = if event["srtt_ns"].is_null() { srtts[at] } else { number("srtt_ns") / 1_000 };
                let most = if window < threshold { 2 } else { u32::MAX };
                pair.apply(Event {
                    number: packets(acked).min(most),
                    srtt: srtts[at],
                    rtt: number("rtt_ns") / 1_000,
                    limited: event["cwnd_limited"] == true,
                    ..base
                });
            }
            "idle" | "penalise" => {}
            other => panic!("unknown event in the vectors: {other}"),
        }
    }
}
