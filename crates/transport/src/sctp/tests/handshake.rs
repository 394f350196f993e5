//! The handshake when it does not go as usual.

use super::pair::{A, B, Link, Net, address, at_ms, body, ms};
use crate::endpoint::{Endpoint, Reason};
use core::cell::Cell;
use multipath::PathId;
use std::rc::Rc;
use wire::sctp::Chunk;

/// The echo of a cookie may claim another of the listed addresses as its source; nobody has been heard there.
#[test]
fn only_the_address_of_the_init_is_confirmed_by_its_cookie() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, _| {});
    net.mesh = true;
    net.filter = Some(Box::new(|_, from, packet| {
        if from == A && matches!(body(packet).chunks[0], Chunk::CookieEcho(_)) {
            packet.source = address(A, 1);
        }
        true
    }));
    net.connect();
    // The cookie has just come, and no heartbeat has been answered.
    net.run_until(at_ms(24));
    let usable = |at| net.ends[B].path(PathId(at)).map(|path| (path.remote.ip(), path.usable));
    assert_eq!(usable(0), Some((address(A, 0), true)));
    assert_eq!(usable(1), Some((address(A, 1), false)));
}

/// A peer that finds every cookie stale is asked no more often than one that does not answer.
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

/// The heartbeat that confirms the short path overtakes the COOKIE ACK on the long one (RFC 9260 §8.3: it is to be
/// answered from COOKIE-ECHOED on).
#[test]
fn a_heartbeat_that_overtakes_the_cookie_ack_is_answered() {
    let mut net = Net::new(vec![Link::new(10, 80), Link::new(10, 5)], |_, _| {});
    net.connect();
    net.run_until(at_ms(300));
    assert!(net.ends[B].path(PathId(1)).unwrap().usable);
}
