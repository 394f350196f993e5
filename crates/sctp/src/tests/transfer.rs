//! Data over one path: handshake, delivery, loss recovery, windows.

use super::pair::{A, App, B, Link, Net, at_ms, body, bulk, ms};
use crate::StreamScheduler;
use anabranch_endpoint::endpoint::{Endpoint, Event};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{self, CongestionControl};
use anabranch_testkit::takes_no_notice;
use anabranch_wire::sctp::Chunk;
use core::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

#[test]
fn four_packets_open_an_association() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, _| {});
    net.connect();
    net.run_until(at_ms(100));
    for end in [A, B] {
        assert!(net.ends[end].established());
        assert_eq!(net.apps[end].events[0], Event::Connected);
    }
    assert_eq!(net.carried, 4);
}

#[test]
fn a_bulk_transfer_fills_the_path() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, _| {});
    net.apps[A] = App::sends(bulk(8000, 1452));
    net.connect();
    net.run_to_end(at_ms(60_000));
    net.check(A);
    let goodput = 8000.0 * 1452.0 * 8.0 / net.now.as_secs_f64() / 1e6;
    assert!(goodput > 9.4, "{goodput} Mbit/s");
    let path = net.ends[A].path(PathId(0)).unwrap();
    assert_eq!(path.counters.timeouts, 0);
}

#[test]
fn losses_are_repaired_fast() {
    let mut net = Net::new(vec![Link { loss: 0.01, ..Link::new(10, 5) }], |_, _| {});
    net.apps[A] = App::sends((0..3000).map(|i| (500 + i % 5000, 0, false)));
    net.connect();
    net.run_to_end(at_ms(120_000));
    net.check(A);
    let path = net.ends[A].path(PathId(0)).unwrap();
    assert!(path.counters.fast_retransmissions > 10);
}

/// RFC 9260 §7.2.4 rule 4: the SACK of a fast retransmission takes a round trip, and the timer of the first transmission
/// would expire before. So the retransmission of the earliest outstanding chunk restarts the timer.
#[test]
fn fast_retransmission_restarts_the_t3_timer() {
    let mut net = Net::new(vec![Link { queue: 100_000, ..Link::new(1_000, 300) }], |_, config| {
        config.rto.min = ms(50);
        (config.send_buffer, config.receive_buffer) = (50_000_000, 50_000_000);
    });
    net.apps[A] = App::sends(bulk(8_000, 1452));
    let mut packets = 0;
    net.filter = Some(Box::new(move |_, from, _| {
        packets += usize::from(from == A);
        packets != 1_000 || from != A
    }));
    net.connect();
    net.run_to_end(at_ms(60_000));
    net.check(A);
    let counters = net.ends[A].path(PathId(0)).unwrap().counters;
    assert_eq!((counters.fast_retransmissions, counters.timeouts), (1, 0));
}

/// The initial window of 4404 bytes holds three chunks of 1440 + 16 bytes, or four if it may be overshot.
#[test]
fn a_packet_may_exceed_the_window_if_configured() {
    for (overshoot, packets) in [(false, 3), (true, 4)] {
        let mut net = Net::new(vec![Link::new(10, 5)], |_, config| config.overshoot = overshoot);
        net.apps[A] = App::sends(bulk(100, 1440));
        net.connect();
        net.run_until(at_ms(21));
        assert_eq!(net.ends[A].path(PathId(0)).unwrap().outstanding, packets * 1440);
    }
}

/// A window that never closes, to see what the core does with very much in flight.
#[derive(Debug)]
struct HugeWindow;

/// A window that never delays data, bytes.
const HUGE_WINDOW_BYTES: u64 = 1 << 30;

static HUGE_WINDOW: congestion::Entry = congestion::Entry {
    name: "wide",
    aliases: &[],
    summary: "a window that holds everything",
    source: "for tests",
    coupled: false,
    signal: congestion::Signal::Loss,
    build: &|_| Box::new(HugeWindow),
};

fn wide() -> congestion::Choice {
    congestion::Choice { entry: &HUGE_WINDOW, options: congestion::Options::default() }
}

impl CongestionControl for HugeWindow {
    fn name(&self) -> &'static str {
        "wide"
    }
    takes_no_notice!();
    fn window(&self, _: PathId) -> u64 {
        HUGE_WINDOW_BYTES
    }
    fn ssthresh(&self, _: PathId) -> u64 {
        u64::MAX
    }
}

/// More chunks in flight than a gap block can address (16 bits), and more gaps than a SACK can list.
#[test]
fn a_hundred_thousand_chunks_in_flight() {
    for nr_sack in [true, false] {
        let link = Link { loss: 0.02, queue: 1 << 30, ..Link::new(1000, 1500) };
        let mut net = Net::new(vec![link], |_, config| {
            config.congestion = wide();
            (config.send_buffer, config.receive_buffer) = (HUGE_WINDOW_BYTES, HUGE_WINDOW_BYTES);
            (config.max_burst, config.nr_sack) = (None, nr_sack);
            config.rto.min = ms(5_000);
        });
        net.apps[A] = App::sends(bulk(150_000, 1452));
        net.connect();
        net.run_until(at_ms(6_200));
        assert!(net.ends[A].path(PathId(0)).unwrap().outstanding > 100_000 * 1452);
        net.run_to_end(at_ms(300_000));
        net.check(A);
        assert_eq!(net.extra(A, "chunks_reneged"), 0);
    }
}

