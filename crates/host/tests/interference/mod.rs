//! Two ends of Multipath TCP and middleboxes between them. The middleboxes strip and change options, split segments, drop,
//! delay and duplicate packets, answer with resets, and cut paths, for a while or to the end of the run. In every case
//! either every byte arrives, or both applications get an error.
//!
//! The input is a program of bytes; a property test and a fuzz target use it.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this module")]

mod rule;

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::drive::{Collected, drive};
use anabranch_endpoint::{Address, Endpoint, Ends, Event, Reason, Secrets, Write};
use anabranch_multipath::congestion::Choice;
use anabranch_multipath::scheduler::SCHEDULERS;
use anabranch_multipath::{congestion, path_manager};
use anabranch_settings::policy::Penalisation;
use anabranch_tcp::{mptcp, tcp};
use anabranch_wire::tcp::Flags;
use anabranch_wire::{Body, Packet};
use core::cmp::Reverse;
use core::net::{IpAddr, Ipv4Addr};
use rule::Rule;
use std::collections::{BTreeMap, BinaryHeap};

/// Maximum number of packets sent since an application last read new data; more count as a livelock.
const MAX_PACKETS_WITHOUT_PROGRESS: u64 = 30_000;
/// Maximum virtual time since an application last read new data; more counts as a livelock. It is longer than all
/// timers of a connection that has lost its peer. A whole transfer may take longer: with a loss rate of 70 % both
/// ways and retransmission timeouts of two minutes, it took more than 60,000 s.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(20_000);

/// Idle time after which an end sends a keep-alive.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
/// Time without an acknowledgement after which an end closes the connection; longer than the delay of any rule.
const USER_TIMEOUT: Duration = Duration::from_secs(150);

/// Free space in the send buffer for which the applications wait before they write. Without the limit every
/// acknowledged byte would cause a write of one byte.
const MIN_WRITE_BYTES: u64 = 1000;

/// The remaining program; reads beyond its end return zeros.
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

/// The outcome of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    /// True if both ends received every byte.
    pub complete: bool,
    /// True if an end has fallen back to plain TCP.
    pub fallback: bool,
    /// True if an end closed with an error.
    pub error: bool,
    /// True if more than one path carried data.
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

    /// Lets the application read, write and close; true if it did anything.
    fn turn(&mut self, now: Time) -> bool {
        let mut busy = false;
        while let Some(delivery) = self.endpoint.read(now, u64::MAX) {
            assert_eq!(delivery.offset, self.read, "bytes are delivered once and in order");
            self.read += delivery.len;
            busy = true;
        }
        let left = self.to_write - self.written;
        if left > 0 && self.endpoint.send_space() < left.min(MIN_WRITE_BYTES) {
            return busy; // wait for enough free space
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

struct InterferenceTest {
    now: Time,
    ends: [End; 2],
    rules: Vec<Rule>,
    flights: BTreeMap<u64, (usize, Packet)>,
    arrivals: BinaryHeap<Reverse<(Time, u64)>>,
    sent: u64,
    /// Time at which an application last read new data, and packets sent until then.
    read_at: (Time, u64),
    /// True if an end has sent a segment of plain TCP.
    plain: bool,
    copies: u64,
    next_port: [u16; 2],
    rng: Rng,
}

impl InterferenceTest {
    fn new(program: &mut Program<'_>) -> Self {
        let rng = Rng::new(u64::from(program.byte()) << 8 | u64::from(program.byte()));
        let bits = program.byte();
        let paths = *program.pick(&["disjoint", "default", "disjoint", "fullmesh", "ndiffports:2"]);
        let config = mptcp::Config::default()
            .tcp(
                tcp::Config::default()
                    .congestion(Choice {
                        entry: program.pick(congestion::ALGORITHMS),
                        ..Choice::find("lia").expect("listed")
                    })
                    .send_buffer(5000 + 500 * u64::from(program.byte()))
                    .receive_buffer(5000 + 500 * u64::from(program.byte()))
                    .timestamps(bits & 1 == 0)
                    .sack(bits & 2 == 0)
                    .retries(8)
                    // Keep-alives let an idle end notice that its peer has closed.
                    .keepalive(Some(KEEPALIVE_INTERVAL))
                    .user_timeout((bits & 32 != 0).then_some(USER_TIMEOUT)),
            )
            .scheduler(program.pick(SCHEDULERS))
            .path_manager(path_manager::parse(paths).expect("listed"))
            .opportunistic_retransmission(bits & 4 != 0)
            .penalisation(*program.pick(&[Penalisation::Never, Penalisation::Weaker, Penalisation::Any]))
            .mechanisms_in_start_up(bits & 64 == 0)
            .checksum(bits & 16 != 0);
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

    /// Exchanges packets and events until neither end has anything more to do at this moment.
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
                    assert_eq!(self.ends[end].closed, None, "event after the connection closed: {event:?}");
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
            IpAddr::V6(_) => unreachable!("the ends have addresses of IPv4"),
        };
        // A path connects one address of each host; drop packets between addresses of different paths.
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

    /// Advances to the next arrival or timer; false if there is none.
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
            let Reverse((_, copy)) = self.arrivals.pop().expect("an arrival was scheduled");
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

    fn is_livelocked(&self) -> bool {
        let (at, sent) = self.read_at;
        self.sent - sent > MAX_PACKETS_WITHOUT_PROGRESS || self.now.since(at) > PROGRESS_TIMEOUT
    }

    fn is_complete(&self) -> bool {
        let [client, server] = &self.ends;
        client.read == server.to_write && server.read == client.to_write
    }

    /// Checks the invariants of a run. The last one, that both applications get an event of the outcome, holds only
    /// if the run is `over`.
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
            assert!(
                reader.read < writer.to_write,
                "the reader got more bytes than were written: {}",
                state()
            );
            assert!(!reader.finished, "the stream finished before all bytes arrived: {}", state());
            let orderly = [reader, writer].iter().any(|end| end.closed == Some(Reason::Closed));
            assert!(!orderly, "an end closed in order, but bytes are missing: {}", state());
        }
        // The listening application gets no error if its end never saw a connection.
        let learns = |end: &End, asked: bool| {
            end.closed.is_some_and(|reason| reason != Reason::Closed) || !(asked || end.connected)
        };
        let both = learns(&self.ends[0], true) && learns(&self.ends[1], false);
        assert!(!over || self.is_complete() || both, "an application never learns: {}", state());
    }
}

/// Runs a transfer both ways through the middleboxes that the program describes, until the transfer ends.
pub fn program(bytes: &[u8]) -> Reached {
    beginning(bytes, u64::MAX)
}

/// Runs a transfer both ways through the middleboxes that the program describes, until `packets` packets have been
/// sent.
pub fn beginning(bytes: &[u8], packets: u64) -> Reached {
    let mut program = Program(bytes);
    let mut world = InterferenceTest::new(&mut program);
    world.ends[1].endpoint.connect(world.now);
    world.ends[0].endpoint.connect(world.now);
    let mut over = false;
    while !over && world.copies < packets {
        over = world.is_livelocked() || world.ends.iter().all(|end| end.closed.is_some()) || !world.step();
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
