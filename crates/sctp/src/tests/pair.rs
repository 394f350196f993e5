//! Two associations and the links between them, in virtual time, reproducible with one seed.

use crate::association::state::State;
use crate::{Association, Config, ConfigError};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::drive::Collected;
use anabranch_endpoint::endpoint::{Delivery, Endpoint, Event, Place, Placement, Reason, Reliability, Write};
use anabranch_endpoint::ends::{Address, Ends};
use anabranch_endpoint::secrets::Secrets;
use anabranch_multipath::{congestion, scheduler};
use anabranch_wire::sctp::Chunk;
use anabranch_wire::{Body, Packet, Payload};
use core::cmp::Reverse;
use core::net::{IpAddr, Ipv4Addr};
use core::ops::{Deref, DerefMut};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

pub const A: usize = 0;
pub const B: usize = 1;

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn at_ms(millis: u64) -> Time {
    Time::ZERO + ms(millis)
}

/// Address `i` of an endpoint.
pub fn address(end: usize, i: usize) -> IpAddr {
    Ipv4Addr::new(10, i as u8, 0, end as u8 + 1).into()
}

/// One link between the i-th addresses of both endpoints.
#[derive(Clone, Debug)]
pub struct Link {
    /// Rate in bit/s.
    pub rate: u64,
    pub delay: Duration,
    /// Maximum number of queued packets.
    pub queue: u64,
    pub loss: f64,
    pub duplicate: f64,
    /// Maximum of a uniform extra delay, which reorders packets.
    pub jitter: Duration,
    pub up: bool,
}

impl Link {
    pub fn new(mbits: u64, delay_ms: u64) -> Self {
        Self {
            rate: mbits * 1_000_000,
            delay: ms(delay_ms),
            queue: 100,
            loss: 0.0,
            duplicate: 0.0,
            jitter: Duration::ZERO,
            up: true,
        }
    }
}

/// The application at one endpoint.
#[derive(Clone, Debug, Default)]
pub struct App {
    /// Messages to write: length, stream, unordered.
    pub outbox: VecDeque<(u64, u16, bool)>,
    /// Reliability limits of the messages, used cyclically; without any, messages are fully reliable.
    pub reliability: Vec<Reliability>,
    /// Offsets of messages that the other endpoint has read, and of abandoned ones.
    pub settled: BTreeSet<u64>,
    pub abandoned: BTreeMap<u64, bool>,
    /// Number of deliveries at this end that the writer has recorded.
    pub booked: usize,
    /// Number of parts of abandoned messages.
    pub aborted: usize,
    /// True if this end closes after everything is written.
    pub close: bool,
    /// Time before which nothing is read.
    pub reads_from: Time,
    pub written: Vec<(u64, Write)>,
    /// Deliveries, each with the offset of its bytes at the writer.
    pub read: Vec<Delivery>,
    /// For messages that are read in parts, by stream and kind: bytes read, and number of parts except the
    /// last.
    pub parts: BTreeMap<(u16, bool), Delivery>,
    pub in_parts: usize,
    /// Offset at the writer of each received fragment, by key.
    pub fragments: BTreeMap<u64, Payload>,
    pub events: Vec<Event>,
    pub offset: u64,
    pub closed: bool,
}

impl App {
    pub fn sends(messages: impl IntoIterator<Item = (u64, u16, bool)>) -> Self {
        Self { outbox: messages.into_iter().collect(), ..Self::default() }
    }
}

impl App {
    /// Checks a delivered message: its fragments contain consecutive bytes of the writer.
    fn receive(&mut self, message: Delivery, runs: &[(u64, u32)]) {
        if message.aborted {
            let begun = self.parts.remove(&(message.stream, message.unordered));
            assert!(begun.is_some() && message.len == 0 && runs.is_empty(), "{message:?} of {begun:?}");
            self.aborted += 1;
            return;
        }
        let keys = runs.iter().flat_map(|&(first, count)| first..first + u64::from(count));
        let parts: Vec<Payload> = keys
            .map(|key| self.fragments.remove(&key).expect("the fragment was placed, and is read once"))
            .collect();
        let offset = parts[0].offset;
        let end = parts.iter().fold(offset, |end, part| {
            assert_eq!(part.offset, end, "fragments are in order");
            part.end()
        });
        assert_eq!(end - offset, message.len);
        let key = (message.stream, message.unordered);
        let whole = match self.parts.remove(&key) {
            None => Delivery { offset, ..message },
            Some(begun) => {
                assert_eq!(begun.offset + begun.len, offset, "parts follow each other");
                Delivery { len: begun.len + message.len, more: message.more, ..begun }
            }
        };
        if whole.more {
            self.in_parts += 1;
            self.parts.insert(key, whole);
        } else {
            self.read.push(whole);
        }
    }
}

