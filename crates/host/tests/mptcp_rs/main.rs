//! Multipath TCP with a client that others have written: `mptcp-rs`, in virtual time over a network with faults.

mod meeting;
#[path = "../transfer/mod.rs"]
mod transfer;

use anabranch_base::time::Time;
use anabranch_endpoint::Reason;
use anabranch_multipath::PathId;
use meeting::{Meeting, Settings};
use mptcp_rs::{CloseReason, Event};
use proptest::prelude::*;
use transfer::Faults;

/// Limit of a transfer in seconds of virtual time. The client stays in TIME-WAIT for 120 s.
const LIMIT_S: f64 = 1_000.0;

const FAULTS: Faults = Faults { loss: 0.02, duplication: 0.01, reordering: 0.05, damage: 0.001 };

/// Runs to the end, and checks the bytes and that both ends closed in order.
fn finish(meeting: &mut Meeting) {
    meeting.close();
    let is_over = meeting.run_until(LIMIT_S, Meeting::is_over);
    assert!(is_over, "open after {:?}: {:?} {:?}", meeting.now, meeting.events, meeting.server_closed());
    meeting.check_bytes();
    meeting.check_ends();
    assert_eq!(meeting.client_closed(), Some(CloseReason::Normal));
}

fn has(meeting: &Meeting, event: impl Fn(&Event) -> bool) -> bool {
    meeting.events.iter().any(event)
}

fn is_connected(meeting: &Meeting) -> bool {
    has(meeting, |event| matches!(event, Event::Connected { mptcp: true }))
}

#[test]
fn bytes_arrive_both_ways() {
    let mut meeting = Meeting::new(Settings { paths: 1, ..Settings::new() });
    finish(&mut meeting);
    assert!(is_connected(&meeting) && !meeting.report().fallback);
}

/// Joins from the client's second address to an address of the server once the connection is established.
fn meet(settings: Settings, to: u8) -> Meeting {
    let mut meeting = Meeting::new(settings);
    assert!(meeting.run_until(LIMIT_S, is_connected), "{:?}", meeting.events);
    meeting.join((1, to), false);
    meeting
}

/// Bytes that each path of the server has sent and received.
fn carried(meeting: &Meeting) -> Vec<[u64; 2]> {
    let paths = meeting.report().paths;
    paths.iter().map(|path| [path.counters.bytes_sent, path.counters.bytes_received]).collect()
}

#[test]
fn two_paths_carry_data_despite_faults() {
    for (ipv6, to, faults) in [(false, 0, Faults::default()), (true, 0, FAULTS), (false, 1, FAULTS)] {
        let settings = Settings { ipv6, faults, bytes: [5_000_000; 2], ..Settings::new() };
        let mut meeting = meet(settings, to);
        finish(&mut meeting);
        assert!(has(&meeting, |event| matches!(event, Event::SubflowUp { .. })), "{:?}", meeting.events);
        let carried = carried(&meeting);
        assert!(carried.iter().flatten().all(|&bytes| bytes > 500_000), "{ipv6} {to}: {carried:?}");
    }
}

#[test]
fn transfer_survives_a_cut_of_either_path() {
    for path in [0, 1] {
        let settings = Settings { bytes: [5_000_000; 2], ..Settings::new() };
        let mut meeting = meet(settings, 0);
        assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000));
        meeting.cut.push(path);
        finish(&mut meeting);
    }
}

#[test]
fn half_closed_client_gets_all_data() {
    for paths in [1, 2] {
        let settings = Settings { paths, bytes: [1_000, 5_000_000], ..Settings::new() };
        let mut meeting = if paths == 1 { Meeting::new(settings) } else { meet(settings, 0) };
        meeting.close();
        finish(&mut meeting);
    }
}

