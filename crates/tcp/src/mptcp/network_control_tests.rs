//! Requests of network control in options of IP.

use super::Connection;
use super::tests::{A, Setup, extra, tcp};
use anabranch_base::time::{Duration, Time};
use anabranch_testkit::harness::{Pair, Wire};
use anabranch_wire::Body;
use anabranch_wire::ip::network_option::NetworkOption;
use anabranch_wire::ip::option::IpOption;
use anabranch_wire::sctp::NetworkControl;
use std::collections::BTreeMap;

const INTERVAL: Duration = Duration::from_millis(300);

fn setup() -> Setup {
    Setup { network_control: Some(INTERVAL), ..Setup::disjoint() }
}

/// The requests in a log, with their times and the lengths of payload and packet, by path.
fn requests(pair: &Pair<Connection>) -> BTreeMap<u8, Vec<(Time, NetworkControl, [u32; 2])>> {
    let mut found = BTreeMap::<u8, Vec<_>>::new();
    for (at, _, packet) in &pair.log {
        let segment = tcp(packet);
        if let Some(IpOption::NetworkControl(NetworkOption::Request(request))) = segment.ip_option.as_deref()
        {
            let lengths = [segment.payload.len, packet.wire_len()];
            found.entry(request.path).or_default().push((*at, request.clone(), lengths));
        }
    }
    found
}

#[test]
fn first_data_and_each_interval_carry_a_request() {
    let mut pair = setup().pair(Wire::new(10), Wire::new(20));
    assert!(pair.send_file(4_000_000, 20.0));
    let requests = requests(&pair);
    assert_eq!(requests.keys().copied().collect::<Vec<_>>(), [0, 1]);
    for (&path, list) in &requests {
        let from = A[usize::from(path)];
        let first = pair.log.iter().find(|(_, _, packet)| packet.source == from && packet.has_data());
        assert_eq!(list[0].0, first.expect("each path carries data").0, "path {path}");
        for pair in list.windows(2) {
            let gap = pair[1].0.since(pair[0].0);
            assert!(gap >= INTERVAL && gap < INTERVAL + Duration::from_millis(50), "path {path}: {gap:?}");
        }
        for (_, request, _) in list {
            assert_eq!((request.association, request.apart_from & 1 << path), (list[0].1.association, 0));
        }
        // The first request of the initial subflow precedes the join, and any measurement of the window.
        assert_eq!(list[1].1.apart_from, 1 << (1 - path));
        assert!(list[1].1.wanted_kbit_per_s > 1000, "{list:?}");
    }
    assert_eq!(requests[&0][0].1.association, requests[&1][0].1.association);
    let sent = requests.values().map(|list| list.len() as u64).sum::<u64>();
    assert!(sent >= 8, "{sent}");
    assert_eq!(extra(&pair, 0, "network_requests_sent"), sent);
    assert_eq!(extra(&pair, 1, "network_requests_received"), sent);
    assert_eq!(extra(&pair, 1, "network_requests_sent") + extra(&pair, 1, "network_controls_ignored"), 0);
}

#[test]
fn packets_with_requests_keep_the_mtu() {
    for scheduler in ["lowest-rtt", "redundant", "consn", "otias", "linux", "round-robin"] {
        let mut pair = Setup { scheduler, ..setup() }.pair(Wire::new(10), Wire::new(20));
        assert!(pair.send_file(2_000_000, 20.0), "{scheduler}");
        let requests = requests(&pair);
        // `otias` uses one path alone here.
        assert_eq!(requests.len(), if scheduler == "otias" { 1 } else { 2 }, "{scheduler}");
        let mut bytes = Vec::new();
        for (_, _, packet) in &pair.log {
            assert!(packet.wire_len() <= 1500, "{scheduler}: {packet:?}");
            anabranch_wire::check(packet, &mut bytes).expect("a sent packet can be parsed");
        }
        // The option takes 28 bytes of the payload.
        let payload = pair.log.iter().map(|(_, _, packet)| tcp(packet).payload.len).max();
        let longest = requests.values().flatten().map(|(_, _, lengths)| *lengths).max();
        assert_eq!(longest.map(|[with, len]| (with + 28, len)), payload.map(|len| (len, 1500)));
        assert!(requests.values().all(|list| list.len() >= 2), "{scheduler}: {requests:?}");
    }
}

#[test]
fn packets_without_room_carry_no_request() {
    let mut pair = Setup { mtu: 130, ..setup() }.pair(Wire::new(10), Wire::new(20));
    assert!(pair.send_file(20_000, 20.0));
    assert_eq!(extra(&pair, 0, "network_requests_sent"), 0);
}

#[test]
fn invalid_options_are_ignored_and_counted() {
    let mut pair = setup().pair(Wire::new(10), Wire::new(20));
    pair.tampering = Some(|packet| {
        if let Body::Tcp(segment) = &mut packet.body
            && let Some(option) = &mut segment.ip_option
        {
            **option = IpOption::NetworkControl(NetworkOption::Invalid(vec![190, 0, 0, 184]));
        }
    });
    assert!(pair.send_file(1_000_000, 20.0));
    let [ignored, received] =
        ["network_controls_ignored", "network_requests_received"].map(|name| extra(&pair, 1, name));
    // A lost packet is retransmitted without its option.
    assert!(ignored >= 3 && ignored <= extra(&pair, 0, "network_requests_sent"), "{ignored}");
    assert_eq!(received, 0);
}
