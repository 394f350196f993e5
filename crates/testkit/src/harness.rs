//! Two endpoints and the wires between them in virtual time, for tests of crates on which the simulator depends.

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::drive::{Collected, drive};
use anabranch_endpoint::endpoint::{Delivery, Endpoint, Event, Place, Placement, Write};
use anabranch_multipath::buffer::RangeSet;
use anabranch_wire::Packet;
use core::cmp::Reverse;
use core::net::IpAddr;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// One direction between two addresses.
#[derive(Clone, Debug)]
pub struct Wire {
    pub delay: Duration,
    /// Serialisation time of a packet.
    pub serialisation: Duration,
    /// Capacity of the queue in packets.
    pub queue: u64,
    pub loss: f64,
    pub reorder: f64,
    pub duplicate: f64,
    pub up: bool,
    pub free_at: Time,
}

impl Wire {
    pub fn new(delay_ms: u64) -> Self {
        Self {
            delay: Duration::from_millis(delay_ms),
            serialisation: Duration::from_micros(1200),
            queue: 100,
            loss: 0.0,
            reorder: 0.0,
            duplicate: 0.0,
            up: true,
            free_at: Time::ZERO,
        }
    }
}

/// Replaces the packets that one end sends at the same time by others.
pub type Middlebox = Box<dyn FnMut(Vec<Packet>) -> Vec<Packet>>;

/// Decides whether a packet is dropped (true), from its number, which starts at 0, and its content.
pub type Filter = Box<dyn FnMut(usize, &Packet) -> bool>;

/// A receiving application, which checks that it gets every byte once and in order.
#[derive(Debug, Default)]
pub struct Sink {
    pub delivered: u64,
    pub deliveries: u64,
    pub finished: bool,
    pub events: Vec<Event>,
}

pub struct Pair<E: Endpoint + core::fmt::Debug> {
    pub now: Time,
    /// The client and the server.
    pub ends: [E; 2],
    pub sinks: [Sink; 2],
    pub wires: BTreeMap<(IpAddr, IpAddr), Wire>,
    pub filter: Option<Filter>,
    /// Every packet that was sent, with its time and the number of the sending end.
    pub log: Vec<(Time, usize, Packet)>,
    pub keep_log: bool,
    /// True if the applications read data as soon as it is available.
    pub reading: bool,
    /// If set, the options of Multipath TCP are removed from the packets of the end with this number, as a middlebox might
    /// do.
    pub stripping: Option<usize>,
    /// Changes each packet in flight.
    pub tampering: Option<fn(&mut Packet)>,
    /// Splits and merges the packets in flight.
    pub middlebox: Option<Middlebox>,
    /// True if the wires change payloads in ways that no checksum detects, so that bytes may be placed at wrong
    /// offsets.
    pub damaged: bool,
    /// Local port of each end's next additional path.
    pub next_port: [u16; 2],
    /// Ranges of the stream that each end has placed in its receive buffer.
    placed: [RangeSet; 2],
    written: u64,
    closed: bool,
    flights: BTreeMap<u64, (usize, Packet)>,
    heap: BinaryHeap<Reverse<(Time, u64)>>,
    count: u64,
    rng: Rng,
}

impl<E: Endpoint + core::fmt::Debug> Pair<E> {
    pub fn new(client: E, server: E, wires: &[(IpAddr, IpAddr, Wire)], seed: u64) -> Self {
        let mut map = BTreeMap::new();
        for (a, b, wire) in wires {
            map.insert((*a, *b), wire.clone());
            map.insert((*b, *a), wire.clone());
        }
        let mut pair = Self {
            now: Time::ZERO,
            ends: [client, server],
            sinks: [Sink::default(), Sink::default()],
            wires: map,
            filter: None,
            log: Vec::new(),
            keep_log: true,
            reading: true,
            stripping: None,
            tampering: None,
            middlebox: None,
            damaged: false,
            next_port: [40_001; 2],
            placed: [RangeSet::new(), RangeSet::new()],
            written: 0,
            closed: false,
            flights: BTreeMap::new(),
            heap: BinaryHeap::new(),
            count: 0,
            rng: Rng::new(seed),
        };
        pair.ends[0].connect(Time::ZERO);
        pair.ends[1].connect(Time::ZERO);
        pair
    }

    fn transmit(&mut self, from: usize, mut packet: Packet) {
        if self.stripping == Some(from)
            && let anabranch_wire::Body::Tcp(segment) = &mut packet.body
        {
            segment.options.mptcp = anabranch_wire::BoxedIfSet::default();
        }
        if let Some(tamper) = self.tampering {
            tamper(&mut packet);
        }
        let number = self.count as usize;
        self.count += 1;
        assert!(self.count < 1_000_000, "too many packets at {:?}: {packet:?}", self.now);
        if self.keep_log {
            self.log.push((self.now, from, packet.clone()));
        }
        let dropped = self.filter.as_mut().is_some_and(|filter| filter(number, &packet));
        let Some(wire) = self.wires.get_mut(&(packet.source, packet.destination)) else { return };
        if dropped || !wire.up || self.rng.chance(wire.loss) {
            return;
        }
        let backlog = wire.free_at.since(self.now);
        if wire.serialisation > Duration::ZERO
            && backlog.as_nanos() / wire.serialisation.as_nanos() > wire.queue
        {
            return;
        }
        wire.free_at = wire.free_at.max(self.now) + wire.serialisation;
        let mut at = wire.free_at + wire.delay;
        if self.rng.chance(wire.reorder) {
            at += Duration::from_nanos(self.rng.below(20_000_000));
        }
        let copies = if self.rng.chance(wire.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let id = self.flights.last_key_value().map_or(0, |(k, _)| k + 1).max(self.count * 4);
            self.flights.insert(id, (1 - from, packet.clone()));
            self.heap.push(Reverse((at, id)));
        }
    }

