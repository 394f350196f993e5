//! Packets that a correct peer does not send. The core must follow RFC 9260 and keep its association.

use super::pair::{A, App, B, Link, Net, address, at_ms, body, bulk};
use crate::inbox::Inbox;
use crate::receiver::inbound::{AckPolicy, Inbound, Received};
use crate::receiver::reassembly::Fragment;
use anabranch_base::time::Duration;
use anabranch_endpoint::endpoint::{Endpoint, Event, Reason};
use anabranch_multipath::PathId;
use anabranch_wire::sctp::{
    self, Abort, Chunk, CookieEcho, Data, DataFlags, Duplicates, GapBlock, Init, Parameter, Sack, SackFlags,
    Shutdown,
};
use anabranch_wire::seq::Serial;
use anabranch_wire::{Body, Ecn, Packet, Payload};
use core::cell::RefCell;
use std::rc::Rc;

/// All packets sent, with their sender.
type Log = Rc<RefCell<Vec<(usize, Packet)>>>;

fn logged(net: &mut Net) -> Log {
    let log: Log = Rc::default();
    let copy = Rc::clone(&log);
    net.filter = Some(Box::new(move |_, from, packet| {
        copy.borrow_mut().push((from, packet.clone()));
        true
    }));
    log
}

fn one_link() -> Net {
    Net::new(vec![Link::new(10, 5)], |_, config| {
        config.nr_sack = false;
        config.max_burst = None;
        config.overshoot = true;
    })
}

/// A packet to `end` as its peer would send it.
fn forged(end: usize, tag: u32, chunks: Vec<Chunk>) -> Packet {
    Packet {
        source: address(1 - end, 0),
        destination: address(end, 0),
        ecn: Ecn::NotEct,
        body: Body::Sctp(sctp::Packet {
            source_port: 5000 + (1 - end) as u16,
            destination_port: 5000 + end as u16,
            verification_tag: tag,
            chunks: chunks.into(),
            udp: None,
            may_fragment: false,
            zero_checksum: false,
        }),
    }
}

fn sack(cumulative_tsn: Serial, gaps: Vec<GapBlock>) -> Chunk {
    let duplicates = Duplicates::NONE;
    Chunk::Sack(Sack { cumulative_tsn, a_rwnd: 500_000, flags: SackFlags::NONE, gaps, duplicates })
}

/// An established association with nothing in flight: the network, the tag that each endpoint expects, and A's next
/// TSN.
fn established() -> (Net, [u32; 2], Serial) {
    let mut net = one_link();
    let log = logged(&mut net);
    net.connect();
    net.run_until(at_ms(100));
    let mut tags = [0; 2];
    let mut tsn = Serial(0);
    for (from, packet) in log.borrow().iter() {
        match &body(packet).chunks[0] {
            Chunk::Init(init) => (tags[A], tsn) = (init.initiate_tag, init.initial_tsn),
            Chunk::InitAck(init) => tags[B] = init.initiate_tag,
            _ => assert!(*from < 2),
        }
    }
    net.filter = None;
    (net, tags, tsn)
}

fn still_works(net: &mut Net) {
    net.filter = None;
    net.apps[A].outbox.extend(bulk(50, 1000));
    net.drain();
    let limit = net.now + Duration::from_secs(60);
    net.run_to_end(limit);
    net.check(A);
    assert_eq!((net.closed(A), net.closed(B)), (None, None));
}

#[test]
fn wrong_tags_are_discarded() {
    let (mut net, tags, tsn) = established();
    let chunks = [
        Chunk::Abort(Abort::default()),
        Chunk::Shutdown(Shutdown { cumulative_tsn: tsn.sub(1) }),
        sack(tsn.sub(1), vec![]),
        Chunk::ShutdownAck,
        Chunk::Data(Data { tsn, payload: Payload::new(0, 10), flags: DataFlags::WHOLE, ..Data::default() }),
        Chunk::Init(Init {
            initiate_tag: 9,
            a_rwnd: 5000,
            outbound_streams: 1,
            inbound_streams: 1,
            ..Init::default()
        }),
    ];
    let count = chunks.len() as u64;
    for chunk in chunks {
        for end in [A, B] {
            net.inject(end, forged(end, tags[end] ^ 1, vec![chunk.clone()]));
        }
    }
    // An ABORT with a reflected tag must contain the peer's tag, not the local one.
    let abort = Chunk::Abort(Abort { reflected_tag: true, causes: vec![] });
    net.inject(A, forged(A, tags[A], vec![abort]));
    assert_eq!(net.extra(A, "packets_discarded"), count + 1);
    assert_eq!(net.extra(B, "packets_discarded"), count);
    still_works(&mut net);
}

