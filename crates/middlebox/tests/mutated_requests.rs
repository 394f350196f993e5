//! Routers with network control against mutated requests of both forms: no panic, a bounded state, and answers of the
//! same length that parse.

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_middlebox::FlowKey;
use anabranch_middlebox::network_control::{ControlRouter, Way};
use anabranch_netem::Interface;
use anabranch_wire::ip::network_option::NetworkOption;
use anabranch_wire::ip::option::IpOption;
use anabranch_wire::ip::{ipv4, protocol};
use anabranch_wire::sctp::{Chunk, Chunks, NetworkControl, Packet};
use anabranch_wire::tcp::Segment;
use anabranch_wire::{Body, Ecn, Packet as IpPacket};

/// A valid request in the bytes of an SCTP packet.
fn chunk() -> Vec<u8> {
    let request = NetworkControl { association: 7, paths: 2, apart_from: 2, ..NetworkControl::default() };
    let packet = Packet {
        source_port: 1,
        destination_port: 2,
        verification_tag: 3,
        chunks: Chunks::from(Chunk::NetworkControl(Box::new(request))),
        udp: None,
        may_fragment: false,
        // Routers accept a packet without a checksum, so that a mutated one reaches their parser.
        zero_checksum: true,
    };
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    bytes
}

/// A valid request in the bytes of an IP packet.
fn option(is_ipv4: bool) -> Vec<u8> {
    let request = NetworkControl { association: 7, paths: 2, apart_from: 2, ..NetworkControl::default() };
    let option = IpOption::NetworkControl(NetworkOption::Request(request));
    let ip = |host: u8| if is_ipv4 { [10, 0, 0, host].into() } else { [host; 16].into() };
    let body = Body::Tcp(Segment { ip_option: Some(Box::new(option)), ..Segment::default() });
    let mut bytes = Vec::new();
    IpPacket { source: ip(1), destination: ip(2), ecn: Ecn::NotEct, body }.emit(&mut bytes);
    bytes
}

/// A seed with a few changed, removed or inserted bytes; most changes are in its first `start` bytes.
fn mutated(seed: &[u8], start: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..rng.between(0, 3) {
        if bytes.is_empty() {
            break;
        }
        let last = if rng.chance(0.9) { start.min(bytes.len()) } else { bytes.len() };
        let at = rng.between(0, last as u64 - 1) as usize;
        let byte = [0, 1, 2, 4, 8, 24, 26, 32, 33, 127, 158, 184, 190, 255, rng.between(0, 255) as u8];
        let byte = byte[rng.between(0, byte.len() as u64 - 1) as usize];
        match rng.between(0, 5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, byte),
            2 => drop(bytes.remove(at)),
            _ => bytes[at] = byte,
        }
    }
    bytes
}

/// Ways with random states.
fn ways(rng: &mut Rng) -> Vec<Way> {
    let way = |at: u64| Way {
        by: Interface(2 * at as u32),
        rate_bps: [0.0, 1e6, 1e12][rng.between(0, 2) as usize],
        delay: Duration::from_millis(rng.between(0, 10_000)),
        loss: rng.unit(),
        queue_packets: rng.between(0, 100_000),
    };
    (0..3).map(way).collect()
}

/// Passes packets to a router; returns the number of valid requests of each form.
fn pass(rounds: u64) -> [u64; 2] {
    let (mut rng, mut router, mut valid) = (Rng::new(1), ControlRouter::new(1), [0; 2]);
    let seeds = [chunk(), option(true), option(false)];
    for round in 0..rounds {
        let form = round as usize % 3;
        let now = Time::from_nanos(round * 1_000_000);
        let starts = [12 + 24, 48, 72];
        let mut bytes = mutated(&seeds[form], starts[form], &mut rng);
        if form == 1 && bytes.first().is_some_and(|first| bytes.len() >= usize::from(first & 15).max(5) * 4) {
            ipv4::set_checksum(&mut bytes);
        }
        let found = if form == 0 {
            NetworkControl::requested_in(&bytes)
        } else {
            NetworkOption::requested_in(&bytes)
        };
        let port = rng.between(0, 3) as u16;
        let end = |host: u8| ([10, 0, 0, host], port).into();
        let protocol = if form == 0 { protocol::SCTP } else { protocol::TCP };
        let flow = FlowKey { protocol, source: end(1), destination: end(2) };
        let Some(mut request) = found else {
            let by = router.way_of(now, &flow).unwrap_or(Interface(0));
            router.forwarded(now, by, bytes.len() as u32);
            continue;
        };
        valid[usize::from(form > 0)] += 1;
        let len = bytes.len();
        router.choose(now, flow, &mut request, &ways(&mut rng));
        if form == 0 {
            request.clone().replace_in(&mut bytes);
            assert_eq!(NetworkControl::requested_in(&bytes), Some(request));
        } else {
            request.discard_records();
            if request.is_shared {
                NetworkOption::mark_shared(&mut bytes);
            }
            assert_eq!(NetworkOption::requested_in(&bytes), Some(request));
        }
        assert_eq!(bytes.len(), len);
    }
    valid
}

#[test]
fn router_survives_mutated_requests() {
    let valid = pass(30_000);
    assert!(valid.iter().all(|&valid| valid > 3_000), "{valid:?}");
}

/// `cargo test --release -p anabranch-middlebox --test mutated_requests -- --ignored --nocapture`
#[test]
#[ignore = "ten million packets of each form"]
fn router_survives_ten_million_requests() {
    println!("valid requests in 30,000,000 mutated packets (chunk, option): {:?}", pass(30_000_000));
}
