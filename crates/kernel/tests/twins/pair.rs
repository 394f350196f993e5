//! A congestion control in Rust with its events and results, and the comparison with its counterpart in C.

use crate::program;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{
    Ack, CongestionControl, Loss, LossKind, Options, PathSetup, Rules, SlowStart, Timeout, find,
};
use std::fmt;
use std::path::Path;

pub const MSS: u64 = 1_448;
/// `NO_THRESHOLD` in path.h.
const NO_THRESHOLD: u32 = 0x7fff_ffff;
/// Length of `struct event` in twin.c.
const EVENT_BYTES: usize = 48;
/// Length of `struct answer` in twin.c.
const ANSWER_BYTES: usize = 8;

/// The kinds of events, numbered as in twin.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Add,
    Remove,
    Usable,
    Ack,
    Lost,
    Ecn,
    Recovered,
    TimedOut,
    TimedOutAgain,
    /// A loss at which the kernel skips the BPF program and uses an uninitialised value as the threshold.
    LostSkipped,
    /// A timeout at which the kernel skips the BPF program and uses an uninitialised value as the threshold.
    TimedOutSkipped,
}

/// An event that both the Rust and the C code process.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub kind: Kind,
    pub path: u8,
    /// Number of acknowledged packets, of packets in flight, or of packets in the initial window; or 1 if a path
    /// becomes usable, 0 if unusable.
    pub number: u32,
    /// Smoothed round-trip time, µs.
    pub srtt: u64,
    /// Sample of the round-trip time, µs; 0 if the event has none.
    pub rtt: u64,
    pub limited: bool,
    /// Time of the event, µs.
    pub now: u64,
}

/// Differences between the windows of the Rust and the C code.
#[derive(Debug, Default)]
pub struct Comparison {
    pub events: u64,
    /// Number of windows and thresholds that differ.
    pub apart: u64,
    /// Number of windows and thresholds that differ by more than a packet and 1 %.
    pub far: u64,
    /// The largest difference, packets.
    pub packets: u32,
    /// The largest difference in proportion to the window, among differences of more than a packet.
    pub share: f64,
}

impl Comparison {
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.apart += other.apart;
        self.far += other.far;
        self.packets = self.packets.max(other.packets);
        self.share = self.share.max(other.share);
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, apart, far, packets, share } = self;
        write!(
            f,
            "{events} events, {apart} apart, {far} far, by {packets} packets or {:.2} % at most",
            share * 100.0
        )
    }
}

/// A congestion control in Rust, with its events and results.
pub struct Pair {
    control: Box<dyn CongestionControl>,
    slow_start: SlowStart,
    input: Vec<u8>,
    expected: Vec<(Event, u32, u32)>,
    /// True for each usable path.
    usable: [bool; 8],
}

impl Pair {
    pub fn new(name: &str, slow_start: SlowStart) -> Self {
        let control =
            (find(name).expect("a name of the table").build)(&Options { slow_start, ..Options::default() });
        Self { control, slow_start, input: Vec::new(), expected: Vec::new(), usable: [false; 8] }
    }

    /// Returns window and threshold, packets.
    pub fn window(&self, path: u8) -> (u32, u32) {
        let packets =
            |bytes: u64| u32::try_from(bytes / MSS).map_or(NO_THRESHOLD, |packets| packets.min(NO_THRESHOLD));
        (packets(self.control.window(PathId(path))), packets(self.control.ssthresh(PathId(path))))
    }