/// Mask that hides the offsets of payloads from the cores.
const OFFSET_MASK: u64 = 0x5555 << 44;

type Filter = Box<dyn FnMut(Time, usize, &mut Packet) -> bool>;

pub struct Net {
    pub now: Time,
    pub ends: [Association; 2],
    pub apps: [App; 2],
    pub links: Vec<Link>,
    /// Every pair of addresses is connected, by the link of the source.
    pub mesh: bool,
    /// Inspects every sent packet; returning false drops it.
    pub filter: Option<Filter>,
    pub rng: Rng,
    busy: Vec<[Time; 2]>,
    flying: BinaryHeap<Reverse<(Time, u64, usize)>>,
    packets: BTreeMap<u64, Packet>,
    count: u64,
    steps: u64,
    pub carried: u64,
}

/// All settings of an endpoint.
#[derive(Clone, Debug)]
pub struct Settings {
    pub config: Config,
    pub ends: Ends,
    pub secrets: Secrets,
}

impl Settings {
    /// The i-th address of an end is connected with the i-th of the other.
    pub fn new(end: usize, paths: usize, seed: u8) -> Self {
        let other = 1 - end;
        let control = congestion::Choice::find("reno").expect("listed");
        let schedule = scheduler::find("round-robin").expect("listed");
        let ends = Ends {
            local: (0..paths).map(|i| Address::new(address(end, i), 1500)).collect(),
            local_port: 5000 + end as u16,
            remote: (0..paths).map(|i| address(other, i)).collect(),
            remote_port: 5000 + other as u16,
        };
        let config = Config::new(control, schedule)
            .send_buffer(1_000_000)
            .receive_buffer(500_000)
            .nr_sack(true)
            .penalisation(true);
        Self { config, ends, secrets: secrets(end, seed) }
    }

    pub fn connecting(self) -> Result<Association, ConfigError> {
        Association::connecting(self.config, &self.ends, self.secrets)
    }

    pub fn listening(self) -> Result<Association, ConfigError> {
        Association::listening(self.config, &self.ends, self.secrets)
    }
}

impl Deref for Settings {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.config
    }
}

impl DerefMut for Settings {
    fn deref_mut(&mut self) -> &mut Config {
        &mut self.config
    }
}

/// The secrets of an endpoint.
pub fn secrets(end: usize, seed: u8) -> Secrets {
    Secrets::new([seed; 32]).fork(if end == A { "a" } else { "b" })
}

impl Net {
    pub fn new(links: Vec<Link>, mut change: impl FnMut(usize, &mut Settings)) -> Self {
        let build = |end: usize, change: &mut dyn FnMut(usize, &mut Settings)| {
            let mut settings = Settings::new(end, links.len(), 1);
            change(end, &mut settings);
            settings
        };
        let a = build(A, &mut change).connecting().expect("works");
        let b = build(B, &mut change).listening().expect("works");
        let busy = vec![[Time::ZERO; 2]; links.len()];
        Self {
            now: Time::ZERO,
            ends: [a, b],
            apps: [App::default(), App::default()],
            links,
            mesh: false,
            filter: None,
            rng: Rng::new(99),
            busy,
            flying: BinaryHeap::new(),
            packets: BTreeMap::new(),
            count: 0,
            steps: 0,
            carried: 0,
        }
    }

    pub fn connect(&mut self) {
        self.ends[A].connect(self.now);
        self.drain();
    }

    /// Passes a packet to an endpoint as if it had just arrived.
    pub fn inject(&mut self, end: usize, packet: Packet) {
        self.hand_in(end, packet);
        self.drain();
    }

