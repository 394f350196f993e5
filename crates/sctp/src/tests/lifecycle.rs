//! Start and end of associations, also at unusual times (RFC 9260 §5.2, §9).

use super::pair::{A, App, B, Link, Net, Settings, at_ms, body, bulk, ms};
use anabranch_endpoint::endpoint::{Endpoint, Event, NetworkEvent, Reason};
use anabranch_multipath::PathId;
use anabranch_wire::sctp::{Cause, Chunk};
use core::cell::RefCell;
use std::rc::Rc;

fn one_link() -> Net {
    Net::new(vec![Link::new(10, 5)], |_, _| {})
}

#[test]
fn closing_delivers_everything_first() {
    let mut net = one_link();
    net.links[0].loss = 0.05;
    net.apps[A] = App { close: true, ..App::sends(bulk(300, 1452)) };
    net.connect();
    net.run_until(at_ms(120_000));
    net.check(A);
    assert_eq!((net.closed(A), net.closed(B)), (Some(Reason::Closed), Some(Reason::Closed)));
    assert!(net.apps[B].events.contains(&Event::Finished));
    assert_eq!(net.ends[A].next_timeout(), None);
    assert_eq!(net.ends[B].next_timeout(), None);
}

#[test]
fn both_ends_may_close_at_once() {
    let mut net = one_link();
    net.apps[A] = App::sends(bulk(30, 1000));
    net.apps[B] = App::sends(bulk(40, 1000));
    net.connect();
    net.run_until(at_ms(2_000));
    net.ends[A].close(net.now);
    net.ends[B].close(net.now);
    net.drain();
    net.run_until(at_ms(10_000));
    net.check(A);
    net.check(B);
    assert_eq!((net.closed(A), net.closed(B)), (Some(Reason::Closed), Some(Reason::Closed)));
}

#[test]
fn the_peer_sends_its_remaining_data_after_a_shutdown() {
    let mut net = one_link();
    net.apps[B] = App::sends(bulk(500, 1452));
    net.connect();
    net.run_until(at_ms(100));
    net.ends[A].close(net.now);
    net.drain();
    net.run_until(at_ms(10_000));
    // All data that was accepted for writing arrives.
    net.check(B);
    assert_eq!((net.closed(A), net.closed(B)), (Some(Reason::Closed), Some(Reason::Closed)));
}

#[test]
fn lost_shutdown_packets_are_repeated() {
    for dropped in 0..3 {
        let mut net = one_link();
        net.apps[A] = App { close: true, ..App::sends(bulk(3, 100)) };
        let mut seen = 0;
        net.filter = Some(Box::new(move |_, _, packet| {
            let of_shutdown = body(packet).chunks.iter().any(|chunk| {
                matches!(chunk, Chunk::Shutdown(_) | Chunk::ShutdownAck | Chunk::ShutdownComplete(_))
            });
            seen += usize::from(of_shutdown);
            !(of_shutdown && seen == dropped + 1)
        }));
        net.connect();
        net.run_until(at_ms(60_000));
        assert_eq!((net.closed(A), net.closed(B)), (Some(Reason::Closed), Some(Reason::Closed)), "{dropped}");
    }
}

#[test]
fn an_abort_ends_both_sides_at_once() {
    let mut net = one_link();
    net.apps[A] = App::sends(bulk(1000, 1452));
    net.connect();
    net.run_until(at_ms(100));
    net.ends[B].abort(net.now);
    net.drain();
    net.run_until(at_ms(200));
    assert_eq!((net.closed(A), net.closed(B)), (Some(Reason::Reset), Some(Reason::Aborted)));
    net.check_so_far(A);
    assert_eq!(net.ends[A].send_space(), 0);
    let [sender, receiver] = [A, B].map(|end| net.ends[end].report());
    let acknowledged = sender.written - sender.send_buffer;
    assert!(acknowledged > 0 && acknowledged <= receiver.delivered, "the rest was not acknowledged");
}

#[test]
fn init_without_a_listener_is_refused() {
    let mut net = one_link();
    // An endpoint that does not listen.
    net.ends[B] = Settings::new(B, 1, 7).connecting().unwrap();
    net.connect();
    net.run_until(at_ms(1_000));
    assert_eq!(net.closed(A), Some(Reason::Refused));
}

#[test]
fn each_packet_of_the_handshake_may_be_lost() {
    for dropped in 0..4 {
        let mut net = one_link();
        net.apps[A] = App::sends(bulk(10, 1000));
        let mut seen = 0;
        net.filter = Some(Box::new(move |_, _, _| {
            seen += 1;
            seen != dropped + 1
        }));
        net.connect();
        net.run_to_end(at_ms(20_000));
        net.check(A);
    }
}

#[test]
fn both_ends_may_begin_at_once() {
    let mut net = one_link();
    net.ends[B] = Settings::new(B, 1, 7).connecting().unwrap();
    net.apps[A] = App::sends(bulk(100, 1000));
    net.apps[B] = App::sends(bulk(100, 1000));
    net.ends[A].connect(net.now);
    net.ends[B].connect(net.now);
    net.drain();
    net.run_to_end(at_ms(20_000));
    net.check(A);
    net.check(B);
    for end in [A, B] {
        assert_eq!(net.apps[end].events.iter().filter(|event| **event == Event::Connected).count(), 1);
    }
}