#[test]
fn server_keeps_a_path_during_a_short_outage() {
    let settings = Settings { bytes: [1, 40_000_000], buffers: [6_000_000; 2], ..Settings::new() };
    let mut meeting = meet(settings, 0);
    let sent = |meeting: &Meeting, path: usize| carried(meeting).get(path).map_or(0, |bytes| bytes[0]);
    let has_started = |meeting: &Meeting| meeting.bytes_read() > 0 && sent(meeting, 1) > 100_000;
    assert!(meeting.run_until(LIMIT_S, has_started));
    meeting.cut.push(1);
    meeting.run_until(meeting.now.as_secs_f64() + 1.0, |_| false);
    meeting.cut.clear();
    let before = sent(&meeting, 1);
    let is_back = |meeting: &Meeting| sent(meeting, 1) > before + 1_000_000;
    assert!(meeting.run_until(LIMIT_S, is_back), "{:?} {:?}", meeting.events, carried(&meeting));
    finish(&mut meeting);
}

#[test]
fn client_joins_an_announced_address() {
    let mut meeting =
        meet(Settings { bytes: [3_000_000; 2], path_manager: "fullmesh", ..Settings::new() }, 0);
    let announced = |meeting: &Meeting| has(meeting, |event| matches!(event, Event::AddressAnnounced { .. }));
    assert!(meeting.run_until(LIMIT_S, announced), "{:?}", meeting.events);
    meeting.join((0, 1), false);
    finish(&mut meeting);
    let ups = meeting.events.iter().filter(|event| matches!(event, Event::SubflowUp { .. })).count();
    assert_eq!(ups, 2, "{:?}", meeting.events);
}

#[test]
fn backup_carries_data_after_a_change_of_priority() {
    let settings = Settings { bytes: [1, 5_000_000], ..Settings::new() };
    let mut meeting = Meeting::new(settings);
    assert!(meeting.run_until(LIMIT_S, is_connected), "{:?}", meeting.events);
    let subflow = meeting.join((1, 0), true);
    let sent = |meeting: &Meeting, path: usize| carried(meeting).get(path).map_or(0, |bytes| bytes[0]);
    let is_served = |meeting: &Meeting| meeting.bytes_read() > 0 && sent(meeting, 0) > 2_000_000;
    assert!(meeting.run_until(LIMIT_S, is_served));
    assert_eq!(sent(&meeting, 1), 0, "a backup");
    meeting.with_client(|client, handle, now| {
        client.set_backup(now, handle, subflow, false).expect("an open subflow");
    });
    finish(&mut meeting);
    assert!(sent(&meeting, 1) > 500_000, "{:?}", carried(&meeting));
}

#[test]
fn server_changes_the_priority_of_a_path() {
    let mut meeting = meet(Settings { bytes: [5_000_000; 2], ..Settings::new() }, 0);
    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000));
    let (now, id) = (meeting.now, meeting.id());
    assert!(meeting.server.set_backup(now, id, (PathId(1), true)));
    meeting.drain_server(None);
    finish(&mut meeting);
    let told = |event: &Event| matches!(event, Event::PeerPriority { backup: true, .. });
    assert!(has(&meeting, told), "{:?}", meeting.events);
}

#[test]
fn removed_address_of_the_client_ends_its_subflow() {
    let mut meeting = meet(Settings { bytes: [5_000_000; 2], ..Settings::new() }, 0);
    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000));
    let address = Settings::new().address(0, 1);
    meeting.with_client(|client, handle, now| {
        client.remove_address(now, handle, address).expect("an address of the connection");
    });
    finish(&mut meeting);
    assert!(!meeting.report().paths[1].usable);
}

#[test]
fn lost_address_of_the_server_ends_its_subflow() {
    for path in [0, 1] {
        let mut meeting = meet(Settings { bytes: [5_000_000; 2], ..Settings::new() }, 1);
        assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000));
        let now = meeting.now;
        meeting.server.remove_address(now, Settings::new().address(1, path));
        meeting.drain_server(None);
        finish(&mut meeting);
    }
}

/// Two paths that have carried all data, so that their queues are empty.
fn idle() -> Meeting {
    let mut meeting = meet(Settings::new(), 0);
    let is_idle =
        |meeting: &Meeting| meeting.bytes_read() == 1_000_000 && meeting.now > Time::from_secs_f64(5.0);
    meeting.run_until(6.0, is_idle);
    assert_eq!(meeting.bytes_read(), 1_000_000);
    meeting
}

