//! Two ends of Multipath TCP and a network that interferes: it takes options out, changes them, cuts segments, drops,
//! delays and repeats, answers with resets, and cuts paths, for a while or for good. Whatever it does, either every byte
//! arrives, or both applications get an error.
//!
//! The input is a program of bytes, for a property test and a fuzz target alike.

#![allow(dead_code, unreachable_pub, reason = "each user takes what it needs")]

mod rule;

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::drive::{Collected, drive};
use anabranch_endpoint::{Address, Endpoint, Ends, Event, Reason, Secrets, Write};
use anabranch_multipath::congestion::Choice;
use anabranch_multipath::policy::Penalisation;
use anabranch_multipath::scheduler::SCHEDULERS;
use anabranch_multipath::{congestion, path_manager};
use anabranch_tcp::{mptcp, tcp};
use anabranch_wire::tcp::Flags;
use anabranch_wire::{Body, Packet};
use core::cmp::Reverse;
use core::net::{IpAddr, Ipv4Addr};
use rule::Rule;
use std::collections::{BTreeMap, BinaryHeap};

/// Packets at most between two of which the second lets an application read something: what needs more goes round in circles.
const FRUITLESS: u64 = 30_000;
/// Virtual time at most without an application that reads something. Timers of connections that have lost their peer have run out
/// by then. Where seven of ten packets were lost both ways and timeouts reached two minutes, a whole transfer took longer than
/// 60,000 s.
const PATIENCE: Duration = Duration::from_secs(20_000);

/// After so long a silence the ends ask each other whether they live.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// The peer is given up that acknowledges nothing for so long, longer than any delay here lasts.
const USER_TIMEOUT: Duration = Duration::from_secs(150);

/// Room in the send buffer for which the applications wait, bytes. Otherwise one byte that is acknowledged makes room for
/// one more, and so on for ever.
const LEAST_WRITE: u64 = 1000;

/// What is left of the program; zeros behind its end.
pub struct Program<'a>(&'a [u8]);

impl Program<'_> {
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub fn pick<'b, T>(&mut self, items: &'b [T]) -> &'b T {
        &items[usize::from(self.byte()) % items.len()]
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    /// Every byte arrived, both ways.
    pub complete: bool,
    /// An end speaks plain TCP.
    pub fallback: bool,
    /// An end was told of an error.
    pub error: bool,
    /// More than one path was used.
    pub several_paths: bool,
}

fn address(end: usize, path: usize) -> IpAddr {
    Ipv4Addr::new(10, path as u8 + 1, 0, end as u8 + 1).into()
}

/// An end and the application on it.
struct End {
    endpoint: Box<dyn Endpoint>,
    to_write: u64,
    written: u64,
    read: u64,
    closing: bool,
    connected: bool,
    finished: bool,
    closed: Option<Reason>,
}

impl End {
    fn new(endpoint: Box<dyn Endpoint>, to_write: u64) -> Self {
        Self {
            endpoint,
            to_write,
            written: 0,
            read: 0,
            closing: false,
            connected: false,
            finished: false,
            closed: None,
        }
    }

    /// The application has its turn; true if it did anything.
    fn turn(&mut self, now: Time) -> bool {
        let mut busy = false;
        while let Some(delivery) = self.endpoint.read(now, u64::MAX) {
            assert_eq!(delivery.offset, self.read, "in order, once");
            self.read += delivery.len;
            busy = true;
        }
        let left = self.to_write - self.written;
        if left > 0 && self.endpoint.send_space() < left.min(LEAST_WRITE) {
            return busy; // it waits for room that is worth a call
        }
        if left > 0 {
            let accepted = self.endpoint.write(now, Write::bytes(self.to_write - self.written));
            self.written += accepted;
            busy |= accepted > 0;
        } else if !self.closing && self.written > 0 {
            self.closing = true;
            self.endpoint.close(now);
            busy = true;
        }
        busy
    }
}

struct World {
    now: Time,
    ends: [End; 2],
    rules: Vec<Rule>,
    flights: BTreeMap<u64, (usize, Packet)>,
    arrivals: BinaryHeap<Reverse<(Time, u64)>>,
    sent: u64,
    /// When an application last read something, and what had been sent then.
    read_at: (Time, u64),
    /// An end has sent a segment of plain TCP.
    plain: bool,
    copies: u64,
    next_port: [u16; 2],
    rng: Rng,
}

