//! Silent paths: probes, early timeouts, and moving their chunks to other paths.

use super::pair::{A, App, B, Link, Net, at_ms, body, bulk, ms};
use anabranch_endpoint::endpoint::{Endpoint, Reliability, Write};
use anabranch_multipath::PathId;
use anabranch_multipath::buffer::{Rescheduling, Sides, Splitting};
use anabranch_wire::sctp::Chunk;

/// One path of 10 Mbit/s and 20 ms, with tail loss probes and the timer of RFC 9260.
fn probing(messages: usize) -> Net {
    let mut net = Net::new(vec![Link::new(10, 10)], |_, config| config.tail_loss_probe = true);
    net.apps[A] = App::sends(bulk(messages, 1452));
    net
}

fn carries_data(chunk: &Chunk) -> bool {
    matches!(chunk, Chunk::Data(_))
}

#[test]
fn a_lost_tail_is_repaired_without_a_timeout() {
    let mut net = probing(50);
    let mut data = 0;
    net.filter = Some(Box::new(move |_, from, packet| {
        data += usize::from(from == A && body(packet).chunks.iter().any(carries_data));
        from != A || !(48..=50).contains(&data)
    }));
    net.connect();
    net.run_to_end(at_ms(10_000));
    net.check(A);
    assert!(net.now < at_ms(600), "{:?}", net.now);
    net.run_until(at_ms(10_000));
    let path = net.ends[A].path(PathId(0)).unwrap();
    assert_eq!((path.counters.timeouts, path.counters.probes, path.counters.recoveries), (0, 1, 1));
}

#[test]
fn a_probe_that_repairs_the_only_loss_is_a_recovery() {
    let mut net = probing(50);
    let mut data = 0;
    net.filter = Some(Box::new(move |_, from, packet| {
        data += usize::from(from == A && body(packet).chunks.iter().any(carries_data));
        from != A || data != 50
    }));
    net.connect();
    net.run_until(at_ms(10_000));
    net.check(A);
    let path = net.ends[A].path(PathId(0)).unwrap();
    assert_eq!((path.counters.timeouts, path.counters.probes, path.counters.recoveries), (0, 1, 1));
    assert!(path.ssthresh < 100_000, "{path:?}");
}

#[test]
fn probe_requests_lost_acknowledgements() {
    let mut net = probing(50);
    let (mut data, mut last) = (0, at_ms(60_000));
    net.filter = Some(Box::new(move |now, from, packet| {
        data += usize::from(from == A && body(packet).chunks.iter().any(carries_data));
        if data == 50 {
            last = last.min(now);
        }
        // The packets that B sends within a round trip after the last data packet are lost.
        from != B || now < last || now > last + ms(30)
    }));
    net.connect();
    net.run_until(at_ms(700));
    net.check(A);
    let path = net.ends[A].path(PathId(0)).unwrap();
    assert_eq!((path.counters.bytes_acked, path.outstanding), (50 * 1452, 0));
    assert_eq!((path.counters.timeouts, path.counters.probes, path.counters.recoveries), (0, 1, 0));
    assert_eq!(path.ssthresh, u64::MAX, "nothing was lost");
}

/// The receiver got all data before the path died, but its acknowledgements were lost with the path.
#[test]
fn sack_after_lost_sacks_shows_no_spurious_timeout() {
    let mut net = Net::new(vec![Link::new(10, 10)], |_, _| {});
    net.filter = Some(Box::new(|now, from, _| {
        let silent = if from == A { 510 } else { 490 };
        now < at_ms(silent) || now > at_ms(1_400)
    }));
    net.apps[A] = App::sends(bulk(600, 1452));
    net.connect();
    net.run_to_end(at_ms(30_000));
    net.check(A);
    let path = net.ends[A].path(PathId(0)).unwrap();
    assert_eq!((path.counters.timeouts, net.extra(A, "spurious_reactions")), (1, 0));
    assert!(net.now < at_ms(3_000), "{:?}", net.now);
}