/// A retransmitted chunk of full size does not fit into a packet with a SACK.
#[test]
fn no_packet_exceeds_the_mtu() {
    let mut net = Net::new(vec![Link { loss: 0.05, ..Link::new(10, 10) }], |_, _| {});
    net.filter = Some(Box::new(|_, _, packet| {
        assert!(packet.wire_len() <= 1500, "{packet:?}");
        true
    }));
    for end in [A, B] {
        net.apps[end] = App::sends(bulk(1000, 1452));
    }
    net.connect();
    net.run_to_end(at_ms(100_000));
    net.check(A);
    net.check(B);
}

/// Behind one lost chunk, more small messages of a stream could wait than a 16-bit SSN can number.
#[test]
fn outstanding_ssns_do_not_wrap_around() {
    let mut net = Net::new(vec![Link { queue: 1 << 20, ..Link::new(1000, 100) }], |_, config| {
        config.congestion = wide();
        (config.send_buffer, config.receive_buffer) = (4_000_000, 4_000_000);
        config.max_burst = None;
    });
    let mut packets = 0;
    net.filter = Some(Box::new(move |_, from, packet| {
        let data = from == A && body(packet).chunks.iter().any(|chunk| matches!(chunk, Chunk::Data(_)));
        packets += u32::from(data);
        !data || packets != 5
    }));
    net.apps[A] = App::sends((0..100_000).map(|_| (4, 0, false)));
    net.connect();
    net.run_to_end(at_ms(60_000));
    assert_eq!((net.closed(A), net.closed(B)), (None, None));
    net.check(A);
}

/// A message larger than the send buffer has the buffer for itself.
#[test]
fn a_message_larger_than_the_send_buffer_is_sent() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, config| config.send_buffer = 10_000);
    net.apps[A] = App::sends([(3_000, 0, false), (20_000, 0, false), (9_000, 0, false)]);
    net.connect();
    net.run_to_end(at_ms(5_000));
    net.check(A);
    assert_eq!(net.apps[B].read.len(), 3);
}

/// Messages of one byte on ten streams, of which the tenth to nineteenth packet are lost.
fn tiny_messages() -> Net {
    let mut net = Net::new(vec![Link::new(20, 10)], |_, config| {
        config.streams = 10;
        (config.send_buffer, config.receive_buffer) = (1_000_000, 1_000_000);
    });
    net.apps[A] = App::sends((0..100_000_u32).map(|i| (1, (i % 10) as u16, false)));
    net
}

/// RFC 9260 §6.1 C: retransmissions precede new data, however small the new data is.
#[test]
fn retransmissions_precede_new_data() {
    let mut net = tiny_messages();
    let (mut packets, mut lost, new) = (0, BTreeSet::new(), Rc::new(Cell::new(0)));
    let between = Rc::clone(&new);
    net.filter = Some(Box::new(move |_, from, packet| {
        if from != A {
            return true;
        }
        let tsns = body(packet).chunks.iter().filter_map(|chunk| match chunk {
            Chunk::Data(data) => Some(data.tsn.0),
            _ => None,
        });
        let tsns: Vec<u32> = tsns.collect();
        packets += u32::from(!tsns.is_empty());
        if (10..20).contains(&packets) {
            lost.extend(tsns);
            return false;
        }
        for tsn in tsns {
            if !lost.remove(&tsn) && !lost.is_empty() {
                between.set(between.get() + 1);
            }
        }
        true
    }));
    net.connect();
    net.run_to_end(at_ms(20_000));
    net.check(A);
    assert!(net.now < at_ms(12_000), "{:?}", net.now);
    // A round trip passes until the first report, and a window of three packets for each more.
    assert!(new.get() < 2_000, "{} new chunks left before the last repair", new.get());
}

/// A message of one byte takes 20 bytes of the window, the length of its chunk on the wire.
#[test]
fn a_window_counts_chunk_headers() {
    let mut net = tiny_messages();
    net.connect();
    net.run_until(at_ms(41));
    let path = net.ends[A].path(PathId(0)).unwrap();
    assert_eq!((path.cwnd, path.outstanding), (4404, 4404 / 20));
}

/// A message larger than the receive buffer flows through it in parts (RFC 9260 §6.9), and so do interleaved ones that only
/// together are larger.
#[test]
fn messages_larger_than_the_receive_buffer_flow() {
    for (i_data, len, streams, buffer) in [(false, 1_000_000, 1, 500_000), (true, 400_000, 10, 1_000_000)] {
        for unordered in [false, true] {
            let mut net = Net::new(vec![Link { loss: 0.001, ..Link::new(20, 10) }], |_, config| {
                (config.i_data, config.streams) = (i_data, streams);
                config.stream_scheduler = StreamScheduler::RoundRobin;
                (config.send_buffer, config.receive_buffer) = (8_000_000, buffer);
            });
            net.apps[A] = App::sends((0..20).map(|i| (len, i % streams, unordered)));
            net.connect();
            net.run_to_end(at_ms(60_000));
            net.check(A);
            let rate = 20.0 * len as f64 * 8e-6 / net.now.as_secs_f64();
            assert!(rate > 13.0, "{rate} Mbit/s, interleaved {i_data}, unordered {unordered}");
            assert!(net.apps[B].in_parts > 0);
        }
    }
}

/// A message that fits is delivered whole.
#[test]
fn messages_that_fit_the_buffer_are_delivered_whole() {
    let mut net = Net::new(vec![Link { loss: 0.01, ..Link::new(20, 10) }], |_, config| {
        (config.send_buffer, config.receive_buffer) = (1_000_000, 500_000);
    });
    net.apps[A] = App::sends((0..100).map(|_| (20_000, 0, false)));
    net.connect();
    net.run_to_end(at_ms(60_000));
    net.check(A);
    assert_eq!(net.apps[B].in_parts, 0);
}
