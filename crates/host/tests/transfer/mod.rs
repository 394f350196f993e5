//! Two ends that exchange real bytes in virtual time. Every packet is encoded, carried by a network that loses,
//! duplicates, reorders and damages packets, parsed and handed to the other end, which places its payload. The digests of
//! written and read data must be equal.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this module")]

mod ends;
pub mod network;

pub use anabranch_testkit::application::{Application, Load};
pub use anabranch_testkit::contents::Contents;
pub use ends::{Protocol, Settings};
pub use network::Faults;

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Reason, Reliability};
use anabranch_testkit::end::End;
use anabranch_testkit::paths::path_of;
use anabranch_wire::sctp::{UDP_PORT, encapsulation};
use anabranch_wire::{Body, Buffer};
use network::Network;

/// Lateness of a driver that handles several packets together.
const MAX_LATENESS: Duration = Duration::from_millis(1);

/// The outcome of a transfer.
#[derive(Debug)]
pub struct Outcome {
    /// Duration in seconds of virtual time.
    pub seconds: f64,
    /// Packets sent, and packets that arrived.
    pub packets: [u64; 2],
    /// Packets that the receiver refused because a checksum was wrong.
    pub refused: u64,
    /// For each end, the data that it wrote and the data that the other end read.
    pub contents: [(Contents, Contents); 2],
    /// Payload bytes that each path carried from the first end.
    pub carried: Vec<u64>,
    /// Reason for which each end closed.
    pub closed: [Option<Reason>; 2],
    /// The counters of each end's report.
    pub extra: [Vec<(&'static str, u64)>; 2],
    /// True if a connection fell back from Multipath TCP to plain TCP.
    pub fallback: bool,
}

impl Outcome {
    /// Checks that all data arrived as it was written and that both ends closed in order. One end of an association may have
    /// been reset: an end that has closed answers late packets with an ABORT (RFC 9260 §8.4), and the SHUTDOWN COMPLETE may
    /// be lost.
    pub fn check(&self) {
        for (end, (written, read)) in self.contents.iter().enumerate() {
            assert_eq!(
                (read.bytes, read.messages),
                (written.bytes, written.messages),
                "from end {end}: {self:?}"
            );
            assert_eq!(read.digests(), written.digests(), "from end {end}");
        }
        let messages = self.contents.iter().any(|(written, _)| written.messages > 0);
        let orderly = self.closed.iter().filter(|&&closed| closed == Some(Reason::Closed)).count();
        let reset = self.closed.iter().filter(|&&closed| messages && closed == Some(Reason::Reset)).count();
        assert!(orderly >= 1 && orderly + reset == 2, "{self:?}");
    }

    /// The value of an end's counter.
    pub fn extra(&self, end: usize, name: &str) -> u64 {
        self.extra[end].iter().find(|(key, _)| *key == name).map_or(0, |&(_, value)| value)
    }
}

struct TransferTest {
    now: Time,
    together: u8,
    /// Number of packets that each end has handled and not answered.
    unanswered: [u8; 2],
    ends: [End; 2],
    network: Network,
    refused: u64,
    scratch: Vec<u8>,
}

impl TransferTest {
    /// Handles everything that an end has to do at this moment; `packet` is the packet that the end has just
    /// received.
    fn settle(&mut self, at: usize, packet: Option<Buffer<'_>>) {
        let (now, network, scratch) = (self.now, &mut self.network, &mut self.scratch);
        self.ends[at].settle(now, packet, &mut |packet, bytes| {
            scratch.clear();
            packet.emit_with(scratch, |payload, out| bytes.fill(payload, out));
            assert_eq!(scratch.len(), packet.wire_len() as usize);
            network.send(now, (path_of(packet), 1 - at), scratch);
        });
        self.unanswered[at] = 0;
    }

    /// Places the payload of a packet that the end answers later.
    fn place(&mut self, at: usize, packet: Buffer<'_>) {
        self.ends[at].place(self.now, packet);
        self.unanswered[at] += 1;
    }

    fn arrive(&mut self, at: usize, bytes: &[u8]) {
        let Ok(packet) = encapsulation::parse(bytes, UDP_PORT) else {
            self.refused += 1;
            return;
        };
        let content = Buffer(bytes);
        let may_wait = self.unanswered[at] + 1 < self.together
            && matches!(&packet.body, Body::Sctp(body) if body.has_only_data());
        self.ends[at].endpoint.handle_packet(self.now, packet, &content);
        if may_wait {
            self.place(at, content);
        } else {
            self.settle(at, Some(content));
        }
    }

    /// Advances to the next arrival or timer; false if there is none before `limit`.
    fn step(&mut self, limit: Time) -> bool {
        let timers = self.ends.iter().filter_map(|end| end.endpoint.next_timeout());
        let Some(next) = timers.chain(self.network.next()).min().filter(|&at| at <= limit) else {
            return false;
        };
        let lateness = if self.together > 1 { MAX_LATENESS } else { Duration::ZERO };
        self.now = self.now.max(next + lateness);
        while let Some((to, bytes)) = self.network.pop(self.now) {
            self.arrive(to, &bytes);
        }
        for at in [0, 1] {
            if self.unanswered[at] > 0 {
                self.settle(at, None);
            }
            if self.ends[at].endpoint.next_timeout().is_some_and(|due| due <= self.now) {
                self.ends[at].endpoint.handle_timeout(self.now);
                self.settle(at, None);
            }
        }
        true
    }

    fn done(&self) -> bool {
        self.ends.iter().all(|end| end.closed.is_some())
    }
}

/// Runs a transfer until both ends have closed or `seconds` of virtual time are over.
pub fn run(settings: &Settings, loads: [Load; 2], faults: Faults, seed: u64, seconds: f64) -> Outcome {
    let rng = Rng::new(seed);
    let [near, far] = loads;
    let mut applications = [
        Application::new(near, far.bytes(), rng.fork("near application")),
        Application::new(far, near.bytes(), rng.fork("far application")),
    ]
    .into_iter();
    let ends = ends::make(settings, &rng).map(|endpoint| {
        let application = applications.next().expect("each end has an application");
        End::new(endpoint, application)
    });
    let network = Network::new(faults, rng.fork("network"));
    let mut world = TransferTest {
        now: Time::ZERO,
        together: settings.together,
        unanswered: [0; 2],
        ends,
        network,
        refused: 0,
        scratch: Vec::new(),
    };
    for at in [1, 0] {
        world.ends[at].endpoint.connect(world.now);
        world.settle(at, None);
    }
    let limit = Time::from_secs_f64(seconds);
    while !world.done() && world.step(limit) {}
    outcome(world)
}

fn outcome(world: TransferTest) -> Outcome {
    let TransferTest { now, ends, network, refused, .. } = world;
    let reports = [0, 1].map(|at| ends[at].endpoint.report());
    let closed = [0, 1].map(|at| ends[at].closed);
    let [first, second] = ends.map(|end| end.application);
    Outcome {
        seconds: now.as_secs_f64(),
        packets: [network.sent, network.arrived],
        refused,
        contents: [(first.written, second.read), (second.written, first.read)],
        carried: reports[0].paths.iter().map(|path| path.counters.bytes_sent).collect(),
        closed,
        fallback: reports.iter().any(|report| report.fallback),
        extra: reports.map(|report| report.extra),
    }
}

/// Runs the transfer that the bytes of an input describe; body of the fuzz target and of a property test.
///
/// # Panics
/// If read data differs from written data.
pub fn program(input: &[u8]) {
    let mut input = input.iter().copied().chain(core::iter::repeat(0));
    let mut byte = || input.next().expect("endless");
    let protocols = [
        Protocol::Tcp,
        Protocol::Mptcp { checksum: false },
        Protocol::Mptcp { checksum: true },
        Protocol::Sctp { i_data: false, encapsulated: false },
        Protocol::Sctp { i_data: true, encapsulated: false },
        Protocol::Sctp { i_data: false, encapsulated: true },
        Protocol::CmtSctp { i_data: false },
        Protocol::CmtSctp { i_data: true },
        Protocol::SctpAuthenticated { i_data: false },
        Protocol::SctpAuthenticated { i_data: true },
    ];
    let protocol = protocols[usize::from(byte()) % protocols.len()];
    let ipv6 = byte() % 2 == 1;
    let settings = Settings {
        ipv6,
        paths: if let Protocol::Tcp = protocol { 1 } else { 1 + byte() % 3 },
        mtu: 1280 + 30 * u32::from(byte()),
        send_buffer: 20_000 + 1000 * u64::from(byte()),
        receive_buffer: 20_000 + 1000 * u64::from(byte()),
        ..Settings::new(protocol)
    };
    let probability = |byte: u8, most: f64| f64::from(byte) / 255.0 * most;
    let faults = Faults {
        loss: probability(byte(), 0.1),
        duplication: probability(byte(), 0.1),
        reordering: probability(byte(), 0.5),
        damage: probability(byte(), 0.05),
    };
    let loads = [0, 1].map(|_| {
        let bytes = 1 + 1000 * u64::from(byte());
        match protocol {
            Protocol::Tcp | Protocol::Mptcp { .. } => Load::Stream { bytes },
            Protocol::Sctp { .. } | Protocol::SctpAuthenticated { .. } | Protocol::CmtSctp { .. } => {
                Load::Messages {
                    bytes,
                    lengths: (1, 1 + 75 * u64::from(byte())),
                    streams: 1 + u16::from(byte() % 4),
                    unordered: probability(byte(), 1.0),
                    reliability: Reliability::Full,
                }
            }
        }
    });
    let seed = u64::from_le_bytes([byte(), byte(), 0, 0, 0, 0, 0, 0]);
    let settings = Settings { together: 1 + byte() % 8, ..settings };
    let outcome = run(&settings, loads, faults, seed, 100_000.0);
    outcome.check();
    assert!(outcome.contents.iter().all(|(written, _)| written.bytes > 0));
}
