//! Paths that fail and recover, and peers that do not answer.

use super::pair::{A, App, B, Link, Net, address, at_ms, bulk, ms};
use crate::Config;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{Endpoint, Event, Reason};
use anabranch_multipath::PathId;
use anabranch_wire::Body;
use anabranch_wire::sctp::Chunk;

fn quick(config: &mut Config) {
    config.rto.min = ms(200);
    config.rto.initial = ms(200);
    config.rto.max = ms(1_000);
    config.heartbeat_interval = Some(ms(500));
    config.path_max_retrans = 2;
}

fn events(net: &Net, wanted: Event) -> usize {
    net.apps[A].events.iter().filter(|event| **event == wanted).count()
}

#[test]
fn data_returns_to_a_recovered_primary_path() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, config| quick(config));
    net.apps[A] = App::sends(bulk(60_000, 1452));
    net.connect();
    net.run_until(at_ms(3_000));
    net.links[0].up = false;
    net.run_until(at_ms(10_000));
    assert_eq!(events(&net, Event::PathDown(PathId(0))), 1);
    let second = net.ends[A].path(PathId(1)).unwrap().counters.bytes_acked;
    assert!(second > 4_000_000, "{second} bytes on the other path");
    net.links[0].up = true;
    net.run_until(at_ms(14_000));
    assert_eq!(events(&net, Event::PathUp(PathId(0))), 2);
    let before = net.ends[A].path(PathId(1)).unwrap().counters.bytes_acked;
    net.run_until(at_ms(16_000));
    let after = net.ends[A].path(PathId(1)).unwrap().counters.bytes_acked;
    assert!(after - before < 200_000, "the primary path carries the data again");
    net.run_to_end(at_ms(200_000));
    net.check(A);
}

#[test]
fn cmt_continues_while_a_path_is_down() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, config| {
        config.cmt = true;
        quick(config);
    });
    net.apps[A] = App::sends(bulk(60_000, 1452));
    net.connect();
    net.run_until(at_ms(3_000));
    net.links[1].up = false;
    net.run_until(at_ms(8_000));
    let before = net.ends[B].report().delivered;
    net.run_until(at_ms(13_000));
    let during = net.ends[B].report().delivered - before;
    assert!(during > 5_500_000, "{during} bytes in 5 s over the path that is left");
    net.links[1].up = true;
    net.run_until(at_ms(16_000));
    let before = net.ends[B].report().delivered;
    net.run_until(at_ms(20_000));
    let after = net.ends[B].report().delivered - before;
    assert!(after > 9_000_000, "{after} bytes in 4 s over both");
    net.run_to_end(at_ms(200_000));
    net.check(A);
}

#[test]
fn an_idle_path_is_watched_by_heartbeats() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, config| quick(config));
    net.connect();
    net.run_until(at_ms(2_000));
    assert!(net.ends[A].path(PathId(1)).unwrap().usable);
    net.links[1].up = false;
    net.run_until(at_ms(12_000));
    assert!(!net.ends[A].path(PathId(1)).unwrap().usable);
    assert!(net.ends[A].path(PathId(0)).unwrap().usable);
    net.links[1].up = true;
    net.run_until(at_ms(20_000));
    assert!(net.ends[A].path(PathId(1)).unwrap().usable);
    assert!(net.ends[A].path(PathId(1)).unwrap().srtt.is_some());
}

#[test]
fn an_association_without_any_path_ends() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, config| quick(config));
    net.apps[A] = App::sends(bulk(20_000, 1452));
    net.connect();
    net.run_until(at_ms(1_000));
    net.links.iter_mut().for_each(|link| link.up = false);
    net.run_until(at_ms(900_000));
    assert_eq!(net.closed(A), Some(Reason::TimedOut));
    assert_eq!(net.ends[A].next_timeout(), None);
}

#[test]
fn unanswered_init_times_out() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, _| {});
    net.links[0].up = false;
    net.connect();
    net.run_until(at_ms(1_000_000));
    assert_eq!(net.closed(A), Some(Reason::TimedOut));
}

#[test]
fn init_goes_to_the_next_address_if_the_first_is_dead() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |_, _| {});
    net.links[0].up = false;
    net.apps[A] = App::sends(bulk(100, 1452));
    net.connect();
    net.run_to_end(at_ms(20_000));
    net.check(A);
    assert!(net.ends[A].path(PathId(1)).unwrap().counters.bytes_acked > 0);
}

