//! Packets without a checksum (RFC 9653).

use super::pair::{A, App, B, Link, Net, address, at_ms, body, bulk};
use anabranch_endpoint::endpoint::{Endpoint, NetworkEvent};
use anabranch_wire::Body;
use anabranch_wire::sctp::{Chunk, Parameter};
use core::cell::Cell;
use std::rc::Rc;

const DTLS_METHOD: u32 = 1;

/// A transfer between ends over carriers with these methods; packets with and without a checksum, of each end.
fn transfer(methods: [Option<u32>; 2]) -> (Net, [[u32; 2]; 2]) {
    let mut net = Net::new(vec![Link::new(10, 5)], |end, config| config.error_detection = methods[end]);
    let counts = Rc::new(Cell::new([[0; 2]; 2]));
    let count = Rc::clone(&counts);
    net.filter = Some(Box::new(move |_, from, packet| {
        let packet = body(packet);
        let mut all = count.get();
        all[from][usize::from(packet.zero_checksum)] += 1;
        count.set(all);
        let exempt = |chunk: &Chunk| {
            matches!(chunk, Chunk::Init(_) | Chunk::InitAck(_) | Chunk::CookieEcho(_) | Chunk::Asconf(_))
        };
        assert!(!(packet.zero_checksum && packet.chunks.iter().any(exempt)), "{packet:?}");
        true
    }));
    net.apps[A] = App { close: true, ..App::sends(bulk(50, 1_000)) };
    net.connect();
    net.run_until(at_ms(20_000));
    net.check(A);
    (net, counts.get())
}

#[test]
fn both_ends_need_a_lower_layer_with_error_detection() {
    let (_, [[first, rest], [answer, answers]]) = transfer([Some(DTLS_METHOD); 2]);
    assert_eq!((first, answer), (3, 1), "INIT, COOKIE ECHO and SHUTDOWN COMPLETE, INIT ACK");
    assert!(rest > 30 && answers > 10, "{rest} {answers}");
    for methods in
        [[None, Some(DTLS_METHOD)], [Some(DTLS_METHOD), None], [Some(DTLS_METHOD), Some(2)], [None; 2]]
    {
        let (_, counts) = transfer(methods);
        assert!(counts.iter().all(|of| of[1] == 0), "{counts:?} with {methods:?}");
    }
}

/// RFC 9653 §5.2: a request to change addresses may come from an unknown address, so the receiver does not
/// know which association the packet belongs to.
#[test]
fn requests_to_change_addresses_have_a_checksum() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, config| {
        (config.asconf, config.error_detection) = (true, Some(DTLS_METHOD));
    });
    net.connect();
    net.run_until(at_ms(500));
    let seen: Rc<Cell<[Option<bool>; 2]>> = Rc::default();
    let log = Rc::clone(&seen);
    net.filter = Some(Box::new(move |_, _, packet| {
        let packet = body(packet);
        let [mut request, mut answer] = log.get();
        for chunk in &packet.chunks {
            match chunk {
                Chunk::Asconf(_) => request = Some(packet.zero_checksum),
                Chunk::AsconfAck(_) => answer = Some(packet.zero_checksum),
                _ => {}
            }
        }
        log.set([request, answer]);
        true
    }));
    net.ends[A].handle_network(net.now, NetworkEvent::address(address(A, 1), 1500, false));
    net.drain();
    net.run_until(at_ms(1_000));
    assert_eq!(seen.get(), [Some(false), Some(true)]);
    assert_eq!(net.ends[B].report().paths.iter().filter(|path| path.usable).count(), 1);
}

/// RFC 9653 §5.3: an end that announced in its INIT that it accepts packets without a checksum accepts such
/// an answer; other ends do not.
#[test]
fn an_answer_to_an_init_may_come_without_a_checksum() {
    for method in [None, Some(DTLS_METHOD)] {
        let mut net = Net::new(vec![Link::new(10, 5)], |_, config| config.error_detection = method);
        net.filter = Some(Box::new(|_, _, packet| {
            if let Body::Sctp(body) = &mut packet.body
                && matches!(body.chunks[..], [Chunk::InitAck(_)])
            {
                body.zero_checksum = true;
            }
            true
        }));
        net.connect();
        net.run_until(at_ms(500));
        assert_eq!(net.ends[A].established(), method.is_some());
        assert_eq!(net.extra(A, "packets_discarded"), u64::from(method.is_none()));
    }
}

/// Without agreement, a packet without a checksum counts as damaged; so does one that begins an association.
#[test]
fn unannounced_zero_checksum_is_rejected() {
    for method in [None, Some(DTLS_METHOD)] {
        let mut net = Net::new(vec![Link::new(10, 5)], |_, config| config.error_detection = method);
        let damaged = Rc::new(Cell::new(0));
        let count = Rc::clone(&damaged);
        net.filter = Some(Box::new(move |_, from, packet| {
            let Body::Sctp(body) = &mut packet.body else { panic!("SCTP") };
            let init = body.chunks.iter().any(|chunk| matches!(chunk, Chunk::Init(_)));
            let says = |parameter: &Parameter| matches!(parameter, Parameter::ZeroChecksumAcceptable { .. });
            if let (true, Some(Chunk::Init(init))) = (from == A, body.chunks.first()) {
                assert_eq!(init.parameters.iter().any(says), method.is_some());
            }
            // The first INIT, and the first packets with data.
            let data = body.chunks.iter().any(|chunk| chunk.payload().is_some());
            if from == A && (init && count.get() == 0 || data && count.get() < 3) {
                count.set(count.get() + 1);
                body.zero_checksum = true;
            }
            true
        }));
        net.apps[A] = App::sends(bulk(10, 1_000));
        net.connect();
        net.run_to_end(at_ms(60_000));
        net.check(A);
        assert_eq!(net.extra(B, "packets_discarded"), if method.is_some() { 1 } else { 3 });
    }
}
