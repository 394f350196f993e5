//! Checks properties that every congestion control of the table must have under any sequence of events.

use crate::rig::{MSS, NONE, Rig, setup};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::conformance::{self, Event, PATHS, Report};
use anabranch_multipath::congestion::{
    ALGORITHMS, Ack, Algorithm, Choice, CongestionControl, Controller, Couple, Entry, Group, Idle, Loss,
    LossKind, Options, PathSetup, PenaltyInSlowStart, Rules, Signal, SlowStart, Timeout, all, find, register,
};
use anabranch_multipath::registry::Refused;
use anabranch_multipath::shared_bottleneck::RelativeDelay;
use proptest::prelude::*;

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0_u64..3_000, 4 => 3_000_u64..1_000_000, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn nanoseconds() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        8 => (1_000_000_u64..500_000_000).prop_map(Some),
        1 => Just(None),
        1 => Just(Some(0)),
        1 => any::<u64>().prop_map(Some),
    ]
}

fn report() -> impl Strategy<Value = Report> {
    let rate = prop_oneof![
        6 => (10_000_u64..1_000_000_000).prop_map(Some),
        1 => Just(None),
        1 => any::<u64>().prop_map(Some)
    ];
    let flags = (prop::bool::weighted(0.2), any::<bool>());
    (nanoseconds(), bytes(), bytes(), bytes(), rate, bytes(), bytes(), flags).prop_map(
        |(rtt, bytes, prior, total, rate, in_flight, lost, (app_limited, cwnd_limited))| Report {
            rtt,
            bytes,
            prior,
            total,
            rate,
            in_flight,
            lost,
            app_limited,
            cwnd_limited,
        },
    )
}

fn delay() -> impl Strategy<Value = RelativeDelay> {
    prop_oneof![
        6 => (0_u32..300).prop_map(RelativeDelay::OneWay),
        1 => any::<u32>().prop_map(RelativeDelay::OneWay),
        1 => any::<u64>().prop_map(|nanos| RelativeDelay::RoundTrip(Duration::from_nanos(nanos))),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let path = || 0..PATHS;
    let mss = || prop_oneof![6 => 500_u32..9_000, 1 => any::<u32>()];
    let rules = prop_oneof![Just(Rules::Tcp), Just(Rules::Sctp)];
    let setup = (mss(), bytes(), bytes(), rules, any::<bool>()).prop_map(
        |(mss, initial_window, initial_ssthresh, rules, whole_packets)| PathSetup {
            initial_window,
            initial_ssthresh,
            whole_packets,
            ..PathSetup::new(rules, mss)
        },
    );
    let kind = prop_oneof![Just(LossKind::FastRetransmit), Just(LossKind::Ecn)];
    prop_oneof![
        3 => (path(), setup).prop_map(|(p, s)| Event::Add(p, s)),
        1 => path().prop_map(Event::Remove),
        1 => (path(), any::<bool>()).prop_map(|(p, u)| Event::Usable(p, u)),
        1 => (path(), mss()).prop_map(|(p, m)| Event::Mss(p, m)),
        30 => (path(), bytes(), nanoseconds(), nanoseconds(), prop::bool::weighted(0.9)).prop_map(
            |(path, acked, rtt, srtt, limited)| Event::Ack { path, acked, rtt, srtt, limited }
        ),
        3 => (path(), kind, bytes()).prop_map(|(p, k, f)| Event::Loss(p, k, f)),
        3 => path().prop_map(Event::Recovered),
        2 => (path(), any::<bool>(), bytes()).prop_map(|(p, r, f)| Event::Timeout(p, r, f)),
        1 => (path(), any::<u32>()).prop_map(|(p, t)| Event::Idle(p, t)),
        1 => (path(), prop_oneof![Just(PenaltyInSlowStart::Unbounded), Just(PenaltyInSlowStart::Bounded)])
            .prop_map(|(p, slow_start)| Event::Penalise(p, slow_start)),
        2 => path().prop_map(Event::Spurious),
        4 => (path(), bytes(), bytes(), prop::bool::weighted(0.2)).prop_map(
            |(path, bytes, in_flight, app_limited)| Event::Sent { path, bytes, in_flight, app_limited }
        ),
        12 => (path(), report()).prop_map(|(p, r)| Event::Sample(p, r)),
        3 => (path(), report()).prop_map(|(p, r)| Event::Lost(p, r)),
        3 => (path(), 0_u16..4).prop_map(|(p, bottleneck)| Event::Bottleneck(p, bottleneck)),
        9 => (path(), delay(), bytes()).prop_map(|(p, delay, count)| Event::Delay(p, delay, count)),
        8 => prop_oneof![9 => 0_u64..200_000_000, 1 => any::<u64>()].prop_map(Event::Wait),
    ]
}

/// Applies the events to a congestion control, and checks all laws after each event.
fn check(entry: &'static Entry, options: Options, events: &[Event]) -> Result<(), TestCaseError> {
    let build = || Choice { entry, options }.build();
    let control = build();
    let model = entry.signal == Signal::Model;
    let looks = entry.name == "ledbat" || (entry.coupled && options.couple == Couple::Shared);
    prop_assert_eq!(
        (control.wants_rate_samples(), control.wants_delay_samples()),
        (model, looks),
        "{}",
        entry.name
    );
    prop_assert_eq!(control.name(), entry.name);
    let outcome = conformance::apply(&build, events);
    prop_assert!(outcome.is_ok(), "{}: {outcome:?}", entry.name);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn windows_stay_within_bounds(
        events in prop::collection::vec(event(), 0..150),
        coupled in any::<bool>(),
        shared in any::<bool>(),
    ) {
        let options = Options {
            slow_start: if coupled { SlowStart::Coupled } else { SlowStart::Rfc },
            couple: if shared { Couple::Shared } else { Couple::All },
        };
        for entry in ALGORITHMS {
            check(entry, options, &events)?;
        }
    }
}

#[test]
fn table_is_complete_and_unambiguous() {
    let all: Vec<_> = ALGORITHMS.iter().flat_map(|e| e.aliases.iter().chain([&e.name])).collect();
    for (i, name) in all.iter().enumerate() {
        assert!(!all[..i].contains(name), "{name} names two algorithms");
    }
    for entry in ALGORITHMS {
        assert_eq!((entry.build)(&Options::default()).name(), entry.name);
        assert!(!entry.summary.is_empty() && !entry.source.is_empty());
        for alias in entry.aliases {
            assert_eq!(find(alias).map(|found| found.name), Some(entry.name));
        }
    }
    assert!(find("Reno").is_none() && find("").is_none());
}

/// Returns the congestion controls that react only to losses.
fn loss_based() -> impl Iterator<Item = &'static Entry> {
    ALGORITHMS.iter().filter(|entry| entry.signal == Signal::Loss)
}