/// One address at the client, two at the server: the link of a packet depends on its source.
#[test]
fn there_are_as_many_paths_as_destinations() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |end, config| {
        config.cmt = true;
        if end == A {
            config.ends.local.truncate(1);
        } else {
            config.ends.remote.truncate(1);
        }
    });
    net.mesh = true;
    net.apps[A] = App::sends(bulk(1_000, 1452));
    net.connect();
    net.run_to_end(at_ms(20_000));
    net.check(A);
    assert_eq!(net.ends[A].report().paths.len(), 2);
    assert_eq!(net.ends[B].report().paths.len(), 1);
}

/// The i-th local address can only reach the i-th remote address, but the initial pairs are different.
#[test]
fn a_destination_is_tried_from_every_source() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 5)], |end, config| {
        config.cmt = true;
        if end == A {
            config.ends.remote = vec![address(B, 1), address(B, 0)];
        }
    });
    net.apps[A] = App::sends(bulk(40_000, 1452));
    net.connect();
    net.run_until(at_ms(20_000));
    assert_eq!(net.ends[A].report().paths.iter().filter(|path| path.usable).count(), 2);
    net.check_so_far(A);
}

/// RFC 9260 §8.1: every acknowledgement of data shows that the peer is reachable, even if an earlier chunk is lost
/// repeatedly.
#[test]
fn acks_behind_a_gap_keep_the_association() {
    let mut net = Net::new(vec![Link::new(1, 5)], |_, config| config.association_max_retrans = 2);
    let (mut unlucky, mut times) = (None, 0);
    net.filter = Some(Box::new(move |_, from, packet| {
        let Body::Sctp(body) = &mut packet.body else { return true };
        body.chunks.list().retain(|chunk| {
            let Chunk::Data(data) = chunk else { return true };
            let hit = from == A && *unlucky.get_or_insert(data.tsn) == data.tsn && times < 6;
            times += u32::from(hit);
            !hit
        });
        !body.chunks.is_empty()
    }));
    net.apps[A] = App::sends(bulk(20_000, 100));
    net.connect();
    net.run_to_end(at_ms(100_000));
    assert!(net.ends[A].path(PathId(0)).unwrap().counters.timeouts > 3);
    assert_eq!(net.closed(A), None);
    net.check(A);
}

/// RFC 9260 §8.2: an acknowledged chunk resets the errors of its destination, even if it was retransmitted there.
#[test]
fn acknowledged_retransmissions_clear_path_errors() {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, config| {
        (config.path_max_retrans, config.association_max_retrans) = (3, 30);
        (config.rto.initial, config.rto.min) = (ms(200), ms(200));
    });
    // Each chunk is lost the first time.
    let mut seen = std::collections::BTreeSet::new();
    net.filter = Some(Box::new(move |_, from, packet| {
        let Body::Sctp(body) = &packet.body else { return true };
        from != A || body.chunks.iter().filter_map(Chunk::tsn).all(|tsn| !seen.insert(tsn.0))
    }));
    net.apps[A] = App::sends((0..12).map(|_| (1000, 0, false)));
    net.connect();
    for turn in 0..12 {
        net.run_until(at_ms(100 + 5_000 * turn));
    }
    net.run_to_end(at_ms(600_000));
    net.check(A);
    let counters = net.ends[A].path(PathId(0)).unwrap().counters;
    assert!(counters.timeouts >= 4, "{counters:?}");
    assert_eq!(net.extra(A, "path_failures"), 0);
}

/// Two paths of 10 Mbit/s with the default timers. The first fails at 5 s and recovers at 25 s. Returns the bytes read
/// in each second.
fn first_path_away(cmt: bool, buffer: u64) -> (Net, Vec<f64>) {
    let mut net = Net::new(vec![Link::new(10, 10), Link::new(10, 10)], |_, config| {
        config.cmt = cmt;
        config.dac = cmt;
        (config.send_buffer, config.receive_buffer) = (buffer, buffer);
    });
    net.apps[A] = App::sends((0..80_000).map(|_| (1452, 0, false)));
    net.connect();
    let mut read = vec![0.0];
    for second in 1..=32 {
        net.run_until(at_ms(second * 1_000));
        net.links[0].up = !(5..25).contains(&second);
        read.push(net.ends[B].report().delivered as f64 * 8e-6);
    }
    net.check_so_far(A);
    (net, read)
}

