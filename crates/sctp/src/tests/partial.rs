//! Partial reliability (RFC 3758, RFC 7496): the sender reports abandoned messages and the receiver skips them.

use super::pair::{A, App, B, Link, Net, Settings, at_ms, body, bulk, ms};
use anabranch_endpoint::endpoint::{Endpoint, Event, Reason, Reliability, Write};
use anabranch_wire::sctp::{Chunk, ForwardTsn};
use anabranch_wire::seq::Serial;
use core::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

const LINK: fn() -> Vec<Link> = || vec![Link::new(10, 10)];

fn partial(links: Vec<Link>, mut change: impl FnMut(&mut Settings)) -> Net {
    Net::new(links, |_, config| {
        config.partial_reliability = true;
        config.nagle = false;
        config.streams = 4;
        change(config);
    })
}

/// Offset of a chunk's payload among all bytes written.
fn offset(chunk: &Chunk) -> Option<u64> {
    chunk.payload().map(|payload| payload.offset)
}

/// Drops every transmission of payload at these offsets, and counts FORWARD TSN chunks.
fn drops(net: &mut Net, offsets: impl IntoIterator<Item = u64>) -> Rc<Cell<u32>> {
    let offsets: BTreeSet<u64> = offsets.into_iter().collect();
    let forwards = Rc::new(Cell::new(0));
    let count = Rc::clone(&forwards);
    net.filter = Some(Box::new(move |_, from, packet| {
        let chunks = &body(packet).chunks;
        let steps = chunks.iter().any(|chunk| matches!(chunk, Chunk::ForwardTsn(_) | Chunk::IForwardTsn(_)));
        count.set(count.get() + u32::from(steps));
        from != A || !chunks.iter().filter_map(offset).any(|offset| offsets.contains(&offset))
    }));
    forwards
}

/// Offsets of the messages that end B has read, in the order of reading.
fn read(net: &Net) -> Vec<u64> {
    net.apps[B].read.iter().map(|message| message.offset).collect()
}

fn abandoned(net: &Net) -> Vec<(u64, bool)> {
    net.apps[A].abandoned.iter().map(|(&offset, &sent)| (offset, sent)).collect()
}

#[test]
fn retransmission_limit_abandons_only_its_message() {
    for (i_data, unordered, most) in [(false, false, 0), (true, false, 0), (false, true, 2), (true, true, 1)]
    {
        let mut net = partial(LINK(), |config| config.i_data = i_data);
        let messages = (0..40).map(|i| (1000, i % 2, unordered));
        net.apps[A] = App { reliability: vec![Reliability::Retransmissions(most)], ..App::sends(messages) };
        let forwards = drops(&mut net, [5_000, 6_000, 20_000]);
        net.connect();
        net.run_to_end(at_ms(60_000));
        net.check(A);
        assert_eq!(abandoned(&net), [(5_000, true), (6_000, true), (20_000, true)]);
        assert_eq!(read(&net).len(), 37);
        let again = net.extra(A, "chunks_retransmitted");
        assert!(again >= 3 * u64::from(most) && again <= 3 * u64::from(most) + 3, "{again} for {most}");
        assert!((1..8).contains(&forwards.get()), "{}", forwards.get());
        net.run_until(net.now + ms(5_000));
        assert_eq!(net.ends[A].report().send_buffer, 0);
        assert_eq!(net.ends[A].released(), net.ends[A].report().written);
    }
}

#[test]
fn abandoned_fragment_abandons_its_message() {
    for i_data in [false, true] {
        for unordered in [false, true] {
            let mut net = partial(LINK(), |config| config.i_data = i_data);
            let messages = (0..6).map(|i| (9_000, i % 2, unordered));
            net.apps[A] = App { reliability: vec![Reliability::Retransmissions(0)], ..App::sends(messages) };
            let second = if i_data { 9_000 + 1_448 } else { 9_000 + 1_452 };
            drops(&mut net, [second]);
            net.connect();
            net.run_to_end(at_ms(60_000));
            net.check(A);
            assert_eq!(abandoned(&net), [(9_000, true)], "i_data {i_data}, unordered {unordered}");
            net.run_until(net.now + ms(2_000));
            assert!(net.apps[B].fragments.is_empty(), "the rest of the message is discarded");
            assert_eq!(net.ends[B].report().receive_buffer, 0);
        }
    }
}

