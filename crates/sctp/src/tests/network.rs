//! ICMP reports of routers and hosts about packets that were not delivered.

use super::pair::{A, App, B, Link, Net, address, at_ms, body, bulk, ms};
use anabranch_endpoint::endpoint::{Endpoint, Event, NetworkEvent, Quote, Reason, Unreachable};
use anabranch_endpoint::ends::Address;
use anabranch_multipath::PathId;
use anabranch_wire::sctp::Chunk;
use core::cell::{Cell, RefCell};
use core::net::SocketAddr;
use std::rc::Rc;

/// A packet of end A on a path, as a router quotes it.
fn quote(number: u32, path: usize) -> Quote {
    let local = SocketAddr::new(address(A, path), 5000);
    Quote { local, remote: SocketAddr::new(address(B, path), 5001), number, initiate_tag: None }
}

/// The tag of packets to end B.
fn tag(net: &Net) -> u32 {
    net.ends[B].tag().expect("B has a tag")
}

/// RFC 9260 §7.3: a router with a smaller MTU drops packets that are too big and reports it. Chunks that were
/// cut before are sent as IP fragments, and all new chunks fit.
#[test]
fn smaller_path_mtu_is_used_without_loss() {
    for messages in [vec![(1_452, 0, true); 3_000], vec![(20_000, 0, false); 200]] {
        let mut net = Net::new(vec![Link { queue: 1000, ..Link::new(50, 10) }], |_, _| {});
        let (mtu, dropped) = (Rc::new(Cell::new(1500)), Rc::new(Cell::new(0_u32)));
        let fragmented = Rc::new(RefCell::new(Vec::new()));
        let (limit, count, log) = (Rc::clone(&mtu), Rc::clone(&dropped), Rc::clone(&fragmented));
        net.filter = Some(Box::new(move |_, _, packet| {
            if packet.wire_len() <= limit.get() {
                return true;
            }
            let sctp = body(packet);
            if sctp.may_fragment {
                let data = sctp.chunks.iter().filter_map(Chunk::tsn);
                log.borrow_mut().extend(data);
                return true;
            }
            count.set(count.get() + 1);
            false
        }));
        net.apps[A] = App::sends(messages);
        net.connect();
        net.run_until(at_ms(200));
        mtu.set(1000);
        net.run_until(at_ms(225));
        assert!(dropped.get() > 0);
        let before = net.ends[A].path(PathId(0)).unwrap();
        let event = NetworkEvent::PacketTooBig { quote: quote(tag(&net), 0), mtu: 1000 };
        net.ends[A].handle_network(net.now, event);
        net.drain();
        let after = net.ends[A].path(PathId(0)).unwrap();
        assert_eq!((before.mss, after.mss), (1452, 952));
        let so_far = dropped.get();
        net.run_to_end(at_ms(60_000));
        net.check(A);
        assert_eq!(dropped.get(), so_far, "packets that are too big may be fragmented");
        assert!(!fragmented.borrow().is_empty());
        assert!(net.extra(A, "chunks_too_big") > 0);
    }
}

/// RFC 9260 §10, ICMP6: a report with a wrong tag is forged. No report sets an MTU below the minimum.
#[test]
fn forged_and_too_small_mtus_are_ignored() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, _| {});
    net.connect();
    net.run_until(at_ms(100));
    let mss = |net: &Net| net.ends[A].path(PathId(0)).unwrap().mss;
    let too_big = |quote, mtu| NetworkEvent::PacketTooBig { quote, mtu };
    net.ends[A].handle_network(net.now, too_big(quote(tag(&net) ^ 1, 0), 1000));
    assert_eq!(mss(&net), 1452);
    net.ends[A].handle_network(net.now, too_big(quote(tag(&net), 0), 1400));
    net.ends[A].handle_network(net.now, too_big(quote(tag(&net), 0), 9000));
    assert_eq!(mss(&net), 1352);
    net.ends[A].handle_network(net.now, too_big(quote(tag(&net), 0), 68));
    assert_eq!(mss(&net), 528);
}

#[test]
fn host_without_sctp_refuses_the_association() {
    for what in [Unreachable::Protocol, Unreachable::Port] {
        let mut net = Net::new(vec![Link::new(10, 5)], |_, _| {});
        net.links[0].up = false;
        net.connect();
        let own = net.ends[A].tag().expect("the INIT has a tag");
        let event = |number, initiate_tag| NetworkEvent::Unreachable {
            quote: Quote { initiate_tag, ..quote(number, 0) },
            what,
        };
        // RFC 9260 §10, ICMP6: the initiate tag must be present and correct.
        for (number, initiate_tag) in [(7, None), (0, None), (0, Some(own ^ 1)), (7, Some(own))] {
            net.ends[A].handle_network(net.now, event(number, initiate_tag));
            net.drain();
            assert_eq!(net.closed(A), None, "a stranger's word");
        }
        net.ends[A].handle_network(net.now, event(0, Some(own)));
        net.drain();
        assert_eq!(net.closed(A), Some(Reason::Refused));
    }
}

