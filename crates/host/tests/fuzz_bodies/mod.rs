//! Bodies of the fuzz targets for pairs of ends. The targets under `fuzz/` call these functions, and so do tests that run
//! without the fuzzer's toolchain, so that every test run compiles and executes them.
//!
//! The input is a program: settings, then commands for two ends and the network between them.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this module")]

mod ledger;
mod mutate;
pub mod sctp;

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::drive::{Collected, drive};
use anabranch_endpoint::{Address, Endpoint, Ends, Event, NetworkEvent, Reason, Secrets, Write};
use anabranch_multipath::congestion::{ALGORITHMS, Choice, Options};
use anabranch_multipath::path_manager;
use anabranch_multipath::scheduler::SCHEDULERS;
use anabranch_settings::policy::Penalisation;
use anabranch_tcp::tcp::Recovery;
use anabranch_tcp::{mptcp, tcp};
use anabranch_wire::Packet;
use core::net::{IpAddr, Ipv4Addr};
use ledger::Ledger;
use std::collections::VecDeque;

/// Maximum number of packets in flight in one direction; further packets are dropped.
const MAX_PACKETS_IN_FLIGHT: usize = 200;
/// Maximum number of packets that an end sends at one moment; more would show an endless loop.
const MAX_PACKETS_AT_ONCE: usize = 20_000;
/// Maximum number of commands of a program; the rest of the input is ignored.
const MAX_COMMANDS: usize = 400;

/// The remaining input; reads beyond its end return zeros.
pub struct Input<'a>(&'a [u8]);

impl Input<'_> {
    /// The next byte of the input; 0 at its end.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn pick<'b, T>(&mut self, items: &'b [T]) -> &'b T {
        &items[usize::from(self.byte()) % items.len()]
    }
}

/// One step of a program. Ends are 0 and 1; a place is an index among the packets in flight to an end.
#[derive(Clone, Copy, Debug)]
enum Command {
    /// A packet arrives, out of order if the place is not 0.
    Deliver {
        to: usize,
        place: u8,
    },
    /// All packets in flight arrive, once per round; each round delivers the responses to the one before.
    Flow {
        rounds: u8,
    },
    Drop {
        to: usize,
        place: u8,
    },
    /// A packet will arrive twice.
    Duplicate {
        to: usize,
        place: u8,
    },
    /// Changes a packet in flight.
    Mutate {
        to: usize,
        place: u8,
    },
    /// Time passes.
    Advance(Duration),
    /// Time passes until the next timer of either end expires.
    Timer,
    /// Handles a timeout although no timer is due.
    Early {
        end: usize,
    },
    Write {
        end: usize,
        len: u64,
    },
    Read {
        end: usize,
        len: u64,
    },
    Close {
        end: usize,
    },
    Abort {
        end: usize,
    },
    /// An address appears or disappears.
    Address {
        end: usize,
        path: usize,
        up: bool,
    },
}

impl Command {
    fn read(input: &mut Input<'_>) -> Self {
        let kind = input.byte();
        let end = usize::from(kind >> 7);
        match kind % 32 {
            0..=3 => Self::Deliver { to: end, place: input.byte() },
            4..=8 => Self::Flow { rounds: input.byte() % 8 },
            9 | 10 => Self::Drop { to: end, place: input.byte() },
            11 => Self::Duplicate { to: end, place: input.byte() },
            12..=15 => Self::Mutate { to: end, place: input.byte() },
            // From 1 µs to 10 minutes.
            16 | 17 => Self::Advance(Duration::from_micros(1 << (input.byte() % 30))),
            18..=21 => Self::Timer,
            22 => Self::Early { end },
            23..=25 => Self::Write { end, len: u64::from(input.word()) },
            26 | 27 => Self::Read { end, len: u64::from(input.word()) },
            28 => Self::Close { end },
            29 if input.byte() < 32 => Self::Abort { end },
            _ => Self::Address { end, path: usize::from(input.byte() & 1), up: input.flag() },
        }
    }
}

