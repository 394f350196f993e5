//! Two ends exchange bytes in trains of segments. A network loses, duplicates, delays, cuts and joins the trains at random, and an
//! adversary adds copies with changed bytes. Each end reads exactly the bytes that the other end wrote.
//!
//! `ANABRANCH_TRAINS=1000000 cargo test --release -p anabranch-net --lib train_pair` runs a million transfers.

use crate::emulator::{Train as Rejoined, split_output};
use crate::offload::{OffloadHeader, parse_output};
use crate::train::{Train, Uncut};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Endpoint, Reason, Secrets};
use anabranch_multipath::path_manager;
use anabranch_tcp::{mptcp, tcp};
use anabranch_testkit::application::{Application, Load};
use anabranch_testkit::end::End;
use anabranch_testkit::paths::{Paths, path_of};
use anabranch_wire::{Buffer, Packet};
use core::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Number of transfers unless the environment variable gives another one.
const DEFAULT_TRANSFERS: u64 = 200;
/// Longest transfer in virtual time, with a reserve for doubled timeouts.
const LIMIT: Time = Time::from_nanos(5_000_000_000_000);
/// The offload header and the packet, on the way to an end.
type Output = Vec<u8>;

/// Rates of faults, and the changes of trains.
struct Network {
    rng: Rng,
    loss: f64,
    forgery: f64,
    /// True if trains are cut into segments and joined again.
    is_cutting: bool,
    on_the_way: BTreeMap<u64, (usize, Output)>,
    arrivals: BinaryHeap<Reverse<(Time, u64)>>,
    count: u64,
}

impl Network {
    /// Passes a train to an end, whole or in parts.
    fn send(&mut self, now: Time, to: usize, output: &[u8]) {
        if self.rng.chance(self.forgery) {
            self.forge(now, to, output);
        }
        if !self.is_cutting || self.rng.chance(0.3) {
            return self.carry(now, to, output);
        }
        let mut segments = Vec::new();
        split_output(output, Vec::new, |segment| segments.push(segment));
        let mut joined = Rejoined::default();
        for segment in segments {
            if self.rng.chance(self.loss) {
                continue;
            }
            let is_joined = self.rng.chance(0.7);
            let left = if is_joined { joined.push(segment).err() } else { Some(segment) };
            if let Some(segment) = left {
                self.carry_joined(now, to, &mut joined);
                assert!(joined.push(segment).is_ok(), "the first segment of a train");
            }
        }
        self.carry_joined(now, to, &mut joined);
    }

    fn carry_joined(&mut self, now: Time, to: usize, joined: &mut Rejoined) {
        let Some((header, parts)) = joined.parts() else { return };
        let output: Output = header.iter().chain(parts.into_iter().flatten()).copied().collect();
        joined.drain().for_each(drop);
        self.carry(now, to, &output);
    }

    /// Loses, duplicates and delays an output.
    fn carry(&mut self, now: Time, to: usize, output: &[u8]) {
        if self.rng.chance(self.loss) {
            return;
        }
        for _ in 0..=u32::from(self.rng.chance(0.02)) {
            let late = if self.rng.chance(0.05) { self.rng.below(20_000_000) } else { 0 };
            self.count += 1;
            self.on_the_way.insert(self.count, (to, output.to_vec()));
            self.arrivals.push(Reverse((now + Duration::from_nanos(5_000_000 + late), self.count)));
        }
    }

    /// Adds a copy with changed bytes of the offload header, or with a changed byte of the packet and a finished checksum.
    fn forge(&mut self, now: Time, to: usize, output: &[u8]) {
        let mut forged = output.to_vec();
        if self.rng.chance(0.5) {
            for _ in 0..self.rng.between(1, 4) {
                forged[self.rng.below(OffloadHeader::LEN as u64) as usize] = self.rng.below(256) as u8;
            }
            // The segments have wrong places, so an end must not get them; the kernel makes no such header.
            split_output(&forged, Vec::new, |segment| {
                let mut bytes = Vec::new();
                segment.append_finished(&mut bytes);
                drop(Packet::parse(&bytes));
            });
        } else {
            let at = self.rng.between(OffloadHeader::LEN as u64, forged.len() as u64 - 1) as usize;
            forged[at] ^= self.rng.between(1, 255) as u8;
            forged[..OffloadHeader::LEN].fill(0);
            forged.truncate(self.rng.between(at as u64 + 1, forged.len() as u64) as usize);
        }
        self.carry(now, to, &forged);
    }

    fn next(&self) -> Option<Time> {
        self.arrivals.peek().map(|Reverse((at, _))| *at)
    }

    fn pop(&mut self, now: Time) -> Option<(usize, Output)> {
        self.next().filter(|&at| at <= now)?;
        let Reverse((_, number)) = self.arrivals.pop()?;
        self.on_the_way.remove(&number)
    }
}

fn random_config(rng: &mut Rng) -> tcp::Config {
    let (send_buffer, receive_buffer) = (rng.between(10_000, 200_000), rng.between(10_000, 200_000));
    tcp::Config::default().send_buffer(send_buffer).receive_buffer(receive_buffer).retries(30).syn_retries(30)
}