/// RFC 9260 §10, ICMP9: an unreachable destination fails like one that does not answer, and recovers.
#[test]
fn unreachable_destination_fails_and_recovers() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, config| {
        config.heartbeat_interval = Some(ms(500));
        (config.rto.initial, config.rto.min) = (ms(200), ms(200));
    });
    net.connect();
    net.run_until(at_ms(300));
    let what = Unreachable::Host;
    for _ in 0..6 {
        assert_eq!(
            net.apps[A].events.iter().filter(|event| **event == Event::PathDown(PathId(1))).count(),
            0
        );
        net.ends[A].handle_network(net.now, NetworkEvent::Unreachable { quote: quote(tag(&net), 1), what });
        net.drain();
    }
    assert!(!net.ends[A].path(PathId(1)).unwrap().usable);
    assert!(net.ends[A].path(PathId(0)).unwrap().usable);
    net.run_until(at_ms(5_000));
    assert!(net.ends[A].path(PathId(1)).unwrap().usable);
    assert_eq!(net.closed(A), None);
}

/// The interface reports a smaller MTU: packets are no longer than that, and grow when the MTU does.
#[test]
fn the_mtu_of_an_interface_changes() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, _| {});
    net.connect();
    net.run_until(at_ms(100));
    for (mtu, mss) in [(1280, 1232), (1500, 1452), (9000, 8952)] {
        net.ends[A].handle_network(net.now, NetworkEvent::AddressUp { address: address(A, 0), mtu });
        assert_eq!(net.ends[A].path(PathId(0)).unwrap().mss, mss);
    }
    net.apps[A] = App::sends(bulk(20, 30_000));
    net.run_to_end(at_ms(60_000));
    net.check(A);
}

/// A link that silently drops longer packets, except IP fragments.
fn black_hole(net: &mut Net) -> Rc<Cell<u32>> {
    let mtu = Rc::new(Cell::new(1500));
    let limit = Rc::clone(&mtu);
    net.filter =
        Some(Box::new(move |_, _, packet| packet.wire_len() <= limit.get() || body(packet).may_fragment));
    mtu
}

/// RFC 8899: a path that never carried more than 1,300 bytes loses no data, and its MTU is found. Without discovery,
/// full packets are never delivered.
#[test]
fn a_path_that_drops_long_packets_is_detected() {
    for discovery in [true, false] {
        let mut net = Net::new(vec![Link::new(10, 5)], |_, config| config.pmtu_discovery = discovery);
        black_hole(&mut net).set(1300);
        net.apps[A] = App::sends((0..50).map(|_| (20_000, 0, false)));
        net.connect();
        net.run_to_end(at_ms(60_000));
        let path = net.ends[A].path(PathId(0)).unwrap();
        if discovery {
            net.check(A);
            assert_eq!(path.counters.timeouts, 0);
            net.run_until(at_ms(60_000));
            let mss = net.ends[A].path(PathId(0)).unwrap().mss;
            assert!((1240..=1252).contains(&mss), "{mss}");
        } else {
            assert!(net.apps[B].read.is_empty());
        }
    }
}

/// §4.3: the discovered MTU may change. The lost chunks are sent with their old length in IP fragments; later
/// chunks fit.
#[test]
fn reduced_path_mtu_is_detected() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, config| config.pmtu_discovery = true);
    let mtu = black_hole(&mut net);
    net.apps[A] = App::sends((0..600).map(|_| (20_000, 0, false)));
    net.connect();
    net.run_until(at_ms(2_000));
    assert_eq!(net.ends[A].path(PathId(0)).unwrap().mss, 1452);
    mtu.set(1300);
    net.run_to_end(at_ms(120_000));
    net.check(A);
    let mss = net.ends[A].path(PathId(0)).unwrap().mss;
    assert!((1172..=1252).contains(&mss), "{mss}");
}

/// §4.6.2: a router's report is a hint. A forged one with too small an MTU costs a probe, and does not change
/// the path's MTU.
#[test]
fn a_reported_mtu_is_verified_by_a_probe() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, config| config.pmtu_discovery = true);
    net.connect();
    net.run_until(at_ms(1_000));
    assert_eq!((net.ends[A].path(PathId(0)).unwrap().mss, net.extra(A, "mtu_probes")), (1452, 2));
    for (mtu, mss) in [(1400, 1352), (68, 1352), (1499, 1352)] {
        let event = NetworkEvent::PacketTooBig { quote: quote(tag(&net), 0), mtu };
        net.ends[A].handle_network(net.now, event);
        net.drain();
        net.run_until(net.now + ms(500));
        assert_eq!(net.ends[A].path(PathId(0)).unwrap().mss, mss, "{mtu}");
    }
    // A longer packet is probed again some minutes later.
    net.run_until(net.now + ms(700_000));
    assert_eq!(net.ends[A].path(PathId(0)).unwrap().mss, 1452);
}

