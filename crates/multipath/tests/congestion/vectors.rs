//! Tests that the vectors in vectors/congestion are up to date. A vector file has the events of a connection and the
//! resulting windows; other implementations of the same congestion controls replay the events. The test computes the
//! vectors and compares them with the files. With `ANABRANCH_GENERATE=1` in the environment, as in `make generate`,
//! the test writes the files.
//!
//! A congestion control that uses delivery-rate samples has no vector file: its state is a model of the path, and the
//! window and the threshold in a vector would show little of that model.

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{
    Ack, CongestionControl, Idle, Loss, LossKind, Options, PathSetup, PenaltyInSlowStart, Rules, SlowStart,
    Timeout, find,
};
use anabranch_multipath::rtt::{RtoBounds, RttEstimator};
use std::fmt::Write as _;
use std::path::PathBuf;

const MSS: u32 = 1_448;
/// Base round-trip times of the paths, ms.
const RTTS: [u64; 3] = [20, 50, 35];
/// Approximate number of events per file.
const EVENTS: usize = 240;

/// A connection that records each event, and the windows after the event, as lines of a vector file.
struct Recorder {
    control: Box<dyn CongestionControl>,
    now: Time,
    paths: Vec<PathId>,
    /// Random numbers for the bytes in flight.
    flights: Rng,
    text: String,
}

impl Recorder {
    /// Writes the line of an event: the name, the members that this kind of event has, and the resulting windows.
    fn line(&mut self, event: &str, members: &str) {
        let now = self.now.as_nanos();
        let _ = write!(self.text, "{{\"event\":\"{event}\",\"now_ns\":{now}{members},\"after\":[");
        for (i, &path) in self.paths.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let (id, cwnd) = (path.0, self.control.window(path));
            let ssthresh =
                optional((self.control.ssthresh(path) != u64::MAX).then(|| self.control.ssthresh(path)));
            let _ = write!(self.text, "{comma}{{\"path\":{id},\"cwnd\":{cwnd},\"ssthresh\":{ssthresh}}}");
        }
        self.text.push_str("]}\n");
    }

    fn add(&mut self, path: PathId) {
        let setup = PathSetup::new(Rules::Tcp, MSS);
        self.control.add_path(path, setup);
        self.paths.push(path);
        let members = format!(
            ",\"path\":{},\"mss\":{},\"initial_window\":{},\"initial_ssthresh\":null,\"ssthresh_floor\":{}",
            path.0,
            setup.mss,
            setup.initial_window,
            u64::from(setup.floor * MSS)
        );
        self.line("add_path", &members);
    }

    fn ack(&mut self, ack: &Ack) {
        self.control.on_ack(ack);
        let members = format!(
            ",\"path\":{},\"acked\":{},\"rtt_ns\":{},\"srtt_ns\":{},\"cwnd_limited\":{}",
            ack.path.0,
            ack.acked,
            optional(ack.rtt.map(Duration::as_nanos)),
            optional(ack.srtt.map(Duration::as_nanos)),
            ack.cwnd_limited
        );
        self.line("ack", &members);
    }

    fn loss(&mut self, path: PathId, kind: LossKind) {
        let in_flight = self.in_flight(path);
        self.control.on_loss(&Loss { now: self.now, path, kind, in_flight });
        let kind = if kind == LossKind::Ecn { "ecn" } else { "fast_retransmit" };
        self.line("loss", &format!(",\"path\":{},\"kind\":\"{kind}\",\"in_flight\":{in_flight}", path.0));
    }

    fn timeout(&mut self, path: PathId, repeated: bool) {
        let in_flight = self.in_flight(path);
        self.control.on_timeout(&Timeout { now: self.now, path, repeated, in_flight });
        let members = format!(",\"path\":{},\"repeated\":{repeated},\"in_flight\":{in_flight}", path.0);
        self.line("timeout", &members);
    }

    /// Returns the bytes in flight at a loss: usually more than the window, because further packets may be sent after a
    /// loss; otherwise half of the window, as if the application did not fill the window.
    fn in_flight(&mut self, path: PathId) -> u64 {
        let window = self.control.window(path);
        if self.flights.chance(0.7) { window + 3 * u64::from(MSS) } else { window / 2 }
    }

    fn usable(&mut self, path: PathId, usable: bool) {
        self.control.set_usable(path, usable);
        self.line("set_usable", &format!(",\"path\":{},\"usable\":{usable}", path.0));
    }

    /// Records an event whose only member is a path.
    fn simple(&mut self, event: &str, path: PathId) {
        match event {
            "recovered" => self.control.on_recovered(self.now, path),
            "idle" => self.control.on_idle(&Idle { now: self.now, path, timeouts: 1 }),
            "penalise" => self.control.penalise(self.now, path, PenaltyInSlowStart::Unbounded),
            "remove_path" => {
                self.control.remove_path(path);
                self.paths.retain(|&other| other != path);
            }
            _ => unreachable!("{event} has additional members"),
        }
        self.line(event, &format!(",\"path\":{}", path.0));
    }
}

