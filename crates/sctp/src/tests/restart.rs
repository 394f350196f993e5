//! Restart of a peer that has lost its state (RFC 9260 §5.2.4 A), and collision of two INITs (B).

use super::pair::{A, App, B, Link, Net, Settings, address, at_ms, body, bulk, ms};
use anabranch_endpoint::endpoint::{Endpoint, Event, Reason};
use anabranch_multipath::PathId;
use anabranch_wire::sctp::Chunk;
use core::cell::RefCell;
use std::rc::Rc;

/// Connects both ends over two paths, then restarts end A with the first `addresses` of its addresses.
fn restarted(addresses: usize, before: impl Fn(&mut Net)) -> Net {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, config| {
        config.cmt = true;
        config.streams = 4;
    });
    net.connect();
    net.run_until(at_ms(2_000));
    before(&mut net);
    let mut settings = Settings::new(A, addresses, 12);
    settings.streams = 4;
    net.ends[A] = settings.connecting().unwrap();
    net.apps[A] = App::default();
    net.connect();
    net
}

fn count(net: &Net, wanted: impl Fn(&Event) -> bool) -> usize {
    net.apps[B].events.iter().filter(|event| wanted(event)).count()
}

/// No data is sent to an address that the restarted peer has lost, so no chunk has to wait for a timeout.
#[test]
fn restart_removes_addresses_that_it_omits() {
    let mut net = restarted(1, |net| net.links[1].up = false);
    net.run_until(at_ms(2_100));
    assert!(net.ends[B].path(PathId(1)).is_none());
    net.apps[B] = App { events: net.apps[B].events.clone(), ..App::sends(bulk(50, 1000)) };
    net.drain();
    net.run_to_end(at_ms(4_000));
    net.check(B);
    assert_eq!(count(&net, |event| *event == Event::PathDown(PathId(1))), 1);
}

/// The addresses of the restarted peer are unconfirmed until they answer (§5.4).
#[test]
fn restart_requires_new_address_confirmation() {
    let mut net = restarted(2, |net| net.links[1].up = false);
    net.run_until(at_ms(2_100));
    assert!(!net.ends[B].path(PathId(1)).unwrap().usable);
    net.links[1].up = true;
    net.run_until(at_ms(10_000));
    assert!(net.ends[B].path(PathId(1)).unwrap().usable);
    assert!(net.ends[B].path(PathId(0)).unwrap().usable);
}

/// The application gets events for the restart and the discarded data, but none for a second connection.
#[test]
fn restart_reports_the_discarded_data() {
    let written = 40 * 1000;
    let mut net = restarted(2, |net| {
        net.links.iter_mut().for_each(|link| link.up = false);
        net.apps[B].outbox.extend(bulk(40, 1000));
        net.drain();
        net.links.iter_mut().for_each(|link| link.up = true);
    });
    net.run_until(at_ms(2_100));
    assert_eq!(count(&net, |event| *event == Event::Connected), 1);
    assert_eq!(count(&net, |event| *event == Event::Restarted { discarded: written }), 1);
    assert_eq!(net.ends[B].released(), written);
    net.apps[B].written.clear();
    net.apps[B].outbox.extend(bulk(40, 1000));
    net.drain();
    net.run_to_end(at_ms(5_000));
    net.check(B);
}

/// The restart empties the send buffer, so an application whose write was refused may write again.
#[test]
fn restart_makes_room_for_a_refused_write() {
    let mut net = restarted(1, |net| {
        net.links.iter_mut().for_each(|link| link.up = false);
        net.apps[B].outbox.extend(bulk(2, 900_000));
        net.drain();
        net.links[0].up = true;
    });
    net.run_until(at_ms(2_100));
    assert_eq!(count(&net, |event| *event == Event::Writable), 1);
}