#[test]
fn abort_with_reflected_peer_tag_is_accepted() {
    let (mut net, tags, _) = established();
    let abort = Chunk::Abort(Abort { reflected_tag: true, causes: vec![] });
    net.inject(A, forged(A, tags[B], vec![abort]));
    assert_eq!(net.closed(A), Some(Reason::Reset));
}

#[test]
fn replayed_init_changes_no_state() {
    let mut net = one_link();
    let log = logged(&mut net);
    net.apps[A] = App::sends(bulk(2_000, 1000));
    net.connect();
    net.run_until(at_ms(50));
    let init = log.borrow()[0].1.clone();
    for _ in 0..100 {
        net.inject(B, init.clone());
        net.run_until(net.now + Duration::from_millis(2));
    }
    net.run_to_end(at_ms(60_000));
    net.check(A);
    assert_eq!(net.extra(B, "restarts"), 0);
}

#[test]
fn listening_end_keeps_no_state_of_an_init() {
    let mut net = one_link();
    let init =
        Init { initiate_tag: 7, a_rwnd: 5000, outbound_streams: 1, inbound_streams: 1, ..Init::default() };
    for _ in 0..100 {
        net.inject(B, forged(B, 0, vec![Chunk::Init(init.clone())]));
    }
    assert_eq!(net.ends[B].next_timeout(), None);
    assert_eq!(net.ends[B].report().paths.len(), 1, "only the configured address has a path");
    net.connect();
    net.run_until(net.now + Duration::from_millis(100));
    still_works(&mut net);
}

#[test]
fn forged_cookies_are_discarded() {
    let mut net = one_link();
    let log = logged(&mut net);
    net.connect();
    net.run_until(at_ms(14)); // The COOKIE ECHO is on its way.
    let echo = log.borrow().iter().find(|(_, p)| matches!(body(p).chunks[0], Chunk::CookieEcho(_))).cloned();
    let (_, genuine) = echo.expect("sent by then");
    let Chunk::CookieEcho(CookieEcho { cookie }) = body(&genuine).chunks[0].clone() else { panic!("found") };
    let tag = body(&genuine).verification_tag;
    for at in (0..cookie.len()).step_by(5) {
        let mut wrong = cookie.clone();
        wrong[at] ^= 0x40;
        net.inject(B, forged(B, tag, vec![Chunk::CookieEcho(CookieEcho { cookie: wrong })]));
    }
    net.inject(B, forged(B, tag, vec![Chunk::CookieEcho(CookieEcho::default())]));
    net.inject(B, forged(B, tag ^ 8, vec![Chunk::CookieEcho(CookieEcho { cookie })]));
    assert!(!net.ends[B].established());
    net.run_until(at_ms(100));
    still_works(&mut net);
}

#[test]
fn an_old_cookie_does_not_disturb_a_new_association() {
    let mut net = one_link();
    let log = logged(&mut net);
    net.connect();
    net.run_until(at_ms(100));
    let echo = log.borrow().iter().find(|(_, p)| matches!(body(p).chunks[0], Chunk::CookieEcho(_))).cloned();
    let (_, echo) = echo.expect("sent by then");
    // The cookie arrives long after its lifetime. Its tags are those of the association, so it is
    // acknowledged again without any other effect.
    net.run_until(at_ms(100_000));
    net.inject(B, echo);
    assert_eq!(net.extra(B, "restarts"), 0);
    still_works(&mut net);
}

#[test]
fn acknowledging_unsent_tsns_ends_the_association() {
    for gaps in [vec![], vec![GapBlock::new(2, 3)]] {
        let (mut net, tags, tsn) = established();
        let cumulative = if gaps.is_empty() { tsn } else { tsn.sub(1) };
        net.inject(A, forged(A, tags[A], vec![sack(cumulative, gaps)]));
        assert_eq!(net.closed(A), Some(Reason::Aborted));
        net.run_until(at_ms(1_000));
        assert_eq!(net.closed(B), Some(Reason::Reset));
    }
}