#[test]
fn abort_of_either_end_reaches_the_other() {
    let mut meeting = idle();
    meeting.with_client(|client, handle, _| client.connection(handle).expect("open").abort());
    assert!(meeting.run_until(LIMIT_S, Meeting::is_over), "{:?}", meeting.server_closed());
    assert_eq!(meeting.server_closed(), Some(Reason::Reset));

    let mut meeting = idle();
    meeting.with_server(|endpoint, now| endpoint.abort(now));
    assert!(meeting.run_until(LIMIT_S, Meeting::is_over), "{:?}", meeting.events);
    assert_eq!(meeting.client_closed(), Some(CloseReason::Reset));
}

#[test]
fn connection_from_a_cookie_has_two_paths() {
    let mut meeting = meet(Settings { cookies: true, bytes: [3_000_000; 2], ..Settings::new() }, 0);
    finish(&mut meeting);
    let carried = carried(&meeting);
    assert!(carried.len() == 2 && carried[1][0] > 100_000, "{carried:?}");
}

#[test]
fn client_without_checksums_falls_back() {
    let mut meeting = Meeting::new(Settings { checksum: true, paths: 1, ..Settings::new() });
    let is_plain = |meeting: &Meeting| meeting.bytes_read() > 0 && meeting.report().fallback;
    assert!(meeting.run_until(LIMIT_S, is_plain), "{:?}", meeting.events);
    finish(&mut meeting);
    assert!(
        has(&meeting, |event| matches!(event, Event::Connected { mptcp: false })),
        "{:?}",
        meeting.events
    );
}

/// Faults, addresses, sizes and buffers at random (without cookies, which a lost third segment makes useless), and perhaps a cut of one path some seconds after the join.
fn settings() -> impl Strategy<Value = (Settings, u8, Option<(u8, f64)>)> {
    // With more losses, the client gives up: its timer doubles up to 32 s, and its limit is 100 s.
    let probabilities = (0.0..0.05, 0.0..0.1, 0.0..0.5, 0.0..0.01);
    let faults = probabilities.prop_map(|(loss, duplication, reordering, damage)| Faults {
        loss,
        duplication,
        reordering,
        damage,
    });
    let sizes = ([1..2_000_000_u64, 1..2_000_000], [20_000..1_000_000_u64, 20_000..1_000_000]);
    let cut = prop::option::of((0..2_u8, 0.0..2.0));
    (any::<bool>(), 1280..1501_u16, sizes, faults, any::<u64>(), 0..2_u8, cut).prop_map(
        |(ipv6, mtu, (bytes, buffers), faults, seed, to, cut)| {
            (Settings { ipv6, mtu, bytes, buffers, faults, seed, ..Settings::new() }, to, cut)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_transfers_deliver_every_byte((settings, to, cut) in settings()) {
        let mut meeting = Meeting::new(settings);
        let has_opened = |meeting: &Meeting| has(meeting, |event| matches!(event, Event::Connected { .. }));
        assert!(meeting.run_until(LIMIT_S, has_opened), "{:?}", meeting.events);
        // The client falls back after three lost SYNs, and gives up a join whose segments are lost.
        if is_connected(&meeting) {
            meeting.join((1, to), false);
        }
        let is_joined = |meeting: &Meeting| has(meeting, |event| matches!(event, Event::SubflowUp { .. }));
        let joined = meeting.run_until(meeting.now.as_secs_f64() + 30.0, is_joined);
        if let Some((path, after_s)) = cut.filter(|_| joined) {
            let at = meeting.now.as_secs_f64() + after_s;
            meeting.run_until(at, |_| false);
            meeting.cut.push(path);
            // The client repeats a lost DATA_FIN on the same path without end, so only the data is awaited.
            meeting.run_until(LIMIT_S, Meeting::has_all_bytes);
            meeting.check_bytes();
        } else {
            finish(&mut meeting);
        }
    }
}
