//! TCP with a stack that others have written: smoltcp, in virtual time over a network with faults.

mod meeting;
#[path = "../strangers/mod.rs"]
mod strangers;

use anabranch_endpoint::{Endpoint, Reason};
use meeting::{Meeting, Opener, Settings};
use proptest::prelude::*;
use smoltcp::socket::tcp::{CongestionControl, State};
use smoltcp::time::Duration;
use strangers::network::Faults;
use strangers::{FAULTS, cases};

/// Limit of a transfer in seconds of virtual time.
const LIMIT_S: f64 = 5_000.0;

const CONTROLS: [CongestionControl; 3] =
    [CongestionControl::None, CongestionControl::Reno, CongestionControl::Cubic];

/// Runs to the end, and checks the bytes and that both ends closed in order. smoltcp ends TIME-WAIT after 10 s, so that it may
/// reset a FIN that is repeated later.
fn finish(meeting: &mut Meeting, bytes: [u64; 2]) {
    meeting.close();
    let is_over = meeting.run_until(LIMIT_S, Meeting::is_over);
    let (state, read) = (meeting.stranger.state(), meeting.stranger.application.read.bytes);
    assert!(is_over, "open after {:?}: {state} {read} {:?}", meeting.now, meeting.ours);
    meeting.check_contents(bytes);
    meeting.check_ends();
    let late = meeting.has_faults() && meeting.ours.closed == Some(Reason::Reset);
    assert!(late || meeting.ours.closed == Some(Reason::Closed), "{:?}", meeting.ours);
}

fn run(settings: Settings) -> Meeting {
    let bytes = settings.bytes;
    let mut meeting = settings.meet();
    finish(&mut meeting, bytes);
    meeting
}

#[test]
fn bytes_arrive_both_ways() {
    for opener in [Opener::Smoltcp, Opener::Ours, Opener::Both] {
        for ipv6 in [false, true] {
            for faults in [Faults::default(), FAULTS] {
                run(Settings { opener, ipv6, faults, ..Settings::new() });
            }
        }
    }
}

#[test]
fn few_bytes_arrive() {
    for opener in [Opener::Smoltcp, Opener::Ours] {
        for bytes in [[0, 0], [0, 1], [1, 0], [1, 1]] {
            run(Settings { opener, bytes, ..Settings::new() });
        }
    }
}

#[test]
fn all_controls_carry_data_despite_faults() {
    for control in CONTROLS {
        for bytes in [[5_000_000, 0], [0, 5_000_000], [5_000_000; 2]] {
            run(Settings { control, bytes, faults: FAULTS, ..Settings::new() });
        }
    }
}

#[test]
fn options_are_negotiated() {
    for timestamps in [[false, false], [false, true], [true, false], [true, true]] {
        for sack in [false, true] {
            run(Settings { timestamps, sack, faults: FAULTS, ..Settings::new() });
        }
    }
}

#[test]
fn short_packets_carry_data() {
    for opener in [Opener::Smoltcp, Opener::Ours] {
        for mtus in [[296, 1500], [1500, 296], [296, 296]] {
            run(Settings { opener, mtus, bytes: [300_000; 2], ..Settings::new() });
        }
        run(Settings { opener, ipv6: true, mtus: [1280, 1500], ..Settings::new() });
    }
}

/// A connection in the middle of its transfer.
fn started(opener: Opener) -> Meeting {
    let mut meeting = Settings { opener, bytes: [20_000_000; 2], ..Settings::new() }.meet();
    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000), "{:?}", meeting.ours);
    meeting
}

#[test]
fn reset_of_either_end_reaches_the_other() {
    for opener in [Opener::Smoltcp, Opener::Ours] {
        let mut meeting = started(opener);
        meeting.with_stranger(|smoltcp, _| smoltcp.socket().abort());
        assert!(meeting.run_until(LIMIT_S, Meeting::is_over), "{:?}", meeting.ours);
        assert_eq!(meeting.ours.closed, Some(Reason::Reset));

        let mut meeting = started(opener);
        meeting.with_ours(Endpoint::abort);
        assert!(meeting.run_until(LIMIT_S, Meeting::is_over), "{:?}", meeting.stranger.state());
        assert_eq!(meeting.ours.closed, Some(Reason::Aborted));
    }
}

#[test]
fn port_without_listener_refuses() {
    let mut meeting = Settings { opener: Opener::Refused, ..Settings::new() }.meet();
    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.ours.closed.is_some()));
    assert_eq!(meeting.ours.closed, Some(Reason::Refused));

    let mut meeting = Settings::new().meet();
    meeting.ours.host.stop_listening(meeting.now, anabranch_host::Transport::Tcp, strangers::ours::PORT);
    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.stranger.state() == State::Closed));
}

#[test]
fn half_closed_end_gets_all_data() {
    for opener in [Opener::Smoltcp, Opener::Ours] {
        for faults in [Faults::default(), FAULTS] {
            for (bytes, ours) in [([1_000, 5_000_000], false), ([5_000_000, 1_000], true)] {
                let mut meeting = Settings { opener, bytes, faults, ..Settings::new() }.meet();
                if ours {
                    meeting.ours.application.stays_open = false;
                    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.stranger.application.has_read_all));
                } else {
                    meeting.stranger.application.stays_open = false;
                    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.ours.application.finished));
                }
                finish(&mut meeting, bytes);
            }
        }
    }
}

