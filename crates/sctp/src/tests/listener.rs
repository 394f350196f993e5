//! A listening port with many peers.

use super::pair::{A, App, B, Link, Net, Settings, address, at_ms, body, bulk, ms, secrets};
use crate::{Answer, CookieKey, Listener, out_of_the_blue};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_wire::sctp::{Abort, Chunk, CookieEcho, Heartbeat, Init};
use anabranch_wire::{Body, Packet, Pattern};

fn listener(seed: u8, key: &CookieKey) -> Listener {
    let Settings { config, ends, secrets, .. } = Settings::new(B, 1, seed);
    Listener::new(config, &ends, secrets, key.clone()).expect("works")
}

fn key(seed: u8) -> CookieKey {
    CookieKey::new(&secrets(B, seed))
}

/// A client and its first packet.
fn peer(seed: u8) -> (crate::Association, Packet) {
    let mut peer = Settings::new(A, 1, seed).connecting().expect("works");
    peer.connect(Time::ZERO);
    let init = peer.poll_transmit(Time::ZERO).expect("an INIT");
    (peer, init)
}

fn answer(listener: &mut Listener, now: Time, packet: Packet) -> Packet {
    match listener.handle_packet(now, packet, &Pattern) {
        Answer::Packet(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// The listener stores nothing of an INIT; any listener of the host accepts the cookie, and the association continues.
#[test]
fn any_listener_of_the_host_accepts_a_cookie() {
    let (mut first, mut second) = (listener(1, &key(5)), listener(2, &key(5)));
    let mut tags = Vec::new();
    for seed in 10..13 {
        let (mut a, init) = peer(seed);
        let init_ack = answer(&mut first, at_ms(10), init);
        a.handle_packet(at_ms(20), init_ack, &Pattern);
        let echo = a.poll_transmit(at_ms(20)).expect("COOKIE ECHO");
        let accepted = second.handle_packet(at_ms(30), echo, &Pattern);
        let Answer::Accepted(b) = accepted else { panic!("{accepted:?}") };
        assert!(b.established());
        assert_eq!((b.ports(), b.peer_addresses().collect::<Vec<_>>()), ((5001, 5000), vec![address(A, 0)]));
        tags.push(b.tag().expect("the association has a tag"));
        let mut net = Net::new(vec![Link::new(10, 5)], |_, _| {});
        (net.now, net.ends) = (at_ms(30), [a, *b]);
        net.apps = [(); 2].map(|()| App::sends(bulk(20, 3_000)));
        net.drain();
        net.run_to_end(at_ms(60_000));
        net.check(A);
        net.check(B);
        let expected = net.ends[B].tag();
        assert_eq!(expected, tags.last().copied());
    }
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), 3, "every association has a different tag");
}

#[test]
fn forged_and_stale_cookies_are_rejected() {
    let mut host = listener(1, &key(5));
    let mut stranger = listener(1, &key(6));
    let (mut a, init) = peer(10);
    let foreign = answer(&mut stranger, at_ms(10), init.clone());
    a.handle_packet(at_ms(20), foreign, &Pattern);
    let echo = a.poll_transmit(at_ms(20)).expect("COOKIE ECHO");
    assert!(matches!(host.handle_packet(at_ms(30), echo, &Pattern), Answer::Ignored));
    let (mut a, init) = peer(11);
    let init_ack = answer(&mut host, at_ms(10), init);
    a.handle_packet(at_ms(20), init_ack, &Pattern);
    let echo = a.poll_transmit(at_ms(20)).expect("COOKIE ECHO");
    // A cookie is valid for a minute.
    let stale = answer(&mut host, at_ms(10) + ms(60_001), echo);
    assert!(matches!(body(&stale).chunks[..], [Chunk::Error(_)]));
}

/// RFC 9260 §8.4.
#[test]
fn out_of_the_blue_replies_cause_no_loop() {
    let (_, init) = peer(10);
    let with = |tag, chunk: Chunk| {
        let mut packet = init.clone();
        let Body::Sctp(body) = &mut packet.body else { unreachable!("it is SCTP") };
        (body.verification_tag, body.chunks) = (tag, chunk.into());
        packet
    };
    let heartbeat = Chunk::Heartbeat(Heartbeat { info: Box::default() });
    let reflected = out_of_the_blue(&with(7, heartbeat)).expect("an ABORT");
    assert_eq!((reflected.source, reflected.destination), (address(B, 0), address(A, 0)));
    let sctp = body(&reflected);
    assert_eq!((sctp.source_port, sctp.destination_port, sctp.verification_tag), (5001, 5000, 7));
    assert!(matches!(sctp.chunks[..], [Chunk::Abort(Abort { reflected_tag: true, .. })]));
    let complete = out_of_the_blue(&with(7, Chunk::ShutdownAck)).expect("a SHUTDOWN COMPLETE");
    assert!(matches!(&body(&complete).chunks[..], [Chunk::ShutdownComplete(c)] if c.reflected_tag));
    let Chunk::Init(Init { initiate_tag, .. }) = body(&init).chunks[0] else { unreachable!("an INIT") };
    let refused = out_of_the_blue(&init).expect("an ABORT");
    assert_eq!(body(&refused).verification_tag, initiate_tag);
    assert!(out_of_the_blue(&with(7, Chunk::Abort(Abort::default()))).is_none());
    assert!(out_of_the_blue(&with(7, Chunk::CookieEcho(CookieEcho { cookie: Box::default() }))).is_none());
}
