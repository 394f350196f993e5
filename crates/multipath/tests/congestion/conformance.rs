//! Properties of every entry of the table under any sequence of events.

use crate::rig::{MSS, NONE, Rig};
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{
    ALGORITHMS, Ack, Choice, CongestionControl, Couple, Entry, Idle, Loss, LossKind, LostPacket, Options,
    PathSetup, PenaltyInSlowStart, RateSample, Rules, Sent, Signal, SlowStart, Timeout, find,
};
use anabranch_multipath::shared_bottleneck::{DelaySample, RelativeDelay};
use proptest::prelude::*;

/// Any event that a transport can report to a control, including events that do not occur in practice.
#[derive(Clone, Copy, Debug)]
enum Event {
    Add(u8, PathSetup),
    Remove(u8),
    Usable(u8, bool),
    Mss(u8, u32),
    Ack { path: u8, acked: u64, rtt: Option<u64>, srtt: Option<u64>, limited: bool },
    Loss(u8, LossKind, u64),
    Recovered(u8),
    Timeout(u8, bool, u64),
    Idle(u8, u32),
    Penalise(u8, PenaltyInSlowStart),
    Spurious(u8),
    Sent { path: u8, bytes: u64, in_flight: u64, app_limited: bool },
    Sample(u8, Report),
    Lost(u8, Report),
    Bottleneck(u8, u16),
    Delay(u8, RelativeDelay, u64),
    Wait(u64),
}

/// The numbers of a sample or a lost packet.
#[derive(Clone, Copy, Debug)]
struct Report {
    rtt: Option<u64>,
    bytes: u64,
    prior: u64,
    total: u64,
    rate: Option<u64>,
    in_flight: u64,
    lost: u64,
    flags: (bool, bool),
}