#[test]
fn dead_path_times_out_early_if_another_is_alive() {
    let mut net = Net::new(vec![Link::new(10, 10), Link::new(10, 10)], |_, settings| {
        settings.config = settings.config.clone().with_cmt();
        (settings.send_buffer, settings.receive_buffer) = (4_000_000, 4_000_000);
    });
    net.apps[A] = App::sends(bulk(20_000, 1452).map(|(len, stream, _)| (len, stream, false)));
    net.connect();
    net.run_until(at_ms(3_000));
    net.links[0].up = false;
    net.run_until(at_ms(3_900));
    assert_eq!(net.ends[A].path(PathId(0)).unwrap().counters.timeouts, 1);
    assert_eq!((net.extra(A, "path_suspicions"), net.extra(A, "spurious_reactions")), (1, 0));
    assert_eq!(net.ends[A].path(PathId(1)).unwrap().counters.timeouts, 0);
    let before = net.ends[B].report().delivered;
    net.run_until(at_ms(4_900));
    let during = net.ends[B].report().delivered - before;
    assert!(during > 1_080_000, "{during} bytes in order within a second over the path that is left");
}

/// The chunks of the dead path are moved to the other path before its timer expires.
#[test]
fn dead_path_without_chunks_in_flight_is_suspected() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, config| {
        (config.cmt, config.nr_sack) = (true, true);
        (config.send_buffer, config.receive_buffer) = (60_000, 60_000);
        config.rescheduling = Rescheduling { sides: Sides::Both, threshold: 0.2 };
    });
    net.apps[A] = App::sends(bulk(20_000, 1452).map(|(len, stream, _)| (len, stream, false)));
    net.connect();
    net.run_until(at_ms(2_000));
    net.links[1].up = false;
    net.run_until(at_ms(4_500));
    assert_eq!(net.ends[A].path(PathId(1)).unwrap().counters.timeouts, 0);
    assert_eq!(net.extra(A, "path_suspicions"), 1);
    let before = net.ends[A].path(PathId(1)).unwrap().counters.bytes_sent;
    net.run_until(at_ms(10_000));
    assert_eq!(
        net.ends[A].path(PathId(1)).unwrap().counters.bytes_sent,
        before,
        "the suspected path carries no data"
    );
}

/// A long slow path and a short one, with a buffer that the slow one alone can fill.
#[test]
fn a_path_that_blocks_the_other_is_penalised() {
    let delivered = |penalisation| {
        let mut net = Net::new(vec![Link::new(10, 5), Link::new(1, 100)], |_, settings| {
            settings.config = settings.config.clone().with_cmt();
            settings.penalisation = penalisation;
            (settings.send_buffer, settings.receive_buffer) = (100_000, 100_000);
            settings.splitting = Splitting::default();
        });
        net.apps[A] = App::sends(bulk(20_000, 1452).map(|(len, stream, _)| (len, stream, false)));
        net.connect();
        net.run_until(at_ms(10_000));
        assert_eq!(net.extra(A, "penalisations") > 0, penalisation);
        net.ends[B].report().delivered
    };
    let (with, without) = (delivered(true), delivered(false));
    assert!(with as f64 > 1.05 * without as f64, "{with} bytes, {without} without");
}

/// Only one probe is sent; if no answer arrives, the retransmission timer expires.
#[test]
fn single_path_is_probed_once_before_its_timeout() {
    let mut net = probing(2_000);
    net.connect();
    net.run_until(at_ms(500));
    net.links[0].up = false;
    let rto = net.ends[A].core.paths[0].rtt.rto();
    net.run_until(at_ms(500) + rto);
    let path = net.ends[A].path(PathId(0)).unwrap();
    assert_eq!((path.counters.timeouts, path.counters.probes), (0, 1));
    net.run_until(at_ms(500) + rto + ms(200));
    assert_eq!(net.ends[A].path(PathId(0)).unwrap().counters.timeouts, 1);
    net.links[0].up = true;
    net.run_to_end(at_ms(30_000));
    net.check(A);
}

