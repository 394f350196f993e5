//! ECN marks instead of losses (RFC 4960 appendix A).

use super::pair::{A, App, B, Link, Net, at_ms, body, bulk};
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_multipath::PathId;
use anabranch_wire::Ecn;
use anabranch_wire::sctp::Chunk;
use core::cell::Cell;
use std::rc::Rc;

/// Transfers data over a network that marks the packets of A with these numbers if they are ECN-capable. Returns the
/// number of ECN-capable packets, and B's ECNEs.
fn marked(ecn: [bool; 2], marks: &'static [u32]) -> (Net, u32, u32) {
    let mut net = Net::new(vec![Link::new(10, 20)], |end, config| config.ecn = ecn[end]);
    let (seen, capable, echoes) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (count, able, told) = (Rc::clone(&seen), Rc::clone(&capable), Rc::clone(&echoes));
    net.filter = Some(Box::new(move |_, from, packet| {
        let chunks = &body(packet).chunks;
        let data = chunks.iter().any(|chunk| matches!(chunk, Chunk::Data(_)));
        let echo = chunks.iter().any(|chunk| matches!(chunk, Chunk::CongestionEcho(_)));
        told.set(told.get() + u32::from(from == B && echo));
        assert!(data || packet.ecn == Ecn::NotEct, "only data can be marked");
        if from == A && data {
            count.set(count.get() + 1);
            able.set(able.get() + u32::from(packet.ecn == Ecn::Ect0));
            if packet.ecn == Ecn::Ect0 && marks.contains(&count.get()) {
                packet.ecn = Ecn::Ce;
            }
        }
        true
    }));
    net.apps[A] = App::sends(bulk(1_000, 1452));
    net.connect();
    net.run_to_end(at_ms(60_000));
    net.check(A);
    let found = (capable.get(), echoes.get());
    (net, found.0, found.1)
}

/// Each mark reduces the window once, without a loss; marks of one window count once. The ECNEs end after the CWR is
/// received.
#[test]
fn marks_cut_the_window_once_a_round_trip() {
    let (net, capable, echoes) = marked([true, true], &[40, 41, 43, 400]);
    assert!(capable >= 1_000);
    let counters = net.ends[A].path(PathId(0)).unwrap().counters;
    assert_eq!((counters.ecn_reductions, counters.recoveries, counters.timeouts), (2, 0, 0));
    // Each second packet is answered with an ECNE, until the CWR arrives a round trip of 40 ms later.
    assert!((2..100).contains(&echoes), "{echoes}");
}

/// Both endpoints must support ECN: otherwise no packet is marked, and no ECNE is sent.
#[test]
fn without_negotiation_no_packet_is_marked() {
    for ecn in [[false, true], [true, false], [false, false]] {
        let (net, capable, echoes) = marked(ecn, &[40]);
        assert_eq!((capable, echoes), (0, 0));
        assert_eq!(net.ends[A].path(PathId(0)).unwrap().counters.ecn_reductions, 0);
    }
}

/// One of two paths marks packets: the other is not slowed down, even if the CWR for an ECNE is lost. With `both`, each
/// path detects its own marks.
#[test]
fn marks_slow_down_their_own_path_only() {
    for both in [false, true] {
        let mut net = Net::new(vec![Link::new(10, 20), Link::new(10, 10)], |_, config| {
            (config.ecn, config.cmt) = (true, true);
        });
        let mut count = 0_u32;
        net.filter = Some(Box::new(move |_, from, packet| {
            count += 1;
            let first = packet.source.to_string().starts_with("10.0");
            if packet.ecn == Ecn::Ect0 && count.is_multiple_of(50) && (first || both) {
                packet.ecn = Ecn::Ce;
            }
            let reduced =
                body(packet).chunks.iter().any(|chunk| matches!(chunk, Chunk::CongestionReduced(_)));
            !(from == A && reduced && count.is_multiple_of(2))
        }));
        net.apps[A] = App::sends(bulk(20_000, 1452));
        net.connect();
        net.run_until(at_ms(20_000));
        let reductions = [0, 1].map(|at| net.ends[A].path(PathId(at)).unwrap().counters.ecn_reductions);
        assert!(reductions[0] > 5, "{reductions:?}");
        assert!(if both { reductions[1] > 5 } else { reductions[1] == 0 }, "{reductions:?}");
        net.check_so_far(A);
    }
}