#[test]
fn old_acknowledgements_change_nothing() {
    let (mut net, tags, tsn) = established();
    net.apps[A].outbox.extend(bulk(20, 1000));
    net.drain();
    net.run_until(at_ms(2_000));
    let before = format!("{:?}", net.ends[A].report().paths);
    net.inject(A, forged(A, tags[A], vec![sack(tsn.sub(1), vec![GapBlock::new(2, 9)])]));
    net.inject(A, forged(A, tags[A], vec![sack(tsn.sub(1 << 30), vec![])]));
    assert_eq!(format!("{:?}", net.ends[A].report().paths), before);
    still_works(&mut net);
}

/// Five chunks in flight, unknown to the peer, and no further data: the tag of A, and the first TSN.
fn five_in_flight() -> (Net, u32, Serial) {
    let (mut net, tags, tsn) = established();
    net.filter = Some(Box::new(|_, _, _| false));
    net.apps[A].outbox.extend((0..9).map(|_| (1440, 0, true)));
    net.drain();
    assert_eq!(net.ends[A].report().paths[0].outstanding, 4 * 1440);
    net.inject(A, forged(A, tags[A], vec![sack(tsn.add(3), vec![])]));
    assert_eq!(net.ends[A].report().paths[0].outstanding, 5 * 1440);
    (net, tags[A], tsn.add(4))
}

#[test]
fn overlapping_gap_blocks_count_each_chunk_once() {
    let (mut net, tag, first) = five_in_flight();
    let gaps = vec![GapBlock::new(3, 4), GapBlock::new(2, 3), GapBlock::new(4, 4), GapBlock::new(3, 3)];
    for _ in 0..3 {
        net.inject(A, forged(A, tag, vec![sack(first.sub(1), gaps.clone())]));
        let path = net.ends[A].report().paths[0];
        assert_eq!((path.counters.bytes_acked, path.outstanding), ((4 + 3) * 1440, 2 * 1440));
    }
}

#[test]
fn invalid_gap_blocks_are_ignored() {
    let (mut net, tag, first) = five_in_flight();
    let gaps = vec![GapBlock::new(0, 0), GapBlock::new(1, 1), GapBlock::new(4, 2)];
    net.inject(A, forged(A, tag, vec![sack(first.sub(1), gaps)]));
    assert_eq!(net.ends[A].report().paths[0].counters.bytes_acked, 4 * 1440);
}

#[test]
fn reneged_chunks_are_in_flight_again() {
    let (mut net, tag, first) = five_in_flight();
    net.inject(A, forged(A, tag, vec![sack(first.sub(1), vec![GapBlock::new(2, 4)])]));
    assert_eq!(net.ends[A].report().paths[0].outstanding, 2 * 1440);
    // A SACK without gap blocks acknowledges nothing new, and may be an old one that newer SACKs have
    // overtaken.
    net.inject(A, forged(A, tag, vec![sack(first.sub(1), vec![])]));
    assert_eq!((net.extra(A, "sacks_ignored"), net.extra(A, "chunks_reneged")), (1, 0));
    // With a new acknowledgement, the SACK is used.
    net.inject(A, forged(A, tag, vec![sack(first, vec![])]));
    assert_eq!(net.extra(A, "chunks_reneged"), 3);
    assert_eq!(net.ends[A].report().paths[0].outstanding, 4 * 1440);
    assert_eq!(net.ends[A].report().send_buffer, 4 * 1440);
    // The chunk is retransmitted after the timeout, and its acknowledgement empties the buffer.
    net.run_until(net.now + Duration::from_secs(5));
    assert!(net.ends[A].report().paths[0].counters.timeout_retransmissions > 0);
    net.inject(A, forged(A, tag, vec![sack(first.add(4), vec![])]));
    assert_eq!(net.ends[A].report().send_buffer, 0);
}