/// With one path, a coupled congestion control acts as Reno: the window grows by one packet per acknowledged window,
/// and a loss halves the window.
#[test]
fn coupled_controls_equal_reno_on_one_path() {
    for entry in loss_based().filter(|entry| entry.coupled) {
        let mut rig = Rig::new(entry.name).path(0, 10_000, NONE);
        let mut reno = Rig::new("reno").path(0, 10_000, NONE);
        for round in 0..200 {
            for _ in 0..rig.window(0) / MSS {
                rig.ack_with(0, MSS, Some(80));
            }
            for _ in 0..reno.window(0) / MSS {
                reno.ack_with(0, MSS, Some(80));
            }
            if round % 50 == 3 {
                for rig in [&mut rig, &mut reno] {
                    rig.lose(0);
                    rig.recover(0);
                }
            }
            // Some congestion controls add to the window with each acknowledgement, others once per window: the results
            // differ by less than a packet.
            let (ours, theirs) = (rig.window(0), reno.window(0));
            assert!(ours.abs_diff(theirs) <= MSS + theirs / 50, "{}: {ours} {theirs}", entry.name);
        }
    }
}

/// Slow start adds the acknowledged bytes to the window, per acknowledgement at most L packets (RFC 3465 §2.2), or one
/// packet after a timeout (§2.3). Slow start ends at the threshold.
#[test]
fn slow_start_counts_bytes_up_to_a_limit() {
    for name in ["reno", "cubic", "lia", "olia", "balia"] {
        for (limit, expected) in [(Some(1), 11), (Some(2), 12), (None, 18)] {
            let mut rig = Rig::new(name);
            let setup = PathSetup { abc_limit: limit, ..setup(Rules::Tcp, 10 * MSS, 20 * MSS) };
            rig.control.add_path(PathId(0), setup);
            rig.measure(0, 100);
            assert_eq!(rig.ack(0, 8 * MSS), expected * MSS, "{name}, at most {limit:?} packets");
            assert_eq!(
                rig.ack(0, 30 * MSS),
                (expected * MSS + u64::from(limit.unwrap_or(30)) * MSS).min(20 * MSS)
            );
            rig.time_out(0, false);
            assert_eq!(rig.ack(0, 8 * MSS), 2 * MSS, "{name}: after a timeout");
        }
    }
}

