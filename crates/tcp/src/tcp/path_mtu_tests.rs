//! Paths with a smaller MTU than their interface, and genuine and forged ICMP messages about it.

use super::tests::{CLIENT, SERVER, pair};
use super::{Config, Connection, Recovery, State};
use anabranch_base::time::Duration;
use anabranch_endpoint::endpoint::{Endpoint, NetworkEvent, Quote, Reason, Unreachable, Write};
use anabranch_testkit::harness::{Pair, Wire};
use anabranch_wire::{Body, Packet};
use core::net::SocketAddr;
use std::cell::RefCell;
use std::rc::Rc;

/// The quote of a packet in an ICMP message.
fn quote(packet: &Packet) -> Quote {
    let Body::Tcp(segment) = &packet.body else { panic!("not TCP: {packet:?}") };
    Quote {
        local: SocketAddr::new(packet.source, segment.source_port),
        remote: SocketAddr::new(packet.destination, segment.destination_port),
        number: segment.seq.0,
        initiate_tag: None,
    }
}

/// A router that drops the client's packets longer than `mtu` from `start` on. Its messages contain that MTU if
/// `reported_mtu` is set.
struct Router {
    dropped: Rc<RefCell<Vec<Quote>>>,
    reported_mtu: Option<u32>,
}

impl Router {
    fn before(pair: &mut Pair<Connection>, mtu: u32, reported_mtu: Option<u32>) -> Self {
        let dropped = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&dropped);
        pair.filter = Some(Box::new(move |_, packet| {
            let long = packet.source == CLIENT && packet.wire_len() > mtu;
            if long {
                log.borrow_mut().push(quote(packet));
            }
            long
        }));
        Self { dropped, reported_mtu }
    }

    /// Runs until the client has sent everything and the server has received it, or until the time limit.
    fn transfer(&self, pair: &mut Pair<Connection>, size: u64, seconds: f64) -> bool {
        let mut at = pair.now.as_secs_f64();
        while at < seconds {
            at += 0.001;
            if pair.send_file(size, at) {
                return true;
            }
            let dropped = core::mem::take(&mut *self.dropped.borrow_mut());
            if let Some(mtu) = self.reported_mtu {
                for quote in dropped {
                    let event = NetworkEvent::PacketTooBig { quote, mtu };
                    pair.ends[0].handle_network(pair.now, event);
                }
            }
        }
        false
    }
}

#[test]
fn narrowed_path_costs_neither_timeout_nor_window() {
    for recovery in [Recovery::Sack, Recovery::Prr, Recovery::Rack] {
        // A small receive window keeps the queue short.
        let config = Config::default().recovery(recovery).receive_buffer(30_000);
        let mut pair = pair(&config, Wire::new(10));
        assert!(!pair.send_file(2_000_000, 0.6));
        let before = pair.ends[0].report().paths[0];
        let sent = pair.log.len();
        let router = Router::before(&mut pair, 1000, Some(1000));
        assert!(router.transfer(&mut pair, 2_000_000, 5.0), "{recovery:?}: {}", pair.sinks[1].delivered);
        let after = pair.ends[0].report().paths[0];
        // 1000 bytes less 40 of headers and 12 of timestamps.
        assert_eq!((before.mss, after.mss), (1448, 948));
        assert_eq!((after.counters.timeouts, after.counters.recoveries), (0, 0), "{recovery:?}");
        assert!(after.cwnd >= before.cwnd && after.ssthresh == before.ssthresh, "{recovery:?}");
        let long = pair.log[sent..].iter().filter(|(_, end, p)| *end == 0 && p.wire_len() > 1000);
        assert!(long.count() > 0, "full-sized packets were in flight");
        assert!(pair.log.last().is_some_and(|(_, _, p)| p.wire_len() <= 1000));
    }
}

#[test]
fn plateaus_find_the_mtu_that_a_router_omits() {
    let mut pair = pair(&Config::default(), Wire::new(10));
    assert!(!pair.send_file(500_000, 0.3));
    let router = Router::before(&mut pair, 1400, Some(0));
    assert!(router.transfer(&mut pair, 500_000, 5.0));
    // RFC 1191 §7.1: from 1500 down to 1492, then to 1006.
    assert_eq!(pair.ends[0].report().paths[0].mss, 1006 - 52);
}

