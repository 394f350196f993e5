//! Body of the fuzz target for a host. The target under `fuzz/` calls it, and so does a test that runs without the fuzzer's
//! toolchain.
//!
//! The input is a program for two hosts with connections of every protocol between them, and for an attacker that does not
//! see their packets. Secrets that the attacker has to guess (sequence numbers, tags, tokens) come from a generator seeded
//! with a hash of the whole input, so that the fuzzer cannot find them by changing single bytes.

use super::forger::{Forger, MULTIPATH_PORT, PORT};
use super::{Net, ip, mptcp, sctp, tcp};
use anabranch_base::rng::Rng;
use anabranch_base::time::Duration;
use anabranch_host::{ConnectionId, Limits, Protocol, Transport};
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::{Flags, Options, Segment};
use anabranch_wire::{Body, Ecn, Packet, Payload};
use core::net::SocketAddr;

/// Maximum number of commands of a program; the rest of the input is ignored.
const MAX_COMMANDS: usize = 200;

struct AttackTest<'a> {
    net: Net,
    input: &'a [u8],
    /// Source of the attacker's guesses.
    rng: Rng,
    pairs: Vec<[ConnectionId; 2]>,
    /// Remote and local address of those connections, as seen from the second host.
    known: Vec<(SocketAddr, SocketAddr)>,
}

/// Sends arbitrary packets to a host with listeners and connections of every protocol. The host must not panic, must stay
/// within its limits, and its connections must still transfer data. Returns the number of the attacker's packets.
pub fn host(data: &[u8]) -> usize {
    let seed = data.iter().fold(1_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let limits = Limits { connections: 400, time_wait: 50, ..Limits::default() };
    let mut world = AttackTest {
        net: Net::with(&limits),
        input: data,
        rng: Rng::new(seed),
        pairs: Vec::new(),
        known: Vec::new(),
    };
    let protocols = [(tcp(), PORT), (mptcp(), MULTIPATH_PORT), (sctp(), PORT)];
    for (protocol, port) in &protocols {
        world.net.listen(protocol.clone(), *port);
    }
    for (protocol, port) in &protocols {
        let pair = world.net.pair(protocol, *port);
        let report = world.net.hosts[1].endpoint(pair[1]).expect("a connection").report();
        world.known.push((report.paths[0].remote, report.paths[0].local));
        world.pairs.push(pair);
    }
    let mut strangers = 0;
    for _ in 0..MAX_COMMANDS {
        if world.input.is_empty() {
            break;
        }
        strangers += world.command(&protocols);
        let (connections, names) = world.net.hosts[1].entries();
        assert!(connections <= limits.connections, "{connections} connections");
        assert!(names <= 12 * limits.connections + limits.time_wait, "{names} names");
    }
    world
        .net
        .flying
        .retain(|(_, packet)| [ip(1, 1), ip(1, 2), ip(2, 1), ip(2, 2)].contains(&packet.destination));
    for pair in world.pairs {
        world.net.exchange(pair, 2_000);
    }
    strangers
}

impl AttackTest<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.input.split_first() else { return 0 };
        self.input = rest;
        first
    }

    /// Executes the next command and returns the number of the attacker's packets in it.
    fn command(&mut self, protocols: &[(Protocol, u16)]) -> usize {
        match self.byte() % 8 {
            0..=2 => {
                let packet = self.segment();
                self.net.deliver(1, packet);
                return 1;
            }
            3 | 4 => {
                let count = usize::from(self.byte());
                for _ in 0..count {
                    let packet = Forger::new(&mut self.rng, &self.known).packet();
                    self.net.deliver(1, packet);
                }
                return count;
            }
            5 => {
                let millis = u64::from(self.byte());
                self.net.pass(Duration::from_millis(millis * millis));
            }
            6 => {
                let (protocol, port) = &protocols[usize::from(self.byte()) % protocols.len()];
                let now = self.net.now;
                if let Ok(id) = self.net.hosts[0].connect(now, protocol, (&[ip(2, 1)], *port)) {
                    let millis = u64::from(self.byte() % 8);
                    self.net.run(millis);
                    self.net.hosts[0].forget(now.max(self.net.now), id);
                    self.net.run(3);
                }
            }
            _ => {
                let now = self.net.now;
                for (transport, port) in
                    [(Transport::Tcp, PORT), (Transport::Tcp, MULTIPATH_PORT), (Transport::Sctp, PORT)]
                {
                    while let Some(id) = self.net.hosts[1].accept(transport, port) {
                        self.net.hosts[1].forget(now, id);
                    }
                }
                self.net.drive(1);
            }
        }
        0
    }

    /// A segment with flags and options from the input and random sequence numbers.
    fn segment(&mut self) -> Packet {
        let which = usize::from(self.byte()) % self.known.len();
        let (from, to) = self.known[which];
        let from = if self.byte() & 1 == 0 { from } else { ([172, 16, 0, 1], from.port()).into() };
        let flags = Flags(self.byte());
        let len = usize::from(self.byte() % 41).min(self.input.len());
        let (options, rest) = self.input.split_at(len);
        self.input = rest;
        let segment = Segment {
            source_port: from.port(),
            destination_port: to.port(),
            seq: Serial(self.rng.below(1 << 32) as u32),
            ack: Serial(self.rng.below(1 << 32) as u32),
            flags,
            window: u16::from(self.byte()) << 8,
            options: Options::parse(options).unwrap_or_default(),
            payload: Payload::new(0, u32::from(self.byte()) * 4),
            ..Segment::default()
        };
        Packet { source: from.ip(), destination: to.ip(), ecn: Ecn::NotEct, body: Body::Tcp(segment) }
    }
}