const PATHS: u8 = 4;

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
        |(rtt, bytes, prior, total, rate, in_flight, lost, flags)| Report {
            rtt,
            bytes,
            prior,
            total,
            rate,
            in_flight,
            lost,
            flags,
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
            mss,
            initial_window,
            initial_ssthresh,
            rules,
            floor: rules.floor(),
            abc_limit: Some(1),
            whole_packets,
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

fn apply(control: &mut dyn CongestionControl, now: &mut Time, event: Event) {
    match event {
        Event::Add(p, setup) => control.add_path(PathId(p), setup),
        Event::Remove(p) => control.remove_path(PathId(p)),
        Event::Usable(p, usable) => control.set_usable(PathId(p), usable),
        Event::Mss(p, mss) => control.set_mss(PathId(p), mss),
        Event::Ack { path, acked, rtt, srtt, limited } => control.on_ack(&Ack {
            now: *now,
            path: PathId(path),
            acked,
            rtt: rtt.map(Duration::from_nanos),
            srtt: srtt.map(Duration::from_nanos),
            cwnd_limited: limited,
        }),
        Event::Loss(p, kind, in_flight) => {
            control.on_loss(&Loss { now: *now, path: PathId(p), kind, in_flight });
        }
        Event::Recovered(p) => control.on_recovered(*now, PathId(p)),
        Event::Timeout(p, repeated, in_flight) => {
            control.on_timeout(&Timeout { now: *now, path: PathId(p), repeated, in_flight });
        }
        Event::Idle(p, timeouts) => control.on_idle(&Idle { now: *now, path: PathId(p), timeouts }),
        Event::Penalise(p, slow_start) => control.penalise(*now, PathId(p), slow_start),
        Event::Spurious(p) => control.on_spurious(*now, PathId(p)),
        Event::Sent { path, bytes, in_flight, app_limited } => {
            control.on_sent(&Sent { now: *now, path: PathId(path), bytes, in_flight, app_limited });
        }
        Event::Sample(p, r) => control.on_sample(&RateSample {
            now: *now,
            path: PathId(p),
            rtt: r.rtt.map(Duration::from_nanos),
            delivered: r.bytes,
            prior_delivered: r.prior,
            total_delivered: r.total,
            send_elapsed: Duration::from_millis(10),
            ack_elapsed: Duration::from_millis(20),
            rate: r.rate.map(Rate::from_bits_per_second),
            app_limited: r.flags.0,
            newly_acked: r.bytes,
            newly_lost: r.lost,
            lost: r.lost,
            tx_in_flight: r.in_flight,
            in_flight: r.in_flight,
            cwnd_limited: r.flags.1,
        }),
        Event::Lost(p, r) => control.on_lost(&LostPacket {
            now: *now,
            path: PathId(p),
            bytes: r.bytes,
            tx_in_flight: r.in_flight,
            lost: r.lost,
            total_delivered: r.total,
            app_limited: r.flags.0,
        }),
        Event::Bottleneck(p, bottleneck) => control.set_bottleneck(PathId(p), bottleneck),
        Event::Delay(p, delay, count) => {
            let (sent, lost) = (count, count / 7);
            control.on_delay(&DelaySample { now: *now, path: PathId(p), delay, sent, lost });
        }
        Event::Wait(nanos) => *now += Duration::from_nanos(nanos),
    }
}

/// State of a path in the test, which determines how its window may change.
#[derive(Clone, Copy, Default)]
struct Known {
    present: bool,
    mss: u64,
    usable: bool,
    recovering: bool,
}

impl Known {
    fn apply_event(known: &mut [Self; PATHS as usize], event: Event) {
        match event {
            Event::Add(p, setup) => {
                let mss = u64::from(setup.mss.max(1));
                known[usize::from(p)] = Self { present: true, mss, usable: true, recovering: false };
            }
            Event::Remove(p) => known[usize::from(p)].present = false,
            Event::Usable(p, usable) => known[usize::from(p)].usable = usable,
            Event::Mss(p, mss) => known[usize::from(p)].mss = u64::from(mss.max(1)),
            Event::Loss(p, LossKind::FastRetransmit, _) => known[usize::from(p)].recovering = true,
            Event::Recovered(p) | Event::Timeout(p, ..) => known[usize::from(p)].recovering = false,
            _ => {}
        }
    }
}

fn windows(control: &dyn CongestionControl) -> [u64; PATHS as usize] {
    core::array::from_fn(|p| control.window(PathId(p as u8)))
}

/// Applies the events and checks the windows after each.
fn check(entry: &'static Entry, options: Options, events: &[Event]) -> Result<(), TestCaseError> {
    let mut control = Choice { entry, options }.build();
    let mut now = Time::ZERO;
    let mut known = [Known::default(); PATHS as usize];
    let model = control.wants_rate_samples();
    prop_assert_eq!(model, entry.signal == Signal::Model, "{}", entry.name);
    let looks = entry.name == "ledbat" || (entry.coupled && options.couple == Couple::Shared);
    prop_assert_eq!((control.wants_delay_samples(), control.name()), (looks, entry.name));
    for (step, &event) in events.iter().enumerate() {
        let (before, was) = (windows(&*control), known);
        apply(&mut *control, &mut now, event);
        Known::apply_event(&mut known, event);
        let after = windows(&*control);
        for p in 0..PATHS as usize {
            let context =
                format!("{} step {step} {event:?}: path {p} {} to {}", entry.name, before[p], after[p]);
            if !known[p].present {
                prop_assert!(after[p] == 0 && control.ssthresh(PathId(p as u8)) == NONE, "{context}");
                continue;
            }
            prop_assert!(after[p] >= known[p].mss && after[p] <= 1 << 48, "{context}");
            prop_assert!(control.ssthresh(PathId(p as u8)) >= known[p].mss, "{context}");
            let rate = control.pacing_rate(PathId(p as u8));
            prop_assert!(rate.is_none_or(|rate| rate.bits_per_second() > 0), "{context}: {rate:?}");
            let may_grow = was[p].usable && !was[p].recovering;
            match event {
                Event::Ack { path, acked, limited, .. } if usize::from(path) == p => {
                    let moves = limited && acked > 0 && may_grow;
                    prop_assert!(moves || after[p] <= before[p], "{context}");
                }
                Event::Timeout(path, ..) if usize::from(path) == p => {
                    prop_assert!(after[p] == known[p].mss, "{context}");
                }
                Event::Idle(path, _) | Event::Penalise(path, _) if usize::from(path) == p => {
                    prop_assert!(after[p] <= before[p], "{context}");
                }
                Event::Spurious(path) if usize::from(path) == p => {
                    prop_assert!(after[p] >= before[p], "{context}");
                }
                Event::Sample(path, _) if usize::from(path) == p && model => {
                    prop_assert!(was[p].usable || after[p] <= before[p], "{context}");
                }
                Event::Sent { path, .. } | Event::Lost(path, _) if usize::from(path) == p && model => {}
                Event::Add(path, _) | Event::Mss(path, _) | Event::Loss(path, ..)
                    if usize::from(path) == p => {}
                _ => prop_assert!(
                    after[p] == before[p],
                    "the window changed without an event of this path: {context}"
                ),
            }
        }
    }
    // A second control that gets the same events has the same windows.
    let mut again = Choice { entry, options }.build();
    let mut then = Time::ZERO;
    for &event in events {
        apply(&mut *again, &mut then, event);
    }
    prop_assert_eq!(windows(&*control), windows(&*again));
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

/// The controls that react only to losses.
fn loss_based() -> impl Iterator<Item = &'static Entry> {
    ALGORITHMS.iter().filter(|entry| entry.signal == Signal::Loss)
}

/// With one path a coupled control is Reno: the window grows by a packet per window, and a loss halves it.
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
            // Counting by acknowledgement and by window differ by a part of a packet.
            let (ours, theirs) = (rig.window(0), reno.window(0));
            assert!(ours.abs_diff(theirs) <= MSS + theirs / 50, "{}: {ours} {theirs}", entry.name);
        }
    }
}

