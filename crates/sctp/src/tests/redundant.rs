//! The scheduler that sends all data on every path.

use super::pair::{A, App, B, Link, Net, at_ms, bulk};
use crate::Config;
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_multipath::{PathId, congestion, scheduler};

fn redundant(config: &mut Config) {
    let receive_buffer = config.receive_buffer;
    *config = Config::for_cmt().send_buffer(config.send_buffer).receive_buffer(receive_buffer);
    config.scheduler = scheduler::find("redundant").expect("listed");
    config.congestion = congestion::Choice::find("reno").expect("listed");
}

/// Bytes of new data and of copies that a path has sent.
fn sent(net: &Net, path: u8) -> [u64; 2] {
    let counters = net.ends[A].path(PathId(path)).unwrap().counters;
    [counters.bytes_by_kind()[0].1, counters.bytes_repeated.copy]
}

#[test]
fn every_path_carries_all_data() {
    // The receive window is smaller than the queues: no packet is lost.
    let mut net = Net::new(vec![Link::new(10, 10), Link::new(10, 10)], |_, config| {
        config.receive_buffer = 100_000;
        redundant(config);
    });
    net.apps[A] = App::sends(bulk(3_000, 1452));
    net.connect();
    net.run_to_end(at_ms(60_000));
    net.check(A);
    let all = 3_000 * 1452;
    let paths = [0, 1].map(|path| sent(&net, path));
    assert_eq!(paths[0][0] + paths[1][0], all);
    let copies = paths[0][1] + paths[1][1];
    assert!(copies * 100 > all * 97, "{paths:?}");
    // The receiver counts the second arrival of each chunk.
    assert!(net.extra(B, "chunks_duplicate") * 100 > 3_000 * 97, "{}", net.extra(B, "chunks_duplicate"));
    // 4.4 MB at 9.7 Mbit/s; neither path is slowed down by the other.
    assert!(net.now < at_ms(3_900), "{:?}", net.now);
    assert_eq!(net.extra(A, "chunks_retransmitted"), 0);
}

/// The two paths lose different packets, so a copy on the other path replaces nearly every retransmission.
#[test]
fn copies_replace_retransmissions() {
    let retransmitted = |redundantly: bool| {
        let lossy = Link { loss: 0.01, ..Link::new(10, 20) };
        let mut net = Net::new(vec![lossy.clone(), lossy], |_, config| {
            redundant(config);
            if !redundantly {
                config.scheduler = scheduler::find("round-robin").expect("listed");
            }
        });
        net.apps[A] = App::sends(bulk(3_000, 1452));
        net.connect();
        net.run_to_end(at_ms(120_000));
        net.check(A);
        net.recount();
        net.extra(A, "chunks_retransmitted")
    };
    let [with, without] = [true, false].map(retransmitted);
    assert!(without > 20 && with * 4 < without, "{with} and {without}");
}

/// One of two equal paths fails: delivery goes on without a pause, the failed path is suspected, and it is used again
/// after its return.
#[test]
fn failed_path_interrupts_nothing() {
    for failing in [0, 1] {
        // Queues stay short. Otherwise the other path first carries the data in its queue, which has arrived before.
        let mut net = Net::new(vec![Link::new(10, 10), Link::new(10, 10)], |_, config| {
            config.receive_buffer = 30_000;
            redundant(config);
        });
        net.apps[A] = App::sends(bulk(20_000, 1452));
        net.connect();
        net.run_until(at_ms(2_000));
        net.links[failing].up = false;
        let mut last = net.ends[B].report().delivered;
        for step in 1..=40 {
            net.run_until(at_ms(2_000 + 50 * step));
            let now = net.ends[B].report().delivered;
            assert!(now > last, "nothing in the 50 ms before {:?} with path {failing} down", net.now);
            last = now;
        }
        let suspicions = net.extra(A, "path_suspicions");
        assert_eq!(suspicions, 1, "path {failing}");
        net.links[failing].up = true;
        net.run_until(at_ms(7_000));
        let before = sent(&net, failing as u8);
        net.run_until(at_ms(8_000));
        let after = sent(&net, failing as u8);
        assert!(after.iter().sum::<u64>() > before.iter().sum::<u64>() + 800_000, "{before:?} {after:?}");
        net.run_to_end(at_ms(120_000));
        net.check(A);
    }
}

/// A slow path repeats only data that is not acknowledged yet, and does not slow the fast one down.
#[test]
fn slow_path_does_not_delay_fast_one() {
    let mut net = Net::new(vec![Link::new(10, 10), Link::new(1, 150)], |_, config| redundant(config));
    net.apps[A] = App::sends(bulk(8_000, 1452));
    net.connect();
    net.run_until(at_ms(2_000));
    let before = net.ends[B].report().delivered;
    net.run_until(at_ms(8_000));
    let rate = (net.ends[B].report().delivered - before) as f64 * 8.0 / 6e6;
    assert!(rate > 9.2, "{rate} Mbit/s");
    let slow = net.ends[A].path(PathId(1)).unwrap();
    assert!(slow.counters.bytes_sent > 300_000, "{:?}", slow.counters);
    assert!(slow.srtt.is_some_and(|srtt| srtt.as_millis() > 290), "{:?}", slow.srtt);
    net.check_so_far(A);
}
