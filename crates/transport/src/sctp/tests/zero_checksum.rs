//! Packets without a checksum (RFC 9653).

use super::pair::{A, App, B, Link, Net, at_ms, body, bulk};
use core::cell::Cell;
use std::rc::Rc;
use wire::Body;
use wire::sctp::{Chunk, Parameter};

const DTLS: u32 = 1;

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
        let begins =
            |chunk: &Chunk| matches!(chunk, Chunk::Init(_) | Chunk::InitAck(_) | Chunk::CookieEcho(_));
        assert!(!(packet.zero_checksum && packet.chunks.iter().any(begins)), "{packet:?}");
        true
    }));
    net.apps[A] = App { close: true, ..App::sends(bulk(50, 1_000)) };
    net.connect();
    net.run_until(at_ms(20_000));
    net.check(A);
    (net, counts.get())
}

#[test]
fn both_ends_must_be_carried_by_what_notices_damage() {
    let (_, [[first, rest], [answer, answers]]) = transfer([Some(DTLS); 2]);
    assert_eq!((first, answer), (3, 1), "INIT, COOKIE ECHO and SHUTDOWN COMPLETE, INIT ACK");
    assert!(rest > 30 && answers > 10, "{rest} {answers}");
    for methods in [[None, Some(DTLS)], [Some(DTLS), None], [Some(DTLS), Some(2)], [None; 2]] {
        let (_, counts) = transfer(methods);
        assert!(counts.iter().all(|of| of[1] == 0), "{counts:?} with {methods:?}");
    }
}

/// What nobody has agreed on is a damaged packet, and so is what begins an association.
#[test]
fn a_missing_checksum_is_not_taken_on_trust() {
    for method in [None, Some(DTLS)] {
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