    /// Delivers a packet. Payload offsets are masked, so that only the receiver of placements can use them and the core
    /// cannot.
    fn hand_in(&mut self, end: usize, mut packet: Packet) {
        if let Body::Sctp(body) = &mut packet.body {
            for chunk in &mut body.chunks {
                match chunk {
                    Chunk::Data(data) => data.payload.offset ^= OFFSET_MASK,
                    Chunk::IData(data) => data.payload.offset ^= OFFSET_MASK,
                    _ => {}
                }
            }
        }
        self.ends[end].handle_packet(self.now, packet, &anabranch_wire::Pattern);
        while let Some(Placement { payload, place }) = self.ends[end].poll_placement() {
            let Place::Fragment { key } = place else { panic!("{place:?} in an association") };
            let bytes = Payload::new(payload.offset ^ OFFSET_MASK, payload.len);
            assert_eq!(self.apps[end].fragments.insert(key, bytes), None, "one fragment has a key");
        }
    }

    fn transmit(&mut self, from: usize, mut packet: Packet) {
        if let Some(filter) = &mut self.filter
            && !filter(self.now, from, &mut packet)
        {
            return;
        }
        let index = |address: IpAddr| match address {
            IpAddr::V4(v4) => usize::from(v4.octets()[1]),
            IpAddr::V6(_) => 0,
        };
        let (source, destination) = (index(packet.source), index(packet.destination));
        if source != destination && !self.mesh {
            return;
        }
        let Some(link) = self.links.get(source).cloned() else { return };
        if !link.up || self.rng.chance(link.loss) {
            return;
        }
        let wire = Duration::from_nanos(u64::from(packet.wire_len()) * 8_000_000_000 / link.rate);
        let start = self.busy[source][from].max(self.now);
        if start.since(self.now).as_nanos() > 1500 * 8_000_000_000 / link.rate * link.queue {
            return;
        }
        self.busy[source][from] = start + wire;
        let copies = if self.rng.chance(link.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let extra = Duration::from_nanos(self.rng.below(link.jitter.as_nanos() + 1));
            let due = start + wire + link.delay + extra;
            self.count += 1;
            self.packets.insert(self.count, packet.clone());
            self.flying.push(Reverse((due, self.count, 1 - from)));
        }
    }

    /// Collects all output that both endpoints have now.
    pub fn drain(&mut self) {
        loop {
            let mut idle = true;
            for end in [A, B] {
                idle &= !self.run_app(end);
                let collected = Collected::from(&mut self.ends[end], self.now);
                let Collected { packets, events, forgotten, .. } = collected;
                for key in forgotten.iter().flat_map(|&(first, count)| first..first + u64::from(count)) {
                    assert!(self.apps[end].fragments.remove(&key).is_some(), "the fragment was placed");
                }
                idle &= packets.is_empty() && events.is_empty();
                for packet in packets {
                    self.carried += 1;
                    self.transmit(end, packet);
                }
                for event in &events {
                    if let &Event::Abandoned { offset, sent, .. } = event {
                        assert_eq!(self.apps[end].abandoned.insert(offset, sent), None, "given up once");
                        self.apps[end].settled.insert(offset);
                    }
                }
                self.apps[end].events.extend(events);
                let read = self.apps[end].read.len();
                let booked = core::mem::replace(&mut self.apps[end].booked, read).min(read);
                let read: Vec<u64> =
                    self.apps[end].read[booked..].iter().map(|message| message.offset).collect();
                self.apps[1 - end].settled.extend(read);
            }
            if idle {
                return;
            }
        }
    }

    fn run_app(&mut self, end: usize) -> bool {
        let (app, association) = (&mut self.apps[end], &mut self.ends[end]);
        let mut busy = false;
        if self.now >= app.reads_from {
            while let Some(message) = association.read(self.now, u64::MAX) {
                app.receive(message, association.fragments());
                busy = true;
            }
        }
        while association.established() {
            let Some(&(len, stream, unordered)) = app.outbox.front() else { break };
            let turn = app.written.len() % app.reliability.len().max(1);
            let reliability = app.reliability.get(turn).copied().unwrap_or_default();
            let write = Write { len, stream, unordered, ppid: app.offset as u32, reliability };
            if association.write(self.now, write) == 0 {
                break;
            }
            app.written.push((app.offset, write));
            app.offset += len;
            app.outbox.pop_front();
            busy = true;
        }
        if app.close && !app.closed && app.outbox.is_empty() && association.established() {
            app.closed = true;
            association.close(self.now);
            busy = true;
        }
        busy
    }

