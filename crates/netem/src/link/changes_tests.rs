//! Changes of queues and jitter.

use super::*;
use crate::Reorder;
use crate::frame::testing::TestFrame;
use crate::queue::{QueueLimit, codel, fifo, fq_codel, red};
use proptest::prelude::{prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

/// A link of 12 Mbit/s (1500 bytes take 1 ms) with a delay of 5 ms and a queue of ten packets.
fn model() -> LinkModel {
    let model = LinkModel::new(Rate::from_bits_per_second(12_000_000), Duration::from_millis(5));
    LinkModel { queue: fifo(10), ..model }
}

fn fifo(packets: u64) -> queue::Settings {
    queue::Settings::Fifo(fifo::Settings { limit: QueueLimit::Packets(packets) })
}

fn law() -> codel::Law {
    codel::Law { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false }
}

fn codel(packets: u64) -> queue::Settings {
    queue::Settings::Codel(codel::Settings { limit: QueueLimit::Packets(packets), law: law() })
}

fn fair(packets: u64) -> queue::Settings {
    let limit = QueueLimit::Packets(packets);
    queue::Settings::FqCodel(fq_codel::Settings { limit, law: law(), flows: 16, quantum: 1514 })
}

fn red(weight: f64) -> queue::Settings {
    let limit = QueueLimit::Packets(10);
    queue::Settings::Red(red::Settings {
        limit,
        min: 3.0,
        max: 6.0,
        max_p: 1.0,
        weight,
        ecn: false,
        gentle: false,
    })
}

fn us(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

/// A link on which frames 0 to `last` were offered at the start: one is being transmitted, the others wait.
fn loaded(last: u32) -> Link<TestFrame> {
    let mut link = Link::new(&model(), &Rng::new(1));
    (0..=last).for_each(|id| link.offer(us(0), TestFrame { flow: id % 2, ..TestFrame::new(id, 1500) }));
    link
}

/// Takes all frames that arrive, with their times.
fn drain(link: &mut Link<TestFrame>) -> Vec<(Time, u32)> {
    let mut arrived = Vec::new();
    while let Some(now) = link.next_event() {
        arrived.extend(link.take(now).map(|frame| (now, frame.id)));
    }
    arrived
}

/// Takes all dropped frames, with times and causes.
fn dropped(link: &mut Link<TestFrame>) -> Vec<(Time, u32, DropCause)> {
    let dropped = link.take_dropped().unwrap_or_default();
    dropped.into_iter().map(|dropped| (dropped.at, dropped.frame.id, dropped.cause)).collect()
}

#[test]
fn lower_queue_limit_drops_from_the_tail() {
    let mut link = loaded(6);
    link.change(us(1500), &Change::Queue(fifo(3)));
    // Frame 1 is being transmitted; of 2 to 6, three stay.
    assert_eq!(dropped(&mut link), [(us(1500), 5, DropCause::Changed), (us(1500), 6, DropCause::Changed)]);
    let arrivals = [(us(6000), 0), (us(7000), 1), (us(8000), 2), (us(9000), 3), (us(10_000), 4)];
    assert_eq!(drain(&mut link), arrivals);
    // Six frames wait for 1 ms, five for 0.5 ms, then three for 0.5 ms, two and one for 1 ms each.
    let totals = link.totals(us(20_000));
    assert_eq!(totals.drops, [0, 0, 0, 0, 0, 2]);
    assert_eq!(totals.occupancy.packet_nanos, 6_000_000 + 2_500_000 + 1_500_000 + 2_000_000 + 1_000_000);
}

#[test]
fn new_queue_kind_keeps_the_order() {
    let order_through = |queue: queue::Settings| {
        let mut link = loaded(6);
        link.change(us(1500), &Change::Queue(queue.clone()));
        link.change(us(2500), &Change::Queue(fifo(10)));
        assert_eq!(dropped(&mut link), [], "{queue:?}");
        drain(&mut link).into_iter().map(|(_, id)| id).collect::<Vec<_>>()
    };
    for queue in [fifo(10), codel(10), red(0.002)] {
        assert_eq!(order_through(queue), [0, 1, 2, 3, 4, 5, 6]);
    }
    // A FIFO queue records no times of admission, so the fair queue keeps the order within each flow only.
    assert_eq!(order_through(fair(10)), [0, 1, 2, 4, 6, 3, 5]);
}

#[test]
fn fair_queue_serves_flows_in_turn() {
    let mut link = loaded(6);
    link.change(us(500), &Change::Queue(fair(10)));
    // Frames 1, 3 and 5 belong to one flow, 2, 4 and 6 to the other. A turn of 1514 bytes carries one frame.
    let order: Vec<_> = drain(&mut link).into_iter().map(|(_, id)| id).collect();
    assert_eq!(order, [0, 1, 3, 2, 4, 5, 6]);
}

#[test]
fn codel_counts_waiting_time_from_admission() {
    let mut link = Link::new(&LinkModel { queue: codel(400), ..model() }, &Rng::new(1));
    (0..300).for_each(|id| link.offer(us(0), TestFrame::new(id, 1500)));
    link.change(us(90_500), &Change::Queue(codel(300)));
    // The new CoDel state measures waits above the target at the next departure, at 91 ms, and drops an
    // interval later. The frames have waited since 0 s.
    while let Some(now) = link.next_event().filter(|&now| now < us(200_000)) {
        link.take(now);
    }
    assert_eq!(dropped(&mut link)[0].0, us(191_000));
}

#[test]
fn red_average_begins_with_the_present_length() {
    // Six frames wait, which is the upper threshold: the next one is dropped although the weight is small.
    let mut link = loaded(6);
    link.change(us(500), &Change::Queue(red(0.0)));
    link.offer(us(600), TestFrame::new(7, 1500));
    assert_eq!(dropped(&mut link), [(us(600), 7, DropCause::Aqm)]);
    // With two waiting frames no packet is dropped.
    let mut link = loaded(2);
    link.change(us(500), &Change::Queue(red(0.0)));
    (3..8).for_each(|id| link.offer(us(600), TestFrame::new(id, 1500)));
    assert_eq!(dropped(&mut link), []);
}

#[test]
fn higher_queue_limit_admits_more_frames() {
    let mut link = Link::new(&LinkModel { queue: fifo(1), ..model() }, &Rng::new(1));
    (0..3).for_each(|id| link.offer(us(0), TestFrame::new(id, 1500)));
    link.change(us(500), &Change::Queue(fifo(2)));
    (3..5).for_each(|id| link.offer(us(500), TestFrame::new(id, 1500)));
    assert_eq!(dropped(&mut link), [(us(0), 2, DropCause::Queue), (us(500), 4, DropCause::Queue)]);
}

#[test]
fn new_jitter_delays_later_frames() {
    let mut link = loaded(1);
    link.change(us(500), &Change::Jitter(Duration::from_millis(4)));
    (2..6).for_each(|id| link.offer(us(500), TestFrame::new(id, 1500)));
    let arrivals = drain(&mut link);
    assert_eq!(arrivals[0], (us(6000), 0), "the first frame left before the change");
    let delays: Vec<_> =
        arrivals[1..].iter().map(|&(at, id)| at.since(us(6000 + 1000 * u64::from(id)))).collect();
    assert!(delays.iter().all(|&delay| delay <= Duration::from_millis(4)), "{delays:?}");
    assert!(delays.iter().any(|&delay| delay > Duration::ZERO), "{delays:?}");
    assert_eq!(arrivals.iter().map(|&(_, id)| id).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn end_of_jitter_restores_the_delay() {
    let jitter = Duration::from_millis(4);
    let mut link = Link::new(&LinkModel { jitter, ..model() }, &Rng::new(1));
    link.offer(us(0), TestFrame::new(0, 1500));
    link.change(us(1000), &Change::Jitter(Duration::ZERO));
    link.offer(us(1000), TestFrame::new(1, 1500));
    link.offer(us(9000), TestFrame::new(2, 1500));
    let arrivals = drain(&mut link);
    let first = arrivals[0].0;
    assert!(first > us(6000) && first <= us(10_000), "{first:?}");
    // The second frame does not overtake the first one; the third has the delay of the link.
    assert_eq!(arrivals[1..], [(first.max(us(7000)), 1), (us(15_000), 2)]);
}

proptest! {
    /// For any changes, frames that are not held back keep their order, and none is lost or doubled.
    #[test]
    fn changes_lose_no_frame_and_keep_the_order(
        steps in prop::collection::vec((0_u64..1500, 0_u8..8), 1..150),
        reorder in prop_oneof![proptest::strategy::Just(0.0), proptest::strategy::Just(0.2)],
    ) {
        let held = (reorder > 0.0).then_some(Reorder { rate: reorder, delay: Duration::from_millis(7) });
        let mut link: Link<TestFrame> = Link::new(&LinkModel { reorder: held, ..model() }, &Rng::new(3));
        let (mut now, mut offered, mut arrived) = (0, 0_u32, Vec::<u32>::new());
        for (gap, step) in steps {
            now += gap;
            while let Some(next) = link.next_event().filter(|&next| next < us(now)) {
                arrived.extend(link.take(next).map(|frame: TestFrame| frame.id));
            }
            match step {
                0 => link.change(us(now), &Change::Jitter(Duration::from_millis(6))),
                1 => link.change(us(now), &Change::Jitter(Duration::ZERO)),
                2 => link.change(us(now), &Change::Queue(fifo(4))),
                3 => link.change(us(now), &Change::Queue(codel(6))),
                _ => {
                    link.offer(us(now), TestFrame::new(offered, 1500));
                    offered += 1;
                }
            }
        }
        arrived.extend(drain(&mut link).into_iter().map(|(_, id)| id));
        let lost: Vec<u32> = dropped(&mut link).into_iter().map(|(_, id, _)| id).collect();
        if reorder == 0.0 {
            prop_assert!(arrived.windows(2).all(|pair| pair[0] < pair[1]), "{arrived:?}");
        }
        let mut all = [arrived, lost].concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..offered).collect::<Vec<_>>());
    }
}

#[test]
fn reordering_can_be_switched_on_and_off() {
    let reorder = |rate| Change::Reorder(Some(Reorder { rate, delay: Duration::from_millis(3) }));
    let mut link = loaded(0);
    // Frame 1 is held back, and frames 2 and 3 overtake it: it arrives at 2 + 5 + 3 ms.
    link.change(us(1000), &reorder(1.0));
    link.offer(us(1000), TestFrame::new(1, 1500));
    link.change(us(2000), &Change::Reorder(None));
    (2..5).for_each(|id| link.offer(us(2000), TestFrame::new(id, 1500)));
    let arrivals = [(us(6000), 0), (us(8000), 2), (us(9000), 3), (us(10_000), 1), (us(10_000), 4)];
    assert_eq!(drain(&mut link), arrivals);
    assert!(!link.keeps_order());
}
