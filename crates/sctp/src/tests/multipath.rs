//! Concurrent multipath transfer: several paths at once, buffers, retransmission policies.

use super::pair::{A, App, B, Link, Net, Settings, at_ms, bulk};
use crate::{Config, ConfigError, Paths, RetransmissionPath, SackPath};
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_multipath::buffer::{Rescheduling, Sides, Splitting, SplittingOn};
use anabranch_multipath::{PathId, congestion, scheduler};
use anabranch_testkit::heard::Heard;
use anabranch_wire::Body;
use anabranch_wire::sctp::{Chunk, SackFlags};

fn cmt(config: &mut Config) {
    config.cmt = true;
    config.dac = true;
}

/// Goodput of a run, Mbit/s: data read between the end of the first second and `secs`.
fn goodput(net: &mut Net, secs: u64) -> f64 {
    net.connect();
    net.run_until(at_ms(1000));
    let before = net.ends[B].report().delivered;
    net.run_until(at_ms(secs * 1000));
    net.check_so_far(A);
    (net.ends[B].report().delivered - before) as f64 * 8.0 / ((secs - 1) as f64 * 1e6)
}

/// Seconds for which the association was blocked by its buffers, by cause.
fn blocked(net: &Net) -> [f64; 4] {
    let list = net.ends[A].limits(net.now).buffers;
    core::array::from_fn(|i| list[i].1.as_secs_f64())
}

#[test]
fn two_equal_paths_carry_twice_as_much() {
    let mut net = Net::new(vec![Link::new(10, 1), Link::new(10, 1)], |_, config| cmt(config));
    net.apps[A] = App::sends(bulk(40_000, 1452));
    let rate = goodput(&mut net, 20);
    let [one, two] = [0, 1].map(|id| net.ends[A].path(PathId(id)).unwrap().counters);
    assert!(rate > 19.2, "{rate} Mbit/s");
    assert!(one.bytes_acked > 20_000_000 && two.bytes_acked > 20_000_000);
    assert_eq!(one.timeouts + two.timeouts, 0);
}

#[test]
fn eight_paths_carry_eight_times_as_much() {
    let mut net = Net::new((0..8).map(|_| Link::new(10, 1)).collect(), |_, config| cmt(config));
    net.apps[A] = App::sends(bulk(60_000, 1452));
    let rate = goodput(&mut net, 6);
    assert!(rate > 76.0, "{rate} Mbit/s");
}

#[test]
fn without_cmt_the_second_path_stays_idle() {
    let mut net = Net::new(vec![Link::new(10, 1), Link::new(10, 1)], |_, _| {});
    net.apps[A] = App::sends(bulk(3_000, 1452));
    let rate = goodput(&mut net, 3);
    assert!((9.0..9.7).contains(&rate), "{rate} Mbit/s");
    assert_eq!(net.ends[A].path(PathId(1)).unwrap().counters.data_packets_sent, 0);
}

#[test]
fn the_initial_path_carries_the_data() {
    let mut net = Net::new(vec![Link::new(10, 1), Link::new(5, 1)], |_, config| config.initial_path = 1);
    net.apps[A] = App::sends(bulk(3_000, 1452));
    let rate = goodput(&mut net, 3);
    assert!((4.5..4.9).contains(&rate), "{rate} Mbit/s");
}

/// Every congestion control and scheduler runs, with loss, and delivers everything.
#[test]
fn every_control_and_scheduler_delivers() {
    for control in congestion::ALGORITHMS {
        for schedule in scheduler::SCHEDULERS {
            let build = |config: &mut Config| {
                cmt(config);
                config.congestion = congestion::Choice::find(control.name).expect("listed");
                config.scheduler = schedule;
            };
            if schedule.places {
                let mut settings = Settings::new(A, 1, 1);
                build(&mut settings);
                let refused = settings.connecting().err();
                assert_eq!(refused, Some(ConfigError::Scheduler(schedule.name)));
                continue;
            }
            let lossy = Link { loss: 0.005, ..Link::new(10, 20) };
            let mut net = Net::new(vec![lossy.clone(), lossy], |_, config| build(config));
            net.apps[A] = App::sends(bulk(2_000, 1452));
            net.connect();
            net.run_to_end(at_ms(60_000));
            net.check(A);
            let rate = 2_000.0 * 1452.0 * 8e-6 / net.now.as_secs_f64();
            assert!(rate > 1.0, "{} with {}: {rate} Mbit/s", control.name, schedule.name);
        }
    }
}

