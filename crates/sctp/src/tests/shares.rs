//! Buffers divided by the needs of the paths.

use super::multipath::{cmt, dissimilar, goodput};
use super::pair::{A, App, B, Link, Net, at_ms, bulk};
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_multipath::PathId;
use anabranch_multipath::buffer::{Sides, Splitting, SplittingOn};
use anabranch_settings::policy::StreamPaths;

fn by_need() -> Splitting {
    Splitting { sides: Sides::ByNeed, on: SplittingOn::Outstanding }
}

/// Two paths with a receive buffer of 100 kB, for ordered messages.
fn small_buffer(paths: Vec<Link>) -> Net {
    let mut net = Net::new(paths, |_, config| {
        cmt(config);
        (config.send_buffer, config.receive_buffer) = (300_000, 100_000);
        config.splitting = by_need();
        config.nr_sack = true;
    });
    net.apps[A] = App::sends(bulk(100_000, 1444).map(|(len, stream, _)| (len, stream, false)));
    net
}

#[test]
fn division_by_need_keeps_slow_paths_from_blocking() {
    let (rate, _) = dissimilar(Sides::ByNeed, true, false);
    assert!(rate > 10.2, "{rate} Mbit/s");
}

/// While a packet is on the slow path for 800 ms, the fast path sends 1 MB, which the receive buffer cannot hold.
#[test]
fn slow_path_takes_over_only_after_a_failure() {
    let mut net = small_buffer(vec![Link::new(10, 2), Link::new(1, 400)]);
    let rate = goodput(&mut net, 10);
    let slow = net.ends[A].path(PathId(1)).unwrap().counters;
    assert!(rate > 9.4 && slow.bytes_sent < 50_000, "{rate} Mbit/s, {} B", slow.bytes_sent);

    let before = net.ends[B].report().delivered;
    net.links[0].up = false;
    net.run_until(at_ms(30_000));
    net.check_so_far(A);
    let delivered = net.ends[B].report().delivered - before;
    assert!(delivered > 1_000_000, "{delivered} B");
}

#[test]
fn equal_paths_add_up_with_a_small_buffer() {
    let mut net = small_buffer(vec![Link::new(10, 10), Link::new(10, 10)]);
    let rate = goodput(&mut net, 10);
    assert!(rate > 18.5, "{rate} Mbit/s");
}

/// A stream with a fixed path cannot use another one, so its path has an equal share.
#[test]
fn fixed_streams_have_equal_shares() {
    let mut net = Net::new(vec![Link::new(10, 2), Link::new(1, 400)], |_, config| {
        cmt(config);
        (config.send_buffer, config.receive_buffer) = (300_000, 100_000);
        config.splitting = by_need();
        config.stream_paths = StreamPaths::Fixed;
        config.streams = 2;
    });
    net.apps[A] =
        App::sends(bulk(100_000, 1444).enumerate().map(|(i, (len, _, _))| (len, (i % 2) as u16, false)));
    goodput(&mut net, 10);
    let slow = net.ends[A].path(PathId(1)).unwrap().counters;
    assert!(slow.bytes_acked > 200_000, "{} B", slow.bytes_acked);
}