#[test]
fn empty_data_chunk_ends_the_association() {
    let (mut net, tags, tsn) = established();
    let empty = Data { tsn, flags: DataFlags::WHOLE, ..Data::default() };
    net.inject(B, forged(B, tags[B], vec![Chunk::Data(empty)]));
    assert_eq!(net.closed(B), Some(Reason::Aborted));
}

#[test]
fn data_on_a_missing_stream_is_reported() {
    let (mut net, tags, tsn) = established();
    let log = logged(&mut net);
    let data =
        Data { tsn, stream: 9, flags: DataFlags::WHOLE, payload: Payload::new(0, 5), ..Data::default() };
    net.inject(B, forged(B, tags[B], vec![Chunk::Data(data)]));
    let log = log.borrow();
    let chunks: Vec<_> = log.iter().flat_map(|(_, packet)| body(packet).chunks.iter().cloned()).collect();
    assert!(chunks.iter().any(|c| matches!(c, Chunk::Error(_))));
    assert!(chunks.iter().any(|c| matches!(c, Chunk::Sack(sack) if sack.cumulative_tsn == tsn)));
    assert_eq!(net.ends[B].readable(), 0);
}

/// A peer that ignores the window cannot use more memory than the buffer; its data far ahead is dropped.
#[test]
fn a_flood_beyond_the_window_is_dropped() {
    let (mut net, tags, tsn) = established();
    for step in 0..2_000 {
        let data = Data {
            tsn: tsn.add(2 + 2 * step),
            flags: DataFlags::WHOLE,
            ssn: 5,
            payload: Payload::new(0, 1400),
            ..Data::default()
        };
        let unordered = Data { flags: DataFlags::WHOLE | DataFlags::UNORDERED, ..data };
        let data =
            if step % 2 == 0 { Data { ssn: step as u16 + 1, ..data } } else { Data { ssn: 1, ..unordered } };
        net.inject(B, forged(B, tags[B], vec![Chunk::Data(data)]));
        net.apps[B].reads_from = at_ms(1_000_000);
    }
    let report = net.ends[B].report();
    assert!(report.receive_buffer <= 500_000, "{} bytes", report.receive_buffer);
    assert!(net.extra(B, "chunks_dropped") > 100);
}

#[test]
fn type_bits_decide_report_of_unknown_chunks() {
    let (mut net, tags, _) = established();
    let log = logged(&mut net);
    let unknown = |kind| Chunk::Unknown(sctp::Unknown { kind, flags: 0, value: Box::new([1, 2, 3, 4]) });
    for kind in [0x3e, 0x7e, 0xbe, 0xfe] {
        net.inject(B, forged(B, tags[B], vec![unknown(kind), Chunk::Abort(Abort::default())]));
        let skipped = kind & 0x80 != 0;
        assert_eq!(net.closed(B).is_some(), skipped, "{kind:#x}");
        if skipped {
            break;
        }
    }
    let errors = log.borrow().iter().filter(|(_, p)| matches!(body(p).chunks[0], Chunk::Error(_))).count();
    assert_eq!(errors, 1, "chunk type 0x7e requests a report");
}

#[test]
fn invalid_init_is_refused() {
    for (tag, streams, window) in [(7, 0, 5000), (7, 1, 100)] {
        let mut net = one_link();
        let log = logged(&mut net);
        let init = Init {
            initiate_tag: tag,
            a_rwnd: window,
            outbound_streams: streams,
            inbound_streams: 1,
            ..Init::default()
        };
        net.inject(B, forged(B, 0, vec![Chunk::Init(init)]));
        assert!(matches!(body(&log.borrow()[0].1).chunks[0], Chunk::Abort(_)));
    }
    let mut net = one_link();
    let log = logged(&mut net);
    net.inject(B, forged(B, 0, vec![Chunk::Init(Init::default())]));
    let host = Init {
        initiate_tag: 7,
        a_rwnd: 5000,
        outbound_streams: 1,
        inbound_streams: 1,
        parameters: vec![Parameter::HostName(Box::new(*b"example"))],
        ..Init::default()
    };
    net.inject(B, forged(B, 0, vec![Chunk::Init(host)]));
    assert_eq!(log.borrow().len(), 1, "a tag of zero is not answered");
    assert!(matches!(body(&log.borrow()[0].1).chunks[0], Chunk::Abort(_)));
}