#[test]
fn expired_messages_are_not_sent_again() {
    let mut net = partial(LINK(), |config| config.rto.min = ms(200));
    let lifetime = Reliability::Lifetime(ms(500));
    net.apps[A] = App { reliability: vec![lifetime], ..App::sends(bulk(200, 1_000)) };
    net.connect();
    net.run_until(at_ms(60));
    net.links[0].up = false;
    net.run_until(at_ms(900));
    let (sent, unsent): (Vec<_>, Vec<_>) = abandoned(&net).into_iter().partition(|&(_, sent)| sent);
    assert!(!sent.is_empty() && unsent.len() > 100, "{} and {}", sent.len(), unsent.len());
    net.links[0].up = true;
    let later = Write { reliability: lifetime, ..Write::bytes(100) };
    assert_eq!(net.ends[A].write(net.now, later), 100);
    net.apps[A].written.push((net.apps[A].offset, later));
    net.drain();
    net.run_until(at_ms(5_000));
    assert!(net.apps[B].read.last().is_some_and(|message| message.len == 100), "the association goes on");
    let counted = [net.extra(A, "messages_abandoned_sent"), net.extra(A, "messages_abandoned_unsent")];
    assert_eq!(counted, [sent.len() as u64, unsent.len() as u64]);
}

#[test]
fn unsent_abandoned_message_leaves_no_gap() {
    let mut net = partial(LINK(), |_| {});
    net.links[0].rate = 400_000;
    // The second message waits behind the first for 200 ms, longer than its lifetime.
    net.apps[A] = App {
        reliability: vec![Reliability::Full, Reliability::Lifetime(ms(50)), Reliability::Full],
        ..App::sends([(20_000, 0, false), (1_000, 0, false), (1_000, 0, false)])
    };
    let forwards = drops(&mut net, []);
    net.connect();
    net.run_to_end(at_ms(10_000));
    net.check(A);
    assert_eq!((abandoned(&net), forwards.get()), (vec![(20_000, false)], 0));
    assert_eq!(read(&net), [0, 21_000]);
}

#[test]
fn message_of_higher_priority_replaces_a_lower_one() {
    let mut net = partial(LINK(), |config| config.send_buffer = 10_000);
    net.connect();
    net.run_until(at_ms(100));
    net.links[0].up = false;
    let write = |net: &mut Net, len, priority| {
        let reliability = Reliability::Priority(priority);
        net.ends[A].write(net.now, Write { reliability, ..Write::bytes(len) })
    };
    for (len, priority) in [(4_000, 5), (4_000, 9), (2_000, 3)] {
        assert_eq!(write(&mut net, len, priority), len);
        net.drain();
    }
    assert_eq!(write(&mut net, 4_000, 9), 0, "no buffered message is less important");
    assert_eq!(write(&mut net, 9_000, 4), 0, "the less important messages free too few bytes");
    assert_eq!(abandoned(&net), []);
    assert_eq!(write(&mut net, 3_000, 4), 3_000);
    net.drain();
    assert_eq!(abandoned(&net), [(4_000, false)], "the least important of all");
    net.links[0].up = true;
    net.run_until(at_ms(10_000));
    assert_eq!(net.apps[B].read.iter().map(|message| message.len).collect::<Vec<_>>(), [4_000, 2_000, 3_000]);
}

#[test]
fn partly_read_message_is_aborted() {
    for (i_data, unordered) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut net = partial(LINK(), |config| {
            (config.i_data, config.receive_buffer) = (i_data, 20_000);
        });
        let messages = [(60_000, 0, unordered), (500, 0, unordered)];
        net.apps[A] = App { reliability: vec![Reliability::Retransmissions(0)], ..App::sends(messages) };
        let step = if i_data { 1_448 } else { 1_452 };
        drops(&mut net, [25 * step]);
        net.connect();
        net.run_to_end(at_ms(60_000));
        net.run_until(net.now + ms(1_000));
        assert!(net.apps[B].in_parts > 0);
        assert_eq!((net.apps[B].aborted, abandoned(&net)), (1, vec![(0, true)]));
        assert_eq!(read(&net), [60_000], "the next message is delivered whole");
        assert_eq!(net.ends[B].report().receive_buffer, 0);
        assert!(net.apps[B].fragments.is_empty());
    }
}

#[test]
fn peer_without_forward_tsn_gets_started_messages() {
    let mut net = Net::new(LINK(), |end, config| {
        config.partial_reliability = end == A;
        config.nagle = false;
    });
    let limits = vec![Reliability::Retransmissions(0), Reliability::Lifetime(ms(20))];
    net.apps[A] = App { reliability: limits, ..App::sends(bulk(60, 1_000)) };
    let lost = Rc::new(Cell::new(0));
    let count = Rc::clone(&lost);
    net.filter = Some(Box::new(move |_, _, packet| {
        let data = body(packet).chunks.iter().any(|chunk| matches!(chunk, Chunk::Data(_)));
        assert!(!body(packet).chunks.iter().any(|chunk| matches!(chunk, Chunk::ForwardTsn(_))));
        count.set(count.get() + u32::from(data));
        !data || !count.get().is_multiple_of(5)
    }));
    net.connect();
    net.run_to_end(at_ms(60_000));
    net.check(A);
    assert!(abandoned(&net).iter().all(|&(_, sent)| !sent), "{:?}", abandoned(&net));
    assert!(!abandoned(&net).is_empty());
}

