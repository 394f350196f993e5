use super::*;
use crate::frame::testing::TestFrame;
use crate::loss::bernoulli::Bernoulli;
use crate::queue::{QueueLimit, fifo, red};
use crate::{Reorder, Series, loss, queue};
use anabranch_base::rng::Rng;
use proptest::prelude::{Just, prop, prop_assert_eq, prop_oneof, proptest};
use std::sync::Arc;

fn model() -> LinkModel {
    let model = LinkModel::new(Rate::from_bits_per_second(12_000_000), Duration::from_millis(5));
    LinkModel { queue: fifo(3), ..model }
}

fn link(model: &LinkModel) -> Link<TestFrame> {
    Link::new(model, &Rng::new(1))
}

fn frame(id: u32, len: u32) -> TestFrame {
    TestFrame::new(id, len)
}

fn fifo(packets: u64) -> queue::Settings {
    queue::Settings::Fifo(fifo::Settings { limit: QueueLimit::Packets(packets) })
}

fn us(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

/// Runs the link until it is empty; returns arrivals and their times.
fn drain(link: &mut Link<TestFrame>) -> Vec<(Time, u32)> {
    let mut arrived = Vec::new();
    while let Some(now) = link.next_event() {
        if let Some(frame) = link.take(now) {
            arrived.push((now, frame.id));
        }
    }
    arrived
}

#[test]
fn arrivals_equal_times_computed_by_hand() {
    // 1500 bytes take 1 ms at 12 Mbit/s.
    let mut link = link(&model());
    for id in 0..6 {
        link.offer(us(0), frame(id, 1500));
    }
    // One frame is in transmission and three are in the queue; two were dropped.
    assert_eq!(drain(&mut link), [(us(6000), 0), (us(7000), 1), (us(8000), 2), (us(9000), 3)]);
    let dropped = link.take_dropped().unwrap();
    assert_eq!(
        dropped.iter().map(|d| (d.frame.id, d.cause)).collect::<Vec<_>>(),
        [(4, DropCause::Queue), (5, DropCause::Queue)]
    );
    let totals = link.totals(us(10_000));
    assert_eq!((totals.packets, totals.bytes, totals.busy), (4, 6000, Duration::from_millis(4)));
    // Three frames waited for 1 ms, then two for 1 ms, then one for 1 ms.
    assert_eq!(totals.occupancy.packet_nanos, 6_000_000);
    assert_eq!(totals.occupancy.max_packets, 3);
}

#[test]
fn departure_precedes_arrival_of_the_same_time() {
    let mut link = link(&model());
    for id in 0..4 {
        link.offer(us(0), frame(id, 1500));
    }
    link.offer(us(1000), frame(4, 1500));
    assert!(link.take_dropped().is_none());
    assert_eq!(drain(&mut link).last(), Some(&(us(10_000), 4)));
}

#[test]
fn framing_counts_for_rate_and_not_for_mtu() {
    let mut link = link(&LinkModel { overhead: 300, ..model() });
    link.offer(us(0), frame(0, 1500));
    link.offer(us(0), frame(1, 1501));
    assert_eq!(drain(&mut link), [(us(6200), 0)]);
    assert_eq!(link.take_dropped().unwrap()[0].cause, DropCause::Mtu);
}

#[test]
fn busy_time_counts_only_elapsed_time() {
    let mut link = link(&model());
    link.offer(us(0), frame(0, 1500));
    link.offer(us(0), frame(1, 1500));
    assert_eq!(link.totals(us(1250)).busy, Duration::from_micros(1250));
    assert_eq!(link.totals(us(9000)).busy, Duration::from_micros(2000));
}

#[test]
fn down_link_drops_queue_and_flight() {
    let mut link = link(&model());
    for id in 0..3 {
        link.offer(us(0), frame(id, 1500));
    }
    link.change(us(2500), &Change::State { up: false });
    link.offer(us(2600), frame(3, 1500));
    assert_eq!(link.next_event(), None);
    let dropped = link.take_dropped().unwrap();
    assert_eq!(dropped.iter().map(|d| d.frame.id).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(dropped.iter().all(|d| d.cause == DropCause::Down));
    assert_eq!(link.totals(us(4000)).busy, Duration::from_micros(2500));
    link.change(us(5000), &Change::State { up: true });
    link.offer(us(5000), frame(4, 1500));
    assert_eq!(drain(&mut link), [(us(11_000), 4)]);
}

#[test]
fn new_rate_applies_to_the_next_frame() {
    let mut link = link(&model());
    for id in 0..3 {
        link.offer(us(0), frame(id, 1500));
    }
    link.change(us(500), &Change::Rate(Rate::from_bits_per_second(6_000_000)));
    assert_eq!(drain(&mut link), [(us(6000), 0), (us(8000), 1), (us(10_000), 2)]);
}

#[test]
fn zero_rate_stops_the_link() {
    let mut link = link(&model());
    link.offer(us(0), frame(0, 1500));
    link.offer(us(0), frame(1, 1500));
    link.change(us(100), &Change::Rate(Rate::from_bits_per_second(0)));
    assert_eq!(drain(&mut link), []);
    link.offer(us(7000), frame(2, 1500));
    assert_eq!(link.next_event(), None);
    assert_eq!(link.totals(us(7000)).busy, Duration::from_micros(100));
    // Nine tenths of the first frame are left, at half of the rate.
    link.change(us(8000), &Change::Rate(Rate::from_bits_per_second(6_000_000)));
    assert_eq!(link.totals(us(8800)).busy, Duration::from_micros(900));
    assert_eq!(drain(&mut link), [(us(14_800), 0), (us(16_800), 1), (us(18_800), 2)]);
}

#[test]
fn down_link_drops_the_suspended_frame() {
    let mut link = link(&model());
    link.offer(us(0), frame(0, 1500));
    link.change(us(100), &Change::Rate(Rate::from_bits_per_second(0)));
    link.change(us(200), &Change::State { up: false });
    assert_eq!(link.take_dropped().unwrap().iter().map(|drop| drop.frame.id).collect::<Vec<_>>(), [0]);
    link.change(us(300), &Change::State { up: true });
    link.offer(us(300), frame(1, 1500));
    link.change(us(400), &Change::Rate(Rate::from_bits_per_second(12_000_000)));
    assert_eq!(drain(&mut link), [(us(6400), 1)]);
}

#[test]
fn suspended_frame_is_lost_only_once() {
    let loss = loss::Settings::Bernoulli(Bernoulli { rate: 1.0 });
    let mut link = link(&LinkModel { loss, ..model() });
    link.offer(us(0), frame(0, 1500));
    link.change(us(100), &Change::Loss(loss::Settings::None(loss::none::None)));
    link.change(us(100), &Change::Rate(Rate::from_bits_per_second(0)));
    assert_eq!(link.take_dropped().unwrap().len(), 1);
    link.offer(us(200), frame(1, 1500));
    link.change(us(1000), &Change::Rate(Rate::from_bits_per_second(12_000_000)));
    // The lost frame still takes the rest of its transmission time.
    assert_eq!(drain(&mut link), [(us(7900), 1)]);
}

#[test]
fn recorded_rate_suspends_the_frame() {
    let ms = Duration::from_millis;
    // 12 Mbit/s, then nothing for 10 ms.
    let points = vec![(ms(0), 12e6), (ms(10), 0.0), (ms(20), 0.0)];
    let rate = LinkRate::Trace {
        file: "x.csv".into(),
        content: RateTrace::Rates(Series::new("x.csv", points)),
        offset: Duration::ZERO,
        offset_spread: Duration::ZERO,
    };
    let mut link = link(&LinkModel { rate, ..model() });
    link.offer(us(8500), frame(0, 1500));
    link.offer(us(8500), frame(1, 1500));
    assert_eq!(drain(&mut link), [(us(14_500), 0), (us(25_500), 1)]);
    let totals = link.totals(us(20_000));
    assert_eq!((totals.offered_bytes, totals.used_bytes), (Some(15_000), Some(2250)));
}

#[test]
fn delay_follows_its_recording() {
    let ms = Duration::from_millis;
    let points = vec![(ms(0), 5e6), (ms(10), 1e6), (ms(20), 9e6)];
    for (linear, expected) in [
        // Frames leave at 1, 9, 11 and 21 ms. A frame does not overtake others.
        (false, [6000, 14_000, 14_000, 26_000]),
        // 5 − 0.4, 5 − 3.6, 1 + 0.8 and, in the next round, 5 − 0.4 ms.
        (true, [5600, 10_400, 12_800, 25_600]),
    ] {
        let delay = LinkDelay::Trace { series: Series::new("d.csv", points.clone()), linear };
        let mut link = link(&LinkModel { delay, ..model() });
        let mut arrived = Vec::new();
        for (id, at) in [0, 8000, 10_000, 20_000].into_iter().enumerate() {
            while let Some(next) = link.next_event().filter(|&next| next <= us(at)) {
                arrived.extend(link.take(next).map(|_| next));
            }
            link.offer(us(at), frame(id as u32, 1500));
        }
        arrived.extend(drain(&mut link).into_iter().map(|(at, _)| at));
        assert_eq!(arrived, expected.map(us), "linear: {linear}");
    }
}

#[test]
fn duplicates_are_drawn_at_their_rate() {
    let drawn = |rate: f64| {
        let mut link = link(&LinkModel { duplicate: rate, ..model() });
        (0..100_000).filter(|_| link.duplicates_next()).count()
    };
    assert_eq!((drawn(0.0), drawn(1.0)), (0, 100_000));
    // The standard deviation is 126.
    assert!((19_600..20_400).contains(&drawn(0.2)), "{}", drawn(0.2));
}

#[test]
fn shorter_delay_keeps_the_order() {
    let mut link = link(&model());
    link.offer(us(0), frame(0, 1500));
    link.change(us(1000), &Change::Delay(Duration::ZERO));
    link.offer(us(1000), frame(1, 1500));
    link.offer(us(8000), frame(2, 1500));
    assert_eq!(drain(&mut link), [(us(6000), 0), (us(6000), 1), (us(9000), 2)]);
}

#[test]
fn jitter_is_bounded_and_keeps_the_order() {
    let model = LinkModel { jitter: Duration::from_millis(4), ..model() };
    let mut link = link(&model);
    let mut extra = Vec::new();
    let mut last = 0;
    for id in 0..2000 {
        let start = us(u64::from(id) * 20_000);
        link.offer(start, frame(id, 1500));
        for (at, id) in drain(&mut link) {
            assert!(id >= last);
            last = id;
            extra.push(at.since(start).as_nanos() - 6_000_000);
        }
    }
    let mean = extra.iter().sum::<u64>() as f64 / extra.len() as f64;
    assert!(extra.iter().all(|&nanos| nanos <= 4_000_000));
    assert!((mean - 2e6).abs() < 1e5, "{mean}");
}

/// Arrivals of `frames` frames offered at once, of which a fifth is held back for `delay`.
fn reordered(frames: u32, delay: Duration) -> Vec<(Time, u32)> {
    let mut link =
        link(&LinkModel { reorder: Some(Reorder { rate: 0.2, delay }), queue: fifo(10_000), ..model() });
    for id in 0..frames {
        link.offer(us(0), frame(id, 1500));
    }
    drain(&mut link)
}

#[test]
fn held_back_frame_is_overtaken() {
    let arrived = reordered(5000, Duration::from_micros(1500));
    assert!(arrived.windows(2).all(|w| w[0].0 <= w[1].0));
    let held = arrived.iter().filter(|&&(at, id)| at == us(u64::from(id) * 1000 + 7500)).count();
    assert!((900..1100).contains(&held), "{held}");
    let overtaken = arrived.windows(2).filter(|w| w[0].1 > w[1].1).count();
    assert!(overtaken > 600, "{overtaken}");
}

#[test]
fn held_back_frame_does_not_delay_others() {
    for (at, id) in reordered(500, Duration::from_millis(50)) {
        let on_time = us(u64::from(id) * 1000 + 6000);
        assert!(at == on_time || at == on_time + Duration::from_millis(50), "{id} at {at:?}");
    }
}

#[test]
fn lost_frame_takes_transmission_time() {
    let model = LinkModel { loss: loss::Settings::Bernoulli(Bernoulli { rate: 1.0 }), ..model() };
    let mut link = link(&model);
    link.offer(us(0), frame(0, 1500));
    link.offer(us(0), frame(1, 1500));
    // The second frame leaves at 2 ms, and could arrive 5 ms later.
    assert_eq!(link.next_event(), Some(us(6000)));
    assert_eq!(drain(&mut link), []);
    let dropped = link.take_dropped().unwrap();
    assert_eq!(
        dropped.iter().map(|d| (d.at, d.cause)).collect::<Vec<_>>(),
        [(us(0), DropCause::Loss), (us(1000), DropCause::Loss)]
    );
    assert_eq!(link.totals(us(2000)).busy, Duration::from_millis(2));
}

#[test]
fn trace_opportunities_serve_the_queue() {
    let rate = LinkRate::Trace {
        file: "t".into(),
        content: RateTrace::Opportunities(Arc::from([10, 20].as_slice())),
        offset: Duration::ZERO,
        offset_spread: Duration::ZERO,
    };
    let mut link = link(&LinkModel { rate, ..model() });
    for id in 0..3 {
        link.offer(us(0), frame(id, 1000));
    }
    // 1500 bytes at 10 ms: the first frame and 500 bytes of the second; at 20 ms its rest and the third.
    assert_eq!(drain(&mut link), [(us(15_000), 0), (us(25_000), 1), (us(25_000), 2)]);
    assert_eq!(link.totals(us(20_000)).offered_bytes, Some(3000));
}

#[test]
fn queue_marks_the_frame() {
    let queue = queue::Settings::Red(red::Settings {
        limit: QueueLimit::Packets(50),
        min: 1.0,
        max: 40.0,
        max_p: 1.0,
        weight: 0.5,
        gentle: false,
        ecn: true,
    });
    let mut link = link(&LinkModel { queue, ..model() });
    for id in 0..40 {
        link.offer(us(0), TestFrame { ecn: true, ..frame(id, 1500) });
    }
    let mut marked = 0;
    while let Some(now) = link.next_event() {
        marked += u64::from(link.take(now).is_some_and(|f| f.marked));
    }
    assert!(marked > 0);
    assert_eq!(link.totals(us(100_000)).marks, marked);
}

proptest! {
    /// For any frames and times, additional calls in between change nothing; no frame appears unoffered or
    /// twice, and each arrives or is dropped.
    #[test]
    fn observing_a_link_does_not_change_it(
        offers in prop::collection::vec((0_u64..3000, 40_u32..1600, 0_u8..8), 1..120),
        looks in prop::collection::vec(0_u64..200_000, 0..40),
        loss in prop_oneof![Just(0.0), Just(0.3)],
        jitter in prop_oneof![Just(0_u64), Just(3000)],
    ) {
        let model = LinkModel {
            loss: loss::Settings::Bernoulli(Bernoulli { rate: loss }),
            jitter: Duration::from_micros(jitter),
            reorder: (jitter > 0).then_some(Reorder { rate: 0.1, delay: Duration::from_millis(7) }),
            ..model()
        };
        // The moment of each offer.
        let times: Vec<u64> = offers.iter().scan(0, |at, offer| { *at += offer.0; Some(*at) }).collect();
        let run = |looks: &[u64]| {
            let mut link = link(&model);
            let mut log = Vec::new();
            let mut looks: Vec<u64> = looks.to_vec();
            looks.sort_unstable();
            let mut looks = looks.into_iter().peekable();
            for (id, &(_, len, change)) in offers.iter().enumerate() {
                let at = times[id];
                while let Some(next) = link.next_event().filter(|&t| t < us(at)) {
                    while let Some(look) = looks.next_if(|&l| us(l) <= next) {
                        link.totals(us(look));
                    }
                    if let Some(frame) = link.take(next) {
                        log.push((next, frame.id, None));
                    }
                }
                while let Some(look) = looks.next_if(|&l| l <= at) {
                    link.totals(us(look));
                }
                match change {
                    0 => link.change(us(at), &Change::State { up: false }),
                    1 => link.change(us(at), &Change::State { up: true }),
                    2 => link.change(us(at), &Change::Rate(Rate::from_bits_per_second(u64::from(len) * 10_000))),
                    3 => link.change(us(at), &Change::Rate(Rate::from_bits_per_second(0))),
                    _ => {}
                }
                link.offer(us(at), frame(id as u32, len));
            }
            let end = us(times.last().copied().unwrap_or_default());
            link.change(end, &Change::Rate(Rate::from_bits_per_second(10_000_000)));
            log.extend(drain(&mut link).into_iter().map(|(at, id)| (at, id, None)));
            let dropped = link.take_dropped().unwrap_or_default();
            log.extend(dropped.into_iter().map(|d| (d.at, d.frame.id, Some(d.cause))));
            (log, link.totals(us(10_000_000)))
        };
        let (log, totals) = run(&looks);
        prop_assert_eq!(&run(&[]), &(log.clone(), totals));
        let mut ids: Vec<u32> = log.iter().map(|entry| entry.1).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..offers.len() as u32).collect::<Vec<_>>());
    }
}

