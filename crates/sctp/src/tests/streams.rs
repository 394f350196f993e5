//! Stream reset and stream addition (RFC 6525), also if RE-CONFIG chunks are lost.

use super::pair::{A, B, Link, Net, at_ms, body, ms};
use crate::association::state::State;
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{Endpoint, Event, Reliability, StreamChange, Write};
use anabranch_wire::sctp::{Chunk, Outcome, Reconfig, Reconfiguration};
use anabranch_wire::seq::Serial;
use core::cell::Cell;
use proptest::prelude::*;
use std::rc::Rc;

fn net(i_data: bool) -> Net {
    Net::new(vec![Link::new(10, 10)], |_, config| {
        config.reconfiguration = true;
        config.i_data = i_data;
        config.nagle = false;
        config.streams = 4;
    })
}

pub fn opened(i_data: bool) -> Net {
    let mut net = net(i_data);
    net.connect();
    net.run_until(at_ms(100));
    net
}

/// The application of an end writes another message.
pub fn write(net: &mut Net, end: usize, len: u64, stream: u16) {
    let app = &mut net.apps[end];
    app.outbox.push_back((len, stream, false));
    net.drain();
}

/// The events of an end about its streams.
pub fn events(net: &Net, end: usize) -> Vec<Event> {
    let about = |event: &&Event| {
        matches!(
            event,
            Event::StreamReset { .. }
                | Event::NumbersReset
                | Event::StreamsAdded { .. }
                | Event::ChangeRefused
        )
    };
    net.apps[end].events.iter().filter(about).copied().collect()
}

fn reset(incoming: bool, stream: u16) -> Event {
    Event::StreamReset { incoming, stream: Some(stream) }
}

/// SSNs of the ordered messages that end A sends on a stream, in order.
fn numbers(net: &mut Net, wanted: u16) -> Rc<Cell<Vec<u32>>> {
    let seen: Rc<Cell<Vec<u32>>> = Rc::default();
    let log = Rc::clone(&seen);
    net.filter = Some(Box::new(move |_, from, packet| {
        let mut all = log.take();
        for chunk in body(packet).chunks.iter().filter(|_| from == A) {
            match chunk {
                Chunk::Data(data) if data.stream == wanted => all.push(u32::from(data.ssn)),
                Chunk::IData(data) if data.stream == wanted => all.push(data.mid.0),
                _ => {}
            }
        }
        log.set(all);
        true
    }));
    seen
}

#[test]
fn outgoing_reset_follows_the_data_before_it() {
    for i_data in [false, true] {
        let mut net = opened(i_data);
        let seen = numbers(&mut net, 1);
        for len in [20_000, 300] {
            write(&mut net, A, len, 1);
        }
        assert!(net.ends[A].change_streams(net.now, StreamChange::ResetOutgoing([1, 3].into())));
        for stream in [1, 2, 1] {
            write(&mut net, A, 200, stream);
        }
        net.run_until(at_ms(2_000));
        net.check(A);
        let mut sent = seen.take();
        sent.dedup();
        assert_eq!(sent, [0, 1, 0, 1], "stream sequence numbers are reset");
        assert_eq!(events(&net, A), [reset(false, 1), reset(false, 3)]);
        assert_eq!(events(&net, B), [reset(true, 1), reset(true, 3)]);
        assert_eq!(net.extra(A, "reconfigurations_performed"), 1);
    }
}

#[test]
fn peer_resets_its_streams_on_request() {
    let mut net = opened(false);
    for _ in 0..3 {
        write(&mut net, B, 500, 2);
    }
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetIncoming([2].into())));
    net.drain();
    net.run_until(at_ms(1_000));
    write(&mut net, B, 100, 2);
    net.run_until(at_ms(2_000));
    net.check(B);
    assert_eq!((events(&net, A), events(&net, B)), (vec![reset(true, 2)], vec![reset(false, 2)]));
}

/// RFC 6525 §5.2.3: the requested outgoing reset answers the request, even if the response parameter is lost.
#[test]
fn requested_reset_answers_the_request() {
    let mut net = opened(false);
    net.filter = Some(Box::new(|_, from, packet| {
        let anabranch_wire::Body::Sctp(body) = &mut packet.body else { return true };
        for chunk in body.chunks.iter_mut().filter(|_| from == B) {
            if let Chunk::Reconfig(reconfig) = chunk {
                reconfig.parameters.retain(|one| !matches!(one, Reconfiguration::Response { .. }));
            }
        }
        true
    }));
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetIncoming([2].into())));
    net.drain();
    net.run_until(at_ms(900));
    assert_eq!((events(&net, A), events(&net, B)), (vec![reset(true, 2)], vec![reset(false, 2)]));
    assert_eq!(net.extra(A, "reconfigurations_performed"), 1);
}

