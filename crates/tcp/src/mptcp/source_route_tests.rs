//! Subflows with source routes through gateways.

use super::Connection;
use super::tests::{A, B, Setup, tcp};
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_testkit::harness::{Pair, Wire};
use anabranch_wire::ip::option::IpOption;
use anabranch_wire::tcp::Flags;
use anabranch_wire::{Body, Packet};
use core::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;

const GATEWAYS: [Ipv4Addr; 3] =
    [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2), Ipv4Addr::new(10, 9, 0, 3)];

/// A packet with a source route: its port, hop, length and the bytes of its payload and option.
type Routed = (u16, IpAddr, u32, [u32; 2]);

/// The packets of clients with source routes; one test at a time reads them.
static ROUTED: Mutex<Vec<Routed>> = Mutex::new(Vec::new());
static TESTS: Mutex<()> = Mutex::new(());

/// Gateways: checks and records a packet with a source route, and sends it on without its option.
fn follow(packet: &mut Packet) {
    let len = packet.wire_len();
    let mut bytes = Vec::new();
    anabranch_wire::check(packet, &mut bytes).expect("a sent packet can be parsed");
    let Body::Tcp(segment) = &mut packet.body else { return };
    let Some(option) = segment.ip_option.take() else { return };
    let IpOption::SourceRoute(mut route) = *option else { panic!("a source route") };
    let taken = route.wire_len();
    ROUTED.lock().unwrap().push((segment.source_port, packet.destination, len, [segment.payload.len, taken]));
    loop {
        let (to, next) = route.followed(Ipv4Addr::LOCALHOST).expect("a next hop");
        packet.destination = to.into();
        match next {
            Some(next) => route = next,
            None => break,
        }
    }
}

/// The connection and its packets with source routes, after 1 MB.
fn transferred(setup: &Setup) -> (Pair<Connection>, Vec<Routed>) {
    ROUTED.lock().unwrap().clear();
    let mut pair = setup.pair(Wire::new(20), Wire::new(20));
    pair.tampering = Some(follow);
    assert!(pair.send_file(1_000_000, 20.0));
    let routed = ROUTED.lock().unwrap().clone();
    (pair, routed)
}

fn through(source_routes: &[&[Ipv4Addr]]) -> Setup {
    let source_routes = source_routes.iter().map(|hops| hops.to_vec()).collect();
    Setup { paths: "binder".into(), source_routes, ..Setup::default() }
}

#[test]
fn each_gateway_has_a_subflow_beside_the_first() {
    let _alone = TESTS.lock();
    let setup = through(&[&GATEWAYS[..1], &GATEWAYS[1..2]]);
    let (pair, routed) = transferred(&setup);
    let paths = pair.ends[0].report().paths;
    // Subflow 1 uses gateway 1 modulo 2, and subflow 2 gateway 0.
    assert_eq!(paths.iter().map(|path| path.gateway).collect::<Vec<_>>(), [None, Some(1), Some(0)]);
    assert!(paths.iter().all(|path| (path.local.ip(), path.remote.ip()) == (A[0], B[0])));
    for (path, gateway) in [(1, GATEWAYS[1]), (2, GATEWAYS[0])] {
        let port = paths[path].local.port();
        let hops = routed.iter().filter(|(source, ..)| *source == port).map(|(_, hop, ..)| *hop);
        let hops: Vec<_> = hops.collect();
        assert!(hops.len() > 20 && hops.iter().all(|hop| *hop == IpAddr::from(gateway)), "path {path}");
        assert!(paths[path].counters.bytes_acked > 0, "path {path}");
    }
    // All segments of the subflows have routes, SYN and acknowledgement of the SYN/ACK included; no other has one.
    let first = paths[0].local.port();
    let from_client =
        pair.log.iter().filter(|(_, from, packet)| *from == 0 && tcp(packet).source_port != first);
    assert_eq!(from_client.count(), routed.len());
    assert!(routed.iter().all(|(port, ..)| *port != first));
    assert!(pair.ends[1].report().paths.iter().all(|path| path.gateway.is_none()));
}

#[test]
fn option_takes_payload_and_keeps_the_mtu() {
    let _alone = TESTS.lock();
    // One hop takes 8 bytes of the header, three take 16, nine take 40.
    let nine: Vec<_> = (1..=9).map(|host| Ipv4Addr::new(10, 9, 0, host)).collect();
    for (hops, taken) in [(&GATEWAYS[..1], 8), (&GATEWAYS[..], 16), (&nine[..], 40)] {
        let (pair, routed) = transferred(&through(&[hops]));
        let longest = routed.iter().map(|(.., len, [payload, _])| (*len, *payload)).max();
        let paths = pair.ends[0].report().paths;
        let mss = paths[0].mss;
        assert_eq!(longest, Some((1500, mss - taken)));
        assert_eq!(paths[1].mss, mss - taken);
        assert!(routed.iter().all(|(_, hop, _, sizes)| *hop == IpAddr::from(hops[0]) && sizes[1] == taken));
        // The peer's packets carry no option, so the announced size is not smaller.
        let syns = pair.log.iter().filter(|(.., packet)| tcp(packet).flags.contains(Flags::SYN));
        assert!(syns.into_iter().all(|(.., packet)| tcp(packet).options.mss == Some(1460)));
    }
}

#[test]
fn initial_subflow_carries_all_if_routes_are_dropped() {
    let _alone = TESTS.lock();
    let setup = through(&[&GATEWAYS[..1], &GATEWAYS[1..2]]);
    // Without gateways no wire leads to their addresses.
    let mut pair = setup.pair(Wire::new(20), Wire::new(20));
    assert!(pair.send_file(1_000_000, 20.0));
    let report = pair.ends[0].report();
    assert_eq!(
        report.paths.iter().map(|path| path.counters.bytes_acked > 0).collect::<Vec<_>>(),
        [true, false, false]
    );
    assert!(!report.fallback);
}

#[test]
fn renumbered_gateway_is_used() {
    let mut config = through(&[&GATEWAYS[..2]]).config();
    config.renumber(GATEWAYS[1].into(), GATEWAYS[2].into());
    assert_eq!(config.source_routes, [[GATEWAYS[0], GATEWAYS[2]]]);
}