    /// Advances to the next event, at most to `until`; false if there is none.
    pub fn step(&mut self, until: Time) -> bool {
        let arrival = self.flying.peek().map_or(Time::MAX, |Reverse((due, ..))| *due);
        let timeout = self.ends.iter().filter_map(Endpoint::next_timeout).min().unwrap_or(Time::MAX);
        let reading = self.apps.iter().map(|app| app.reads_from).filter(|at| *at > self.now).min();
        let next = arrival.min(timeout).min(reading.unwrap_or(Time::MAX));
        if next > until || next == Time::MAX {
            self.now = self.now.max(until);
            return false;
        }
        self.now = self.now.max(next);
        if arrival <= next {
            let Some(Reverse((_, number, to))) = self.flying.pop() else { return false };
            if let Some(packet) = self.packets.remove(&number) {
                self.hand_in(to, packet);
            }
        } else {
            for end in &mut self.ends {
                if end.next_timeout().is_some_and(|due| due <= self.now) {
                    end.handle_timeout(self.now);
                }
            }
        }
        self.drain();
        self.steps += 1;
        if self.steps.is_multiple_of(256) {
            self.recount();
        }
        true
    }

    /// Checks that the totals of the scoreboards equal the sums over their chunks.
    pub fn recount(&self) {
        for end in &self.ends {
            if let State::Open(open) = &end.state {
                assert_eq!(open.outbound.sent.recount(&end.core.paths), Ok(()));
            }
        }
    }

    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
    }

    /// Runs until everything written at both endpoints has been read, or the time limit is reached.
    pub fn run_to_end(&mut self, limit: Time) {
        while !self.complete() && self.step(limit) {}
    }

    pub fn complete(&self) -> bool {
        [A, B].into_iter().all(|end| {
            self.apps[end].outbox.is_empty() && self.apps[end].settled.len() == self.apps[end].written.len()
        })
    }

    /// Checks that every message written at `from` was delivered once and complete, and in order if ordered.
    pub fn check(&self, from: usize) {
        let (written, settled) = (&self.apps[from].written, &self.apps[from].settled);
        assert_eq!(
            settled.len(),
            written.len(),
            "messages read or given up of those written from end {from}"
        );
        self.recount();
        self.check_so_far(from);
    }

    /// Checks only the delivered messages; other messages may be missing.
    pub fn check_so_far(&self, from: usize) {
        let (written, read) = (&self.apps[from].written, &self.apps[1 - from].read);
        let mut open: BTreeMap<u64, Write> = written.iter().copied().collect();
        let mut newest: BTreeMap<u16, u64> = BTreeMap::new();
        for message in read {
            let write = open.remove(&message.offset).expect("a message that was written and not yet read");
            assert_eq!((message.len, message.stream), (write.len, write.stream));
            assert_eq!((message.unordered, message.ppid), (write.unordered, write.ppid));
            if !message.unordered {
                let before = newest.insert(message.stream, message.offset);
                assert!(before.is_none_or(|before| before < message.offset), "streams keep their order");
            }
        }
    }

    pub fn extra(&self, end: usize, name: &str) -> u64 {
        let report = self.ends[end].report();
        report.extra.iter().find(|(known, _)| *known == name).expect("a known counter").1
    }

    pub fn closed(&self, end: usize) -> Option<Reason> {
        self.apps[end].events.iter().find_map(|event| match event {
            Event::Closed(reason) => Some(*reason),
            _ => None,
        })
    }
}

/// The SCTP part of a packet.
pub fn body(packet: &Packet) -> &anabranch_wire::sctp::Packet {
    match &packet.body {
        Body::Sctp(body) => body,
        _ => panic!("no SCTP"),
    }
}

/// `count` messages of `len` bytes, unordered, on stream 0.
pub fn bulk(count: usize, len: u64) -> impl Iterator<Item = (u64, u16, bool)> {
    core::iter::repeat_n((len, 0, true), count)
}