#[test]
fn a_packet_out_of_the_blue_is_answered_with_its_tag() {
    let mut net = one_link();
    let log = logged(&mut net);
    net.inject(B, forged(B, 77, vec![sack(Serial(1), vec![])]));
    net.inject(B, forged(B, 78, vec![Chunk::ShutdownAck]));
    net.inject(B, forged(B, 79, vec![Chunk::Abort(Abort::default())]));
    let log = log.borrow();
    assert_eq!(log.len(), 2);
    assert_eq!(body(&log[0].1).verification_tag, 77);
    assert!(matches!(&body(&log[0].1).chunks[0], Chunk::Abort(abort) if abort.reflected_tag));
    assert!(matches!(&body(&log[1].1).chunks[0], Chunk::ShutdownComplete(done) if done.reflected_tag));
}

/// sctp-proto writes the last TSN that it has sent into a SHUTDOWN, not the last one that it has received.
#[test]
fn shutdown_with_wrong_tsn_loses_no_data() {
    for far in [Serial::add, Serial::sub] {
        let (mut net, tags, tsn) = established();
        net.apps[A].outbox.extend(bulk(500, 1452));
        net.drain();
        net.run_until(at_ms(120));
        let shutdown = Shutdown { cumulative_tsn: far(tsn, 1_000_000_000) };
        net.inject(A, forged(A, tags[A], vec![Chunk::Shutdown(shutdown)]));
        net.run_until(at_ms(5_000));
        net.check(A);
        assert_eq!(net.closed(A), None, "A awaits the SHUTDOWN COMPLETE");
    }
}

/// Unsolicited HEARTBEAT ACKs confirm nothing.
#[test]
fn unsolicited_heartbeat_ack_confirms_no_path() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, _| {});
    net.links[1].up = false;
    let log = logged(&mut net);
    net.connect();
    net.run_until(at_ms(100));
    let tag = log.borrow().iter().find_map(|(_, p)| match &body(p).chunks[0] {
        Chunk::Init(init) => Some(init.initiate_tag),
        _ => None,
    });
    let mut info = vec![1_u8];
    info.extend_from_slice(&[0; 16]);
    for len in 0..info.len() {
        let ack = Chunk::HeartbeatAck(sctp::Heartbeat { info: info[..=len].into() });
        net.inject(A, forged(A, tag.unwrap(), vec![ack]));
    }
    assert!(!net.ends[A].path(PathId(1)).unwrap().usable);
}

/// Linux lists at most 16 gap blocks in a SACK. Chunks above the last one do not count as reneged, although the SACK
/// no longer reports them.
#[test]
fn chunks_above_sixteenth_gap_block_not_reneged() {
    let (mut net, tags, tsn) = established();
    net.filter = Some(Box::new(|_, from, _| from != A));
    net.apps[A].outbox.extend(bulk(52, 10));
    net.drain();
    let single = |i: u16| GapBlock::new(2 * i, 2 * i);
    net.inject(A, forged(A, tags[A], vec![sack(tsn.sub(1), (1..=18).map(single).collect())]));
    let lower = core::iter::once(GapBlock::new(2, 4)).chain((3..=17).map(single)).collect();
    net.inject(A, forged(A, tags[A], vec![sack(tsn.sub(1), lower)]));
    assert_eq!((net.extra(A, "sacks_received"), net.extra(A, "chunks_reneged")), (2, 0));
}

/// A reflected tag is valid only in the response to an out-of-the-blue packet, which has one chunk.
#[test]
fn reflected_tag_allows_only_one_chunk() {
    let (mut net, tags, tsn) = established();
    let complete = Chunk::ShutdownComplete(sctp::ShutdownComplete { reflected_tag: true });
    net.inject(A, forged(A, tags[B], vec![complete, sack(tsn.sub(1), vec![])]));
    assert_eq!((net.extra(A, "packets_discarded"), net.extra(A, "sacks_received")), (1, 0));
    still_works(&mut net);
}

