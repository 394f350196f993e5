//! Requests to change addresses (RFC 5061), as a peer may send them.

use super::pair::{A, App, B, Link, Net, address, at_ms, body, bulk};
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_multipath::PathId;
use anabranch_wire::sctp::{self, Asconf, Chunk, Parameter};
use anabranch_wire::seq::Serial;
use anabranch_wire::{Body, Ecn, Packet};
use core::cell::{Cell, RefCell};
use core::net::Ipv4Addr;
use std::rc::Rc;

/// Two links, of 80 and 5 ms, and data from B. Returns the tag that B expects and the number of A's first request.
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
    // A has sent no request, and would treat a response as a protocol violation.
    net.filter =
        Some(Box::new(|_, _, packet| !matches!(body(packet).chunks.last(), Some(Chunk::AsconfAck(_)))));
    let (tag, serial) = known.get();
    (net, tag, serial)
}

/// A request from A's first address, authenticated with A's keys.
fn request(net: &Net, (tag, serial): (u32, Serial), parameters: Vec<Parameter>) -> Packet {
    let asconf = Chunk::Asconf(Box::new(Asconf { serial, address: address(A, 0), parameters }));
    let mut packet = Packet {
        source: address(A, 0),
        destination: address(B, 0),
        ecn: Ecn::NotEct,
        body: Body::Sctp(sctp::Packet {
            source_port: 5000,
            destination_port: 5001,
            verification_tag: tag,
            chunks: asconf.into(),
            udp: None,
            may_fragment: false,
            zero_checksum: false,
        }),
    };
    net.ends[A].authenticate(&mut packet);
    packet.settle(&anabranch_wire::Pattern);
    packet
}

/// Chunks that a path has carried are still counted for it if its address is deleted and added by the same packet.
#[test]
fn an_address_with_data_may_be_deleted_and_added() {
    let (mut net, tag, serial) = busy();
    assert!(net.ends[B].path(PathId(1)).unwrap().outstanding > 0);
    let address = address(A, 1);
    let parameters = vec![
        Parameter::DeleteAddress { correlation: 1, address },
        Parameter::AddAddress { correlation: 2, address },
    ];
    let packet = request(&net, (tag, serial), parameters);
    net.inject(B, packet);
    net.run_to_end(at_ms(100_000));
    net.check(B);
    assert!(net.ends[B].path(PathId(1)).unwrap().usable);
}

/// The wildcard address deletes all addresses except the source of the packet (RFC 5061 §4.2.2).
#[test]
fn the_wildcard_deletes_all_but_the_source() {
    let (mut net, tag, serial) = busy();
    let address = Ipv4Addr::UNSPECIFIED.into();
    let packet = request(&net, (tag, serial), vec![Parameter::DeleteAddress { correlation: 1, address }]);
    net.inject(B, packet);
    assert!(net.ends[B].path(PathId(0)).is_some());
    assert!(net.ends[B].path(PathId(1)).is_none());
    net.run_to_end(at_ms(100_000));
    net.check(B);
}

/// The error cause contains the request (RFC 5061 §4.3.2, §4.3.4).
#[test]
fn refused_deletion_is_reported_with_cause() {
    let (mut net, tag, serial) = busy();
    let answer = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&answer);
    net.filter = Some(Box::new(move |_, _, packet| {
        let Some(Chunk::AsconfAck(ack)) = body(packet).chunks.last() else { return true };
        *seen.borrow_mut() = Some(ack.parameters.clone());
        false
    }));
    let asked = Parameter::DeleteAddress { correlation: 1, address: address(A, 0) };
    let causes = vec![sctp::Cause::DeleteSourceAddress(asked.to_bytes())];
    let packet = request(&net, (tag, serial), vec![asked]);
    net.inject(B, packet);
    assert_eq!(answer.take(), Some(vec![Parameter::ErrorCause { correlation: 1, causes }]));
}

/// RFC 5061 §4.2.7, RFC 4895 §6.3: a request without an AUTH, with a wrong one, or with the AUTH of another request
/// changes nothing and gets no response.
#[test]
fn requests_that_are_not_authenticated_are_ignored() {
    let (mut net, tag, serial) = busy();
    let heard = Rc::new(Cell::new(0));
    let count = Rc::clone(&heard);
    net.filter = Some(Box::new(move |_, from, packet| {
        let answer = matches!(body(packet).chunks.last(), Some(Chunk::AsconfAck(_) | Chunk::Error(_)));
        count.set(count.get() + u32::from(from == B && answer));
        true
    }));
    let delete = vec![Parameter::DeleteAddress { correlation: 1, address: address(A, 1) }];
    let genuine = request(&net, (tag, serial), delete);
    let [Chunk::Auth(auth), asconf] = &body(&genuine).chunks[..] else { panic!("AUTH and ASCONF") };
    let mut forged = auth.clone();
    forged.code[3] ^= 1;
    for chunks in [
        vec![asconf.clone()],
        vec![Chunk::Auth(forged), asconf.clone()],
        vec![asconf.clone(), Chunk::Auth(auth.clone())],
    ] {
        let mut packet = genuine.clone();
        let Body::Sctp(sctp) = &mut packet.body else { panic!("SCTP") };
        sctp.chunks = chunks.into();
        net.inject(B, packet);
        assert!(net.ends[B].path(PathId(1)).is_some());
    }
    assert_eq!((heard.get(), net.extra(B, "forgeries")), (0, 1));
    net.inject(B, genuine);
    assert!(net.ends[B].path(PathId(1)).is_none());
    assert_eq!(heard.get(), 1);
}

/// Both endpoints need the same secret. Without it, an endpoint cannot change the other's addresses, but data is
/// transferred.
#[test]
fn ends_with_other_secrets_reject_address_changes() {
    for same in [true, false] {
        let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |end, config| {
            (config.cmt, config.asconf) = (true, true);
            config.shared_key = if same || end == A { [1, 2, 3].into() } else { [4].into() };
            if end == A {
                config.ends.local.truncate(1);
            } else {
                config.ends.remote.truncate(1);
            }
        });
        net.apps[A] = App::sends(bulk(100, 1452));
        net.connect();
        net.run_until(at_ms(500));
        net.ends[A]
            .handle_network(net.now, anabranch_endpoint::NetworkEvent::address(address(A, 1), 1500, true));
        net.drain();
        net.run_until(at_ms(1_000));
        net.check(A);
        assert_eq!(net.ends[B].report().paths.len(), if same { 2 } else { 1 });
        assert_eq!(net.extra(B, "forgeries") > 0, !same);
    }
}

/// No address change is requested from a peer that does not support authentication.
#[test]
fn without_authentication_nothing_is_reconfigured() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, config| config.asconf = true);
    net.filter = Some(Box::new(|_, from, packet| {
        let Body::Sctp(sctp) = &mut packet.body else { return true };
        if let (B, Chunk::InitAck(init)) = (from, &mut sctp.chunks[0]) {
            init.parameters.retain(|parameter| !matches!(parameter, Parameter::Random(_)));
        }
        true
    }));
    net.connect();
    net.run_until(at_ms(500));
    net.ends[A]
        .handle_network(net.now, anabranch_endpoint::NetworkEvent::address(address(A, 1), 1500, false));
    net.drain();
    net.run_until(at_ms(1_000));
    assert_eq!(net.extra(A, "asconf_requests"), 0);
    assert!(net.ends[A].established());
}