/// Adhari2011's setup: a fast path and an ADSL path, small buffers.
fn dissimilar(sides: Sides, nr_sack: bool, rescheduling: bool) -> (f64, Net) {
    let adsl = Link { rate: 800_000, ..Link::new(1, 28) };
    let fast = Link { queue: 10, ..Link::new(10, 2) };
    let mut net = Net::new(vec![fast, adsl], |_, config| {
        cmt(config);
        config.send_buffer = 300_000;
        config.receive_buffer = 100_000;
        config.splitting = Splitting { sides, on: SplittingOn::Outstanding };
        config.nr_sack = nr_sack;
        if rescheduling {
            config.rescheduling = Rescheduling { sides: Sides::Both, ..Rescheduling::default() };
        }
    });
    net.apps[A] = App::sends(bulk(100_000, 1444));
    let rate = goodput(&mut net, 20);
    (rate, net)
}

#[test]
fn a_full_buffer_is_reported_to_the_scheduler() {
    let told = |send_buffer, receive_buffer| {
        let slow = Link { rate: 800_000, ..Link::new(1, 28) };
        let mut net = Net::new(vec![Link::new(10, 2), slow], |_, config| {
            cmt(config);
            (config.send_buffer, config.receive_buffer) = (send_buffer, receive_buffer);
        });
        let heard = Heard::default();
        net.ends[A].core.scheduler = Box::new(heard.clone());
        net.apps[A] = App::sends(bulk(100_000, 1444));
        goodput(&mut net, 3);
        heard.blocked()
    };
    assert_eq!(told(10_000_000, 10_000_000), 0);
    assert!(told(10_000_000, 50_000) > 0, "by the receive window");
    assert!(told(50_000, 10_000_000) > 0, "by the send buffer");
}

#[test]
fn splitting_keeps_slow_paths_from_blocking_others() {
    let (unsplit, net) = dissimilar(Sides::None, true, false);
    assert!(unsplit < 2.0, "{unsplit} Mbit/s without splitting");
    let [transmission, gap, reordering, window] = blocked(&net);
    assert!(window > 10.0 && transmission + gap + reordering < 1.0, "{:?}", blocked(&net));

    let (split, net) = dissimilar(Sides::Both, true, false);
    assert!(split > 10.2, "{split} Mbit/s with splitting and NR-SACK");
    let slow = net.ends[A].path(PathId(1)).unwrap();
    assert!(slow.cwnd <= 50_000 + 1_452, "{}", slow.cwnd);

    let (renegable, net) = dissimilar(Sides::Both, false, false);
    assert!(renegable < 8.0, "{renegable} Mbit/s with splitting without NR-SACK");
    let [transmission, gap, ..] = blocked(&net);
    assert!(gap > 10.0 && transmission < 1.0, "{:?}", blocked(&net));

    let (moved, net) = dissimilar(Sides::Both, false, true);
    assert!(moved > 9.0, "{moved} Mbit/s with rescheduling");
    assert!(net.extra(A, "chunks_rescheduled") > 100);
}

/// Until the fast path's window has shrunk or is as large as the buffer, the buffer is not split and no chunk moves.
#[test]
fn mechanisms_wait_for_the_end_of_start_up() {
    let adsl = Link { rate: 800_000, ..Link::new(1, 28) };
    let mut net = Net::new(vec![Link { queue: 40, ..Link::new(10, 2) }, adsl], |_, config| {
        cmt(config);
        (config.send_buffer, config.receive_buffer) = (300_000, 100_000);
        config.splitting = Splitting { sides: Sides::Both, on: SplittingOn::Outstanding };
        config.rescheduling = Rescheduling { sides: Sides::Both, ..Rescheduling::default() };
        config.mechanisms_in_start_up = false;
    });
    // Messages are ordered, so that they wait for missing ones.
    net.apps[A] = App::sends(bulk(100_000, 1444).map(|(len, stream, _)| (len, stream, false)));
    net.connect();
    let mut largest = 0;
    for tick in 1..500 {
        net.run_until(at_ms(10 * tick));
        let window = net.ends[A].path(PathId(0)).unwrap().cwnd;
        let core = &net.ends[A].core;
        if core.start_up.is_over() {
            assert_eq!(core.splitting().sides, Sides::Both);
        } else {
            assert!(largest <= window && window < 100_000, "{window} after {largest}");
            assert_eq!((core.splitting().sides, net.extra(A, "chunks_rescheduled")), (Sides::None, 0));
            largest = window;
        }
    }
    assert!(largest > 0 && net.ends[A].core.start_up.is_over());
    assert!(net.extra(A, "chunks_rescheduled") > 0);
}