/// RFC 9260 §8.5.1 A: a packet with tag zero contains only an INIT.
#[test]
fn zero_tag_without_init_gets_no_response() {
    let mut net = one_link();
    let log = logged(&mut net);
    let init =
        Init { initiate_tag: 7, a_rwnd: 5000, outbound_streams: 1, inbound_streams: 1, ..Init::default() };
    for chunks in [
        vec![sack(Serial(1), vec![])],
        vec![Chunk::ShutdownAck],
        vec![Chunk::Init(init.clone()), Chunk::CookieAck],
        vec![Chunk::CookieAck, Chunk::Init(init)],
    ] {
        let packet = forged(B, 0, chunks);
        assert!(crate::out_of_the_blue(&packet).is_none());
        net.inject(B, packet);
    }
    assert_eq!(log.borrow().len(), 0);
}

/// Chunks of extensions that were not negotiated are unknown: chunks after an NR-SACK are not processed, and an ASCONF
/// is reported.
#[test]
fn chunks_of_unnegotiated_extensions_are_unknown() {
    let (mut net, tag, first) = five_in_flight();
    let log = logged(&mut net);
    let duplicates = Duplicates::NONE;
    let nr_sack = sctp::NrSack {
        sack: Sack {
            cumulative_tsn: first,
            a_rwnd: 500_000,
            flags: SackFlags::NONE,
            gaps: vec![],
            duplicates,
        },
        nr_gaps: vec![GapBlock::new(2, 3)],
    };
    net.inject(A, forged(A, tag, vec![Chunk::NrSack(Box::new(nr_sack)), Chunk::Abort(Abort::default())]));
    assert_eq!(net.ends[A].report().paths[0].counters.bytes_acked, 4 * 1440);
    assert_eq!(net.closed(A), None);
    assert_eq!(log.borrow().len(), 0);
    let asconf = sctp::Asconf { serial: Serial(1), address: address(B, 0), parameters: vec![] };
    net.inject(A, forged(A, tag, vec![Chunk::Asconf(Box::new(asconf))]));
    assert!(matches!(body(&log.borrow()[0].1).chunks[0], Chunk::Error(_)));
}

/// An error report is never larger than a packet, even if the reported chunk is large.
#[test]
fn the_report_of_a_large_unknown_chunk_fits_a_packet() {
    let (mut net, tags, _) = established();
    let log = logged(&mut net);
    let chunk = Chunk::Unknown(sctp::Unknown { kind: 0xfe, flags: 0, value: vec![3; 1464].into() });
    net.inject(B, forged(B, tags[B], vec![chunk]));
    let answer = log.borrow()[0].1.clone();
    assert!(matches!(body(&answer).chunks[0], Chunk::Error(_)));
    assert_eq!(answer.wire_len(), 1500);
}

/// A write to a stream that does not exist is refused, and an event informs the application.
#[test]
fn a_write_to_a_missing_stream_is_refused() {
    let (mut net, _, _) = established();
    let write = anabranch_endpoint::Write { stream: 5, ..anabranch_endpoint::Write::bytes(10) };
    assert_eq!(net.ends[A].write(net.now, write), 0);
    net.drain();
    let expected = Event::NoSuchStream { stream: 5, streams: 1 };
    assert_eq!(net.apps[A].events.last(), Some(&expected));
    still_works(&mut net);
}

/// draft-natarajan-tsvwg-sctp-nrsack: chunks that are renegable in one SACK may be non-renegable in the next,
/// and then leave the send buffer.
#[test]
fn chunks_that_become_non_renegable_are_freed() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, config| {
        config.max_burst = None;
        config.overshoot = true;
    });
    net.connect();
    net.run_until(at_ms(100));
    let tag = net.ends[A].tag().unwrap();
    let crate::association::state::State::Open(open) = &net.ends[A].state else { panic!("established") };
    let first = Serial(open.outbound.sent.base() as u32);
    net.filter = Some(Box::new(|_, _, _| false));
    net.apps[A].outbox.extend((0..4).map(|_| (1452, 0, true)));
    net.drain();
    let duplicates = Duplicates::NONE;
    let mut told = |gaps: Vec<GapBlock>, nr_gaps: Vec<GapBlock>| {
        let flags = SackFlags::NONE;
        let sack = Sack {
            cumulative_tsn: first.sub(1),
            a_rwnd: 500_000,
            flags,
            gaps,
            duplicates: duplicates.clone(),
        };
        let chunk = Chunk::NrSack(Box::new(sctp::NrSack { sack, nr_gaps }));
        net.inject(A, forged(A, tag, vec![chunk]));
        net.ends[A].report().send_buffer
    };
    let block = vec![GapBlock::new(2, 3)];
    assert_eq!(told(block.clone(), vec![]), 4 * 1452);
    assert_eq!(told(vec![], block), 2 * 1452);
}

