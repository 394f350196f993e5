//! Outages of paths, and the time after which they end an association (RFC 9260 §8.1).

use super::pair::{A, App, B, Link, Net, address, at_ms, bulk, ms};
use anabranch_base::rng::Rng;
use anabranch_endpoint::endpoint::{Endpoint, NetworkEvent, Reason};
use anabranch_multipath::PathId;

/// An association over links of 200 kbit/s that always has data to send.
fn busy(paths: usize, cmt: bool) -> Net {
    let links = (0..paths).map(|at| Link { rate: 200_000, queue: 20, ..Link::new(1, 20 + 5 * at as u64) });
    let mut net = Net::new(links.collect(), |_, config| {
        config.cmt = cmt;
        (config.send_buffer, config.receive_buffer) = (60_000, 60_000);
    });
    net.apps[A] = App::sends(bulk(200_000, 1_000));
    net.connect();
    net.run_until(at_ms(10_000));
    net
}

/// Each path fails once, at 10 to 20 s, for 1 to 120 s. With any number of paths, the association survives as long as
/// with one, and continues.
#[test]
fn association_survives_outages_of_all_paths() {
    for case in 0..48 {
        let mut rng = Rng::new(case);
        let paths = 1 + case as usize % 8;
        let mut net = busy(paths, case / 8 % 2 == 0);
        if case / 16 == 2 {
            net.apps[B] = App::sends(bulk(200_000, 300));
        }
        // In a third of the cases all paths fail and recover together.
        let together = case / 16 == 1;
        let mut draw = || (10_000 + rng.below(10_000), 1_000 + rng.below(119_000));
        let first = draw();
        let outages: Vec<_> = (0..paths).map(|_| if together { first } else { draw() }).collect();
        let mut changes: Vec<_> = outages
            .iter()
            .enumerate()
            .flat_map(|(link, &(from, len))| [(from, link, false), (from + len, link, true)])
            .collect();
        changes.sort_unstable();
        for &(at, link, up) in &changes {
            net.run_until(at_ms(at));
            net.links[link].up = up;
        }
        let before = net.ends[B].report().delivered;
        // The longest timer is 60 s; a receiver without packets ends the association within that time or not
        // at all.
        net.run_until(net.now + ms(150_000));
        assert_eq!([net.closed(A), net.closed(B)], [None, None], "case {case}, {paths} paths: {outages:?}");
        let after = net.ends[B].report().delivered;
        assert!(after > before + 1_000_000, "case {case}, {paths} paths: {before} and {after} bytes");
        net.check_so_far(A);
    }
}

/// Times at which the endpoints end the association if all links fail at 10 s, ms.
fn given_up(paths: usize, cmt: bool) -> u64 {
    let mut net = busy(paths, cmt);
    net.links.iter_mut().for_each(|link| link.up = false);
    while net.closed(A).is_none() && net.step(at_ms(2_000_000)) {}
    assert_eq!(net.closed(A), Some(Reason::TimedOut));
    net.now.as_nanos() / 1_000_000
}

#[test]
fn errors_on_many_paths_end_association_as_on_one() {
    for cmt in [false, true] {
        let one = given_up(1, cmt);
        for paths in [2, 4, 8] {
            let many = given_up(paths, cmt);
            // Idle paths detect the outage with their next heartbeat, and have separate timers.
            assert!(many + 1_000 > one && many < 2 * one, "{one} ms with one path, {many} with {paths}");
        }
    }
}

/// The receiver gets no packets during the outage, and then only data, which answers none of its packets.
#[test]
fn received_data_keeps_the_association() {
    for away in [20_000, 40_000, 100_000] {
        let mut net = busy(2, false);
        net.links.iter_mut().for_each(|link| link.up = false);
        net.run_until(net.now + ms(away));
        net.links[0].up = true;
        net.run_until(net.now + ms(400_000));
        assert_eq!([net.closed(A), net.closed(B)], [None, None]);
    }
}

/// Data in flight when a path failed may be acknowledged late: only an acknowledgement of data sent since then proves
/// that the path works.
#[test]
fn late_acknowledgement_does_not_revive_a_path() {
    let mut net = Net::new(vec![Link::new(10, 10), Link::new(10, 10)], |_, config| config.cmt = true);
    net.links[1].up = false;
    net.apps[A] = App::sends(bulk(60_000, 1452));
    net.connect();
    net.run_until(at_ms(10_000));
    net.links[0].up = false;
    net.links[1].up = true;
    net.run_until(at_ms(45_000));
    let before = net.ends[B].report().delivered;
    net.run_until(at_ms(55_000));
    let during = net.ends[B].report().delivered - before;
    assert!(during > 10_000_000, "{during} bytes in 10 s over the path that is left");
    let dead = net.ends[A].path(PathId(0)).unwrap();
    assert!(dead.outstanding == 0, "{} bytes wait on the dead path", dead.outstanding);
}