/// Slow start opens the window by the acknowledged bytes, up to L packets (RFC 3465 §2.2), by one packet
/// after a timeout (§2.3), and stops at the threshold.
#[test]
fn slow_start_counts_bytes_up_to_a_limit() {
    for name in ["reno", "cubic", "lia", "olia", "balia"] {
        for (limit, expected) in [(Some(1), 11), (Some(2), 12), (None, 18)] {
            let mut rig = Rig::new(name);
            let setup = PathSetup {
                mss: MSS as u32,
                initial_window: 10 * MSS,
                initial_ssthresh: 20 * MSS,
                rules: Rules::Tcp,
                floor: Rules::Tcp.floor(),
                abc_limit: limit,
                whole_packets: false,
            };
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

/// Coupled paths grow at most half as fast as two uncoupled ones, but they do grow.
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

/// A spurious reaction has no lasting effect: window, threshold and further growth are at least as without it.
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
        grown(&mut rig); // an earlier, true loss
        let before = (rig.window(0), rig.ssthresh(0));
        let cut = rig.lose(0);
        assert!(cut < before.0, "{}: {cut}", entry.name);
        rig.control.on_spurious(rig.now, PathId(0));
        rig.recover(0);
        let after = (rig.window(0), rig.ssthresh(0));
        assert!(after.0 >= before.0 && after.1 >= before.1, "{}: {before:?} to {after:?}", entry.name);
        // `twin` is a second connection that gets the same events except for the spurious loss.
        let mut twin = Rig::pair(entry.name, [40, 30], [100, 100]);
        twin.lose(0);
        twin.recover(0);
        twin.wait(100);
        grown(&mut twin);
        assert!(grown(&mut rig) >= grown(&mut twin), "{}", entry.name);
        // A second undo has no effect: only one reaction was recorded.
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

/// A change of the packet size keeps the window's number of bytes, and CUBIC's plateau too.
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
