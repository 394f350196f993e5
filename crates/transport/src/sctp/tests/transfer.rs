//! Data over one path: handshake, delivery, loss recovery, windows.

use super::pair::{A, App, B, Link, Net, at_ms, bulk, ms};
use crate::endpoint::{Endpoint, Event};
use multipath::PathId;

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
    eprintln!("{goodput} {path:?}");
}

#[test]
fn losses_are_repaired_fast() {
    let mut net = Net::new(vec![Link { loss: 0.01, ..Link::new(10, 5) }], |_, _| {});
    net.apps[A] = App::sends((0..3000).map(|i| (500 + i % 5000, 0, false)));
    net.connect();
    net.run_to_end(at_ms(120_000));
    net.check(A);
    let path = net.ends[A].path(PathId(0)).unwrap();
    eprintln!("{:?} {path:?}", net.now);
    assert!(path.counters.fast_retransmissions > 10);
    let _ = ms(1);
}

/// What may be in flight at the start: with leniency a packet more than the window of 4404 bytes holds.
#[test]
fn a_packet_may_overshoot_the_window_if_asked() {
    for (overshoot, packets) in [(false, 3), (true, 4)] {
        let mut net = Net::new(vec![Link::new(10, 5)], |_, config| config.overshoot = overshoot);
        net.apps[A] = App::sends(bulk(100, 1452));
        net.connect();
        net.run_until(at_ms(21));
        assert_eq!(net.ends[A].path(PathId(0)).unwrap().outstanding, packets * 1452);
    }
}