    /// Applies an event to the Rust code, and records event and result for the C code.
    pub fn apply(&mut self, event: Event) {
        let path = PathId(event.path);
        let (now, in_flight) = (Time::ZERO + Duration::from_micros(event.now), u64::from(event.number) * MSS);
        match event.kind {
            Kind::Add => self.control.add_path(path, setup(event.number)),
            Kind::Remove => self.control.remove_path(path),
            Kind::Usable => self.control.set_usable(path, event.number != 0),
            Kind::Ack => self.control.on_ack(&Ack {
                now,
                path,
                acked: in_flight,
                rtt: (event.rtt > 0).then(|| Duration::from_micros(event.rtt)),
                srtt: Some(Duration::from_micros(event.srtt)),
                cwnd_limited: event.limited,
            }),
            Kind::Lost | Kind::LostSkipped => {
                self.control.on_loss(&Loss { now, path, kind: LossKind::FastRetransmit, in_flight });
            }
            Kind::Ecn => self.control.on_loss(&Loss { now, path, kind: LossKind::Ecn, in_flight }),
            Kind::Recovered => self.control.on_recovered(now, path),
            Kind::TimedOut | Kind::TimedOutSkipped => {
                self.control.on_timeout(&Timeout { now, path, repeated: false, in_flight });
            }
            Kind::TimedOutAgain => self.control.on_timeout(&Timeout { now, path, repeated: true, in_flight }),
        }
        match event.kind {
            Kind::Add => self.usable[usize::from(event.path)] = true,
            Kind::Remove => self.usable[usize::from(event.path)] = false,
            Kind::Usable => self.usable[usize::from(event.path)] = event.number != 0,
            _ => {}
        }
        // After a timeout, the Rust code opens the window by a packet per acknowledgement (RFC 3465) until it is
        // notified of the recovery.
        if matches!(event.kind, Kind::TimedOut | Kind::TimedOutSkipped | Kind::TimedOutAgain) {
            self.control.on_recovered(now, path);
        }
        let (cwnd, ssthresh) = self.window(event.path);
        self.record(event, cwnd, ssthresh);
    }

    /// Records an event, and the window and threshold that the Rust code computed.
    fn record(&mut self, event: Event, cwnd: u32, ssthresh: u32) {
        let eighths = u32::try_from(event.srtt * 8).expect("times of seconds");
        let sample = u32::try_from(event.rtt).expect("times of seconds");
        for word in
            [event.kind as u32, event.path.into(), event.number, eighths, sample, event.limited.into()]
        {
            self.input.extend(word.to_ne_bytes());
        }
        self.input.extend(event.now.to_ne_bytes());
        let coupled = u32::from(self.slow_start == SlowStart::Coupled);
        for word in [cwnd, ssthresh, self.floor(event.path), coupled] {
            self.input.extend(word.to_ne_bytes());
        }
        self.expected.push((event, cwnd, ssthresh));
        assert_eq!(self.input.len(), self.expected.len() * EVENT_BYTES);
    }

    /// Returns the minimum threshold for the C code: two packets, because windows are whole packets. CMT/RPv1 in Rust
    /// sets four packets on its only path, where the C code acts as reno.
    fn floor(&self, own: u8) -> u32 {
        let others = self.usable.iter().enumerate().any(|(i, &usable)| usable && i != usize::from(own));
        if self.control.name() == "cmt-rpv1" && !others { 4 } else { 2 }
    }

    /// Compares the results of the Rust code with those of the C code.
    ///
    /// # Panics
    ///
    /// If a result differs by more than a packet and 1 %. The decisions of wVegas are exempt.
    pub fn compare(self, program: &Path, what: &str) -> Comparison {
        let answers = program::answers(program, self.input);
        assert_eq!(answers.len(), self.expected.len() * ANSWER_BYTES);
        let mut all = Comparison::default();
        // wVegas increases the window, decreases it or drains the queue once per round. If the compared values differ
        // only by rounding, the decisions of C and Rust may differ. The caller checks that this is rare.
        let decides = self.control.name() == "wvegas";
        for (i, (&(event, cwnd, ssthresh), answer)) in
            self.expected.iter().zip(answers.chunks_exact(ANSWER_BYTES)).enumerate()
        {
            if event.kind == Kind::Remove {
                continue;
            }
            let word = |at: usize| u32::from_ne_bytes(answer[at..at + 4].try_into().expect("four bytes"));
            for (ours, theirs) in [(cwnd, word(0)), (ssthresh, word(4))] {
                let apart = ours.abs_diff(theirs);
                let share = f64::from(apart) / f64::from(ours.max(1));
                assert!(
                    decides || apart <= 1 || share <= 0.01,
                    "{what}, event {i}, {event:?}: ({cwnd}, {ssthresh}) in Rust and ({}, {}) in C",
                    word(0),
                    word(4)
                );
                all.far += u64::from(apart > 1 && share > 0.01);
                all.packets = all.packets.max(apart);
                if apart > 1 {
                    all.share = all.share.max(share);
                }
                all.apart += u64::from(apart > 0);
            }
            all.events += 1;
        }
        all
    }
}

fn setup(packets: u32) -> PathSetup {
    PathSetup {
        initial_window: u64::from(packets) * MSS,
        abc_limit: None,
        whole_packets: true,
        ..PathSetup::new(Rules::Tcp, u32::try_from(MSS).expect("small"))
    }
}
