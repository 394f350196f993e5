//! Network control: requests on data, records on acknowledgements. The filter of the network acts as a router.

use super::pair::{A, App, B, Link, Net, at_ms, bulk, ms};
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_wire::Body;
use anabranch_wire::sctp::network_control::Record;
use anabranch_wire::sctp::{Chunk, NetworkControl, Unknown};
use std::cell::RefCell;
use std::rc::Rc;

/// A chunk at the start of a packet with its time, and whether data and a SACK follow it.
type Seen = (u64, NetworkControl, [bool; 2]);

/// Two paths with network control, of which a router changes each request, and the chunks that it has seen.
fn controlled(change: fn(&mut Chunk)) -> (Net, Rc<RefCell<Vec<Seen>>>) {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 9)], |_, settings| {
        (settings.cmt, settings.network_control) = (true, Some(ms(300)));
    });
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    net.filter = Some(Box::new(move |now, _, packet| {
        let Body::Sctp(body) = &mut packet.body else { return true };
        let is_control = |chunk: &Chunk| matches!(chunk, Chunk::NetworkControl(_));
        assert!(!body.chunks.iter().skip(1).any(is_control), "the chunk is the first one");
        let has = |is: fn(&Chunk) -> bool| body.chunks.iter().any(is);
        let others =
            [has(|chunk| chunk.tsn().is_some()), has(|c| matches!(c, Chunk::Sack(_) | Chunk::NrSack(_)))];
        if let Some(first) = body.chunks.first_mut() {
            if let Chunk::NetworkControl(control) = first {
                log.borrow_mut().push((now.as_nanos() / 1_000_000, (**control).clone(), others));
            }
            change(first);
        }
        assert!(packet.wire_len() <= 1500);
        true
    }));
    net.apps[A] = App::sends(bulk(3_000, 1452));
    net.connect();
    net.run_until(at_ms(1_500));
    net.check_so_far(A);
    (net, seen)
}

/// Adds a record to a request.
fn record(chunk: &mut Chunk) {
    if let Chunk::NetworkControl(control) = chunk
        && !control.is_report
    {
        control.push(Record { router: 7, rate_kbit_per_s: 10_000, ..Record::default() });
    }
}

/// Value of a counter.
fn counter(net: &Net, end: usize, name: &str) -> u64 {
    let report = net.ends[end].report();
    report.extra.iter().find(|(known, _)| *known == name).expect("a counter").1
}

#[test]
fn each_path_requests_and_gets_records() {
    let (net, seen) = controlled(record);
    let seen = seen.borrow();
    let requests = |path: u8| seen.iter().filter(move |(_, c, _)| !c.is_report && c.path == path);
    for path in [0, 1] {
        let times: Vec<u64> = requests(path).map(|&(at, _, _)| at).collect();
        assert!((5..=6).contains(&times.len()), "{times:?}");
        assert!(times.windows(2).all(|pair| (300..330).contains(&(pair[1] - pair[0]))), "{times:?}");
        assert!(requests(path).all(|(_, c, others)| c.paths == 2 && c.apart_from == 2 >> path && others[0]));
    }
    let association = seen[0].1.association;
    assert!(seen.iter().all(|(_, c, _)| c.association == association));
    assert!(requests(0).skip(1).all(|(_, c, _)| c.wanted_kbit_per_s > 1_000), "the window in a round trip");
    let mut reports = seen.iter().filter(|(_, c, _)| c.is_report);
    assert!(reports.all(|(_, c, others)| c.records.len() == 1 && others[1]));
    let report = net.ends[A].report();
    assert_eq!(report.network.len(), 2);
    for (path, control) in &report.network {
        assert_eq!((usize::from(control.path), control.records[0].router), (path.index(), 7));
    }
    assert_eq!(counter(&net, B, "network_requests_received"), counter(&net, A, "network_requests_sent"));
    assert!(counter(&net, A, "network_reports_received") >= 8);
    assert_eq!(counter(&net, A, "network_controls_ignored"), 0);
}

#[test]
fn invalid_chunks_are_ignored_and_counted() {
    let (net, _) = controlled(|chunk| {
        if let Chunk::NetworkControl(_) = chunk {
            *chunk = Chunk::Unknown(Unknown { kind: 190, flags: 0, value: [0; 20].into() });
        }
    });
    let ignored = counter(&net, B, "network_controls_ignored");
    assert_eq!(
        (ignored, counter(&net, B, "network_requests_received")),
        (counter(&net, A, "network_requests_sent"), 0)
    );
    assert!(ignored >= 10);
    assert!(net.ends[A].report().network.is_empty());
}

#[test]
fn reports_of_others_are_ignored() {
    let (net, _) = controlled(|chunk| {
        if let Chunk::NetworkControl(control) = chunk
            && control.is_report
        {
            control.association ^= 1;
        }
    });
    assert!(counter(&net, A, "network_controls_ignored") >= 8);
    assert!(net.ends[A].report().network.is_empty());
}

#[test]
fn peer_without_network_control_skips_requests() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 9)], |end, settings| {
        (settings.cmt, settings.network_control) = (true, (end == A).then(|| ms(300)));
    });
    net.apps[A] = App::sends(bulk(1_000, 1452));
    net.connect();
    net.run_to_end(at_ms(10_000));
    net.check(A);
    assert_eq!(counter(&net, B, "network_requests_received") + counter(&net, B, "errors_received"), 0);
    assert_eq!(counter(&net, A, "errors_received"), 0, "the peer does not report the chunk");
}

#[test]
fn both_ends_request_and_answer() {
    let mut net = Net::new(vec![Link::new(10, 5), Link::new(10, 9)], |_, settings| {
        (settings.cmt, settings.network_control) = (true, Some(ms(300)));
    });
    net.apps[A] = App::sends(bulk(5_000, 1000));
    net.apps[B] = App::sends(bulk(5_000, 1000));
    net.connect();
    net.run_until(at_ms(1_500));
    for end in [A, B] {
        net.check_so_far(end);
        assert!(counter(&net, end, "network_requests_sent") >= 6);
        assert!(counter(&net, end, "network_reports_received") >= 5);
        assert_eq!(net.ends[end].report().network.len(), 2);
    }
}