struct FuzzedHosts {
    now: Time,
    ends: [Box<dyn Endpoint>; 2],
    on_the_way: [VecDeque<Packet>; 2],
    written: [u64; 2],
    read: [u64; 2],
    /// The messages of each end, if the protocol has messages.
    ledgers: Option<[Ledger; 2]>,
    closed: [Option<Reason>; 2],
    next_port: u16,
    /// True if the network has forged no packet yet.
    is_unforged: bool,
    receive_buffer: u64,
    scratch: Vec<u8>,
}

fn address(end: usize, path: usize) -> IpAddr {
    Ipv4Addr::new(10, path as u8 + 1, 0, end as u8 + 1).into()
}

/// Addresses of both ends. A host has two addresses; `backups` has one bit for each of the four, which marks it as a
/// backup.
fn ends_of(backups: u8) -> [Ends; 2] {
    let addresses = |end| {
        let at = |path| Address { ip: address(end, path), mtu: 1500, backup: backups >> path & 1 == 1 };
        [0, 1].map(at).to_vec()
    };
    let (local, remote) = (addresses(0), vec![address(1, 0)]);
    [Ends { local, local_port: 40_000, remote, remote_port: 5001 }, Ends::listening(addresses(1), 5001)]
}

fn settings(input: &mut Input<'_>) -> tcp::Config {
    tcp::Config::default()
        .recovery(*input.pick(&[Recovery::Sack, Recovery::Prr, Recovery::Rack]))
        .timestamps(input.flag())
        .sack(!input.byte().is_multiple_of(4))
        .nagle(input.flag())
        .ecn(input.flag())
        .delayed_ack(Some(Duration::from_millis(40)).filter(|_| input.flag()))
        .send_buffer(1000 + 4 * u64::from(input.word()))
        .receive_buffer(1000 + 4 * u64::from(input.word()))
        .retries(30)
        .syn_retries(30)
}

impl FuzzedHosts {
    fn new(input: &mut Input<'_>) -> Self {
        let mut tcp = settings(input);
        let receive_buffer = tcp.receive_buffer;
        tcp.congestion = Choice { entry: input.pick(ALGORITHMS), options: Options::default() };
        let secrets = Secrets::simulated(&mut Rng::new(input.word().into()));
        let (client_secrets, server_secrets) = (secrets.fork("client"), secrets.fork("server"));
        let kind = input.byte() % 4;
        let ends: [Box<dyn Endpoint>; 2] = if kind == 0 {
            let [client, server] = ends_of(0);
            let client = tcp::Connection::connecting(tcp.clone(), &client, client_secrets);
            let server = tcp::Connection::listening(tcp, &server, server_secrets);
            [Box::new(client), Box::new(server)]
        } else {
            let scheduler = input.pick(SCHEDULERS);
            let paths = *input.pick(&["default", "fullmesh", "disjoint", "ndiffports:3"]);
            let bits = input.byte();
            let config = mptcp::Config::default()
                .tcp(tcp)
                .scheduler(scheduler)
                .path_manager(path_manager::parse(paths).expect("listed"))
                .opportunistic_retransmission(bits & 4 != 0)
                .penalisation(*input.pick(&[Penalisation::Never, Penalisation::Weaker, Penalisation::Any]))
                .mechanisms_in_start_up(bits & 64 == 0)
                .checksum(bits & 16 != 0);
            let [client, server] = ends_of(bits);
            let client = mptcp::Connection::connecting(config.clone(), &client, client_secrets);
            let server = mptcp::Connection::listening(config, &server, server_secrets);
            [Box::new(client), Box::new(server)]
        };
        Self::of(ends, receive_buffer)
    }

    /// Two ends that keep no more than about `receive_buffer` bytes each.
    fn of(ends: [Box<dyn Endpoint>; 2], receive_buffer: u64) -> Self {
        Self {
            now: Time::ZERO,
            ends,
            on_the_way: [VecDeque::new(), VecDeque::new()],
            written: [0; 2],
            read: [0; 2],
            ledgers: None,
            closed: [None; 2],
            next_port: 50_000,
            is_unforged: true,
            receive_buffer,
            scratch: Vec::new(),
        }
    }