/// Half of a receive buffer of 100,000 bytes holds 34 chunks of 1444 bytes. Retransmissions of the other path
/// do not change that.
#[test]
fn retransmissions_keep_the_share_of_the_other_path() {
    let slow = Link { rate: 800_000, ..Link::new(1, 28) };
    let lossy = Link { loss: 0.05, ..Link::new(10, 20) };
    let mut net = Net::new(vec![lossy, slow], |_, config| {
        cmt(config);
        config.overshoot = true;
        config.retransmission = RetransmissionPath::Same;
        config.potentially_failed_threshold = None;
        config.send_buffer = 300_000;
        config.receive_buffer = 100_000;
        config.splitting = Splitting { sides: Sides::Both, on: SplittingOn::Outstanding };
    });
    net.apps[A] = App::sends(bulk(100_000, 1444));
    net.connect();
    let mut most = 0;
    for ms in 0..10_000 {
        net.run_until(at_ms(ms));
        most = most.max(net.ends[A].path(PathId(1)).map_or(0, |path| path.outstanding));
    }
    assert_eq!(most, 34 * 1444);
}

#[test]
fn paths_far_apart_in_delay_add_up_with_splitting() {
    let far = Link { rate: 800_000, queue: 50, ..Link::new(1, 101) };
    let mut net = Net::new(vec![Link::new(10, 1), far], |_, config| {
        cmt(config);
        config.splitting = Splitting { sides: Sides::Both, on: SplittingOn::Outstanding };
    });
    net.apps[A] = App::sends(bulk(100_000, 1452));
    let rate = goodput(&mut net, 20);
    assert!(rate > 0.9 * 10.8 * 1452.0 / 1500.0, "{rate} Mbit/s");
}

#[test]
fn small_send_buffer_is_full_of_data_in_flight() {
    let mut net = Net::new(vec![Link::new(10, 1), Link::new(10, 100)], |_, config| {
        cmt(config);
        config.send_buffer = 30_000;
    });
    net.apps[A] = App::sends(bulk(100_000, 1452));
    goodput(&mut net, 5);
    let [transmission, gap, reordering, window] = blocked(&net);
    assert!(transmission > gap && transmission > 1.0, "{:?}", blocked(&net));
    assert!(reordering + window < 0.1, "{:?}", blocked(&net));
}

#[test]
fn ordered_data_behind_a_gap_blocks_by_reordering() {
    let mut net =
        Net::new(vec![Link::new(10, 1), Link { rate: 100_000, ..Link::new(1, 300) }], |_, config| {
            cmt(config);
            config.receive_buffer = 40_000;
        });
    net.apps[A] = App::sends((0..50_000).map(|_| (1452, 0, false)));
    goodput(&mut net, 5);
    let [transmission, gap, reordering, window] = blocked(&net);
    assert!(reordering > 1.0 && transmission + gap < 0.1, "{:?}", blocked(&net));
    assert!(reordering > window, "{:?}", blocked(&net));
}

