//! A network in virtual time that carries packets as bytes; it delays, loses, duplicates, reorders and damages them.

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use core::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Probability of each fault of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: f64,
    pub duplication: f64,
    /// Probability that the packet takes up to 20 ms longer, so that others overtake it.
    pub reordering: f64,
    /// Probability that one byte of the packet is changed.
    pub damage: f64,
}

/// One direction of a path. Directions differ only in their delay.
#[derive(Debug)]
struct Pipe {
    free_at: Time,
    delay: Duration,
}

/// Transmission time of a byte at 100 Mbit/s.
const NANOS_PER_BYTE: u64 = 80;
/// Capacity of a queue in packets of 1500 bytes.
const MAX_QUEUE_PACKETS: u64 = 100;

#[derive(Debug)]
pub struct Network {
    pub faults: Faults,
    rng: Rng,
    /// The directions of the paths, by path and receiving end.
    pipes: BTreeMap<(u8, usize), Pipe>,
    on_the_way: BTreeMap<u64, (usize, Vec<u8>)>,
    arrivals: BinaryHeap<Reverse<(Time, u64)>>,
    /// Packets given to the network, and packets that arrived.
    pub sent: u64,
    pub arrived: u64,
    copies: u64,
}

impl Network {
    pub fn new(faults: Faults, rng: Rng) -> Self {
        Self {
            faults,
            rng,
            pipes: BTreeMap::new(),
            on_the_way: BTreeMap::new(),
            arrivals: BinaryHeap::new(),
            sent: 0,
            arrived: 0,
            copies: 0,
        }
    }

    /// Arrival time of the next packet.
    pub fn next(&self) -> Option<Time> {
        self.arrivals.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the next packet that has arrived by `now`, with its receiving end.
    pub fn pop(&mut self, now: Time) -> Option<(usize, Vec<u8>)> {
        self.next().filter(|&at| at <= now)?;
        let Reverse((_, copy)) = self.arrivals.pop()?;
        self.arrived += 1;
        self.on_the_way.remove(&copy)
    }

    /// Carries a packet over a path to an end.
    pub fn send(&mut self, now: Time, (path, to): (u8, usize), bytes: &[u8]) {
        self.sent += 1;
        let delay = Duration::from_millis(5 + 5 * u64::from(path));
        let pipe = self.pipes.entry((path, to)).or_insert(Pipe { free_at: Time::ZERO, delay });
        let full = pipe.free_at.since(now).as_nanos() > MAX_QUEUE_PACKETS * 1500 * NANOS_PER_BYTE;
        if full || self.rng.chance(self.faults.loss) {
            return;
        }
        pipe.free_at = pipe.free_at.max(now) + Duration::from_nanos(NANOS_PER_BYTE * bytes.len() as u64);
        let on_time = pipe.free_at + pipe.delay;
        let copies = 1 + u32::from(self.rng.chance(self.faults.duplication));
        for _ in 0..copies {
            let mut at = on_time;
            if self.rng.chance(self.faults.reordering) {
                at += Duration::from_nanos(self.rng.below(20_000_000));
            }
            let mut bytes = bytes.to_vec();
            if self.rng.chance(self.faults.damage) {
                let place = self.rng.below(bytes.len() as u64) as usize;
                bytes[place] ^= self.rng.between(1, 255) as u8;
            }
            self.copies += 1;
            self.on_the_way.insert(self.copies, (to, bytes));
            self.arrivals.push(Reverse((at, self.copies)));
        }
    }
}
