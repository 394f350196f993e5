//! Unusual handshakes.

use super::pair::{A, B, Link, Net, address, at_ms, body, ms};
use anabranch_endpoint::endpoint::{Endpoint, Reason};
use anabranch_multipath::PathId;
use anabranch_wire::sctp::{self, Abort, Cause, Chunk, Error, Init, Parameter};
use anabranch_wire::seq::Serial;
use anabranch_wire::{Body, Ecn, Packet};
use core::cell::{Cell, RefCell};
use core::net::Ipv4Addr;
use std::rc::Rc;

/// The COOKIE ECHO may claim another of the listed addresses as its source; no packet has been exchanged with
/// that address.
#[test]
fn a_cookie_confirms_only_the_address_of_the_init() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, _| {});
    net.mesh = true;
    net.filter = Some(Box::new(|_, from, packet| {
        if from == A && matches!(body(packet).chunks[0], Chunk::CookieEcho(_)) {
            packet.source = address(A, 1);
        }
        true
    }));
    net.connect();
    // The cookie has just arrived, and no heartbeat has been answered.
    net.run_until(at_ms(24));
    let usable = |at| net.ends[B].path(PathId(at)).map(|path| (path.remote.ip(), path.usable));
    assert_eq!(usable(0), Some((address(A, 0), true)));
    assert_eq!(usable(1), Some((address(A, 1), false)));
}

/// If a peer reports every cookie as stale, the number of attempts is that for a peer that does not answer.
#[test]
fn cookies_that_are_always_stale_end_the_attempt() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, config| config.cookie_life = ms(1));
    let inits = Rc::new(Cell::new(0));
    let count = Rc::clone(&inits);
    net.filter = Some(Box::new(move |_, _, packet| {
        count.set(count.get() + u32::from(matches!(body(packet).chunks[0], Chunk::Init(_))));
        true
    }));
    net.connect();
    net.run_until(at_ms(10_000));
    assert_eq!(net.closed(A), Some(Reason::TimedOut));
    assert_eq!(inits.get(), 9);
}

/// The heartbeat that confirms the fast path overtakes the COOKIE ACK on the slow one (RFC 9260 §8.3: it must be
/// answered from COOKIE-ECHOED on).
#[test]
fn a_heartbeat_before_the_cookie_ack_is_answered() {
    let mut net = Net::new(vec![Link::new(10, 80), Link::new(10, 5)], |_, _| {});
    net.connect();
    net.run_until(at_ms(300));
    assert!(net.ends[B].path(PathId(1)).unwrap().usable);
}

/// All packets sent by an endpoint, and a filter that inserts parameters before those of INIT and INIT ACK.
fn with_parameters(net: &mut Net, parameters: Vec<Parameter>) -> Rc<RefCell<Vec<Chunk>>> {
    let log = Rc::new(RefCell::new(Vec::new()));
    let copy = Rc::clone(&log);
    net.filter = Some(Box::new(move |_, _, packet| {
        let Body::Sctp(body) = &mut packet.body else { return true };
        copy.borrow_mut().extend(body.chunks.iter().cloned());
        for chunk in &mut body.chunks {
            if let Chunk::Init(init) | Chunk::InitAck(init) = chunk {
                init.parameters.splice(0..0, parameters.iter().cloned());
            }
        }
        true
    }));
    log
}

/// A type whose two high bits require the receiver to skip and report the parameter.
fn curious() -> Parameter {
    Parameter::Unknown { kind: 0xc123, value: Box::new([7]) }
}