/// Path of retransmissions: the first path loses chunks; the second is slower but has the larger window.
#[test]
fn retransmission_policies_choose_their_path() {
    let run = |policy: RetransmissionPath| {
        let lossy = Link { loss: 0.02, ..Link::new(10, 5) };
        let slower = Link { queue: 100_000, ..Link::new(10, 40) };
        let mut net = Net::new(vec![lossy, slower], |_, config| {
            cmt(config);
            config.retransmission = policy;
        });
        net.apps[A] = App::sends(bulk(6_000, 1452));
        net.connect();
        net.run_to_end(at_ms(60_000));
        net.check(A);
        [0, 1].map(|id| net.ends[A].path(PathId(id)).unwrap().counters.fast_retransmissions)
    };
    for (policy, on_first) in [
        (RetransmissionPath::Alternate, true),
        (RetransmissionPath::Same, true),
        (RetransmissionPath::LowestRtt, true),
        (RetransmissionPath::LargestSsthresh, false),
        (RetransmissionPath::LargestWindow, false),
    ] {
        let [first, second] = run(policy);
        assert!(if on_first { first > 9 * second } else { second > first }, "{policy:?}: {first}, {second}");
    }
}

#[test]
fn every_pair_of_addresses_is_a_path_in_a_full_mesh() {
    for (mesh, usable) in [(true, 4), (false, 2)] {
        let mut net = Net::new(vec![Link::new(10, 1), Link::new(10, 1)], |_, config| {
            cmt(config);
            config.paths = Paths::FullMesh;
        });
        net.mesh = mesh;
        net.apps[A] = App::sends(bulk(20_000, 1452));
        let rate = goodput(&mut net, 5);
        let report = net.ends[A].report();
        assert_eq!(report.paths.len(), 4);
        assert_eq!(report.paths.iter().filter(|path| path.usable).count(), usable);
        assert!(rate > 19.0, "{rate} Mbit/s");
    }
}

/// SACKs over several paths are always out of order; DAC avoids every second one.
#[test]
fn delayed_acknowledgement_survives_reordering() {
    let sacks = |dac: bool| {
        let mut net = Net::new(vec![Link::new(10, 1), Link::new(10, 30)], |_, config| {
            cmt(config);
            config.dac = dac;
        });
        net.apps[A] = App::sends(bulk(5_000, 1452));
        net.connect();
        net.run_to_end(at_ms(60_000));
        net.check(A);
        net.extra(B, "sacks_sent")
    };
    let (with, without) = (sacks(true), sacks(false));
    assert!(with < 2_800 && without > 4_500, "{with} with, {without} without");
}

/// Data of the slower path is missing most of the time.
#[test]
fn acknowledgement_may_wait_behind_a_gap_with_dac() {
    for dac in [false, true] {
        let mut net = Net::new(vec![Link::new(10, 1), Link::new(10, 30)], |_, config| {
            cmt(config);
            config.dac = dac;
        });
        net.apps[A] = App::sends((0..5_000).map(|_| (1452, 0, false)));
        net.connect();
        let mut moments = (100..500).map(at_ms);
        while net.ends[B].held().reordering == 0 {
            net.run_until(moments.next().expect("data is out of order at one of the moments"));
        }
        assert_eq!(net.ends[B].may_wait(), dac);
    }
}

/// A gap on one path neither stops the window of the other nor marks its chunks as lost.
#[test]
fn a_gap_on_one_path_does_not_affect_the_other() {
    let mut net = Net::new(vec![Link::new(10, 1), Link::new(10, 150)], |_, config| {
        cmt(config);
        config.receive_buffer = 5_000_000;
        config.send_buffer = 5_000_000;
    });
    for link in &mut net.links {
        link.queue = 100_000;
    }
    net.apps[A] = App::sends(bulk(6_000, 1452));
    net.connect();
    net.run_to_end(at_ms(60_000));
    net.check(A);
    for path in net.ends[A].report().paths {
        assert_eq!(path.counters.fast_retransmissions + path.counters.timeouts, 0);
        assert!(path.cwnd > 50_000, "{}", path.cwnd);
    }
}

/// A moved chunk leaves its first copy in the queue of the slow path. This queue must not be filled repeatedly, and the
/// timer of the slow path must cover the remaining chunks.
#[test]
fn rescheduling_causes_no_timeouts() {
    for sides in [Sides::None, Sides::Both] {
        let mut net = Net::new(vec![Link::new(10, 10), Link::new(1, 10)], |_, config| {
            cmt(config);
            (config.send_buffer, config.receive_buffer) = (100_000, 100_000);
            config.splitting = Splitting { sides, on: SplittingOn::Outstanding };
            config.rescheduling = Rescheduling { sides: Sides::Both, ..Rescheduling::default() };
        });
        net.apps[A] = App::sends((0..40_000).map(|_| (1452, 0, false)));
        goodput(&mut net, 20);
        assert!(net.extra(A, "chunks_rescheduled") > 100);
        let timeouts = net.ends[A].report().paths.iter().map(|path| path.counters.timeouts).sum::<u64>();
        assert_eq!(timeouts, 0, "splitting {sides:?}");
    }
}