fn optional(value: Option<u64>) -> String {
    value.map_or("null".into(), |value| value.to_string())
}

fn estimator() -> RttEstimator {
    let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
    RttEstimator::new(RtoBounds { initial: second, min: Duration::from_millis(200), max: minute })
}

/// Returns the text of one algorithm's vector file: a sequence with every event that a transport reports.
fn record(name: &str, slow_start: SlowStart) -> String {
    let entry = find(name).expect("a name of the table");
    let start = if slow_start == SlowStart::Coupled { "coupled" } else { "rfc" };
    let text = format!("{{\"format\":2,\"algorithm\":\"{name}\",\"slow_start\":\"{start}\"}}\n");
    let control = (entry.build)(&Options { slow_start, ..Options::default() });
    let mut rng = Rng::new(1).fork("vectors");
    let flights = rng.fork("flights");
    let mut r = Recorder { control, now: Time::ZERO, paths: Vec::new(), flights, text };
    let mut rtts = [estimator(), estimator(), estimator()];
    let mut recovering = [0_u32; 3];
    r.add(PathId(0));
    r.add(PathId(1));
    for n in 0..EVENTS {
        r.now += Duration::from_micros(rng.between(500, 4_000));
        let i = rng.below(r.paths.len() as u64) as usize;
        let path = r.paths[i];
        match n {
            60 => r.add(PathId(2)),
            100 => r.usable(PathId(1), false),
            120 => r.usable(PathId(1), true),
            140 => r.simple("penalise", PathId(0)),
            160 => r.timeout(PathId(2), false),
            161 => r.timeout(PathId(2), true),
            180 => r.simple("idle", PathId(1)),
            200 => r.loss(PathId(0), LossKind::Ecn),
            210 => r.simple("remove_path", PathId(1)),
            _ => {}
        }
        if !r.paths.contains(&path) {
            continue;
        }
        let left = &mut recovering[path.index()];
        if n > 30 && *left == 0 && rng.chance(0.03) {
            *left = 4;
            r.loss(path, LossKind::FastRetransmit);
            continue;
        }
        if *left > 0 {
            *left -= 1;
            if *left == 0 {
                r.simple("recovered", path);
            }
        }
        // Acknowledgements are delayed, and some of them cover many packets. Most of them have a sample of the RTT.
        let packets = if rng.chance(0.1) { rng.between(3, 20) } else { rng.between(1, 2) };
        let sample = Duration::from_micros(RTTS[path.index()] * 1_000 + rng.below(8_000));
        let rtt = rng.chance(0.9).then_some(sample);
        if let Some(sample) = rtt {
            rtts[path.index()].sample(sample);
        }
        let acked = packets * u64::from(MSS) - rng.below(2) * 300;
        let ack = Ack {
            rtt,
            srtt: rtts[path.index()].srtt(),
            cwnd_limited: rng.chance(0.95),
            ..Ack::new(r.now, path, acked)
        };
        r.ack(&ack);
    }
    r.text
}

#[test]
fn generated_vectors_match_the_controls() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/congestion");
    let update = std::env::var_os("ANABRANCH_GENERATE").is_some();
    let plain = (anabranch_multipath::congestion::ALGORITHMS.iter())
        .filter(|entry| !(entry.build)(&Options::default()).wants_rate_samples())
        .map(|entry| (entry.name, SlowStart::Rfc));
    for (name, slow_start) in plain.chain([("lia", SlowStart::Coupled)]) {
        let suffix = if slow_start == SlowStart::Coupled { "-coupled-start" } else { "" };
        let file = folder.join(format!("{name}{suffix}.jsonl"));
        let text = record(name, slow_start);
        if update {
            std::fs::write(&file, &text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        let differs = kept.lines().zip(text.lines()).position(|(a, b)| a != b);
        let same = differs.is_none() && kept.lines().count() == text.lines().count();
        let (file, line) = (file.display(), differs.map_or(0, |line| line + 1));
        assert!(
            same,
            "{file} (line {line}) differs from the events of the congestion control; run `make generate` if the change is intended"
        );
    }
}