/// Unknown parameters of an INIT are reported in the INIT ACK, padded; those of an INIT ACK, in an ERROR with
/// the COOKIE ECHO.
#[test]
fn unknown_parameters_are_reported_both_ways() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, _| {});
    let log = with_parameters(&mut net, vec![curious()]);
    net.connect();
    net.run_until(at_ms(100));
    assert!(net.ends[A].established() && net.ends[B].established());
    let copy = Parameter::Unrecognized(Box::new([0xc1, 0x23, 0, 5, 7, 0, 0, 0]));
    let told = |chunk: &Chunk| matches!(chunk, Chunk::InitAck(init) if init.parameters.contains(&copy));
    assert!(log.borrow().iter().any(told));
    let causes = vec![Cause::UnrecognizedParameters(Box::new([0xc1, 0x23, 0, 5, 7]))];
    assert!(log.borrow().contains(&Chunk::Error(Error { causes })));
}

/// Parameters after one that stops the processing are ignored: here the other addresses, and in the response the
/// cookie.
#[test]
fn parameters_after_a_stop_parameter_are_ignored() {
    let stop = Parameter::Unknown { kind: 0x0123, value: Box::default() };
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, _| {});
    with_parameters(&mut net, vec![stop]);
    net.connect();
    net.run_until(at_ms(100));
    assert_eq!(net.closed(A), Some(Reason::Refused));
}

/// The error cause contains the whole parameter, not only the name in it (RFC 9260 §3.3.10.5).
#[test]
fn host_name_parameter_is_reported_whole() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, _| {});
    let log = with_parameters(&mut net, vec![Parameter::HostName(Box::new(*b"a.b\0"))]);
    net.connect();
    net.run_until(at_ms(100));
    let causes = vec![Cause::UnresolvableAddress(Box::new([0, 11, 0, 8, b'a', b'.', b'b', 0]))];
    assert!(log.borrow().contains(&Chunk::Abort(Abort { reflected_tag: false, causes })));
}

/// RFC 9260 §5.2.1: an INIT that would add an address to the forming association is not answered with a cookie.
#[test]
fn cookie_echoed_refuses_an_init_with_a_new_address() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, _| {});
    let log = with_parameters(&mut net, vec![]);
    net.connect();
    // A has sent the cookie, and B has not received it yet.
    net.run_until(at_ms(13));
    let new = Ipv4Addr::new(10, 9, 0, 9);
    let init = Init {
        initiate_tag: 7,
        a_rwnd: 100_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Serial(1),
        parameters: vec![Parameter::Ipv4(new)],
    };
    let packet = Packet {
        source: address(B, 0),
        destination: address(A, 0),
        ecn: Ecn::NotEct,
        body: Body::Sctp(sctp::Packet {
            source_port: 5001,
            destination_port: 5000,
            verification_tag: 0,
            chunks: Chunk::Init(init).into(),
            udp: None,
            may_fragment: false,
            zero_checksum: false,
        }),
    };
    net.inject(A, packet);
    let causes = vec![Cause::RestartWithNewAddresses(vec![new.into()])];
    assert_eq!(log.borrow().last(), Some(&Chunk::Abort(Abort { reflected_tag: false, causes })));
    net.filter = None;
    net.run_until(at_ms(100));
    assert!(net.ends[A].established() && net.ends[B].established());
}

/// RFC 9260 §3.3.2.1.5: a peer that lists the address types that it supports receives no addresses of other
/// types.
#[test]
fn init_ack_uses_address_types_of_the_init() {
    let v6 = "fd00::2".parse().unwrap();
    for only_v4 in [false, true] {
        let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |end, config| {
            if end == B {
                config.ends.local[1] = anabranch_endpoint::Address::new(v6, 1500);
            } else if !only_v4 {
                config.ends.local.push(anabranch_endpoint::Address::new("fd00::1".parse().unwrap(), 1500));
            }
        });
        let log = with_parameters(&mut net, vec![]);
        net.connect();
        net.run_until(at_ms(100));
        let listed = |chunk: &Chunk| {
            let Chunk::InitAck(init) = chunk else { return None };
            Some(init.parameters.iter().filter_map(Parameter::address).any(|address| address == v6))
        };
        assert_eq!(log.borrow().iter().find_map(listed), Some(!only_v4));
    }
}
