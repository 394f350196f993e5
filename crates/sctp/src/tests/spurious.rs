//! Losses and timeouts that proved spurious.

use super::pair::{A, App, B, Link, Net, at_ms, bulk, ms};
use crate::association::state::State;
use crate::sender::outstanding::Chunk;
use crate::totals::{ChunkState, RetransmissionReason};
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_multipath::PathId;

/// Each packet may overtake up to eight others.
fn overtaken(cmt: bool) -> Net {
    let mut net = Net::new(vec![Link { queue: 1_000, jitter: ms(2), ..Link::new(50, 10) }], |_, config| {
        (config.cmt, config.dac) = (cmt, cmt);
        (config.send_buffer, config.receive_buffer) = (4_000_000, 4_000_000);
    });
    net.apps[A] = App::sends(bulk(60_000, 1452));
    net
}

#[test]
fn sender_fills_a_path_that_reorders() {
    for cmt in [false, true] {
        let mut net = overtaken(cmt);
        net.connect();
        net.run_until(at_ms(2_000));
        let before = net.ends[B].report().delivered;
        net.run_until(at_ms(8_000));
        let rate = (net.ends[B].report().delivered - before) as f64 * 8e-6 / 6.0;
        assert!(rate > 45.0, "{rate} Mbit/s, CMT {cmt}");
        assert!(net.extra(A, "spurious_reactions") > 0);
    }
}

/// A network in which all packets that are sent between 2 and 2.7 s arrive at 2.71 s.
fn delayed_for_a_while() -> Net {
    let mut net = Net::new(vec![Link::new(10, 10)], |_, config| {
        (config.send_buffer, config.receive_buffer) = (1_000_000, 1_000_000);
        config.initial_ssthresh = 60_000;
        config.rto.min = ms(500);
    });
    net.apps[A] = App::sends(bulk(8_000, 1452));
    net.connect();
    for step in 0..=70 {
        net.run_until(at_ms(2_000 + 10 * step));
        net.links[0].delay = ms(710 - 10 * step);
    }
    net
}

#[test]
fn timeout_caused_by_delay_is_undone() {
    let mut net = delayed_for_a_while();
    net.run_until(at_ms(2_650));
    let during = net.ends[A].path(PathId(0)).unwrap();
    assert!(during.counters.timeouts == 1 && during.cwnd == 1468, "{during:?}");
    net.run_until(at_ms(2_720));
    let after = net.ends[A].path(PathId(0)).unwrap();
    assert_eq!(after.counters.timeouts, 1);
    // Packets with decreasing delays arrive in another order, too.
    assert!(net.extra(A, "spurious_reactions") >= 1);
    assert!(after.cwnd > 60_000 && after.ssthresh >= 60_000, "{after:?}");
    assert!(net.extra(A, "chunks_retransmitted") < 5, "chunks in flight are not retransmitted");
    net.run_to_end(at_ms(30_000));
    net.check(A);
}

/// A timeout that follows a real loss must not be undone.
#[test]
fn timeout_with_a_loss_is_not_undone() {
    let mut net = Net::new(vec![Link::new(10, 10)], |_, _| {});
    let mut packets = 0;
    net.filter = Some(Box::new(move |_, from, _| {
        packets += usize::from(from == A);
        from != A || !(200..210).contains(&packets)
    }));
    net.apps[A] = App::sends(bulk(205, 1452));
    net.connect();
    net.run_to_end(at_ms(30_000));
    net.check(A);
    let path = net.ends[A].path(PathId(0)).unwrap();
    assert!(path.counters.timeouts > 0);
    net.run_until(net.now + ms(1_000));
    assert_eq!(net.extra(A, "spurious_reactions"), 0);
}

/// Chunk rescheduling may retransmit a chunk again: a duplicate is then of either retransmission.
#[test]
fn duplicate_after_two_retransmissions_is_ambiguous() {
    let mut net = Net::new(vec![Link::new(10, 10)], |_, _| {});
    net.apps[A] = App::sends(bulk(205, 1452));
    net.connect();
    net.run_until(at_ms(100));
    let State::Open(open) = &mut net.ends[A].state else { panic!("the association is open") };
    let outbound = &mut open.outbound;
    let tsn = outbound.sent.base();
    let chunk = *outbound.sent.get(tsn).expect("a chunk in flight");
    let lost = |reason, transmissions| Chunk {
        state: ChunkState::Lost(reason),
        recovery: 7,
        transmissions,
        ..chunk
    };
    outbound.note_retransmission(tsn, &lost(RetransmissionReason::Fast, 1));
    assert!(outbound.repeats.contains_key(&tsn));
    outbound.note_retransmission(tsn, &lost(RetransmissionReason::Rescheduled, 2));
    assert!(!outbound.repeats.contains_key(&tsn));
}