    /// Collects packets and events of both ends and checks them.
    fn settle(&mut self) {
        for end in [0, 1] {
            self.settle_end(end);
        }
    }

    /// Collects packets and events of one end and checks them.
    fn settle_end(&mut self, end: usize) {
        let mut out = Collected { next_port: self.next_port, ..Collected::default() };
        drive(&mut *self.ends[end], self.now, &mut out);
        let Collected { packets, events, next_port, .. } = out;
        self.next_port = next_port;
        assert!(packets.len() < MAX_PACKETS_AT_ONCE, "a storm of packets: {:?}", packets.last());
        for packet in packets {
            assert!(packet.wire_len() <= 1500, "{packet:?}");
            anabranch_wire::check(&packet, &mut self.scratch).expect("every sent packet can be parsed");
            if self.on_the_way[1 - end].len() < MAX_PACKETS_IN_FLIGHT {
                self.on_the_way[1 - end].push_back(packet);
            }
        }
        for event in events {
            assert_eq!(self.closed[end], None, "event after the connection closed: {event:?}");
            match (event, &mut self.ledgers) {
                (Event::Closed(reason), _) => self.closed[end] = Some(reason),
                (Event::Abandoned { offset, len, .. }, Some(ledgers)) if self.is_unforged => {
                    ledgers[end].reported_abandoned(offset, len);
                }
                _ => {}
            }
        }
        let report = self.ends[end].report();
        // With forged mappings, a subflow that falls back to plain TCP may hold another window of data.
        let most = self.receive_buffer * if self.is_unforged { 1 } else { 2 } + 3 * 1500;
        assert!(
            report.receive_buffer <= most,
            "{} bytes in a buffer of at most {most}",
            report.receive_buffer
        );
        assert!(report.paths.len() <= 256);
        let due = self.ends[end].next_timeout();
        assert!(due.is_none_or(|due| due < Time::MAX));
    }

    fn read(&mut self, end: usize, len: u64) {
        while let Some(delivery) = self.ends[end].read(self.now, len.max(1)) {
            assert_eq!(delivery.offset, self.read[end], "bytes are delivered once and in order");
            self.read[end] += delivery.len;
            if let Some(ledgers) = self.ledgers.as_mut().filter(|_| self.is_unforged) {
                ledgers[1 - end].was_read(&delivery);
            }
            if len < u64::MAX {
                break;
            }
        }
        if self.is_unforged {
            assert!(self.read[end] <= self.written[1 - end], "the reader got more bytes than were written");
        }
    }

    /// True if all data that an end wrote was read, or was reported to the end as abandoned.
    fn is_settled(&self, end: usize) -> bool {
        let whole = self.read[1 - end] == self.written[end];
        self.ledgers.as_ref().map_or(whole, |ledgers| ledgers[end].is_settled())
    }

    fn deliver(&mut self, to: usize, place: usize) {
        if let Some(packet) = self.on_the_way[to].remove(place) {
            self.ends[to].handle_packet(self.now, packet, &anabranch_wire::Pattern);
            self.settle_end(to);
        }
    }

    fn place(&self, to: usize, place: u8) -> usize {
        usize::from(place) % self.on_the_way[to].len().max(1)
    }

    /// Advances to the next timer and handles its timeout; false if no timer runs.
    fn timer(&mut self) -> bool {
        let Some(due) = self.ends.iter().filter_map(|end| end.next_timeout()).min() else { return false };
        self.now = self.now.max(due);
        for end in [0, 1] {
            if self.ends[end].next_timeout().is_some_and(|due| due <= self.now) {
                self.ends[end].handle_timeout(self.now);
            }
        }
        self.settle();
        true
    }

    fn flow(&mut self, rounds: u8) {
        for _ in 0..rounds {
            for to in [0, 1] {
                for _ in 0..self.on_the_way[to].len() {
                    self.deliver(to, 0);
                }
            }
        }
    }

