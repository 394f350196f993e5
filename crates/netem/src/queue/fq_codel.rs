//! FlowQueue-CoDel: T. Høiland-Jørgensen, P. McKenney, D. Täht, J. Gettys, E. Dumazet: The Flow Queue CoDel Packet Scheduler
//! and Active Queue Management Algorithm, RFC 8290.
//!
//! Flows are hashed to queues, each with a separate CoDel state. A deficit round robin over bytes (DRR++) serves
//! the queues. Queues that have just become active are served first: a flow that sends less than its share hardly
//! waits.

use super::codel::{Controlled, INTERVAL, Law, TARGET};
use super::{Arrival, Queue, QueueLimit};
use crate::keys::{Default, InvalidValues, Key, Keyed, Kind, Takes, Value, Values};
use crate::{DropCause, Drops, Frame};
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use std::collections::VecDeque;

/// Maximum number of packets dropped at once if the limit is exceeded (RFC 8290 §4.1).
const MAX_DROP_BATCH: u64 = 64;

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "fq-codel",
    summary: "a queue for each flow, served in turn, new ones first (`flows`, `quantum`), each with CoDel",
    source: "RFC 8290",
    keys: &[
        QueueLimit::key("\"10240 packets\""),
        TARGET,
        INTERVAL,
        Key {
            name: "ecn",
            takes: Takes::Flag,
            default: Default::Is("true"),
            doc: "Mark packets of ECN-capable flows instead of dropping them.",
        },
        Key {
            name: "flows",
            takes: Takes::Integer { min: 1, max: 65_536 },
            default: Default::Is("1024"),
            doc: "Number of queues to which flows are hashed, by addresses, protocol and ports.",
        },
        Key {
            name: "quantum",
            takes: Takes::Octets { min: 256, max: 65_535 },
            default: Default::Is("1514"),
            doc: "Bytes that a queue may send per turn.",
        },
    ],
};

/// Settings of a FlowQueue-CoDel queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Capacity of all queues together.
    pub limit: QueueLimit,
    /// The control law of each queue.
    pub law: Law,
    /// Number of queues.
    pub flows: u32,
    /// Bytes that a queue may send per turn.
    pub quantum: u32,
}

impl Keyed for Settings {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self {
            limit: values.limit("limit"),
            law: Law::read(values)?,
            flows: values.integer("flows") as u32,
            quantum: values.integer("quantum") as u32,
        })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        let mut values = vec![("limit", Value::Limit(self.limit))];
        values.extend(self.law.values());
        values.push(("flows", Value::Integer(self.flows.into())));
        values.push(("quantum", Value::Integer(self.quantum.into())));
        values
    }
}

/// The queue of the flows with one hash.
#[derive(Clone, Debug)]
struct Bucket<F> {
    frames: Controlled<F>,
    /// Bytes that the subqueue may still send in this turn.
    credits: i64,
    /// True if the subqueue is on one of the two lists.
    listed: bool,
}

/// Queues by flow, each with CoDel.
#[derive(Clone, Debug)]
pub struct FqCodel<F> {
    settings: Settings,
    mtu: u32,
    /// Perturbs the hash.
    salt: u32,
    /// The queues, by hash; unused queues are not allocated.
    buckets: Vec<Option<Box<Bucket<F>>>>,
    /// The queues to serve, by number: those that became active recently, and the others.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: u64,
    bytes: u64,
}