/// RFC 3758 was not negotiated: its chunk is reported as unknown to the source of the packet (RFC 9260 §6.4).
#[test]
fn forward_tsn_is_reported_to_its_source() {
    let (mut net, tags, tsn) = established();
    let log = logged(&mut net);
    let chunk = Chunk::ForwardTsn(sctp::ForwardTsn { cumulative_tsn: tsn, skipped: vec![] });
    let bytes = chunk.to_bytes();
    let mut packet = forged(B, tags[B], vec![chunk]);
    packet.source = address(A, 1);
    net.inject(B, packet);
    let causes = vec![sctp::Cause::UnrecognizedChunk(bytes)];
    let (from, answer) = log.borrow().last().cloned().expect("an answer");
    assert_eq!((from, answer.destination), (B, address(A, 1)));
    assert_eq!(body(&answer).chunks, [Chunk::Error(sctp::Error { causes })]);
    still_works(&mut net);
}

/// A receiver with a buffer of 20 kB, whose next TSN is 1000.
fn receiver(i_data: bool) -> (Inbound, Inbox) {
    let (delay, every, dac, nr_sack, forward_tsn) = (Duration::ZERO, 1, false, false, false);
    let policy =
        AckPolicy { delay, every, dac, counts_packets: dac, nr_sack, renege: 0.0, forward_tsn, i_data };
    (Inbound::new(1_000, 1, 20_000, 1_500, policy), Inbox::default())
}

/// A peer that starts many messages without a gap and ends none uses at most twice the buffer.
#[test]
fn endless_messages_fill_the_buffer_twice_at_most() {
    let (mut inbound, mut inbox) = receiver(true);
    for step in 0..1_000 {
        let piece = Fragment {
            tsn: 1_000 + u64::from(step),
            stream: 0,
            unordered: false,
            first: true,
            last: false,
            immediate: false,
            message: step,
            number: Some(0),
            ppid: 0,
            len: 1_000,
        };
        assert!(inbound.receive(&piece, &mut inbox).is_ok());
        while inbox.pop().is_some() {}
    }
    assert!(inbound.held() <= 41_000, "{} bytes", inbound.held());
}

/// The first halves of unordered messages were lost. Retransmissions of other data have filled the buffer twice with
/// second halves. The first of the missing chunks is accepted nevertheless, and everything can be read.
#[test]
fn full_buffer_accepts_the_missing_chunk() {
    let (mut inbound, mut inbox) = receiver(false);
    let half = |tsn: u64| Fragment {
        tsn,
        stream: 0,
        unordered: true,
        first: tsn.is_multiple_of(2),
        last: !tsn.is_multiple_of(2),
        immediate: false,
        message: 0,
        number: None,
        ppid: 0,
        len: 900,
    };
    let mut received = 0;
    for tsn in (1_001..1_100).rev().step_by(2) {
        received += usize::from(inbound.receive(&half(tsn), &mut inbox) == Ok(Received::New));
    }
    assert!(inbound.held() > 39_000 && received < 50, "{received} chunks, {} bytes", inbound.held());
    // A sender retransmits the earliest missing chunk until it is acknowledged.
    for _ in 0..2 {
        for tsn in 1_000..1_100 {
            let _ = inbound.receive(&half(tsn), &mut inbox);
            while inbox.pop().is_some() {}
        }
    }
    assert_eq!((inbound.cumulative(), inbound.held()), (1_099, 0));
}