fn pair_of_tcp(paths: Paths, rng: &mut Rng) -> [Box<dyn Endpoint>; 2] {
    let (config, secrets) = (random_config(rng), Secrets::simulated(&mut rng.fork("secrets")));
    let [near, far] = paths.ends();
    [
        Box::new(tcp::Connection::connecting(config.clone(), &near, secrets.fork("near"))),
        Box::new(tcp::Connection::listening(config, &far, secrets.fork("far"))),
    ]
}

fn pair_of_mptcp(paths: Paths, rng: &mut Rng) -> [Box<dyn Endpoint>; 2] {
    let config = mptcp::Config::default()
        .tcp(random_config(rng))
        .path_manager(path_manager::parse("fullmesh").expect("listed"))
        .checksum(rng.chance(0.5));
    let secrets = Secrets::simulated(&mut rng.fork("secrets"));
    let [near, far] = paths.ends();
    [
        Box::new(mptcp::Connection::connecting(config.clone(), &near, secrets.fork("near"))),
        Box::new(mptcp::Connection::listening(config, &far, secrets.fork("far"))),
    ]
}

/// Two ends and the network between them.
struct Pair {
    now: Time,
    ends: [End; 2],
    /// Of each end, a train for each path.
    trains: [Vec<Train>; 2],
    network: Network,
}

impl Pair {
    /// A pair with random settings.
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let (ipv6, mtu) = (rng.chance(0.5), rng.between(1280, 9000) as u32);
        let count = if rng.chance(0.7) { 2 } else { 1 };
        let paths = Paths { ipv6, count, mtu };
        let made = if count == 2 { pair_of_mptcp(paths, &mut rng) } else { pair_of_tcp(paths, &mut rng) };
        let mut made = made.into_iter();
        let is_cutting = rng.chance(0.6);
        let network = Network {
            loss: [0.0, 0.01, 0.05][rng.below(3) as usize],
            forgery: [0.0, 0.05, 0.3][rng.below(3) as usize],
            is_cutting,
            on_the_way: BTreeMap::new(),
            arrivals: BinaryHeap::new(),
            count: 0,
            rng: rng.fork("network"),
        };
        let bytes = [0, 1].map(|_| {
            let bound = [1, 3000, 20_000][rng.below(3) as usize];
            rng.between(1, bound)
        });
        let ends = [0, 1].map(|at| {
            let load = Load::Stream { bytes: bytes[at] };
            let application = Application::new(load, bytes[1 - at], rng.fork(&format!("application {at}")));
            End::new(made.next().expect("two ends"), application)
        });
        // A card that cuts must get no joined mappings.
        let uncut = if is_cutting { Uncut::At(Vec::new()) } else { Uncut::Everywhere };
        let trains = [0, 1].map(|_| (0..count).map(|_| Train::new(uncut.clone())).collect());
        Self { now: Time::ZERO, ends, trains, network }
    }

    fn settle(&mut self, at: usize, packet: Option<Buffer<'_>>) {
        let (now, network, trains) = (self.now, &mut self.network, &mut self.trains[at]);
        self.ends[at].settle(now, packet, &mut |packet, bytes| {
            let train = &mut trains[usize::from(path_of(packet))];
            let sent = train.send(packet, &mut |payload, out| bytes.fill(payload, out), |output| {
                network.send(now, 1 - at, output);
                Ok(())
            });
            sent.expect("the network returns no error");
        });
    }

    /// Passes the trains that the ends have kept to the network.
    fn flush(&mut self) {
        for (at, trains) in self.trains.iter_mut().enumerate() {
            for train in trains {
                let (now, network) = (self.now, &mut self.network);
                let flushed = train.flush(|output| {
                    network.send(now, 1 - at, output);
                    Ok(())
                });
                flushed.expect("the network returns no error");
            }
        }
    }

    /// Advances to the next arrival or timer; false if there is none.
    fn step(&mut self) -> bool {
        let timers = self.ends.iter().filter_map(|end| end.endpoint.next_timeout());
        let Some(next) = timers.chain(self.network.next()).min().filter(|&at| at <= LIMIT) else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some((to, output)) = self.network.pop(self.now) {
            let Some(Ok(packet)) = parse_output(&output) else { continue };
            let content = Buffer(&output);
            self.ends[to].endpoint.handle_packet(self.now, packet, &content);
            self.settle(to, Some(content));
        }
        for at in [0, 1] {
            if self.ends[at].endpoint.next_timeout().is_some_and(|due| due <= self.now) {
                self.ends[at].endpoint.handle_timeout(self.now);
                self.settle(at, None);
            }
        }
        self.flush();
        true
    }
}

fn transfer(seed: u64) {
    let mut pair = Pair::new(seed);
    for at in [1, 0] {
        pair.ends[at].endpoint.connect(pair.now);
        pair.settle(at, None);
    }
    pair.flush();
    while pair.ends.iter().any(|end| end.closed.is_none()) && pair.step() {}
    let [one, other] = &pair.ends;
    for (writer, reader) in [(one, other), (other, one)] {
        let (written, read) = (&writer.application.written, &reader.application.read);
        assert_eq!((read.bytes, read.digests()), (written.bytes, written.digests()), "transfer {seed}");
        assert_eq!(writer.closed, Some(Reason::Closed), "transfer {seed}");
    }
}

#[test]
fn trains_carry_every_byte() {
    let count = std::env::var("ANABRANCH_TRAINS").ok().map(|count| count.parse().expect("a number"));
    for seed in 0..count.unwrap_or(DEFAULT_TRANSFERS) {
        transfer(seed);
    }
}
