//! Multipath TCP with a client that others have written: `mptcp-rs`, in virtual time over a network with faults.

mod meeting;
#[path = "../strangers/mod.rs"]
mod strangers;

use anabranch_base::time::Time;
use anabranch_endpoint::{Endpoint, Reason};
use anabranch_multipath::PathId;
use meeting::{Meeting, Settings, instant};
use mptcp_rs::{CloseReason, Event};
use proptest::prelude::*;
use strangers::network::Faults;
use strangers::{FAULTS, cases};

/// Limit of a transfer in seconds of virtual time. The client stays in TIME-WAIT for 120 s.
const LIMIT_S: f64 = 1_000.0;

/// Runs to the end, and checks the bytes and that both ends closed in order.
fn finish(meeting: &mut Meeting) {
    meeting.close();
    let is_over = meeting.run_until(LIMIT_S, Meeting::is_over);
    assert!(is_over, "open after {:?}: {:?} {:?}", meeting.now, meeting.stranger.events, meeting.ours.closed);
    meeting.check_bytes();
    meeting.check_ends();
    assert_eq!(meeting.stranger.closed(), Some(CloseReason::Normal));
}

fn has(meeting: &Meeting, event: impl Fn(&Event) -> bool) -> bool {
    meeting.stranger.events.iter().any(event)
}

fn is_connected(meeting: &Meeting) -> bool {
    has(meeting, |event| matches!(event, Event::Connected { mptcp: true }))
}

#[test]
fn bytes_arrive_both_ways() {
    let mut meeting = Settings { paths: 1, ..Settings::new() }.meet();
    finish(&mut meeting);
    assert!(is_connected(&meeting) && !meeting.ours.report().fallback);
}

/// Joins from the client's second address to an address of the server once the connection is established.
fn meet(settings: Settings, to: u8) -> Meeting {
    let mut meeting = settings.meet();
    assert!(meeting.run_until(LIMIT_S, is_connected), "{:?}", meeting.stranger.events);
    meeting.join((1, to), false);
    meeting
}

/// Bytes that each path of the server has sent and received.
fn carried(meeting: &Meeting) -> Vec<[u64; 2]> {
    let paths = meeting.ours.report().paths;
    paths.iter().map(|path| [path.counters.bytes_sent, path.counters.bytes_received]).collect()
}

#[test]
fn two_paths_carry_data_despite_faults() {
    for (ipv6, to, faults) in [(false, 0, Faults::default()), (true, 0, FAULTS), (false, 1, FAULTS)] {
        let settings = Settings { ipv6, faults, bytes: [5_000_000; 2], ..Settings::new() };
        let mut meeting = meet(settings, to);
        finish(&mut meeting);
        assert!(
            has(&meeting, |event| matches!(event, Event::SubflowUp { .. })),
            "{:?}",
            meeting.stranger.events
        );
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
        let mut meeting = if paths == 1 { settings.meet() } else { meet(settings, 0) };
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
    assert!(meeting.run_until(LIMIT_S, is_back), "{:?} {:?}", meeting.stranger.events, carried(&meeting));
    finish(&mut meeting);
}

#[test]
fn client_joins_an_announced_address() {
    let mut meeting =
        meet(Settings { bytes: [3_000_000; 2], path_manager: "fullmesh", ..Settings::new() }, 0);
    let announced = |meeting: &Meeting| has(meeting, |event| matches!(event, Event::AddressAnnounced { .. }));
    assert!(meeting.run_until(LIMIT_S, announced), "{:?}", meeting.stranger.events);
    meeting.join((0, 1), false);
    finish(&mut meeting);
    let ups = meeting.stranger.events.iter().filter(|event| matches!(event, Event::SubflowUp { .. })).count();
    assert_eq!(ups, 2, "{:?}", meeting.stranger.events);
}

#[test]
fn backup_carries_data_once_its_priority_changes() {
    let settings = Settings { bytes: [1, 5_000_000], ..Settings::new() };
    let mut meeting = settings.meet();
    assert!(meeting.run_until(LIMIT_S, is_connected), "{:?}", meeting.stranger.events);
    let subflow = meeting.join((1, 0), true);
    let sent = |meeting: &Meeting, path: usize| carried(meeting).get(path).map_or(0, |bytes| bytes[0]);
    let is_served = |meeting: &Meeting| meeting.bytes_read() > 0 && sent(meeting, 0) > 2_000_000;
    assert!(meeting.run_until(LIMIT_S, is_served));
    assert_eq!(sent(&meeting, 1), 0, "a backup");
    meeting.with_stranger(|client, now| {
        let changed = client.endpoint.set_backup(instant(now), client.handle, subflow, false);
        changed.expect("an open subflow");
    });
    finish(&mut meeting);
    assert!(sent(&meeting, 1) > 500_000, "{:?}", carried(&meeting));
}

#[test]
fn server_changes_the_priority_of_a_path() {
    let mut meeting = meet(Settings { bytes: [5_000_000; 2], ..Settings::new() }, 0);
    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000));
    let (now, id) = (meeting.now, meeting.ours.id());
    assert!(meeting.ours.host.set_backup(now, id, (PathId(1), true)));
    meeting.drain_ours(None);
    finish(&mut meeting);
    let told = |event: &Event| matches!(event, Event::PeerPriority { backup: true, .. });
    assert!(has(&meeting, told), "{:?}", meeting.stranger.events);
}

#[test]
fn removed_address_of_the_client_ends_its_subflow() {
    let mut meeting = meet(Settings { bytes: [5_000_000; 2], ..Settings::new() }, 0);
    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000));
    let address = Settings::new().address(0, 1);
    meeting.with_stranger(|client, now| {
        let removed = client.endpoint.remove_address(instant(now), client.handle, address);
        removed.expect("an address of the connection");
    });
    finish(&mut meeting);
    assert!(!meeting.ours.report().paths[1].usable);
}

#[test]
fn lost_address_of_the_server_ends_its_subflow() {
    for path in [0, 1] {
        let mut meeting = meet(Settings { bytes: [5_000_000; 2], ..Settings::new() }, 1);
        assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000));
        let now = meeting.now;
        meeting.ours.host.remove_address(now, Settings::new().address(1, path));
        meeting.drain_ours(None);
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
    meeting.with_stranger(|client, _| client.endpoint.connection(client.handle).expect("open").abort());
    assert!(meeting.run_until(LIMIT_S, Meeting::is_over), "{:?}", meeting.ours.closed);
    assert_eq!(meeting.ours.closed, Some(Reason::Reset));

    let mut meeting = idle();
    meeting.with_ours(Endpoint::abort);
    assert!(meeting.run_until(LIMIT_S, Meeting::is_over), "{:?}", meeting.stranger.events);
    assert_eq!(meeting.stranger.closed(), Some(CloseReason::Reset));
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
    let mut meeting = Settings { checksum: true, paths: 1, ..Settings::new() }.meet();
    let is_plain = |meeting: &Meeting| meeting.bytes_read() > 0 && meeting.ours.report().fallback;
    assert!(meeting.run_until(LIMIT_S, is_plain), "{:?}", meeting.stranger.events);
    finish(&mut meeting);
    assert!(
        has(&meeting, |event| matches!(event, Event::Connected { mptcp: false })),
        "{:?}",
        meeting.stranger.events
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
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_transfers_deliver_every_byte((settings, to, cut) in settings()) {
        let mut meeting = settings.meet();
        let has_opened = |meeting: &Meeting| has(meeting, |event| matches!(event, Event::Connected { .. }));
        assert!(meeting.run_until(LIMIT_S, has_opened), "{:?}", meeting.stranger.events);
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