#[test]
fn icmp_needs_number_in_flight_and_minimum_mtu() {
    let mut pair = pair(&Config::default(), Wire::new(50));
    pair.run_until(0.3);
    pair.ends[0].write(pair.now, Write::bytes(10_000));
    pair.settle();
    let genuine = pair.log.iter().rev().find(|(_, end, p)| *end == 0 && p.wire_len() == 1500);
    let genuine = quote(&genuine.expect("a full segment").2);
    let mss = |pair: &Pair<Connection>| pair.ends[0].report().paths[0].mss;
    let tell = |pair: &mut Pair<Connection>, quote, mtu| {
        pair.ends[0].handle_network(pair.now, NetworkEvent::PacketTooBig { quote, mtu });
        mss(pair)
    };
    for off in [20_000, 0x8000_0000, 1_u32.wrapping_neg().wrapping_mul(20_000)] {
        let forged = Quote { number: genuine.number.wrapping_add(off), ..genuine };
        assert_eq!(tell(&mut pair, forged, 576), 1448);
    }
    let elsewhere = Quote { remote: SocketAddr::new(SERVER, 80), ..genuine };
    assert_eq!(tell(&mut pair, elsewhere, 576), 1448);
    assert_eq!(tell(&mut pair, genuine, 9000), 1448, "a larger MTU is ignored");
    assert_eq!(tell(&mut pair, genuine, 100), 552 - 52);
    pair.run_until(1.0);
    assert_eq!((pair.sinks[1].delivered, pair.ends[0].report().paths[0].counters.timeouts), (10_000, 0));
    // After ten minutes, larger packets test the path again.
    pair.run_until(599.0);
    assert_eq!(mss(&pair), 500);
    pair.run_until(601.0);
    assert_eq!(mss(&pair), 1448);
}

#[test]
fn a_black_hole_is_found_by_smaller_segments() {
    let config = Config::default().black_hole_detection(true).abc_limit(Some(1));
    let mut pair = pair(&config, Wire::new(10));
    assert!(!pair.send_file(100_000, 0.1));
    let router = Router::before(&mut pair, 1300, None);
    assert!(router.transfer(&mut pair, 100_000, 60.0), "{}", pair.sinks[1].delivered);
    assert_eq!(pair.ends[0].report().paths[0].mss, 724, "half of 1448");
}

#[test]
fn interface_mtu_limits_packets_until_it_changes() {
    let mut pair = pair(&Config::default(), Wire::new(10));
    pair.run_until(0.1);
    for (up, mtu, mss) in
        [(true, 1400, 1348), (true, 1500, 1448), (false, 0, 1448), (true, 9000, 1448), (true, 1000, 948)]
    {
        pair.ends[0].handle_network(pair.now, NetworkEvent::address(CLIENT, mtu, up));
        assert_eq!(pair.ends[0].report().paths[0].mss, mss);
    }
    assert!(pair.send_file(100_000, 5.0));
}

#[test]
fn icmp_unreachable_decides_reason_of_failed_open() {
    let dead = || pair(&Config::default().syn_retries(1), Wire { up: false, ..Wire::new(10) });
    let tell = |pair: &mut Pair<Connection>, what, off: u32| {
        let quote = quote(&pair.log[0].2);
        let quote = Quote { number: quote.number.wrapping_add(off), ..quote };
        pair.ends[0].handle_network(pair.now, NetworkEvent::Unreachable { quote, what });
    };
    for (what, off, expected) in [
        (Unreachable::Port, 0, Reason::Refused),
        (Unreachable::Protocol, 0, Reason::Refused),
        (Unreachable::Port, 1, Reason::TimedOut),
        (Unreachable::Host, 0, Reason::Unreachable),
        (Unreachable::Prohibited, 0, Reason::Unreachable),
    ] {
        let mut pair = dead();
        pair.run_until(0.1);
        tell(&mut pair, what, off);
        pair.run_until(60.0);
        assert_eq!(pair.ends[0].block().state(), State::Closed(expected), "{what:?} {off}");
    }
    // An established connection survives each of these messages (RFC 5461 §4).
    let mut living = pair(&Config::default(), Wire::new(10));
    living.run_until(0.1);
    living.ends[0].write(living.now, Write::bytes(5000));
    living.settle();
    let number = living.log.last().map(|(_, _, p)| quote(p)).expect("data");
    living.ends[0]
        .handle_network(living.now, NetworkEvent::Unreachable { quote: number, what: Unreachable::Port });
    living.now += Duration::from_millis(1);
    living.run_until(1.0);
    assert_eq!((living.ends[0].block().state(), living.sinks[1].delivered), (State::Established, 5000));
}
