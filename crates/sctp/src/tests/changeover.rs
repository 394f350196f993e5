//! Change of the primary path during a transfer (SFR-CACC).

use super::pair::{A, App, Link, Net, at_ms, bulk};
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_multipath::PathId;

/// Data sent on the fast path overtakes data in flight on the slow one for 145 ms: no data is lost, and none is counted
/// as lost.
#[test]
fn data_overtaken_after_a_change_is_not_lost() {
    let links = vec![Link { queue: 1_000, ..Link::new(20, 150) }, Link { queue: 1_000, ..Link::new(20, 5) }];
    let mut net = Net::new(links, |_, config| config.receive_buffer = 200_000);
    net.apps[A] = App::sends(bulk(4_000, 1_452));
    net.connect();
    for (at, path) in [(2_500, 1), (3_500, 0), (4_000, 1)] {
        net.run_until(at_ms(at));
        assert!(net.ends[A].set_primary(PathId(path)));
        net.drain();
    }
    net.run_to_end(at_ms(60_000));
    net.check(A);
    let report = net.ends[A].report();
    for path in &report.paths {
        let counters = path.counters;
        assert!(counters.data_packets_sent > 100, "both have carried data");
        assert_eq!((counters.recoveries, counters.timeouts), (0, 0), "{:?}: {counters:?}", path.id);
    }
    assert_eq!(net.extra(A, "chunks_retransmitted"), 0);
}

#[test]
fn only_an_active_path_becomes_the_primary_one() {
    let mut net = Net::new(vec![Link::new(10, 5); 2], |_, _| {});
    assert!(!net.ends[A].set_primary(PathId(0)), "not connected");
    net.links[1].up = false;
    net.connect();
    net.run_until(at_ms(500));
    assert!(net.ends[A].set_primary(PathId(0)));
    assert!(!net.ends[A].set_primary(PathId(1)) && !net.ends[A].set_primary(PathId(2)));
}
