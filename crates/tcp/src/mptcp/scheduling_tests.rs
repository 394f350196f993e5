//! Notifications of a connection to its scheduler, and the reported causes of waiting data.

use super::Connection;
use super::tests::{A, Setup};
use anabranch_endpoint::endpoint::{DecisionReason, Endpoint, NetworkEvent, Write};
use anabranch_testkit::harness::{Pair, Wire};
use anabranch_testkit::heard::Heard;

/// A connection after 0.1 s, whose scheduler counts its notifications.
fn connected(setup: &Setup) -> (Pair<Connection>, Heard) {
    let (mut pair, heard) = (setup.pair(Wire::new(10), Wire::new(20)), Heard::default());
    pair.ends[0].scheduler = Box::new(heard.clone());
    pair.keep_log = false;
    pair.run_until(0.1);
    (pair, heard)
}

#[test]
fn full_window_is_reported_only_if_a_path_has_room() {
    for room in [false, true] {
        let (mut pair, heard) = connected(&Setup::disjoint());
        let (now, client) = (pair.now, &mut pair.ends[0]);
        client.write(now, Write::bytes(100_000));
        while !room && client.poll(now).is_some() {}
        client.send.edge = client.send.highest();
        assert_eq!(heard.blocked(), 0);
        assert!(client.poll(now).is_none());
        assert_eq!(heard.blocked(), u64::from(room));
    }
}

#[test]
fn unplaced_data_waits_for_window_only_if_it_is_full() {
    let (mut pair, _) = connected(&Setup { scheduler: "consn", ..Setup::disjoint() });
    let (now, client) = (pair.now, &mut pair.ends[0]);
    client.keep_decisions();
    client.write(now, Write::bytes(100_000));
    assert!(client.poll(now).is_none());
    client.send.edge = client.send.highest();
    assert!(client.poll(now).is_none());
    let decisions = core::iter::from_fn(|| client.poll_decision());
    assert_eq!(
        decisions.map(|decision| decision.reason).collect::<Vec<_>>(),
        [DecisionReason::NoRoom, DecisionReason::ReceiveWindow]
    );
}

/// Covers a closed receive window, and full windows of all paths.
#[test]
fn write_does_not_poll_an_exhausted_scheduler() {
    for receive_buffer in [20_000, 8_000_000] {
        let mut setup = Setup { scheduler: "consn", ..Setup::disjoint() };
        (setup.tcp.receive_buffer, setup.tcp.send_buffer) = (receive_buffer, 16_000_000);
        let mut pair = setup.pair(Wire::new(10), Wire::new(20));
        pair.keep_log = false;
        pair.run_until(0.1);
        let (now, client) = (pair.now, &mut pair.ends[0]);
        client.write(now, Write::bytes(10_000_000));
        while client.poll_transmit(now).is_some() {}
        assert_eq!(client.blocked_since, Some(now));
        client.write(now, Write::bytes(100_000));
        assert!(client.poll(now).is_none());
    }
}

#[test]
fn scheduler_is_notified_of_all_reinjections() {
    let (mut pair, heard) = connected(&Setup::disjoint());
    assert!(!pair.send_file(2_000_000, 0.6));
    pair.ends[0].handle_network(pair.now, NetworkEvent::address(A[1], 1500, false));
    assert!(pair.send_file(2_000_000, 60.0));
    let sent: u64 = pair.ends[0].report().paths.iter().map(|path| path.counters.reinjections).sum();
    assert!(sent > 0);
    assert_eq!(heard.reinjections(), sent);
}