#[test]
fn jitter_mean_is_independent_of_frame_distance() {
    // A frame each millisecond, and jitter over forty of them.
    let model = LinkModel { jitter: Duration::from_millis(40), queue: fifo(10), ..model() };
    let mut link = link(&model);
    let count = 20_000;
    let mut arrived = Vec::new();
    for id in 0..count {
        let at = us(u64::from(id) * 1000);
        while let Some(next) = link.next_event().filter(|&next| next <= at) {
            arrived.extend(link.take(next).map(|frame| (next, frame.id)));
        }
        link.offer(at, frame(id, 1500));
    }
    arrived.extend(drain(&mut link));
    assert!(arrived.iter().map(|&(_, id)| id).eq(0..count), "in order");
    let extra = |&(at, id): &(Time, u32)| at.as_nanos() - (u64::from(id) * 1_000_000 + 6_000_000);
    assert!(arrived.iter().all(|frame| extra(frame) <= 40_000_000));
    let mean = arrived.iter().map(extra).sum::<u64>() as f64 / f64::from(count);
    assert!((mean / 20e6 - 1.0).abs() < 0.01, "{mean}");
}

#[test]
fn held_back_frames_are_not_sorted_by_jitter() {
    let reorder = Some(Reorder { rate: 0.2, delay: Duration::from_millis(90) });
    let model = LinkModel { jitter: Duration::from_millis(10), reorder, queue: fifo(10_000), ..model() };
    let mut link = link(&model);
    for id in 0..5000 {
        link.offer(us(0), frame(id, 1500));
    }
    let arrived = drain(&mut link);
    assert!(arrived.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    let extra = |&(at, id): &(Time, u32)| at.as_nanos() - (u64::from(id) * 1_000_000 + 6_000_000);
    let (held, others): (Vec<_>, Vec<_>) = arrived.iter().partition(|frame| extra(frame) >= 90_000_000);
    assert!((900..1100).contains(&held.len()), "{}", held.len());
    assert!(
        held.iter().all(|frame| extra(frame) < 90_000_100),
        "exactly the delay, or the next free time after it"
    );
    assert!(others.iter().all(|frame| extra(frame) <= 10_000_000));
    assert!(others.windows(2).all(|pair| pair[0].1 < pair[1].1), "in order");
}

#[test]
fn fast_link_carries_its_rate() {
    // Acknowledgements of 40 bytes at 100 Gbit/s take 3.2 ns each.
    let rate = LinkRate::Constant(Rate::from_bits_per_second(100_000_000_000));
    let mut link = link(&LinkModel { rate, queue: fifo(20_000), ..model() });
    for id in 0..10_000 {
        link.offer(us(0), frame(id, 40));
    }
    link.totals(us(32));
    assert_eq!(link.busy_until(), us(32));
    assert_eq!(link.totals(us(32)).packets, 10_000);
}

#[test]
fn trace_usage_does_not_exceed_its_offer() {
    let rate = LinkRate::Trace {
        file: String::new(),
        content: RateTrace::Opportunities(Arc::from([10].as_slice())),
        offset: Duration::ZERO,
        offset_spread: Duration::ZERO,
    };
    let mut link = link(&LinkModel { rate, mtu: 9000, queue: fifo(50), ..model() });
    for id in 0..50 {
        link.offer(us(0), frame(id, 4000));
    }
    for millis in 0..1500 {
        let totals = link.totals(us(millis * 1000));
        let (used, offered) = (totals.used_bytes.unwrap(), totals.offered_bytes.unwrap());
        // Saturated: every byte of every opportunity, until the queue is empty.
        assert_eq!(used, offered.min(50 * 4000), "at {millis} ms");
    }
}