/// The windows of two coupled paths grow, but at most half as fast as without coupling.
#[test]
fn coupled_paths_grow_at_most_half_as_fast() {
    for entry in loss_based() {
        let grown = |others: u8| {
            let mut rig = Rig::new(entry.name).path(0, 50_000, MSS);
            for id in 1..=others {
                rig = rig.path(id, 50_000, MSS);
                rig.measure(id, 100);
            }
            rig.ack_with(0, 50_000, Some(100));
            rig.window(0) - 50_000
        };
        if entry.coupled {
            assert!(grown(1) <= grown(0) / 2 && grown(1) > 0, "{}: {} of {}", entry.name, grown(1), grown(0));
        } else {
            assert_eq!(grown(3), grown(0), "{}", entry.name);
        }
    }
}

/// A spurious loss has no lasting effect: after the undo, window, threshold and further growth are at least as large as
/// without the loss.
#[test]
fn spurious_loss_is_undone() {
    for entry in loss_based() {
        let grown = |rig: &mut Rig| {
            for _ in 0..60 {
                rig.wait(10);
                rig.ack_with(0, 2 * MSS, Some(100));
            }
            rig.window(0)
        };
        let mut rig = Rig::pair(entry.name, [40, 30], [100, 100]);
        rig.lose(0);
        rig.recover(0);
        rig.wait(100);
        grown(&mut rig); // after an earlier loss that was not spurious
        let before = (rig.window(0), rig.ssthresh(0));
        let cut = rig.lose(0);
        assert!(cut < before.0, "{}: {cut}", entry.name);
        rig.control.on_spurious(rig.now, PathId(0));
        rig.recover(0);
        let after = (rig.window(0), rig.ssthresh(0));
        assert!(after.0 >= before.0 && after.1 >= before.1, "{}: {before:?} to {after:?}", entry.name);
        // `twin` is a second connection that gets the same events, except for the spurious loss.
        let mut twin = Rig::pair(entry.name, [40, 30], [100, 100]);
        twin.lose(0);
        twin.recover(0);
        twin.wait(100);
        grown(&mut twin);
        assert!(grown(&mut rig) >= grown(&mut twin), "{}", entry.name);
        // A second undo has no effect, because there was only one reaction to undo.
        let now = rig.window(0);
        rig.control.on_spurious(rig.now, PathId(0));
        assert_eq!(rig.window(0), now, "{}", entry.name);
    }
}

#[test]
fn timeout_in_recovery_is_undone_with_the_loss() {
    for entry in loss_based() {
        let mut rig = Rig::pair(entry.name, [40, 30], [100, 100]);
        rig.lose(0);
        rig.time_out(0, false);
        rig.time_out(0, true);
        assert_eq!(rig.window(0), MSS, "{}", entry.name);
        rig.control.on_spurious(rig.now, PathId(0));
        assert!(rig.window(0) >= 40 * MSS, "{}", entry.name);
        let marked = rig.mark(0);
        rig.control.on_spurious(rig.now, PathId(0));
        assert_eq!(rig.window(0), marked, "{}", entry.name);
        rig.lose(0);
        rig.recover(0);
        let idle = rig.idle(0, 3);
        rig.control.on_spurious(rig.now, PathId(0));
        assert_eq!(rig.window(0), idle, "{}", entry.name);
    }
}

/// A change of the packet size changes neither the number of bytes in the window nor the plateau of CUBIC.
#[test]
fn packet_size_change_keeps_window_bytes() {
    for entry in ALGORITHMS {
        let mut rig = Rig::pair(entry.name, [40, 30], [100, 100]);
        rig.control.set_mss(PathId(0), 500);
        assert_eq!(rig.window(0), 40 * MSS, "{}", entry.name);
        rig.control.set_mss(PathId(0), 9_000);
        assert_eq!(rig.window(0), 40 * MSS, "{}", entry.name);
        rig.control.set_mss(PathId(0), 50_000);
        assert_eq!(rig.window(0), 50_000, "{}", entry.name);
    }
}

/// A congestion control that acts as Reno, except for one method that breaks a law.
#[derive(Debug)]
struct Lawless {
    control: Box<dyn CongestionControl>,
    law: &'static str,
}