/// An unordered message five times as large as the buffer was lost, but the beginning of the next message was received.
/// The parts of the first can be read as they are retransmitted. They do not wait for the end of the second message,
/// for which there is no room.
#[test]
fn a_large_unordered_message_does_not_wait() {
    for i_data in [false, true] {
        let (mut inbound, mut inbox) = receiver(i_data);
        let part = |tsn: u64| {
            let at = ((tsn - 1_000) % 100) as u32;
            Fragment {
                tsn,
                stream: 0,
                unordered: true,
                first: at == 0,
                last: at == 99,
                immediate: false,
                message: u32::from(tsn >= 1_100),
                number: i_data.then_some(at),
                ppid: 0,
                len: 1_000,
            }
        };
        for tsn in 1_100..1_112 {
            assert_eq!(inbound.receive(&part(tsn), &mut inbox), Ok(Received::New));
            assert!(inbox.pop().is_none());
        }
        let mut most = 0;
        for tsn in (1_000..1_100).chain(1_112..1_200) {
            assert_eq!(inbound.receive(&part(tsn), &mut inbox), Ok(Received::New), "TSN {tsn}");
            most = most.max(inbound.held());
            while inbox.pop().is_some() {}
        }
        assert_eq!((inbound.cumulative(), inbound.held()), (1_199, 0));
        assert!(most <= 20_000, "{most} bytes");
    }
}

/// A message of the next TSN but `skipped`, and a SHUTDOWN that acknowledges nothing of B.
fn data_and_shutdown(tsn: Serial, skipped: u32) -> [Chunk; 2] {
    let (payload, flags) = (Payload::new(0, 10), DataFlags::WHOLE);
    let ssn = skipped as u16;
    let data = Chunk::Data(Data { tsn: tsn.add(skipped), ssn, payload, flags, ..Data::default() });
    [data, Chunk::Shutdown(Shutdown { cumulative_tsn: Serial(0) })]
}

#[test]
fn shutdown_waits_for_missing_data() {
    let (mut net, tags, tsn) = established();
    let log = logged(&mut net);
    let [data, shutdown] = data_and_shutdown(tsn, 1);
    net.inject(B, forged(B, tags[B], vec![data]));
    net.inject(B, forged(B, tags[B], vec![shutdown.clone()]));
    let has_sent = |wanted: fn(&Chunk) -> bool| {
        log.borrow().iter().any(|(from, packet)| *from == B && body(packet).chunks.iter().any(wanted))
    };
    assert!(!has_sent(|chunk| matches!(chunk, Chunk::ShutdownAck)));
    assert!(!net.apps[B].events.contains(&Event::Finished));
    assert!(has_sent(|chunk| matches!(chunk, Chunk::Sack(sack) if !sack.gaps.is_empty())));
    let [missing, _] = data_and_shutdown(tsn, 0);
    net.inject(B, forged(B, tags[B], vec![missing]));
    net.inject(B, forged(B, tags[B], vec![shutdown]));
    assert!(has_sent(|chunk| matches!(chunk, Chunk::ShutdownAck)));
    assert!(net.apps[B].events.contains(&Event::Finished));
}

#[test]
fn end_waits_for_missing_data_for_ten_seconds() {
    for closes in [false, true] {
        let (mut net, tags, tsn) = established();
        let [data, shutdown] = data_and_shutdown(tsn, 1);
        net.inject(B, forged(B, tags[B], vec![data]));
        if closes {
            net.ends[B].close(net.now);
            net.drain();
        }
        // The peer answers each packet with another SHUTDOWN, or with a SHUTDOWN ACK.
        let end = if closes { Chunk::ShutdownAck } else { shutdown };
        for _ in 0..20 {
            net.inject(B, forged(B, tags[B], vec![end.clone()]));
            assert!(!net.apps[B].events.contains(&Event::Finished));
        }
        let later = net.now + Duration::from_secs(11);
        net.filter = Some(Box::new(|_, _, _| false));
        net.run_until(later);
        net.inject(B, forged(B, tags[B], vec![end]));
        assert!(net.apps[B].events.contains(&Event::Finished), "{:?}", net.apps[B].events);
    }
}

#[test]
fn acknowledgement_waits_only_without_a_gap() {
    let (mut net, tags, tsn) = established();
    assert!(net.ends[B].may_wait());
    for (skipped, waits) in [(0, true), (2, false), (3, false), (1, true)] {
        let [data, _] = data_and_shutdown(tsn, skipped);
        net.inject(B, forged(B, tags[B], vec![data]));
        assert_eq!(net.ends[B].may_wait(), waits, "{skipped}");
    }
}