    fn run_command(&mut self, command: Command, input: &mut Input<'_>) {
        match command {
            Command::Deliver { to, place } => self.deliver(to, self.place(to, place)),
            Command::Flow { rounds } => self.flow(rounds),
            Command::Drop { to, place } => drop(self.on_the_way[to].remove(self.place(to, place))),
            Command::Duplicate { to, place } => {
                if let Some(packet) = self.on_the_way[to].get(self.place(to, place)).cloned() {
                    self.on_the_way[to].push_back(packet);
                }
            }
            Command::Mutate { to, place } => {
                let place = self.place(to, place);
                if let Some(packet) = self.on_the_way[to].get_mut(place) {
                    // Compute the checksums before the change, as the sender did.
                    packet.settle(&anabranch_wire::Pattern);
                    mutate::mutate(packet, input);
                    self.is_unforged = false;
                }
            }
            Command::Advance(duration) => {
                self.now += duration;
                for end in &mut self.ends {
                    end.handle_timeout(self.now);
                }
            }
            Command::Timer => drop(self.timer()),
            Command::Early { end } => self.ends[end].handle_timeout(self.now),
            Command::Write { end, len } => {
                let room = self.ends[end].send_space();
                let accepted = self.ends[end].write(self.now, Write::bytes(len));
                assert!(accepted == len.min(room));
                self.written[end] += accepted;
            }
            Command::Read { end, len } => self.read(end, len),
            Command::Close { end } => self.ends[end].close(self.now),
            Command::Abort { end } => self.ends[end].abort(self.now),
            Command::Address { end, path, up } => {
                self.ends[end].handle_network(self.now, NetworkEvent::address(address(end, path), 1500, up));
            }
        }
        self.settle();
    }

    /// Ends the run over a network without faults: all written data arrives unless an end has aborted the connection.
    fn finish(&mut self) {
        for end in [0, 1] {
            for path in [0, 1] {
                self.ends[end]
                    .handle_network(self.now, NetworkEvent::address(address(end, path), 1500, true));
            }
            self.ends[end].close(self.now);
        }
        self.settle();
        for _ in 0..3000 {
            self.flow(1);
            for end in [0, 1] {
                self.read(end, u64::MAX);
            }
            self.settle();
            let quiet = self.on_the_way.iter().all(VecDeque::is_empty);
            if self.closed.iter().all(Option::is_some) || (quiet && !self.timer()) {
                break;
            }
        }
        let orderly = self.closed.iter().all(|reason| *reason == Some(Reason::Closed));
        if self.is_unforged && orderly {
            assert!(
                self.is_settled(0) && self.is_settled(1),
                "both ends closed in order, but bytes are missing"
            );
        }
        // Keep-alives are off, so an idle end need not notice that the other end has aborted.
        let alone = self.closed.iter().flatten().any(|reason| *reason != Reason::Closed);
        if self.is_unforged && !alone {
            let ends = (&self.ends[0].report(), &self.ends[1].report());
            assert!(
                self.closed.iter().all(Option::is_some),
                "an end never closes: {:?} {ends:#?}",
                self.closed
            );
        }
    }
}

/// Milestones that a program reached; they show whether inputs exercise more than the handshake.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    pub delivered: bool,
    pub several_paths: bool,
    pub mutated: bool,
}

/// Two ends of TCP or Multipath TCP under adversarial packets, time steps and applications.
pub fn tcp_pair(data: &[u8]) -> Reached {
    let mut input = Input(data);
    let mut world = FuzzedHosts::new(&mut input);
    world.ends[1].connect(world.now);
    world.ends[0].connect(world.now);
    world.settle();
    world.flow(input.byte() % 4);
    for _ in 0..MAX_COMMANDS {
        if input.0.is_empty() {
            break;
        }
        let command = Command::read(&mut input);
        world.run_command(command, &mut input);
    }
    let several_paths = world.ends[0].report().paths.iter().filter(|path| path.usable).count() > 1;
    world.finish();
    Reached { delivered: world.read != [0; 2], several_paths, mutated: !world.is_unforged }
}