/// RFC 7829: after one timeout, data moves from a path that does not answer to the one that does.
#[test]
fn a_potentially_failed_path_does_not_block_the_other() {
    for buffer in [500_000, 1_000_000, 4_000_000] {
        let (net, read) = first_path_away(true, buffer);
        let during = (read[25] - read[6]) / 19.0;
        assert!(during > 9.0, "{during} Mbit/s with buffers of {buffer} bytes");
        assert_eq!(events(&net, Event::PathDown(PathId(0))), 1);
        let after = read[32] - read[31];
        assert!(after > 17.0, "{after} Mbit/s in the last second, with buffers of {buffer} bytes");
    }
}

#[test]
fn plain_sctp_fails_over_within_seconds() {
    let (net, read) = first_path_away(false, 1_000_000);
    let during = (read[25] - read[8]) / 17.0;
    assert!(during > 8.5, "{during} Mbit/s from the third second on");
    assert!(net.extra(A, "path_suspicions") >= 1);
}

/// A recovered path carries data within three seconds, whatever the length of the outage.
#[test]
fn recovered_path_is_used_soon() {
    let mut net = Net::new(vec![Link::new(10, 10), Link::new(10, 10)], |_, config| config.cmt = true);
    net.apps[A] = App::sends((0..400_000).map(|_| (1452, 0, false)));
    net.connect();
    net.run_until(at_ms(5_000));
    for away in [1_500, 7_000, 90_000] {
        net.links[0].up = false;
        net.run_until(net.now + ms(away));
        net.links[0].up = true;
        let before = net.ends[A].path(PathId(0)).unwrap().counters.bytes_acked;
        net.run_until(net.now + ms(3_000));
        let after = net.ends[A].path(PathId(0)).unwrap().counters.bytes_acked;
        assert!(after > before + 100_000, "{} bytes after {away} ms", after - before);
        net.run_until(net.now + ms(5_000));
    }
}

/// Without another path, or with the potentially-failed state disabled, nothing changes.
#[test]
fn single_path_is_never_suspected() {
    for paths in [1, 2] {
        let mut net = Net::new(vec![Link::new(10, 10); paths], |_, config| {
            if paths > 1 {
                config.potentially_failed_threshold = None;
            }
        });
        net.apps[A] = App::sends(bulk(20_000, 1452));
        net.connect();
        net.run_until(at_ms(2_000));
        net.links[0].up = false;
        net.run_until(at_ms(6_000));
        net.links[0].up = true;
        net.run_until(at_ms(9_000));
        assert_eq!(net.extra(A, "path_suspicions"), 0);
        assert_eq!(net.extra(A, "heartbeats_sent"), paths as u64 - 1);
        assert!(net.ends[A].path(PathId(0)).unwrap().counters.timeouts >= 2);
    }
}

/// Both paths share a link of 200 kbit/s that has no room for a packet to wait. The heartbeats and MTU probes
/// that follow a timeout must not be sent before the chunks that it counted as lost. Otherwise the answers
/// would keep both paths in use, and no retransmission would ever arrive.
#[test]
fn timer_packets_do_not_displace_retransmissions() {
    for discovery in [false, true] {
        let mut net = Net::new(vec![Link::new(10, 20), Link::new(10, 20)], |_, config| {
            (config.cmt, config.pmtu_discovery) = (true, discovery);
            config.potentially_failed_threshold = Some(0);
        });
        let mut busy = [Time::ZERO; 2];
        net.filter = Some(Box::new(move |now, from, packet| {
            let free = busy[from] <= now;
            if free {
                busy[from] = now + Duration::from_micros(40 * u64::from(packet.wire_len()));
            }
            free
        }));
        net.apps[A] = App::sends(bulk(50, 1400));
        net.connect();
        net.run_to_end(at_ms(300_000));
        net.check(A);
        let probes = net.extra(A, "mtu_probes");
        assert!(probes <= 60, "{probes} probes of the paths' lengths");
    }
}