/// The host's interface has come up: the path carries data one round trip later, whatever its timers were.
#[test]
fn path_is_tried_at_once_when_its_interface_comes_up() {
    for (first, away) in [(false, 16_000), (false, 100_000), (true, 3_000), (true, 100_000)] {
        let mut net = Net::new(vec![Link::new(10, 10), Link::new(10, 10)], |_, config| config.cmt = true);
        net.links[1].up = first;
        net.apps[A] = App::sends(bulk(200_000, 1452));
        net.connect();
        net.run_until(at_ms(2_000));
        net.links[1].up = false;
        net.run_until(net.now + ms(away));
        net.links[1].up = true;
        let before = net.ends[A].path(PathId(1)).unwrap().counters.bytes_acked;
        net.ends[A].handle_network(net.now, NetworkEvent::address(address(A, 1), 1500, true));
        net.drain();
        net.run_until(net.now + ms(500));
        let after = net.ends[A].path(PathId(1)).unwrap().counters.bytes_acked;
        assert!(after > before + 10_000, "{} bytes after {away} ms", after - before);
    }
}

/// The only path recovers, and one of the two endpoints is informed.
#[test]
fn data_continues_when_the_only_interface_returns() {
    for informed in [A, B] {
        let mut net = busy(1, false);
        net.links[0].up = false;
        net.run_until(net.now + ms(100_000));
        net.links[0].up = true;
        net.ends[informed].handle_network(net.now, NetworkEvent::address(address(informed, 0), 1500, true));
        net.drain();
        let before = net.ends[B].report().delivered;
        net.run_until(net.now + ms(1_000));
        let after = net.ends[B].report().delivered;
        assert!(after > before, "{after} bytes as before, end {informed} was informed");
    }
}

/// An interface goes down: the other path takes over without waiting for a timer.
#[test]
fn interface_that_goes_down_hands_over_at_once() {
    for cmt in [false, true] {
        let mut net = Net::new(vec![Link::new(10, 10), Link::new(10, 10)], |_, config| config.cmt = cmt);
        net.apps[A] = App::sends(bulk(200_000, 1452));
        net.connect();
        net.run_until(at_ms(5_000));
        net.links[0].up = false;
        net.ends[A].handle_network(net.now, NetworkEvent::address(address(A, 0), 1500, false));
        net.drain();
        net.run_until(net.now + ms(200));
        let before = net.ends[B].report().delivered;
        net.run_until(net.now + ms(800));
        let after = net.ends[B].report().delivered;
        assert!(after > before + 200_000, "{} bytes", after - before);
    }
}

/// No packet is sent on a pair of addresses without a route, and the association opens if there is any route.
#[test]
fn pairs_without_a_route_carry_no_packet() {
    use crate::Paths;
    for paths in [Paths::Destination, Paths::FullMesh] {
        let mut net = Net::new(vec![Link::new(10, 10), Link::new(10, 10)], |end, settings| {
            settings.paths = paths;
            settings.unroutable =
                vec![(address(end, 0), address(1 - end, 1)), (address(end, 1), address(1 - end, 0))];
        });
        net.filter = Some(Box::new(|_, from, packet| {
            let routed = (0..2)
                .any(|at| (packet.source, packet.destination) == (address(from, at), address(1 - from, at)));
            assert!(routed, "{} to {}", packet.source, packet.destination);
            true
        }));
        net.links.iter_mut().for_each(|link| link.up = false);
        net.apps[A] = App::sends(bulk(1_000, 1452));
        net.connect();
        net.run_until(at_ms(5_000));
        net.links[1].up = true;
        net.run_until(at_ms(60_000));
        net.links[1].up = false;
        net.run_until(at_ms(90_000));
        net.links[0].up = true;
        net.run_to_end(at_ms(200_000));
        net.check(A);
    }
}

/// An interface comes up during the handshake: the INIT is sent there at once.
#[test]
fn init_is_retransmitted_when_interface_comes_up() {
    let mut net = Net::new(vec![Link::new(10, 10), Link::new(10, 10)], |_, _| {});
    net.links.iter_mut().for_each(|link| link.up = false);
    net.apps[A] = App::sends(bulk(10, 1452));
    net.connect();
    net.run_until(at_ms(20_000));
    net.links[1].up = true;
    net.ends[A].handle_network(net.now, NetworkEvent::address(address(A, 1), 1500, true));
    net.drain();
    net.run_to_end(at_ms(20_300));
    net.check(A);
}
