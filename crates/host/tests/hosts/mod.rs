//! Two hosts and a network between them in virtual time, for the tests of the host and its fuzz target.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this module")]

pub mod forger;
pub mod program;

use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Address, Event, Placement, Secrets, Write};
use anabranch_host::{Backlog, ConnectionId, Host, HostDriver, Limits, Listening, Protocol};
use anabranch_multipath::congestion::Choice;
use anabranch_multipath::{path_manager, scheduler};
use anabranch_sctp as sctp;
use anabranch_settings::policy::Penalisation;
use anabranch_tcp::{mptcp, tcp};
use anabranch_wire::{Packet, Pattern};
use core::net::IpAddr;
use std::collections::VecDeque;

/// Address `interface` of a host.
pub fn ip(host: u8, interface: u8) -> IpAddr {
    [10, interface, 0, host].into()
}

pub fn tcp() -> Protocol {
    Protocol::Tcp(tcp::Config::default())
}

pub fn mptcp() -> Protocol {
    Protocol::Mptcp(
        mptcp::Config::default()
            .tcp(tcp::Config::default().congestion(Choice::find("lia").expect("listed")))
            .scheduler(scheduler::find("lowest-rtt").expect("listed"))
            .path_manager(path_manager::parse("fullmesh").expect("listed"))
            .opportunistic_retransmission(false)
            .penalisation(Penalisation::Never)
            .mechanisms_in_start_up(true)
            .checksum(false),
    )
}

pub fn sctp() -> Protocol {
    let reno = Choice::find("reno").expect("listed");
    Protocol::Sctp(Box::new(sctp::Config::new(reno, scheduler::find("round-robin").expect("listed"))))
}

/// Records the packets and events of a host.
#[derive(Debug, Default)]
pub struct Recorder {
    pub packets: Vec<(Option<ConnectionId>, Packet)>,
    pub events: Vec<(ConnectionId, Event)>,
}

impl HostDriver for Recorder {
    fn place(&mut self, _: ConnectionId, _: Placement) {}
    fn transmit(&mut self, connection: Option<ConnectionId>, packet: Packet) {
        self.packets.push((connection, packet));
    }
    fn event(&mut self, connection: ConnectionId, event: Event) {
        self.events.push((connection, event));
    }
}

/// Two hosts, each with two addresses, and a network with a delay of one millisecond.
pub struct Net {
    pub now: Time,
    pub hosts: [Host; 2],
    pub events: [Vec<(ConnectionId, Event)>; 2],
    /// Packets in flight and the index of the receiving host.
    pub flying: VecDeque<(usize, Packet)>,
    /// Packets that each host sent outside any connection, such as RSTs and ICMP errors.
    pub own: [Vec<Packet>; 2],
}

impl Net {
    pub fn with(limits: &Limits) -> Self {
        let host = |number: u8| {
            let addresses = vec![Address::new(ip(number, 1), 1500), Address::new(ip(number, 2), 1500)];
            Host::new(addresses, limits.clone(), Secrets::new([number; 32]))
        };
        Self {
            now: Time::ZERO,
            hosts: [host(1), host(2)],
            events: [Vec::new(), Vec::new()],
            flying: VecDeque::new(),
            own: [Vec::new(), Vec::new()],
        }
    }

    pub fn new() -> Self {
        Self::with(&Limits::default())
    }

    pub fn listen(&mut self, protocol: Protocol, port: u16) {
        let backlog = Backlog::default();
        self.hosts[1].listen(Listening { protocol, port, backlog }).expect("a free port");
    }

    pub fn connect(&mut self, protocol: &Protocol, port: u16) -> ConnectionId {
        self.hosts[0].connect(self.now, protocol, (&[ip(2, 1)], port)).expect("a port")
    }

    /// Takes all packets and events of a host.
    pub fn drive(&mut self, host: usize) {
        let mut recorder = Recorder::default();
        self.hosts[host].drive(self.now, &mut recorder);
        for (connection, packet) in recorder.packets {
            if connection.is_none() {
                self.own[host].push(packet.clone());
            }
            self.flying.push_back((1 - host, packet));
        }
        self.events[host].extend(recorder.events);
    }

    pub fn deliver(&mut self, host: usize, packet: Packet) {
        self.hosts[host].handle_packet(self.now, packet, &Pattern);
        self.drive(host);
    }

    /// Advances by a millisecond: packets in flight arrive, and due timers expire.
    pub fn tick(&mut self) {
        self.now += Duration::from_millis(1);
        for (host, packet) in core::mem::take(&mut self.flying) {
            self.deliver(host, packet);
        }
        for host in 0..2 {
            if self.hosts[host].next_timeout().is_some_and(|due| due <= self.now) {
                self.hosts[host].handle_timeout(self.now);
            }
            self.drive(host);
        }
    }

    pub fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.tick();
        }
    }

    /// Advances by `duration` from timer to timer.
    pub fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            let due = self.hosts.iter().filter_map(Host::next_timeout).min().unwrap_or(Time::MAX);
            self.now = if self.flying.is_empty() { due.min(end).max(self.now) } else { self.now };
            self.tick();
        }
    }

    pub fn write(&mut self, host: usize, id: ConnectionId, len: u64) -> u64 {
        let now = self.now;
        let endpoint = self.hosts[host].endpoint_mut(id).expect("a connection");
        let written = endpoint.write(now, Write::bytes(len));
        self.drive(host);
        written
    }

    /// Reads all available bytes and returns their number.
    pub fn read(&mut self, host: usize, id: ConnectionId) -> u64 {
        let now = self.now;
        let endpoint = self.hosts[host].endpoint_mut(id).expect("a connection");
        let mut len = 0;
        while let Some(delivery) = endpoint.read(now, u64::MAX) {
            len += delivery.len;
        }
        self.drive(host);
        len
    }

    pub fn close(&mut self, host: usize, id: ConnectionId) {
        let now = self.now;
        self.hosts[host].endpoint_mut(id).expect("a connection").close(now);
        self.drive(host);
    }

    /// True if the connection has ended at this host.
    pub fn closed(&self, host: usize, id: ConnectionId) -> bool {
        self.events[host].iter().any(|(of, event)| *of == id && matches!(event, Event::Closed(_)))
    }

    /// Connects the first host to a listener of the second and returns both ends.
    pub fn pair(&mut self, protocol: &Protocol, port: u16) -> [ConnectionId; 2] {
        let client = self.connect(protocol, port);
        self.drive(0);
        self.run(20);
        let server = self.hosts[1].accept(protocol.transport(), port).expect("a connection");
        [client, server]
    }

    /// Transfers `len` bytes each way; panics if they do not arrive.
    pub fn exchange(&mut self, [client, server]: [ConnectionId; 2], len: u64) {
        for (host, id) in [(0, client), (1, server)] {
            assert_eq!(self.write(host, id, len), len, "room for {len} bytes");
        }
        let mut left = [len; 2];
        for _ in 0..5_000 {
            self.tick();
            for (host, id) in [(0, client), (1, server)] {
                left[host] -= self.read(host, id);
            }
            if left == [0; 2] {
                return;
            }
        }
        panic!("{left:?} of {len} bytes are missing");
    }
}