#[test]
fn streams_are_added_on_either_side() {
    let mut net = opened(false);
    assert!(net.ends[A].change_streams(net.now, StreamChange::AddOutgoing(2)));
    assert!(net.ends[A].change_streams(net.now, StreamChange::AddIncoming(3)));
    assert_eq!(net.ends[A].write(net.now, Write { stream: 5, ..Write::bytes(10) }), 0, "not yet");
    net.drain();
    net.run_until(at_ms(1_000));
    let added = |incoming, streams| Event::StreamsAdded { incoming, streams };
    assert_eq!(events(&net, A), [added(false, 6), added(true, 7)]);
    assert_eq!(events(&net, B), [added(true, 6), added(false, 7)]);
    write(&mut net, A, 10_000, 5);
    write(&mut net, B, 10_000, 6);
    net.run_until(at_ms(2_000));
    net.check(A);
    net.check(B);
    assert!(net.ends[A].change_streams(net.now, StreamChange::AddOutgoing(60_000)));
    net.drain();
    net.run_until(at_ms(3_000));
    assert_eq!(events(&net, A).last(), Some(&Event::ChangeRefused), "the peer has its own limit");
}

#[test]
fn impossible_changes_are_refused_at_once() {
    let mut net = opened(false);
    for change in [
        StreamChange::ResetOutgoing([4].into()),
        StreamChange::ResetIncoming([1, 9].into()),
        StreamChange::AddOutgoing(0),
        StreamChange::AddOutgoing(u16::MAX),
    ] {
        assert!(!net.ends[A].change_streams(net.now, change.clone()), "{change:?}");
    }
    let mut without = Net::new(vec![Link::new(10, 10)], |end, config| config.reconfiguration = end == A);
    assert!(!without.ends[A].change_streams(without.now, StreamChange::ResetAll), "not connected");
    without.connect();
    without.run_until(at_ms(100));
    assert!(
        !without.ends[A].change_streams(without.now, StreamChange::ResetAll),
        "the peer does not know it"
    );
}

/// RFC 6525 §5.2.1: a request with an unexpected number is an error; a repeated request gets the previous response.
#[test]
fn requests_out_of_order_change_nothing() {
    let mut net = opened(false);
    let seen: Rc<Cell<Option<anabranch_wire::Packet>>> = Rc::default();
    let answers: Rc<Cell<Vec<Outcome>>> = Rc::default();
    let (copy, log) = (Rc::clone(&seen), Rc::clone(&answers));
    net.filter = Some(Box::new(move |_, from, packet| {
        for chunk in &body(packet).chunks {
            let Chunk::Reconfig(reconfig) = chunk else { continue };
            let mut all = log.take();
            for parameter in &reconfig.parameters {
                match parameter {
                    Reconfiguration::Response { outcome, .. } if from == B => all.push(*outcome),
                    _ if from == A => copy.set(Some(packet.clone())),
                    _ => {}
                }
            }
            log.set(all);
        }
        true
    }));
    assert!(net.ends[A].change_streams(net.now, StreamChange::AddOutgoing(1)));
    net.drain();
    net.run_until(at_ms(1_000));
    let packet = seen.take().expect("the request was sent");
    net.inject(B, packet.clone());
    let mut strange = packet;
    let anabranch_wire::Body::Sctp(forged) = &mut strange.body else { panic!("SCTP") };
    let request = Serial(77);
    let parameters = vec![Reconfiguration::AddOutgoing { request, count: 1 }];
    forged.chunks = Chunk::Reconfig(Reconfig { parameters }).into();
    net.inject(B, strange);
    net.run_until(at_ms(2_000));
    assert_eq!(answers.take(), [Outcome::PERFORMED, Outcome::PERFORMED, Outcome::BAD_SEQUENCE_NUMBER]);
    assert_eq!(events(&net, B).len(), 1, "carried out once");
}

/// A reset waits until the data before it has arrived. If the receiver closes meanwhile, it denies the reset, and the
/// later arrival of the data does not perform it.
#[test]
fn denied_reset_is_not_performed_later() {
    let mut net = opened(false);
    net.filter = Some(Box::new(|now, from, packet| {
        let data = body(packet).chunks.iter().any(|chunk| chunk.payload().is_some());
        !(from == A && data && now < at_ms(2_500))
    }));
    write(&mut net, A, 500, 1);
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetOutgoing([1].into())));
    write(&mut net, A, 600, 1);
    net.run_until(at_ms(150));
    net.ends[B].close(net.now);
    net.drain();
    net.run_until(at_ms(60_000));
    net.check(A);
    assert_eq!((events(&net, A), events(&net, B)), (vec![Event::ChangeRefused], vec![]));
    assert!(net.closed(A).is_some() && net.closed(B).is_some());
}

