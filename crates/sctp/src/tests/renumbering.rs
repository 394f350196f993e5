//! SSN/TSN reset (RFC 6525): all sequence numbers restart in both directions.

use super::pair::{A, B, Link, Net, at_ms, body, bulk, ms};
use super::streams::{events, opened, write};
use crate::association::state::State;
use anabranch_endpoint::endpoint::{Endpoint, Event, Reason, Reliability, StreamChange};
use anabranch_wire::sctp::{Chunk, Outcome, Reconfig, Reconfiguration};
use core::cell::Cell;
use std::rc::Rc;

#[test]
fn tsn_reset_restarts_numbers_in_both_directions() {
    for i_data in [false, true] {
        let mut net = opened(i_data);
        net.apps[A].outbox.extend(bulk(300, 1_400));
        net.apps[B].outbox.extend((0..100).map(|i| (2_000, i % 4, false)));
        net.drain();
        assert!(net.ends[A].change_streams(net.now, StreamChange::ResetAll));
        net.apps[A].outbox.extend((0..300).map(|i| (900, i % 4, false)));
        net.run_until(at_ms(20_000));
        for end in [A, B] {
            net.check(end);
            assert_eq!(events(&net, end), [Event::NumbersReset]);
            assert_eq!(net.closed(end), None);
        }
        net.apps[A].close = true;
        net.drain();
        net.run_until(at_ms(40_000));
        assert!(net.closed(A).is_some() && net.closed(B).is_some());
    }
}

/// Copy of the first packet from end A with such a chunk, once it was sent.
fn first(net: &mut Net, wanted: fn(&Chunk) -> bool) -> Rc<Cell<Option<anabranch_wire::Packet>>> {
    let seen: Rc<Cell<Option<anabranch_wire::Packet>>> = Rc::default();
    let copy = Rc::clone(&seen);
    net.filter = Some(Box::new(move |_, from, packet| {
        let known = copy.take();
        let found = from == A && body(packet).chunks.iter().any(wanted);
        copy.set(known.or_else(|| found.then(|| packet.clone())));
        true
    }));
    seen
}

/// A late copy of a request arrives when its sender does not expect that it is performed.
#[test]
fn denied_tsn_reset_stays_denied() {
    let mut net = opened(false);
    let asked = first(&mut net, |chunk| matches!(chunk, Chunk::Reconfig(_)));
    net.apps[B].outbox.extend([(20_000, 1, false), (500, 1, false)]);
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetAll));
    net.drain();
    net.run_until(at_ms(400));
    let late = asked.take().expect("the request was sent");
    net.inject(B, late);
    assert_eq!(events(&net, B), []);
    write(&mut net, B, 300, 1);
    net.run_until(at_ms(10_000));
    assert_eq!([events(&net, A), events(&net, B)], [[Event::NumbersReset], [Event::NumbersReset]]);
    net.check(B);
}

/// RFC 6525 §5.2.4: TSNs jump by half of their range, so a late TSN is equally far ahead and behind.
#[test]
fn data_from_before_a_tsn_reset_counts_as_late() {
    let mut net = opened(false);
    let sent = first(&mut net, |chunk| chunk.payload().is_some());
    for _ in 0..3 {
        write(&mut net, A, 500, 1);
    }
    net.run_until(at_ms(500));
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetAll));
    net.drain();
    net.run_until(at_ms(1_000));
    assert_eq!(events(&net, B), [Event::NumbersReset]);
    let late = sent.take().expect("the response was sent");
    net.inject(B, late);
    for _ in 0..3 {
        write(&mut net, A, 600, 1);
    }
    net.run_until(at_ms(3_000));
    net.check(A);
    assert_eq!(net.apps[B].read.len(), 6);
}

/// The peer has reset its TSNs and abandons a message while its response is in flight. This end skips the message only after
/// the response, because it cannot distinguish old TSNs from new ones before.
#[test]
fn forward_tsn_waits_for_the_reset_response() {
    let mut net = Net::new(vec![Link::new(10, 10)], |_, config| {
        (config.reconfiguration, config.partial_reliability) = (true, true);
        (config.nagle, config.streams) = (false, 4);
    });
    net.connect();
    net.run_until(at_ms(100));
    net.filter = Some(Box::new(|now, from, packet| {
        let answer = body(packet).chunks.iter().any(|chunk| matches!(chunk, Chunk::Reconfig(_)));
        !(from == B && answer && now < at_ms(5_000))
    }));
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetAll));
    net.drain();
    net.run_until(at_ms(200));
    assert_eq!(events(&net, B), [Event::NumbersReset]);
    net.apps[B].reliability = vec![Reliability::Lifetime(ms(300)), Reliability::Full];
    write(&mut net, B, 3_000, 1);
    net.run_until(at_ms(20_000));
    assert_eq!(events(&net, A), [Event::NumbersReset]);
    write(&mut net, B, 500, 1);
    net.run_until(at_ms(60_000));
    assert_eq!((net.apps[B].abandoned.len(), net.apps[A].read.len()), (1, 1));
    assert_eq!(net.ends[B].report().send_buffer, 0);
}