/// FORWARD TSN chunks may be lost as well, so the sender retransmits them.
#[test]
fn forward_tsn_is_repeated_until_acknowledged() {
    let mut net = partial(LINK(), |_| {});
    net.apps[A] = App { reliability: vec![Reliability::Retransmissions(0)], ..App::sends(bulk(10, 1_000)) };
    let mut told = 0;
    net.filter = Some(Box::new(move |_, from, packet| {
        let chunks = &body(packet).chunks;
        told += u32::from(chunks.iter().any(|chunk| matches!(chunk, Chunk::ForwardTsn(_))));
        let steps = chunks.iter().any(|chunk| matches!(chunk, Chunk::ForwardTsn(_))) && told <= 3;
        let last = chunks.iter().filter_map(offset).any(|offset| offset == 9_000);
        from != A || !(steps || last)
    }));
    net.apps[A].close = true;
    net.connect();
    net.run_until(at_ms(60_000));
    assert_eq!(abandoned(&net), [(9_000, true)]);
    assert_eq!([net.closed(A), net.closed(B)], [Some(Reason::Closed); 2]);
    assert_eq!(net.extra(A, "forward_tsns_sent"), 4);
}

#[test]
fn many_streams_are_skipped_in_several_packets() {
    for i_data in [false, true] {
        let mut net = partial(LINK(), |config| (config.streams, config.i_data) = (900, i_data));
        net.apps[A] = App {
            reliability: (0..=900)
                .map(|i| if i < 900 { Reliability::Retransmissions(0) } else { Reliability::Full })
                .collect(),
            ..App::sends((0..900).map(|stream| (20, stream, false)).chain([(50, 0, false)]))
        };
        let forwards = drops(&mut net, (0..900).map(|i| 20 * i));
        net.connect();
        net.run_to_end(at_ms(600_000));
        assert_eq!(read(&net), [18_000]);
        assert!(forwards.get() >= 3, "{}", forwards.get());
        assert_eq!(abandoned(&net).len(), 900);
    }
}

/// Both ends must have negotiated FORWARD TSN, and only the negotiated kind of chunk is valid.
#[test]
fn forward_tsn_must_match_the_negotiation() {
    for (agreed, i_data) in [(false, false), (true, true), (true, false)] {
        let mut net = Net::new(LINK(), |_, config| {
            (config.partial_reliability, config.i_data, config.sack_delay) = (agreed, i_data, ms(0));
        });
        net.apps[A] = App::sends(bulk(1, 100));
        let seen: Rc<Cell<Option<(anabranch_wire::Packet, Serial)>>> = Rc::default();
        let copy = Rc::clone(&seen);
        net.filter = Some(Box::new(move |_, from, packet| {
            if from == A
                && let Some(tsn) = body(packet).chunks.iter().find_map(Chunk::tsn)
            {
                copy.set(Some((packet.clone(), tsn)));
            }
            true
        }));
        net.connect();
        net.run_until(at_ms(100));
        let (mut packet, tsn) = seen.take().expect("data was sent");
        let anabranch_wire::Body::Sctp(forged) = &mut packet.body else { panic!("SCTP") };
        forged.chunks =
            Chunk::ForwardTsn(ForwardTsn { cumulative_tsn: tsn.add(5), skipped: Vec::new() }).into();
        let before = net.extra(B, "sacks_sent");
        net.inject(B, packet);
        let answered = net.extra(B, "sacks_sent") - before;
        assert_eq!(net.closed(B).is_some(), agreed && i_data, "a violation of RFC 8260 §2.3.1");
        assert_eq!(answered, u64::from(agreed && !i_data));
    }
}

#[test]
fn close_completes_after_an_abandoned_last_message() {
    let mut net = partial(LINK(), |config| {
        (config.receive_buffer, config.heartbeat_interval) = (20_000, None);
    });
    let limits = vec![Reliability::Full, Reliability::Lifetime(ms(500))];
    let messages = [(20_000, 0, false), (10_000, 0, false)];
    net.apps[A] = App { reliability: limits, close: true, ..App::sends(messages) };
    net.apps[B].reads_from = at_ms(100_000);
    net.connect();
    net.run_until(at_ms(30_000));
    assert_eq!(abandoned(&net), [(20_000, false)]);
    assert!(net.apps[B].events.contains(&Event::Finished), "{:?}", net.apps[B].events);
}