impl World {
    fn new(program: &mut Program<'_>) -> Self {
        let rng = Rng::new(u64::from(program.byte()) << 8 | u64::from(program.byte()));
        let bits = program.byte();
        let paths = *program.pick(&["disjoint", "default", "disjoint", "fullmesh", "ndiffports:2"]);
        let config = mptcp::Config {
            tcp: tcp::Config {
                congestion: Choice {
                    entry: program.pick(congestion::ALGORITHMS),
                    ..Choice::find("lia").expect("listed")
                },
                send_buffer: 5000 + 500 * u64::from(program.byte()),
                receive_buffer: 5000 + 500 * u64::from(program.byte()),
                timestamps: bits & 1 == 0,
                sack: bits & 2 == 0,
                retries: 8,
                // An end that has nothing to say notices by these that the other is gone.
                keepalive: Some(KEEPALIVE),
                user_timeout: (bits & 32 != 0).then_some(USER_TIMEOUT),
                ..tcp::Config::default()
            },
            scheduler: program.pick(SCHEDULERS),
            path_manager: path_manager::parse(paths).expect("listed"),
            opportunistic_retransmission: bits & 4 != 0,
            penalisation: *program.pick(&[Penalisation::Never, Penalisation::Weaker, Penalisation::Any]),
            mechanisms_in_start_up: bits & 64 == 0,
            checksum: bits & 16 != 0,
            unroutable: Vec::new(),
        };
        let secrets = Secrets::simulated(&mut rng.fork("secrets"));
        let addresses = |end| [0, 1].map(|path| Address::new(address(end, path), 1500)).to_vec();
        let client =
            Ends { local: addresses(0), local_port: 40_000, remote: vec![address(1, 0)], remote_port: 5001 };
        let client = mptcp::Connection::connecting(config.clone(), &client, secrets.fork("client"));
        let server = Ends::listening(addresses(1), 5001);
        let server = mptcp::Connection::listening(config, &server, secrets.fork("server"));
        let sizes = [0, 1].map(|_| 1 + 6 * u64::from(program.byte()) * u64::from(program.byte()));
        let rules = (0..=program.byte() % 4).map(|_| Rule::read(program)).collect();
        Self {
            now: Time::ZERO,
            ends: [End::new(Box::new(client), sizes[0]), End::new(Box::new(server), sizes[1])],
            rules,
            flights: BTreeMap::new(),
            arrivals: BinaryHeap::new(),
            sent: 0,
            read_at: (Time::ZERO, 0),
            plain: false,
            copies: 0,
            next_port: [50_000; 2],
            rng,
        }
    }

    /// Both ends say what they have to say.
    fn settle(&mut self) {
        for end in [0, 1] {
            loop {
                let mut out = Collected { next_port: self.next_port[end], ..Collected::default() };
                drive(&mut *self.ends[end].endpoint, self.now, &mut out);
                self.next_port[end] = out.next_port;
                for packet in out.packets {
                    self.transmit(end, packet);
                }
                for event in out.events {
                    assert_eq!(self.ends[end].closed, None, "nothing follows the end, not even {event:?}");
                    self.ends[end].connected |= event == Event::Connected;
                    self.ends[end].finished |= event == Event::Finished;
                    if let Event::Closed(reason) = event {
                        self.ends[end].closed = Some(reason);
                    }
                }
                if !self.ends[end].turn(self.now) {
                    break;
                }
            }
        }
    }

    fn transmit(&mut self, from: usize, mut packet: Packet) {
        self.sent += 1;
        assert!(packet.wire_len() <= 1500, "{packet:?}");
        packet.settle(&anabranch_wire::Pattern);
        if let Body::Tcp(segment) = &packet.body {
            self.plain |=
                segment.options.mptcp.is_empty() && !segment.flags.intersects(Flags::SYN | Flags::RST);
        }
        let path = match packet.destination {
            IpAddr::V4(address) => usize::from(address.octets()[1]) - 1,
            IpAddr::V6(_) => unreachable!("nobody has such an address"),
        };
        // A path has an address of each host at its ends.
        if packet.source != address(from, path) {
            return;
        }
        let mut all = vec![(packet, Duration::ZERO)];
        for rule in &mut self.rules {
            if rule.applies(self.now, from, path) {
                all = all
                    .into_iter()
                    .flat_map(|(packet, late)| rule.apply(packet, late, &mut self.rng))
                    .collect();
            }
        }
        for (packet, late) in all {
            let at = self.now + Duration::from_millis(5 + 10 * path as u64) + late;
            self.copies += 1;
            self.arrivals.push(Reverse((at, self.copies)));
            let to = usize::from(packet.destination == address(1, path));
            self.flights.insert(self.copies, (to, packet));
        }
    }