/// After its last chunk was abandoned, a path is not expected to answer, and its next chunk gets a full timeout.
#[test]
fn path_with_an_abandoned_last_chunk_is_not_probed() {
    let mut net = Net::new(vec![Link::new(10, 10), Link::new(10, 100)], |_, config| {
        (config.cmt, config.tail_loss_probe, config.partial_reliability) = (true, true, true);
        (config.nagle, config.heartbeat_interval, config.send_buffer) = (false, None, 4_000);
    });
    net.apps[A] = App::sends(bulk(40, 1_000));
    net.connect();
    net.run_until(at_ms(5_000));
    let on = |net: &Net, path| net.ends[A].path(PathId(path)).map_or(0, |path| path.outstanding);
    let sends = |net: &mut Net, len, priority| {
        let write = Write { reliability: Reliability::Priority(priority), ..Write::bytes(len) };
        assert_eq!(net.ends[A].write(net.now, write), len);
        net.apps[A].written.push((net.apps[A].offset, write));
        net.apps[A].offset += len;
        net.drain();
    };
    sends(&mut net, 1_400, 1);
    if on(&net, 1) > 0 {
        net.run_until(at_ms(6_000));
        sends(&mut net, 1_400, 1);
    }
    sends(&mut net, 1_400, 9);
    assert_eq!((on(&net, 0), on(&net, 1)), (1_400, 1_400));
    sends(&mut net, 1_400, 1);
    assert_eq!((on(&net, 0), on(&net, 1), net.apps[A].abandoned.len()), (2_800, 0, 1));
    net.run_until(at_ms(8_000));
    let due = net.ends[A].next_timeout();
    net.run_until(due.map_or(at_ms(9_000), |due| due - ms(60)));
    sends(&mut net, 1_000, 1);
    sends(&mut net, 1_000, 1);
    net.run_until(at_ms(12_000));
    let timeouts = [0, 1].map(|path| net.ends[A].path(PathId(path)).map(|path| path.counters.timeouts));
    assert_eq!((timeouts, due), ([Some(0), Some(0)], None));
}

/// A probed chunk that is abandoned leaves the scoreboard without an acknowledgement. So the probe repaired no loss and
/// shows no earlier one.
#[test]
fn abandoned_probe_is_not_answered() {
    let mut net = Net::new(vec![Link::new(10, 10)], |_, config| {
        (config.tail_loss_probe, config.partial_reliability) = (true, true);
        config.send_buffer = 10_000;
    });
    net.apps[A] = App::sends(bulk(20, 1_000));
    net.apps[A].reliability = vec![Reliability::Priority(7)];
    net.connect();
    net.run_until(at_ms(500));
    assert_eq!(net.apps[B].read.len(), 20);
    // From now on no data arrives; the probe is lost, too.
    net.filter = Some(Box::new(|_, from, packet| from != A || !body(packet).chunks.iter().any(carries_data)));
    net.apps[A].outbox.extend(bulk(1, 10_000));
    net.drain();
    net.run_until(at_ms(600));
    assert_eq!(net.ends[A].path(PathId(0)).unwrap().counters.probes, 1);
    net.apps[A].reliability = vec![Reliability::Priority(1)];
    net.filter = None;
    net.apps[A].outbox.extend(bulk(1, 9_000));
    net.drain();
    assert_eq!(net.apps[A].abandoned.len(), 1, "the message makes room for a more important one");
    net.run_until(at_ms(5_000));
    net.check(A);
    let path = net.ends[A].path(PathId(0)).unwrap();
    assert_eq!((path.counters.timeouts, path.counters.recoveries, path.ssthresh), (0, 0, u64::MAX));
}