impl<F: Frame> FqCodel<F> {
    pub(super) fn new(settings: &Settings, mtu: u32, mut rng: Rng) -> Self {
        Self {
            settings: settings.clone(),
            mtu,
            salt: rng.next_u32(),
            buckets: (0..settings.flows.max(1)).map(|_| None).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// The queue that a flow is hashed to.
    fn bucket_of(&self, flow: u32) -> u32 {
        let mixed = u64::from(flow ^ self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The upper half is uniform over 32 bits; scaling it keeps it uniform over the queues.
        (((mixed >> 32) * self.buckets.len() as u64) >> 32) as u32
    }

    /// Drops half of the packets of the queue with the most bytes at its head, but at most [`MAX_DROP_BATCH`].
    fn drop_from_the_longest(&mut self, now: Time, drops: &mut Drops<F>) {
        let waiting =
            |number: &u32| self.buckets[*number as usize].as_ref().map_or(0, |bucket| bucket.frames.bytes());
        // If several flows have the longest backlog, the one with the lowest number.
        let active = self.new.iter().chain(&self.old).copied();
        let Some(longest) = active.max_by_key(|number| (waiting(number), core::cmp::Reverse(*number))) else {
            return;
        };
        let bucket = self.buckets[longest as usize].as_mut().expect("a listed queue is allocated");
        for _ in 0..bucket.frames.packets().div_ceil(2).min(MAX_DROP_BATCH) {
            if let Some((_, frame)) = bucket.frames.pop() {
                self.packets -= 1;
                self.bytes -= u64::from(frame.wire_len());
                drops.drop(now, frame, DropCause::Queue);
            }
        }
    }
}

impl<F: Frame> Queue<F> for FqCodel<F> {
    #[inline(never)]
    fn enqueue(&mut self, arrival: Arrival, frame: F, drops: &mut Drops<F>) {
        self.append(arrival.now, frame);
        if arrival.idle.is_none() && self.settings.limit.exceeded_by(self.packets, self.bytes) {
            self.drop_from_the_longest(arrival.now, drops);
        }
    }

    #[inline(never)]
    fn dequeue(&mut self, now: Time, drops: &mut Drops<F>) -> Option<F> {
        loop {
            let is_new = !self.new.is_empty();
            let number = *if is_new { self.new.front() } else { self.old.front() }?;
            let bucket = self.buckets[number as usize].as_mut().expect("a listed queue is allocated");
            if bucket.credits <= 0 {
                bucket.credits += i64::from(self.settings.quantum);
                if is_new {
                    self.new.pop_front()
                } else {
                    self.old.pop_front()
                };
                self.old.push_back(number);
                continue;
            }
            let before = (bucket.frames.packets(), bucket.frames.bytes());
            let frame = bucket.frames.dequeue(now, drops);
            self.packets -= before.0 - bucket.frames.packets();
            self.bytes -= before.1 - bucket.frames.bytes();
            if let Some(frame) = frame {
                bucket.credits -= i64::from(frame.wire_len());
                return Some(frame);
            }
            // An empty queue stays on the old list for another round before it can be new again. Otherwise a flow of
            // single packets would starve the old queues (RFC 8290 §4.2).
            if is_new {
                self.new.pop_front();
                self.old.push_back(number);
            } else {
                self.old.pop_front();
                bucket.listed = false;
            }
        }
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn needs_flow_hash(&self) -> bool {
        true
    }

    fn clear(&mut self, frames: &mut Vec<F>) {
        for number in self.new.drain(..).chain(self.old.drain(..)) {
            if let Some(bucket) = &mut self.buckets[number as usize] {
                bucket.listed = false;
                while let Some((_, frame)) = bucket.frames.pop() {
                    frames.push(frame);
                }
            }
        }
        (self.packets, self.bytes) = (0, 0);
    }

    fn take_all(&mut self, _: Time) -> Vec<(Time, F)> {
        let mut all = Vec::new();
        for number in self.new.drain(..).chain(self.old.drain(..)) {
            if let Some(bucket) = &mut self.buckets[number as usize] {
                bucket.listed = false;
                all.extend(core::iter::from_fn(|| bucket.frames.pop()));
            }
        }
        (self.packets, self.bytes) = (0, 0);
        // Stable: the frames of a flow keep their order.
        all.sort_by_key(|&(since, _)| since);
        all
    }

    fn append(&mut self, since: Time, frame: F) {
        let number = self.bucket_of(frame.flow());
        let (law, mtu, quantum) = (self.settings.law, self.mtu, self.settings.quantum);
        let fresh = || Box::new(Bucket { frames: Controlled::new(law, mtu), credits: 0, listed: false });
        let bucket = self.buckets[number as usize].get_or_insert_with(fresh);
        self.packets += 1;
        self.bytes += u64::from(frame.wire_len());
        bucket.frames.push(since, frame);
        if !bucket.listed {
            bucket.listed = true;
            bucket.credits = quantum.into();
            self.new.push_back(number);
        }
    }

    fn visit(&mut self, visit: &mut dyn FnMut(&mut F)) {
        for &number in self.new.iter().chain(&self.old) {
            if let Some(bucket) = &mut self.buckets[number as usize] {
                bucket.frames.visit(visit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::TestFrame;
    use anabranch_base::time::Duration;
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    fn queue(limit: u64) -> FqCodel<TestFrame> {
        let law = Law { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: true };
        let settings = Settings { limit: QueueLimit::Packets(limit), law, flows: 1024, quantum: 1514 };
        FqCodel::new(&settings, 1500, Rng::new(1))
    }

    fn ms(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn offer(
        queue: &mut FqCodel<TestFrame>,
        now: Time,
        (flow, len): (u32, u32),
        id: u32,
    ) -> Drops<TestFrame> {
        let mut drops = Drops::default();
        let frame = TestFrame { flow, ..TestFrame::new(id, len) };
        queue.enqueue(Arrival { now, idle: None }, frame, &mut drops);
        drops
    }

    /// The flows of the next packets.
    fn leaving_flows(queue: &mut FqCodel<TestFrame>, now: Time, packets: usize) -> Vec<u32> {
        let mut drops = Drops::default();
        let flows =
            (0..packets).filter_map(|_| queue.dequeue(now, &mut drops).map(|frame| frame.flow)).collect();
        assert!(drops.is_empty());
        flows
    }

    #[test]
    fn turns_equal_sequence_computed_by_hand() {
        let mut queue = queue(100);
        for id in 0..4 {
            offer(&mut queue, ms(0), (1, 1500), id);
            offer(&mut queue, ms(0), (2, 500), id);
        }
        // The first flow has 1514 credits. A packet of 1500 bytes leaves 14, and another one leaves −1486: two packets.
        // In the second flow, three packets of 500 bytes leave 14 credits, and a fourth leaves a negative number. Then
        // each turn adds a quantum: the first flow has 28 credits, sends one packet and has −1472. The second flow is
        // empty. The first flow then has 42 credits.
        assert_eq!(leaving_flows(&mut queue, ms(1), 8), [1, 1, 2, 2, 2, 2, 1, 1]);
        assert_eq!((queue.packets(), queue.bytes()), (0, 0));
    }

    #[test]
    fn new_flow_is_served_first() {
        let mut queue = queue(100);
        for id in 0..9 {
            offer(&mut queue, ms(0), (1, 500), id);
        }
        assert_eq!(leaving_flows(&mut queue, ms(1), 4), [1, 1, 1, 1]);
        offer(&mut queue, ms(1), (2, 100), 0);
        assert_eq!(leaving_flows(&mut queue, ms(1), 2), [2, 1]);
        // The queue of the flow is empty and on the old list, behind the other queue. It stays there for a round before
        // it is new again. The other queue has 528 of its 1514 credits left, enough for two packets.
        offer(&mut queue, ms(1), (2, 100), 1);
        assert_eq!(leaving_flows(&mut queue, ms(1), 3), [1, 1, 2]);
    }

    #[test]
    fn overload_drops_at_the_head_of_the_longest_queue() {
        let mut queue = queue(12);
        for id in 0..10 {
            assert!(offer(&mut queue, ms(0), (1, 1000), id).is_empty());
        }
        for id in 0..2 {
            assert!(offer(&mut queue, ms(0), (2, 1500), id).is_empty());
        }
        // The third packet of the second flow exceeds the limit: half of the first flow's ten are dropped.
        let dropped = offer(&mut queue, ms(0), (2, 1500), 2).take();
        let dropped: Vec<_> = dropped.iter().map(|d| (d.frame.flow, d.frame.id, d.cause)).collect();
        assert_eq!(dropped, (0..5).map(|id| (1, id, DropCause::Queue)).collect::<Vec<_>>());
        assert_eq!((queue.packets(), queue.bytes()), (8, 5 * 1000 + 3 * 1500));
    }

    #[test]
    fn drop_batch_is_at_most_64_packets() {
        let mut queue = queue(300);
        let dropped: u64 = (0..301).map(|id| offer(&mut queue, ms(0), (1, 100), id).counts()[0]).sum();
        assert_eq!((dropped, queue.packets()), (64, 237));
    }

    #[test]
    fn each_flow_has_its_own_control_law() {
        let mut queue = queue(10_000);
        for id in 0..1000 {
            offer(&mut queue, ms(0), (1, 1500), id);
        }
        let mut drops = Drops::default();
        for now in 1..=300 {
            // The second flow sends one packet for every three that leave, and hardly waits.
            offer(&mut queue, ms(now), (2, 100), 0);
            for _ in 0..3 {
                queue.dequeue(ms(now), &mut drops).expect("there are enough packets");
            }
        }
        // The drops are those of a single queue: at 105 ms, 205 ms and 276 ms.
        let dropped: Vec<_> =
            drops.take().iter().map(|d| (d.at.as_nanos() / 1_000_000, d.frame.flow)).collect();
        assert_eq!(dropped, [(105, 1), (205, 1), (276, 1)]);
    }

    #[test]
    fn flows_are_spread_over_the_queues() {
        let queue = queue(1);
        let mut used = vec![0_u32; 1024];
        (0..10_240).for_each(|flow| used[queue.bucket_of(flow) as usize] += 1);
        // Each queue has ten flows on average; the probability of more than 30 is 1e-7 (Poisson).
        assert!(used.iter().all(|&flows| flows < 30), "{:?}", used.iter().max());
        assert!(used.iter().filter(|&&flows| flows == 0).count() < 5);
    }

    proptest! {
        /// For any traffic, each admitted frame leaves or is dropped exactly once, and the sums are correct.
        #[test]
        fn frames_leave_or_drop_exactly_once(
            steps in prop::collection::vec((0_u64..30, 0_u32..6, 40_u32..1500, any::<bool>()), 1..400)
        ) {
            let mut queue = queue(40);
            let mut drops = Drops::default();
            let (mut now, mut offered, mut left) = (0, Vec::new(), Vec::new());
            for (id, (gap, flow, len, serves)) in steps.into_iter().enumerate() {
                now += gap;
                if serves {
                    let waiting = queue.packets();
                    let frame = queue.dequeue(ms(now), &mut drops);
                    prop_assert_eq!(frame.is_some(), waiting > 0);
                    left.extend(frame);
                } else {
                    let frame = TestFrame { flow, ecn: flow > 3, ..TestFrame::new(id as u32, len) };
                    offered.push(frame.id);
                    queue.enqueue(Arrival { now: ms(now), idle: None }, frame, &mut drops);
                }
                prop_assert!(queue.packets() <= 40);
            }
            let mut rest = Vec::new();
            let (packets, bytes) = (queue.packets(), queue.bytes());
            queue.clear(&mut rest);
            prop_assert_eq!(packets, rest.len() as u64);
            prop_assert_eq!(bytes, rest.iter().map(|frame| u64::from(frame.len)).sum::<u64>());
            let dropped = drops.take();
            let mut seen: Vec<_> =
                left.iter().chain(&rest).chain(dropped.iter().map(|d| &d.frame)).map(|frame| frame.id).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, offered);
        }
    }
}