/// A peer that answers "in progress" is reachable, so repeated requests count no path errors.
#[test]
fn slow_change_counts_no_path_errors() {
    let mut net = Net::new(vec![Link::new(10, 10)], |_, config| {
        (config.reconfiguration, config.heartbeat_interval) = (true, None);
    });
    net.connect();
    net.run_until(at_ms(100));
    net.filter = Some(Box::new(|now, from, packet| {
        let anabranch_wire::Body::Sctp(body) = &mut packet.body else { return true };
        for chunk in &mut body.chunks {
            if let Chunk::Reconfig(reconfig) = chunk
                && from == B
                && now < at_ms(60_000)
                && let [Reconfiguration::Response { outcome, .. }] = &mut reconfig.parameters[..]
            {
                *outcome = Outcome::IN_PROGRESS;
            }
        }
        true
    }));
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetOutgoing([0].into())));
    net.drain();
    net.run_until(at_ms(63_000));
    assert_eq!(events(&net, A), [reset(false, 0)]);
    assert!(!net.apps[A].events.iter().any(|event| matches!(event, Event::PathDown(_))));
}

/// usrsctp 0.9.5 reports success only once; if that response is lost, it keeps answering "in progress".
#[test]
fn lost_final_response_causes_a_new_request() {
    let mut net = opened(false);
    let mut first = None;
    net.filter = Some(Box::new(move |_, from, packet| {
        let anabranch_wire::Body::Sctp(body) = &mut packet.body else { return true };
        for chunk in &mut body.chunks {
            if let Chunk::Reconfig(reconfig) = chunk
                && from == B
                && let [Reconfiguration::Response { response, outcome, .. }] = &mut reconfig.parameters[..]
                && *first.get_or_insert(*response) == *response
            {
                *outcome = Outcome::IN_PROGRESS;
            }
        }
        true
    }));
    write(&mut net, A, 20_000, 1);
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetOutgoing([1].into())));
    write(&mut net, A, 300, 1);
    net.run_until(at_ms(8_000));
    net.check(A);
    assert_eq!(net.apps[B].read.len(), 2);
    assert_eq!(events(&net, A), [reset(false, 1)]);
    assert_eq!(net.extra(A, "reconfigurations_asked"), 1);
}

/// A stream reset delivers messages that waited for an SSN that was never used, and reports them as readable.
#[test]
fn data_released_by_a_reset_can_be_read() {
    let mut net = opened(false);
    net.filter = Some(Box::new(|_, _, packet| {
        let anabranch_wire::Body::Sctp(body) = &mut packet.body else { return true };
        for chunk in &mut body.chunks {
            if let Chunk::Data(data) = chunk {
                data.ssn = 1;
            }
        }
        true
    }));
    let readable = |net: &Net| net.apps[B].events.iter().filter(|event| **event == Event::Readable).count();
    write(&mut net, A, 500, 1);
    net.run_until(at_ms(1_000));
    assert_eq!((readable(&net), net.apps[B].read.len()), (0, 0));
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetOutgoing([1].into())));
    net.drain();
    net.run_until(at_ms(2_000));
    assert_eq!((readable(&net), net.apps[B].read.len()), (1, 1));
}

/// Data written before a stream reset is sent before it, even if a TSN reset by the peer delays the data.
#[test]
fn a_reset_waits_for_data_kept_by_a_pause() {
    let mut net = opened(false);
    write(&mut net, B, 1, 0);
    assert!(net.ends[B].change_streams(net.now, StreamChange::ResetOutgoing([].into())));
    net.drain();
    assert!(net.ends[A].change_streams(net.now, StreamChange::ResetAll));
    net.drain();
    net.run_until(at_ms(122));
    assert!(net.ends[B].change_streams(net.now, StreamChange::ResetOutgoing([].into())));
    write(&mut net, B, 1, 0);
    net.run_until(at_ms(10_000));
    write(&mut net, B, 100, 0);
    net.run_until(at_ms(20_000));
    net.check(B);
    let all = |incoming| Event::StreamReset { incoming, stream: None };
    assert_eq!(events(&net, B), [all(false), Event::NumbersReset, all(false)]);
    assert_eq!((net.closed(A), net.closed(B)), (None, None));
}