#[rustfmt::skip] // One line per method.
impl CongestionControl for Lawless {
    fn name(&self) -> &'static str { "lawless" }
    fn add_path(&mut self, path: PathId, setup: PathSetup) { self.control.add_path(path, setup); }
    fn remove_path(&mut self, path: PathId) { if self.law != "remove" { self.control.remove_path(path); } }
    fn set_usable(&mut self, path: PathId, usable: bool) { self.control.set_usable(path, usable); }
    fn set_mss(&mut self, path: PathId, mss: u32) { if self.law != "mss" { self.control.set_mss(path, mss); } }
    fn on_ack(&mut self, ack: &Ack) {
        let cwnd_limited = ack.cwnd_limited || self.law == "limited";
        self.control.on_ack(&Ack { cwnd_limited, ..*ack });
    }
    fn on_loss(&mut self, loss: &Loss) {
        let path = if self.law == "other" { PathId((loss.path.0 + 1) % PATHS) } else { loss.path };
        self.control.on_loss(&Loss { path, ..*loss });
    }
    fn on_recovered(&mut self, now: Time, path: PathId) { self.control.on_recovered(now, path); }
    fn on_timeout(&mut self, timeout: &Timeout) { if self.law != "timeout" { self.control.on_timeout(timeout); } }
    fn on_idle(&mut self, idle: &Idle) {
        if self.law == "idle" {
            let (now, path) = (idle.now, idle.path);
            self.control.on_ack(&Ack::new(now, path, 2000));
        }
    }
    fn on_spurious(&mut self, now: Time, path: PathId) {
        if self.law == "spurious" {
            self.control.penalise(now, path, PenaltyInSlowStart::Bounded);
        }
    }
    fn penalise(&mut self, now: Time, path: PathId, slow_start: PenaltyInSlowStart) {
        self.control.penalise(now, path, slow_start);
    }
    fn window(&self, path: PathId) -> u64 { self.control.window(path) }
    fn ssthresh(&self, path: PathId) -> u64 {
        if self.law == "threshold" { 1 } else { self.control.ssthresh(path) }
    }
}

#[test]
fn check_finds_each_broken_law() {
    for (law, sentence) in [
        ("remove", "an unknown path must have window 0"),
        ("mss", "a window must have one packet"),
        ("limited", "a window must not grow if nothing is acknowledged, or it was not fully used"),
        ("other", "a window must not change without an event of its path"),
        ("timeout", "a timeout must set the window to one packet"),
        ("idle", "a window must not grow after an idle time"),
        ("spurious", "a window must not shrink when a reaction proves spurious"),
        ("threshold", "threshold"),
    ] {
        let control = || Choice::find("reno").expect("the name is in the table").build();
        let build = || -> Box<dyn CongestionControl> { Box::new(Lawless { control: control(), law }) };
        let violation = conformance::check(&build, 100).expect_err(law);
        assert!(violation.law.contains(sentence), "{law}: {violation}");
        assert!(violation.events.len() < 8, "{law}: {violation}");
    }
}

#[test]
fn random_sequences_contain_every_event() {
    let events: Vec<_> = (0..20).flat_map(|seed| conformance::sequence(&mut Rng::new(seed), 200)).collect();
    let mut kinds: Vec<_> = events.iter().map(core::mem::discriminant).collect();
    kinds.dedup();
    let all = kinds.iter().fold(Vec::new(), |mut all, kind| {
        if !all.contains(kind) {
            all.push(*kind);
        }
        all
    });
    assert_eq!(all.len(), 17);
}

#[derive(Debug)]
struct Gentle;

impl Algorithm for Gentle {
    const NAME: &'static str = "gentle";
    const PER_WINDOW: bool = true;
    type State = ();

    fn avoidance(&mut self, group: &mut Group<()>, at: usize, _: &Ack) -> f64 {
        group.path(at).mss as f64
    }

    fn threshold(&self, group: &Group<()>, at: usize) -> u64 {
        group.path(at).cwnd * 7 / 10
    }
}

const fn entry(name: &'static str, aliases: &'static [&'static str]) -> Entry {
    Entry {
        name,
        aliases,
        summary: "70 % of the window on loss",
        source: "this test",
        coupled: false,
        signal: Signal::Loss,
        build: &|_| Box::new(Controller::new(Gentle)),
    }
}

#[test]
fn registered_controls_are_found_and_listed() {
    assert!(find("gentle").is_none());
    register(entry("gentle", &["kind"])).expect("the name is free");
    let control = Choice::find("kind").expect("the control was registered");
    assert_eq!((control.entry.name, control.build().name()), ("gentle", "gentle"));
    assert_eq!(all().count(), ALGORITHMS.len() + 1);
    assert_eq!(all().last().map(|last| last.name), Some("gentle"));
    let taken = |name: &str| Some(Refused::Taken { kind: "congestion control", name: name.to_owned() });
    for (name, aliases, known) in [
        ("gentle", &[] as &[_], "gentle"),
        ("kind", &[], "kind"),
        ("new", &["gentle"], "gentle"),
        ("reno", &[], "reno"),
        ("new-reno", &[], "new-reno"),
    ] {
        assert_eq!(register(entry(name, aliases)).err(), taken(known));
    }
    for name in ["", "Gentle", "7up", "two words", "a\"b", "-a"] {
        let refused = register(entry(name, &[])).expect_err(name);
        assert_eq!(refused, Refused::NotAWord { kind: "congestion control", name: name.to_owned() });
    }
    assert!(
        taken("reno")
            .unwrap()
            .to_string()
            .starts_with("there is already a congestion control called \"reno\"")
    );
}