/// Either end reads nothing for some time. The packets at the end of this time are lost, so that the other end has to
/// probe.
#[test]
fn transfer_survives_a_window_of_zero() {
    for (seconds, outage) in [(0.5, 0.0), (300.0, 0.0), (30.0, 0.1)] {
        for ours in [false, true] {
            let bytes = [5_000_000; 2];
            let mut meeting = Settings { bytes, ..Settings::new() }.meet();
            assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 100_000));
            set_paused(&mut meeting, ours, true);
            meeting.pass(seconds);
            let before = read_by(&meeting, ours);
            set_paused(&mut meeting, ours, false);
            meeting.interrupt(outage);
            assert!(before < bytes[0], "the window was closed");
            finish(&mut meeting, bytes);
        }
    }
}

fn set_paused(meeting: &mut Meeting, ours: bool, paused: bool) {
    if ours {
        meeting.ours.application.is_paused = paused;
    } else {
        meeting.stranger.application.is_paused = paused;
    }
}

fn read_by(meeting: &Meeting, ours: bool) -> u64 {
    if ours { meeting.bytes_read() } else { meeting.stranger.application.read.bytes }
}

#[test]
fn transfer_survives_an_outage() {
    for opener in [Opener::Smoltcp, Opener::Ours] {
        for seconds in [0.3, 3.0, 100.0] {
            let bytes = [5_000_000; 2];
            let mut meeting = Settings { opener, bytes, ..Settings::new() }.meet();
            assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000));
            meeting.interrupt(seconds);
            finish(&mut meeting, bytes);
        }
    }
}

#[test]
fn keep_alives_are_answered() {
    let mut meeting = Settings { bytes: [1_000; 2], ..Settings::new() }.meet();
    let socket = meeting.stranger.socket();
    socket.set_keep_alive(Some(Duration::from_secs(1)));
    socket.set_timeout(Some(Duration::from_secs(5)));
    meeting.pass(600.0);
    assert_eq!(meeting.stranger.state(), State::Established);
    finish(&mut meeting, [1_000; 2]);
}

/// An interruption in the middle of a transfer.
#[derive(Clone, Copy, Debug)]
enum Interruption {
    /// This stack's application, or that of smoltcp, reads nothing.
    Pause { ours: bool },
    /// All packets are lost.
    Outage,
}

/// Interruptions with their start and duration, each some seconds after the one before.
fn interruptions() -> impl Strategy<Value = Vec<(Interruption, f64, f64)>> {
    let kinds = prop::sample::select(vec![
        Interruption::Pause { ours: false },
        Interruption::Pause { ours: true },
        Interruption::Outage,
    ]);
    prop::collection::vec((kinds, 0.0..0.5, prop::sample::select(vec![0.01, 0.3, 2.0, 20.0])), 0..4)
}

fn interrupt(meeting: &mut Meeting, (kind, after, duration): (Interruption, f64, f64)) {
    meeting.pass(after);
    match kind {
        Interruption::Pause { ours } => {
            set_paused(meeting, ours, true);
            meeting.pass(duration);
            set_paused(meeting, ours, false);
        }
        Interruption::Outage => meeting.interrupt(duration),
    }
}

prop_compose! {
    /// Roles, options, sizes, buffers and faults at random.
    fn settings()(
        opener in prop::sample::select(vec![Opener::Smoltcp, Opener::Ours, Opener::Both]),
        (ipv6, sack, delays, timestamps) in any::<(bool, bool, bool, [bool; 2])>(),
        control in prop::sample::select(CONTROLS.to_vec()),
        mtus in [300..1501_u16, 300..1501],
        bytes in [0..1_000_000_u64, 0..1_000_000],
        theirs in [2_000..500_000_usize, 2_000..500_000],
        buffers in [20_000..1_000_000_u64, 20_000..1_000_000],
        faults in prop::option::weighted(0.8, (0.0..0.1, 0.0..0.1, 0.0..0.5, 0.0..0.02)),
        seed in any::<u64>(),
    ) -> Settings {
        let faults = faults.map(|(loss, duplication, reordering, damage)| Faults { loss, duplication, reordering, damage });
        let faults = faults.unwrap_or_default();
        let mtus = mtus.map(|mtu| if ipv6 { mtu.max(1280) } else { mtu });
        Settings { opener, ipv6, mtus, bytes, theirs, buffers, control, timestamps, sack, delays, faults, seed }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_transfers_deliver_every_byte(
        (settings, interruptions, closes) in (settings(), interruptions(), any::<[bool; 2]>())
    ) {
        let bytes = settings.bytes;
        let mut meeting = settings.meet();
        meeting.stranger.application.stays_open = !closes[0];
        meeting.ours.application.stays_open = !closes[1];
        for (kind, after, duration) in interruptions {
            // After losses, smoltcp may retransmit beyond a window that is almost zero, and never again once it is zero.
            let reads = meeting.has_faults() && matches!(kind, Interruption::Pause { ours: true });
            let kind = if reads { Interruption::Outage } else { kind };
            interrupt(&mut meeting, (kind, after, duration));
        }
        finish(&mut meeting, bytes);
    }
}
