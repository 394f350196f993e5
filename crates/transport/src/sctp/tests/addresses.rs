//! Requests to change addresses (RFC 5061), as a peer may send them.

use super::pair::{A, App, B, Link, Net, address, at_ms, body, bulk};
use crate::endpoint::Endpoint;
use core::cell::{Cell, RefCell};
use core::net::Ipv4Addr;
use multipath::PathId;
use std::rc::Rc;
use wire::sctp::{self, Asconf, Chunk, Parameter};
use wire::seq::Serial;
use wire::{Body, Ecn, Packet};

/// Two links, of 80 and 5 ms, and data from B; with the tag that B expects and the number of A's first request.
fn busy() -> (Net, u32, Serial) {
    let mut net = Net::new(vec![Link::new(10, 80), Link::new(10, 5)], |_, config| {
        (config.cmt, config.asconf) = (true, true);
    });
    let known = Rc::new(Cell::new((0, Serial(0))));
    let learn = Rc::clone(&known);
    net.filter = Some(Box::new(move |_, from, packet| {
        let body = body(packet);
        if from == A {
            match &body.chunks[0] {
                Chunk::Init(init) => learn.set((0, init.initial_tsn)),
                _ => learn.set((body.verification_tag, learn.get().1)),
            }
        }
        true
    }));
    net.apps[B] = App::sends(bulk(4_000, 1452));
    net.connect();
    net.run_until(at_ms(3_000));
    // A has asked for nothing, and would take offence at an answer.
    net.filter = Some(Box::new(|_, _, packet| !matches!(body(packet).chunks[0], Chunk::AsconfAck(_))));
    let (tag, serial) = known.get();
    (net, tag, serial)
}

/// A request from A's first address.
fn request(tag: u32, serial: Serial, parameters: Vec<Parameter>) -> Packet {
    let asconf = Asconf { serial, address: address(A, 0), parameters };
    Packet {
        source: address(A, 0),
        destination: address(B, 0),
        ecn: Ecn::NotEct,
        body: Body::Sctp(sctp::Packet {
            source_port: 5000,
            destination_port: 5001,
            verification_tag: tag,
            chunks: vec![Chunk::Asconf(Box::new(asconf))],
            udp: None,
            may_fragment: false,
        }),
    }
}

/// Chunks that a path has carried are still accounted to it when its address is back within the same packet.
#[test]
fn an_address_with_data_in_flight_goes_and_comes_at_once() {
    let (mut net, tag, serial) = busy();
    assert!(net.ends[B].path(PathId(1)).unwrap().outstanding > 0);
    let address = address(A, 1);
    let parameters = vec![
        Parameter::DeleteAddress { correlation: 1, address },
        Parameter::AddAddress { correlation: 2, address },
    ];
    net.inject(B, request(tag, serial, parameters));
    net.run_to_end(at_ms(100_000));
    net.check(B);
    assert!(net.ends[B].path(PathId(1)).unwrap().usable);
}

/// The wildcard takes all addresses but that of the packet (RFC 5061 §4.2.2).
#[test]
fn the_wildcard_deletes_all_but_the_source() {
    let (mut net, tag, serial) = busy();
    let address = Ipv4Addr::UNSPECIFIED.into();
    net.inject(B, request(tag, serial, vec![Parameter::DeleteAddress { correlation: 1, address }]));
    assert!(net.ends[B].path(PathId(0)).is_some());
    assert!(net.ends[B].path(PathId(1)).is_none());
    net.run_to_end(at_ms(100_000));
    net.check(B);
}

/// The cause says what was asked for (RFC 5061 §4.3.2, §4.3.4).
#[test]
fn a_refused_deletion_comes_back_with_its_cause() {
    let (mut net, tag, serial) = busy();
    let answer = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&answer);
    net.filter = Some(Box::new(move |_, _, packet| {
        let Chunk::AsconfAck(ack) = &body(packet).chunks[0] else { return true };
        *seen.borrow_mut() = Some(ack.parameters.clone());
        false
    }));
    let asked = Parameter::DeleteAddress { correlation: 1, address: address(A, 0) };
    let causes = vec![sctp::Cause::DeleteSourceAddress(asked.to_bytes())];
    net.inject(B, request(tag, serial, vec![asked]));
    assert_eq!(answer.take(), Some(vec![Parameter::ErrorCause { correlation: 1, causes }]));
}