/// The driver learns which stored fragments will never become a message.
#[test]
fn restart_discards_stored_fragments() {
    let mut net = restarted(1, |net| {
        net.apps[A].outbox.extend((0..4).map(|stream| (60_000, stream, false)));
        let mut seen = 0;
        net.filter = Some(Box::new(move |_, from, packet| {
            seen += usize::from(from == A && matches!(body(packet).chunks[0], Chunk::Data(_)));
            // Gaps of all kinds: in a message, and before a whole one.
            !matches!(seen, 3 | 7 | 50)
        }));
        net.drain();
        net.run_until(at_ms(2_150));
        assert!(!net.apps[B].fragments.is_empty());
        net.filter = None;
    });
    net.apps[A].outbox.extend((0..4).map(|stream| (60_000, stream, false)));
    net.apps[B].read.clear();
    net.run_to_end(at_ms(20_000));
    net.check(A);
    assert!(net.apps[B].fragments.is_empty(), "{:?}", net.apps[B].fragments.len());
}

/// An association that the application has closed still ends after the peer's restart.
#[test]
fn restart_does_not_undo_a_close() {
    let mut net = restarted(1, |net| {
        net.links.iter_mut().for_each(|link| link.up = false);
        net.apps[B].outbox.extend(bulk(4, 1000));
        net.apps[B].close = true;
        net.drain();
        net.links[0].up = true;
    });
    net.run_until(at_ms(10_000));
    assert_eq!(net.closed(B), Some(Reason::Closed));
}

/// Both ends open the association at once. B crashes after its answer and opens it again. A has established
/// the association with the first B when the second B's COOKIE ECHO arrives, and continues with the second.
#[test]
fn collision_with_a_restarted_peer_is_a_restart() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, _| {});
    net.connect();
    net.run_until(at_ms(1_000));
    // A answers B's INIT although A itself has sent an INIT: the cookie has A's own tag and TSN.
    let (tag, tsn) = {
        let crate::association::state::State::Open(open) = &net.ends[A].state else { panic!("established") };
        (open.local_tag, open.outbound.sent.base() as u32)
    };
    let known = crate::association::handshake::Known::Begun { tag, tsn, ties: (0, 0) };
    net.ends[B] =
        Settings { config: net.ends[B].core.config.clone(), ..Settings::new(B, 1, 9) }.connecting().unwrap();
    net.ends[B].connect(net.now);
    let init = net.ends[B].poll_transmit(net.now).expect("an INIT");
    let (origin, sent) = crate::origin::Origin::of(&init).expect("SCTP");
    let Chunk::Init(chunk) = &sent.chunks[0] else { panic!("INIT: {sent:?}") };
    net.ends[A].core.answer_init(net.now, origin, chunk, known);
    net.drain();
    net.apps[B] = App::sends(bulk(30, 1000));
    net.run_to_end(net.now + ms(5_000));
    net.check(B);
    assert_eq!(net.apps[A].events.iter().filter(|e| matches!(e, Event::Restarted { .. })).count(), 1);
}

/// HB.Max.Burst (§5.4): a peer that lists foreign addresses cannot make this end flood them.
#[test]
fn unconfirmed_addresses_get_one_heartbeat_at_a_time() {
    let claimed = 30;
    let mut net = Net::new(vec![Link::new(10, 5); 3], |end, settings| {
        if end == A {
            settings.ends.local.truncate(2);
            settings.ends.remote.truncate(1);
            settings.ends.local.extend(
                (0..claimed).map(|i| anabranch_endpoint::ends::Address::new(address(7, 10 + i), 1500)),
            );
        }
    });
    let log = Rc::new(RefCell::new(Vec::new()));
    let copy = Rc::clone(&log);
    net.filter = Some(Box::new(move |now, from, packet| {
        if from == B && matches!(body(packet).chunks[0], Chunk::Heartbeat(_)) {
            copy.borrow_mut().push((now, packet.destination));
        }
        true
    }));
    net.connect();
    net.run_until(at_ms(900));
    // One heartbeat goes to the second address, which answers, and one to the first unanswering address.
    assert_eq!(log.borrow().len(), 2, "{:?}", log.borrow());
    net.run_until(at_ms(1_000_000));
    let mut asked: Vec<_> = log.borrow().iter().map(|(_, to)| *to).collect();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked.len(), claimed + 2, "each has its turn, and the first is watched");
}