/// A sender without delayed acknowledgement for CMT receives reports of gaps at once, and repairs losses as
/// fast as if its receiver did not support it either. If the sender supports it, the receiver announces its
/// support by bits in the SACKs.
#[test]
fn sacks_are_delayed_only_for_senders_with_dac() {
    let sacks = |sender: bool, receiver: bool, told: bool| {
        let link = Link { loss: 0.03, ..Link::new(10, 20) };
        let mut net = Net::new(vec![link.clone(), link], |end, settings| {
            cmt(settings);
            settings.dac = if end == A { sender } else { receiver };
        });
        net.filter = Some(Box::new(move |_, from, packet| {
            let Body::Sctp(body) = &mut packet.body else { return true };
            for chunk in &mut body.chunks {
                match chunk {
                    Chunk::Sack(sack) if from == A && told => sack.flags = SackFlags::answering(2),
                    Chunk::NrSack(sack) if from == A && told => sack.sack.flags = SackFlags::answering(2),
                    _ => {}
                }
            }
            true
        }));
        net.apps[A] = App::sends(bulk(20_000, 1452));
        net.apps[B] = App::sends(bulk(10, 100));
        let rate = goodput(&mut net, 20);
        (rate, net.extra(B, "sacks_sent") as f64 / net.ends[B].report().delivered as f64 * 1452.0)
    };
    let (plain, often) = sacks(false, false, false);
    assert_eq!(sacks(false, true, false), (plain, often), "the receiver acknowledges as without DAC");
    let (agreed, seldom) = sacks(true, true, false);
    assert!(seldom < 0.9 * often, "{seldom} SACKs a packet, {often} without");
    let (_, shown) = sacks(false, true, true);
    assert!(
        shown < 0.9 * often,
        "{shown} SACKs a packet once the peer has shown that it counts, {often} without"
    );
    println!("{plain} Mbit/s, {agreed} with DAC");
}

/// Acknowledgements of packets of two paths are sent over the faster of them.
#[test]
fn acknowledgements_take_the_shortest_path() {
    let long_way = |sack_path| {
        let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 40)], |_, settings| {
            settings.config = settings.config.clone().with_cmt();
            settings.sack_path = sack_path;
            (settings.send_buffer, settings.receive_buffer) = (2_000_000, 2_000_000);
        });
        net.apps[A] = App::sends(bulk(20_000, 1452));
        net.connect();
        net.run_until(at_ms(8_000));
        let sent = [0, 1].map(|path| net.ends[B].path(PathId(path)).unwrap().counters.packets_sent as f64);
        sent[1] / (sent[0] + sent[1])
    };
    let (last, nearest) = (long_way(SackPath::Last), long_way(SackPath::Nearest));
    assert!(nearest < 0.8 * last, "{nearest} of the acknowledgements go the long way, {last}");
}

/// Hundreds of chunks per packet, and thousands of gaps, of which a SACK lists only some.
#[test]
fn tiny_messages_do_not_stall() {
    for (unordered, loss, nr_sack) in
        [(false, 0.0, false), (true, 0.0, true), (false, 0.02, false), (true, 0.02, true)]
    {
        let link = |delay| Link { loss, ..Link::new(10, delay) };
        let mut net = Net::new(vec![link(1), link(20)], |_, config| {
            cmt(config);
            config.nr_sack = nr_sack;
        });
        net.apps[A] = App::sends((0..91_000).map(|i| (1 + i % 10, 0, unordered)));
        net.connect();
        net.run_to_end(at_ms(60_000));
        net.check(A);
        assert_eq!(net.extra(A, "chunks_reneged"), 0);
        assert!(net.now < at_ms(10_000), "{:?} with loss {loss}", net.now);
    }
}