/// Marks that the peer has not answered before its TSN reset are forgotten.
#[test]
fn tsn_reset_forgets_unanswered_marks() {
    let mut net = opened(false);
    let marked = |net: &mut Net, mark: bool| {
        let State::Open(open) = &mut net.ends[B].state else { panic!("the association is open") };
        if mark {
            open.extensions.ecn = true;
            open.note_mark(Some(0), open.inbound.cumulative());
        }
        !open.echoes.is_empty()
    };
    assert!(marked(&mut net, true));
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetAll));
    net.drain();
    net.run_until(at_ms(1_000));
    assert_eq!(events(&net, B), [Event::NumbersReset]);
    assert!(!marked(&mut net, false));
}

/// Until the outcome of a TSN reset is known, this end cannot skip messages that the peer has abandoned. It sends
/// nothing that would make the peer repeat its FORWARD TSN in every round trip.
#[test]
fn pending_reset_does_not_repeat_forward_tsns() {
    let mut net = Net::new(vec![Link::new(10, 1)], |_, config| {
        (config.reconfiguration, config.partial_reliability) = (true, true);
        (config.nagle, config.streams) = (false, 4);
    });
    net.connect();
    net.run_until(at_ms(100));
    net.filter = Some(Box::new(|now, from, packet| {
        let chunks = &body(packet).chunks;
        let asks = from == A && chunks.iter().any(|chunk| matches!(chunk, Chunk::Reconfig(_)));
        let data = from == B && chunks.iter().any(|chunk| chunk.payload().is_some());
        !(data || asks && now < at_ms(4_000))
    }));
    net.apps[B].reliability = vec![Reliability::Retransmissions(0)];
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetAll));
    write(&mut net, B, 2_000, 1);
    net.run_until(at_ms(30_000));
    assert_eq!((net.apps[B].abandoned.len(), net.ends[B].report().send_buffer), (1, 0));
    let sent = net.extra(B, "forward_tsns_sent");
    assert!((1..=4).contains(&sent), "{sent} times");
    assert_eq!(events(&net, A), [Event::NumbersReset]);
}

/// RFC 6525 §4.4, §5.2.4: the response contains the next TSNs of both directions. Without them no data can be sent to a peer
/// that has performed the reset.
#[test]
fn reset_response_must_contain_the_next_tsns() {
    let mut net = opened(false);
    net.filter = Some(Box::new(|_, from, packet| {
        let anabranch_wire::Body::Sctp(body) = &mut packet.body else { return true };
        for chunk in body.chunks.iter_mut().filter(|_| from == B) {
            if let Chunk::Reconfig(Reconfig { parameters }) = chunk
                && let [Reconfiguration::Response { outcome: Outcome::PERFORMED, next_tsns, .. }] =
                    &mut parameters[..]
            {
                *next_tsns = None;
            }
        }
        true
    }));
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetAll));
    write(&mut net, A, 500, 1);
    net.run_until(at_ms(5_000));
    assert_eq!((net.closed(A), net.closed(B)), (Some(Reason::Aborted), Some(Reason::Reset)));
    assert_eq!(net.extra(A, "reconfigurations_performed"), 1);
}

/// A reset of all numbers always has an effect: after the response "nothing to do" it was not performed, and fails.
#[test]
fn nothing_to_do_response_counts_as_refusal() {
    let mut net = opened(false);
    net.filter = Some(Box::new(|_, from, packet| {
        let anabranch_wire::Body::Sctp(body) = &mut packet.body else { return true };
        for chunk in &mut body.chunks {
            match chunk {
                // The request arrives as one that B does not perform.
                Chunk::Reconfig(Reconfig { parameters }) if from == A => {
                    for parameter in parameters {
                        if let Reconfiguration::TsnReset { request } = *parameter {
                            *parameter = Reconfiguration::AddOutgoing { request, count: 0 };
                        }
                    }
                }
                _ => {}
            }
        }
        true
    }));
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetAll));
    write(&mut net, A, 500, 1);
    net.run_until(at_ms(60_000));
    net.check(A);
    assert_eq!((events(&net, A), events(&net, B)), (vec![Event::ChangeRefused], vec![]));
    assert_eq!((net.closed(A), net.extra(A, "reconfigurations_performed")), (None, 0));
}

/// Both endpoints send a request at the same moment, each with data to be delivered before it. Neither may perform the
/// other's request while its own may have been performed, and both must be performed in the end.
#[test]
fn both_ends_may_request_a_tsn_reset_at_once() {
    for (lens, delay) in [([300, 300], 10), ([300, 300], 200), ([3_000, 60_000], 10)] {
        let mut net = opened(false);
        net.links[0].delay = ms(delay);
        for (end, len) in [A, B].into_iter().zip(lens) {
            write(&mut net, end, len, 1);
        }
        for end in [A, B] {
            assert!(net.ends[end].change_streams(net.now, StreamChange::ResetAll));
        }
        for end in [A, B] {
            write(&mut net, end, 700, 1);
        }
        net.run_until(at_ms(30_000));
        for end in [A, B] {
            net.check(end);
            assert_eq!(events(&net, end), [Event::NumbersReset; 2], "end {end} with {lens:?}");
            assert_eq!(net.closed(end), None);
            assert!(net.extra(end, "reconfigurations_asked") <= 3, "end {end} with {lens:?}");
        }
    }
}