    fn drain(&mut self, end: usize) {
        loop {
            let mut out = Collected { next_port: self.next_port[end], ..Collected::default() };
            drive(&mut self.ends[end], self.now, &mut out);
            let Collected { packets, events, placements, next_port, .. } = out;
            self.next_port[end] = next_port;
            for Placement { payload, place } in placements {
                let Place::Stream { offset } = place else { panic!("{place:?} in a stream") };
                assert!(self.damaged || payload.offset == offset, "{payload:?} at {offset} of end {end}");
                assert!(payload.len > 0 && offset + u64::from(payload.len) > self.sinks[end].delivered);
                self.placed[end].insert(offset, offset + u64::from(payload.len));
            }
            let packets = match &mut self.middlebox {
                Some(middlebox) => middlebox(packets),
                None => packets,
            };
            for packet in packets {
                self.transmit(end, packet);
            }
            let mut quiet = events.is_empty();
            self.sinks[end].finished |= events.contains(&Event::Finished);
            self.sinks[end].events.extend(events);
            if self.reading {
                while let Some(Delivery { offset, len, .. }) = self.ends[end].read(self.now, u64::MAX) {
                    quiet = false;
                    assert_eq!(offset, self.sinks[end].delivered, "bytes are delivered once and in order");
                    let gaps = self.placed[end].gaps(offset, offset + len).count();
                    assert_eq!(gaps, 0, "bytes were delivered that were never placed");
                    self.sinks[end].delivered += len;
                    self.sinks[end].deliveries += 1;
                }
            }
            if quiet {
                break;
            }
        }
    }

    /// Exchanges the packets and events that both ends have at this time.
    pub fn settle(&mut self) {
        self.drain(0);
        self.drain(1);
    }

    /// Advances to the next arrival or timer that is due before `end`; returns false if there is none.
    pub fn step(&mut self, end: Time) -> bool {
        self.settle();
        let packet = self.heap.peek().map(|Reverse((at, _))| *at);
        let timer = [0, 1].map(|i| self.ends[i].next_timeout());
        let next = [packet, timer[0], timer[1]].into_iter().flatten().min();
        let Some(next) = next.filter(|&at| at <= end) else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(next);
        while let Some(&Reverse((at, id))) = self.heap.peek() {
            if at > self.now {
                break;
            }
            self.heap.pop();
            let (to, packet) = self.flights.remove(&id).expect("each packet arrives once");
            self.ends[to].handle_packet(self.now, packet, &anabranch_wire::Pattern);
            self.drain(to);
        }
        for i in 0..2 {
            if self.ends[i].next_timeout().is_some_and(|at| at <= self.now) {
                self.ends[i].handle_timeout(self.now);
                self.drain(i);
            }
        }
        true
    }

    pub fn run_until(&mut self, seconds: f64) {
        let end = Time::from_secs_f64(seconds);
        while self.step(end) {}
    }

    /// Runs while `more` returns true. Returns false if that takes longer than `seconds` of virtual time.
    pub fn run_while(&mut self, seconds: f64, mut more: impl FnMut(&Self) -> bool) -> bool {
        let end = Time::from_secs_f64(seconds);
        while more(self) {
            if !self.step(end) {
                return false;
            }
        }
        true
    }

    /// Lets the client write `size` bytes, as far as its send buffer allows, and then close. Returns true if the server
    /// has received all bytes and the end of the stream before the time `seconds`. If it returns false, it may be
    /// called again with a later time.
    pub fn send_file(&mut self, size: u64, seconds: f64) -> bool {
        let end = Time::from_secs_f64(seconds);
        loop {
            let left = size - self.written;
            if left > 0 {
                self.written += self.ends[0].write(self.now, Write::bytes(left));
            } else if !self.closed && self.sinks[0].events.contains(&Event::Connected) {
                self.ends[0].close(self.now);
                self.closed = true;
            }
            if self.sinks[1].finished && self.sinks[1].delivered == size {
                return true;
            }
            if !self.step(end) {
                return false;
            }
        }
    }

    /// Applies `pick` to each packet that `end` sent, and returns the results that are not `None`.
    pub fn sent<T>(&self, end: usize, mut pick: impl FnMut(&Packet) -> Option<T>) -> VecDeque<T> {
        self.log.iter().filter(|(_, from, _)| *from == end).filter_map(|(_, _, p)| pick(p)).collect()
    }
}