    /// Goes on to the next thing that happens; false if there is none.
    fn step(&mut self) -> bool {
        let read = self.read();
        self.settle();
        if self.read() > read {
            self.read_at = (self.now, self.sent);
        }
        let arrival = self.arrivals.peek().map(|Reverse((at, _))| *at);
        let timers = [0, 1].map(|end| self.ends[end].endpoint.next_timeout());
        let Some(next) = [arrival, timers[0], timers[1]].into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        if arrival.is_some_and(|at| at <= self.now) {
            let Reverse((_, copy)) = self.arrivals.pop().expect("it was there");
            let (to, packet) = self.flights.remove(&copy).expect("each arrives once");
            self.ends[to].endpoint.handle_packet(self.now, packet, &anabranch_wire::Pattern);
        }
        for end in &mut self.ends {
            if end.endpoint.next_timeout().is_some_and(|at| at <= self.now) {
                end.endpoint.handle_timeout(self.now);
            }
        }
        true
    }

    /// Bytes that both applications have read.
    fn read(&self) -> u64 {
        self.ends.iter().map(|end| end.read).sum()
    }

    fn goes_round_in_circles(&self) -> bool {
        let (at, sent) = self.read_at;
        self.sent - sent > FRUITLESS || self.now.since(at) > PATIENCE
    }

    fn is_complete(&self) -> bool {
        let [client, server] = &self.ends;
        client.read == server.to_write && server.read == client.to_write
    }

    /// What must hold at the end, and but for the last of it, whenever one looks.
    fn judge(&self, over: bool) {
        let state = || {
            let of = |end: &End| {
                (end.read, end.to_write, end.finished, end.closed, end.endpoint.report().fallback)
            };
            format!(
                "{:?} after {:?} and {} packets, {:?}",
                self.ends.each_ref().map(of),
                self.now,
                self.sent,
                self.rules
            )
        };
        for end in [0, 1] {
            let (reader, writer) = (&self.ends[end], &self.ends[1 - end]);
            if reader.read == writer.to_write {
                continue;
            }
            assert!(reader.read < writer.to_write, "more than was written: {}", state());
            assert!(!reader.finished, "the end came before all bytes: {}", state());
            let orderly = [reader, writer].iter().any(|end| end.closed == Some(Reason::Closed));
            assert!(!orderly, "an orderly end without all the bytes: {}", state());
        }
        // Nobody had a connection at the listening end that heard of none.
        let learns = |end: &End, asked: bool| {
            end.closed.is_some_and(|reason| reason != Reason::Closed) || !(asked || end.connected)
        };
        let both = learns(&self.ends[0], true) && learns(&self.ends[1], false);
        assert!(!over || self.is_complete() || both, "an application never learns: {}", state());
    }
}

/// A transfer both ways through a network that interferes as the program says, to its end.
pub fn program(bytes: &[u8]) -> Reached {
    beginning(bytes, u64::MAX)
}

/// The first so many packets of such a transfer.
pub fn beginning(bytes: &[u8], packets: u64) -> Reached {
    let mut program = Program(bytes);
    let mut world = World::new(&mut program);
    world.ends[1].endpoint.connect(world.now);
    world.ends[0].endpoint.connect(world.now);
    let mut over = false;
    while !over && world.copies < packets {
        over = world.goes_round_in_circles()
            || world.ends.iter().all(|end| end.closed.is_some())
            || !world.step();
    }
    world.judge(over);
    let error = |end: &End| end.closed.is_some_and(|reason| reason != Reason::Closed);
    Reached {
        complete: world.is_complete(),
        fallback: world.plain,
        error: world.ends.iter().any(error),
        several_paths: world.ends[1]
            .endpoint
            .report()
            .arrivals
            .iter()
            .filter(|arrival| arrival.new > 0)
            .count()
            > 1,
    }
}