/// The client fails silently and returns with the same addresses and ports.
#[test]
fn a_peer_may_restart() {
    let mut net = one_link();
    net.apps[A] = App::sends(bulk(200, 1000));
    net.connect();
    net.run_to_end(at_ms(5_000));
    net.check(A);
    let (written, read) = (net.apps[A].written.len(), net.apps[B].read.len());
    assert_eq!(written, read);
    net.ends[A] = Settings::new(A, 1, 12).connecting().unwrap();
    net.apps[A] = App::sends(bulk(300, 900));
    net.apps[B].read.clear();
    net.connect();
    net.run_to_end(at_ms(60_000));
    net.check(A);
    assert_eq!(net.extra(B, "restarts"), 1);
    assert_eq!(net.closed(B), None);
}

#[test]
fn a_restart_may_not_bring_new_addresses() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |end, config| {
        if end == A {
            config.ends.local.truncate(1);
            config.ends.remote.truncate(1);
        }
    });
    net.connect();
    net.run_until(at_ms(1_000));
    net.ends[A] = Settings::new(A, 2, 12).connecting().unwrap();
    let refusals = Rc::new(RefCell::new(0));
    let count = Rc::clone(&refusals);
    net.filter = Some(Box::new(move |_, from, packet| {
        if let [Chunk::Abort(abort)] = &body(packet).chunks[..] {
            assert!(from == B && matches!(abort.causes[0], Cause::RestartWithNewAddresses(_)));
            *count.borrow_mut() += 1;
        }
        true
    }));
    net.connect();
    net.run_until(at_ms(2_000));
    assert_eq!(*refusals.borrow(), 1);
    assert_eq!(net.closed(A), Some(Reason::Refused));
    assert_eq!(net.closed(B), None);
}

#[test]
fn a_stale_cookie_is_retried_with_a_longer_life() {
    let mut net = Net::new(vec![Link::new(10, 300)], |_, config| config.cookie_life = ms(500));
    net.apps[A] = App::sends(bulk(10, 1000));
    net.connect();
    net.run_to_end(at_ms(20_000));
    net.check(A);
    assert!(net.extra(A, "errors_received") >= 1);
}

#[test]
fn addresses_change_during_a_transfer() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |end, config| {
        config.cmt = true;
        config.asconf = true;
        if end == A {
            config.ends.local.truncate(1);
        } else {
            config.ends.remote.truncate(1);
        }
    });
    net.apps[A] = App::sends(bulk(60_000, 1452));
    net.connect();
    net.run_until(at_ms(2_000));
    let second = super::pair::address(A, 1);
    net.ends[A].handle_network(net.now, NetworkEvent::address(second, 1500, true));
    net.drain();
    // The new address is used when a destination is probed from it.
    net.run_until(at_ms(40_000));
    assert_eq!(net.extra(A, "asconf_requests"), 1);
    assert_eq!(net.ends[B].report().paths.len(), 2);
    assert!(net.ends[A].path(PathId(1)).unwrap().usable);
    let first = super::pair::address(A, 0);
    net.links[0].up = false;
    net.ends[A].handle_network(net.now, NetworkEvent::address(first, 1500, false));
    net.drain();
    net.run_until(at_ms(200_000));
    net.check(A);
    assert!(net.ends[B].path(PathId(0)).is_none());
}

#[test]
fn streams_interleave_with_i_data_and_take_turns() {
    use crate::StreamScheduler;
    for scheduler in [StreamScheduler::Fcfs, StreamScheduler::RoundRobin, StreamScheduler::Fair] {
        for i_data in [false, true] {
            let mut net = Net::new(vec![Link { loss: 0.02, ..Link::new(10, 5) }], |_, config| {
                config.streams = 4;
                config.i_data = i_data;
                config.stream_scheduler = scheduler;
            });
            net.apps[A] = App::sends((0..400).map(|i| (100 + i * 37 % 9_000, (i % 4) as u16, i % 7 == 0)));
            net.connect();
            net.run_to_end(at_ms(60_000));
            net.check(A);
        }
    }
}

/// With I-DATA a short message does not wait for a long one that was written before it.
#[test]
fn i_data_lets_a_short_message_overtake_a_long_one() {
    let order = |i_data: bool| {
        let mut net = Net::new(vec![Link::new(10, 5)], |_, config| {
            config.streams = 2;
            config.i_data = i_data;
            config.stream_scheduler = crate::StreamScheduler::RoundRobin;
        });
        net.apps[A] = App::sends([(200_000, 0, false), (100, 1, false)]);
        net.connect();
        net.run_to_end(at_ms(10_000));
        net.check(A);
        net.apps[B].read[0].stream
    };
    assert_eq!((order(false), order(true)), (0, 1));
}