/// The peer has performed the reset, but its response was lost, and this end abandons another message. The FORWARD TSN must
/// not list the stream that was reset.
#[test]
fn forward_tsn_omits_a_stream_that_was_reset() {
    for i_data in [false, true] {
        let mut net = Net::new(vec![Link::new(10, 10)], |_, config| {
            config.reconfiguration = true;
            config.partial_reliability = true;
            config.i_data = i_data;
            config.nagle = false;
            config.streams = 4;
        });
        net.connect();
        net.run_until(at_ms(100));
        net.apps[A].reliability = vec![Reliability::Retransmissions(0)];
        let answers = Rc::new(Cell::new(true));
        let heard = Rc::clone(&answers);
        net.filter = Some(Box::new(move |_, from, packet| {
            let lost = |chunk: &Chunk| chunk.payload().is_some_and(|payload| payload.offset < 2000);
            if from == A { !body(packet).chunks.iter().any(lost) } else { heard.get() }
        }));
        write(&mut net, A, 1000, 1);
        assert!(net.ends[A].change_streams(net.now, StreamChange::ResetOutgoing([1].into())));
        net.drain();
        net.run_until(at_ms(200));
        answers.set(false);
        net.run_until(at_ms(2_000));
        write(&mut net, A, 1000, 2);
        net.run_until(at_ms(10_000));
        assert_eq!(events(&net, B), [reset(true, 1)]);
        assert_eq!(net.apps[A].abandoned.len(), 2);
        answers.set(true);
        write(&mut net, A, 300, 1);
        net.run_until(at_ms(60_000));
        assert_eq!(events(&net, A), [reset(false, 1)]);
        assert_eq!(net.apps[B].read.iter().map(|message| message.offset).collect::<Vec<_>>(), [2000]);
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Write { end: usize, len: u64, stream: u16 },
    Change { end: usize, which: u8 },
    Wait { millis: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..2_usize, 1..8_000_u64, 0..4_u16).prop_map(|(end, len, stream)| Act::Write { end, len, stream }),
        2 => (0..2_usize, any::<u8>()).prop_map(|(end, which)| Act::Change { end, which }),
        2 => (0..400_u64).prop_map(|millis| Act::Wait { millis }),
    ]
}

fn change(which: u8) -> StreamChange {
    let stream = u16::from(which >> 4) % 4;
    match which % 6 {
        0 => StreamChange::ResetOutgoing([stream].into()),
        1 => StreamChange::ResetIncoming([stream, (stream + 1) % 4].into()),
        2 => StreamChange::ResetAll,
        3 => StreamChange::AddOutgoing(1 + stream),
        4 => StreamChange::AddIncoming(1),
        _ => StreamChange::ResetOutgoing([].into()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Under loss, delay and duplication, every message arrives once, in the order of its stream, and every
    /// requested change completes.
    #[test]
    fn stream_changes_lose_no_message(
        acts in prop::collection::vec(act(), 1..40),
        loss in 0.0..0.25_f64,
        jitter in 0..30_u64,
        i_data in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut net = net(i_data);
        net.rng = Rng::new(seed);
        net.connect();
        net.run_until(at_ms(100));
        net.links[0] = Link { loss, jitter: ms(jitter), duplicate: loss / 4.0, ..net.links[0].clone() };
        let mut asked = [0, 0];
        for act in acts {
            match act {
                Act::Write { end, len, stream } => write(&mut net, end, len, stream),
                Act::Change { end, which } => {
                    asked[end] += u64::from(net.ends[end].change_streams(net.now, change(which)));
                    net.drain();
                }
                Act::Wait { millis } => net.run_until(net.now + ms(millis)),
            }
        }
        net.links[0].loss = 0.0;
        net.run_until(net.now + ms(400_000));
        prop_assert!(net.complete(), "{:?} {:?}", net.ends[A].report(), net.ends[B].report());
        net.check(A);
        net.check(B);
        for end in [A, B] {
            prop_assert_eq!(net.closed(end), None);
            let State::Open(open) = &net.ends[end].state else { panic!("the association is open") };
            let changes = &open.reconfig;
            let idle = (changes.requests.pending.is_none(), changes.requests.waiting.len(), changes.due());
            prop_assert_eq!(idle, (true, 0, Time::MAX), "every change has ended");
            // Changes that the peer requested add to the number of this end's requests.
            prop_assert!(net.extra(end, "reconfigurations_asked") >= asked[end]);
            write(&mut net, end, 100, 0);
        }
        net.run_until(net.now + ms(10_000));
        prop_assert!(net.complete(), "data flows on");
    }
}