/// Each path has a separate MTU, with UDP encapsulation as well.
#[test]
fn each_path_discovers_its_own_mtu() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, config| {
        (config.cmt, config.pmtu_discovery) = (true, true);
        config.encapsulation = Some(anabranch_wire::sctp::encapsulation::Ports::default());
    });
    net.filter = Some(Box::new(|_, _, packet| {
        packet.wire_len() <= if packet.source.to_string().starts_with("10.1") { 1400 } else { 1500 }
    }));
    net.apps[A] = App::sends(bulk(400, 30_000));
    net.connect();
    net.run_until(at_ms(30_000));
    net.check(A);
    let mss = [0, 1].map(|at| net.ends[A].path(PathId(at)).unwrap().mss);
    assert!(mss[0] == 1444 && (1330..=1344).contains(&mss[1]), "{mss:?}");
}

/// If packets became shorter, chunks longer than the path's window are still sent, one by one.
#[test]
fn long_chunks_do_not_wait_for_a_window_of_their_size() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, config| config.max_burst = None);
    net.apps[A] = App::sends(bulk(200, 1_452));
    net.connect();
    net.run_until(at_ms(60));
    net.links[0].up = false;
    let event = NetworkEvent::PacketTooBig { quote: quote(tag(&net), 0), mtu: 576 };
    net.ends[A].handle_network(net.now, event);
    net.drain();
    // Timeouts leave a window of one packet, which is shorter than the chunks.
    net.run_until(at_ms(8_000));
    net.links[0].up = true;
    net.run_to_end(at_ms(60_000));
    net.check(A);
}

/// Received data shows that the peer is reached from another local address, on a route with a smaller MTU. Lost chunks
/// are retransmitted with their old length, and routers may fragment them.
#[test]
fn source_found_by_data_uses_its_own_mtu() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |end, settings| {
        // One address at B, two at A, which sends from the first; heartbeats do not find the second.
        if end == B {
            settings.ends.local.truncate(1);
        } else {
            settings.ends.local[1].mtu = 576;
            settings.ends.remote.truncate(1);
        }
        settings.cmt = true;
        settings.heartbeat_interval = Some(ms(600_000));
        (settings.path_max_retrans, settings.association_max_retrans) = (0, 100);
    });
    net.mesh = true;
    net.filter = Some(Box::new(|now, _, packet| {
        let ends = [packet.source, packet.destination];
        let lost = now >= at_ms(500) && ends.contains(&address(A, 0));
        let too_big = packet.source == address(A, 1) && packet.wire_len() > 576 && !body(packet).may_fragment;
        !lost && !too_big
    }));
    net.connect();
    net.run_until(at_ms(600));
    net.apps[A] = App::sends(bulk(20, 1_000));
    net.apps[B] = App::sends(bulk(20, 1_000));
    net.drain();
    net.run_to_end(at_ms(120_000));
    net.check(A);
    net.check(B);
    assert_eq!(net.ends[A].path(PathId(0)).unwrap().mss, 528);
}

/// An IPv6 path that carries only shorter packets after half a second.
fn shrinking_v6(messages: usize) -> Net {
    let own = |end: usize| core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, end as u16 + 1);
    let mut net = Net::new(vec![Link::new(10, 10)], |end, settings| {
        settings.ends.local = vec![Address::new(own(end).into(), 1500)];
        settings.ends.remote = vec![own(1 - end).into()];
    });
    net.filter = Some(Box::new(|now, _, packet| now < at_ms(500) || packet.wire_len() <= 1_400));
    net.apps[A] = App::sends(bulk(messages, 1432));
    net.connect();
    net.run_until(at_ms(540));
    let local = SocketAddr::new(own(A).into(), 5000);
    let remote = SocketAddr::new(own(B).into(), 5001);
    let quote = Quote { local, remote, number: tag(&net), initiate_tag: None };
    net.ends[A].handle_network(net.now, NetworkEvent::PacketTooBig { quote, mtu: 1_400 });
    net.drain();
    net
}

/// IPv6 routers do not fragment: a chunk that fits no path ends the association early.
#[test]
fn chunks_that_fit_no_path_end_the_association() {
    let mut net = shrinking_v6(5_000);
    net.run_until(at_ms(10_000));
    assert!(net.extra(A, "chunks_too_big") > 0);
    assert_eq!((net.closed(A), net.closed(B)), (Some(Reason::Aborted), Some(Reason::Reset)));
}

/// If all data had arrived before, the association continues, and new chunks are shorter.
#[test]
fn new_data_is_cut_for_a_smaller_mtu_of_ipv6() {
    let mut net = shrinking_v6(100);
    net.apps[A].outbox.extend(bulk(100, 1432));
    net.drain();
    net.run_to_end(at_ms(10_000));
    net.check(A);
    assert_eq!(net.closed(A), None);
}
