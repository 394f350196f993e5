//! SCTP with a stack that others have written: sctp-proto, in virtual time over a network with faults.

mod meeting;
#[path = "../strangers/mod.rs"]
mod strangers;

use anabranch_base::rng::Rng;
use anabranch_base::time::Duration;
use anabranch_endpoint::{Endpoint, Event as OurEvent, Reason, Reliability, StreamChange, Write};
use meeting::{Meeting, Settings};
use proptest::prelude::*;
use sctp_proto::{Event, ReliabilityType, StreamEvent};
use strangers::network::Faults;
use strangers::sctp::{Association, associations};
use strangers::{FAULTS, cases};

/// Limit of a transfer in seconds of virtual time.
const LIMIT_S: f64 = 5_000.0;

/// Runs to the end, and checks the messages.
fn finish(settings: Settings) {
    let bytes = settings.association.bytes;
    complete(&mut settings.meet(), bytes);
}

fn complete(meeting: &mut Meeting, bytes: [u64; 2]) {
    let is_over = meeting.run_until(LIMIT_S, Meeting::is_over);
    assert!(is_over, "open after {:?}: {:?} {:?}", meeting.now, meeting.stranger.events, meeting.ours);
    meeting.check_contents(bytes);
    assert_eq!(meeting.ours.closed, Some(Reason::Closed), "{:?}", meeting.ours);
}

#[test]
fn messages_arrive_both_ways() {
    for opens in [false, true] {
        for unordered in [false, true] {
            for faults in [Faults::default(), FAULTS] {
                let association = Association { opens, unordered, ..Settings::new().association };
                finish(Settings { association, faults, ..Settings::new() });
            }
        }
    }
}

#[test]
fn long_and_short_messages_arrive() {
    for opens in [false, true] {
        for (lengths, total) in [((1, 1), 2_000), ((1, 100), 50_000), ((900_000, 1_000_000), 5_000_000)] {
            for faults in [Faults::default(), FAULTS] {
                let association = Association {
                    opens,
                    lengths,
                    bytes: [total; 2],
                    buffers: [2_000_000; 2],
                    ..Settings::new().association
                };
                finish(Settings { association, faults, receive_buffer: 3_000_000, ..Settings::new() });
            }
        }
    }
}

/// An association without data that neither end closes.
fn idle(opens: bool, faults: Faults) -> Meeting {
    let association = Association { opens, bytes: [1, 1], ..Settings::new().association };
    let mut meeting = Settings { association, faults, stays_open: true, ..Settings::new() }.meet();
    meeting.pass(2.0);
    assert!(meeting.bytes_read() > 0, "{:?}", meeting.ours);
    meeting
}

/// An association in the middle of its transfer.
fn started(opens: bool) -> Meeting {
    let association = Association { opens, bytes: [20_000_000; 2], ..Settings::new().association };
    let mut meeting = Settings { association, ..Settings::new() }.meet();
    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000), "{:?}", meeting.ours);
    meeting
}

fn has(meeting: &Meeting, event: impl Fn(&Event) -> bool) -> bool {
    meeting.stranger.events.iter().any(event)
}

#[test]
fn abort_reaches_the_other_end() {
    for opens in [false, true] {
        let mut meeting = started(opens);
        meeting.with_ours(Endpoint::abort);
        assert!(meeting.run_until(LIMIT_S, Meeting::is_over), "{:?}", meeting.stranger.events);
        assert!(has(&meeting, |event| matches!(event, Event::AssociationLost { .. })));
    }
}

#[test]
fn either_end_shuts_down() {
    for opens in [false, true] {
        for faults in [Faults::default(), FAULTS] {
            let mut meeting = idle(opens, faults);
            meeting.with_ours(Endpoint::close);
            assert!(meeting.run_until(LIMIT_S, Meeting::is_over), "{:?}", meeting.stranger.events);
            assert_eq!(meeting.ours.closed, Some(Reason::Closed));

            let mut meeting = idle(opens, faults);
            let shut_down = meeting.with_stranger(|sctp, _| sctp.association().shutdown());
            shut_down.expect("an established association");
            assert!(meeting.run_until(LIMIT_S, Meeting::is_over), "{:?}", meeting.ours);
            assert_eq!(meeting.ours.closed, Some(Reason::Closed));
        }
    }
}

/// The peer does not wait for its own data, so the test lets it send nothing after its first message.
#[test]
fn peer_that_shuts_down_gets_all_messages() {
    for opens in [false, true] {
        for faults in [Faults::default(), FAULTS] {
            let bytes = [1, 2_000_000];
            let association = Association { opens, bytes, ..Settings::new().association };
            let mut meeting = Settings { association, faults, stays_open: true, ..Settings::new() }.meet();
            let has_begun = |meeting: &Meeting| {
                meeting.bytes_read() > 0 && meeting.stranger.application.read.bytes > 300_000
            };
            assert!(meeting.run_until(LIMIT_S, has_begun), "{:?}", meeting.ours);
            let shut_down = meeting.with_stranger(|sctp, _| sctp.association().shutdown());
            shut_down.expect("an established association");
            assert!(meeting.run_until(LIMIT_S, Meeting::is_over), "{:?}", meeting.ours);
            meeting.check_contents([1, 300_000]);
            assert_eq!(meeting.ours.closed, Some(Reason::Closed));
        }
    }
}

#[test]
fn transfer_survives_a_window_of_zero() {
    for (seconds, outage) in [(0.5, 0.0), (300.0, 0.0), (30.0, 1.0)] {
        for ours in [false, true] {
            let bytes = [5_000_000; 2];
            let association = Association { bytes, ..Settings::new().association };
            let mut meeting = Settings { association, ..Settings::new() }.meet();
            assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 100_000));
            set_paused(&mut meeting, ours, true);
            meeting.pass(seconds);
            set_paused(&mut meeting, ours, false);
            meeting.interrupt(outage);
            complete(&mut meeting, bytes);
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

#[test]
fn transfer_survives_an_outage() {
    for opens in [false, true] {
        for seconds in [0.3, 3.0, 100.0] {
            let bytes = [5_000_000; 2];
            let association = Association { opens, bytes, ..Settings::new().association };
            let mut meeting = Settings { association, ..Settings::new() }.meet();
            assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000));
            meeting.interrupt(seconds);
            complete(&mut meeting, bytes);
        }
    }
}

#[test]
fn either_end_resets_its_streams() {
    for opens in [false, true] {
        for faults in [Faults::default(), FAULTS] {
            let mut meeting = idle(opens, faults);
            meeting.with_stranger(|sctp, _| sctp.stream(1).stop()).expect("an established association");
            let reset =
                |event: &OurEvent| matches!(event, OurEvent::StreamReset { incoming: true, stream: Some(1) });
            let has_reset = |meeting: &Meeting| meeting.ours.events.iter().any(reset);
            assert!(meeting.run_until(100.0, has_reset), "{:?}", meeting.ours);

            let change = StreamChange::ResetOutgoing(vec![1, 3].into());
            meeting.with_ours(|association, now| assert!(association.change_streams(now, change)));
            let finished = |event: &Event| matches!(event, Event::Stream(StreamEvent::Finished { id: 3 }));
            assert!(
                meeting.run_until(200.0, |meeting| has(meeting, finished)),
                "{:?}",
                meeting.stranger.events
            );
            let performed = |event: &OurEvent| {
                matches!(event, OurEvent::StreamReset { incoming: false, stream: Some(3) })
            };
            let has_performed = |meeting: &Meeting| meeting.ours.events.iter().any(performed);
            assert!(meeting.run_until(300.0, has_performed), "{:?}", meeting.ours);
        }
    }
}

#[test]
fn heartbeats_are_answered() {
    for opens in [false, true] {
        let mut meeting = idle(opens, Faults::default());
        meeting.pass(3_600.0);
        assert_eq!(meeting.ours.closed, None, "{:?}", meeting.ours);
        assert!(meeting.ours.report().paths[0].usable);
    }
}

#[test]
fn restarted_peer_continues() {
    let mut meeting = idle(false, Faults::default());
    meeting.with_stranger(|sctp, _| sctp.restart());
    let has_restarted = |meeting: &Meeting| {
        let restarted = |event: &OurEvent| matches!(event, OurEvent::Restarted { .. });
        has(meeting, |event| matches!(event, Event::Connected)) && meeting.ours.events.iter().any(restarted)
    };
    assert!(meeting.run_until(100.0, has_restarted), "{:?} {:?}", meeting.stranger.events, meeting.ours);
    exchange(&mut meeting);
}

#[test]
fn peer_accepts_a_restart() {
    let mut meeting = idle(true, Faults::default());
    let association = Association { opens: true, seed: 2, bytes: [0, 3_000], ..Settings::new().association };
    meeting.ours = association.ours(&Rng::new(2));
    let is_connected = |meeting: &Meeting| meeting.ours.events.contains(&OurEvent::Connected);
    assert!(meeting.run_until(100.0, is_connected), "{:?}", meeting.ours);
    meeting.pass(2.0);
    exchange(&mut meeting);
}

/// Sends a message each way.
fn exchange(meeting: &mut Meeting) {
    let before = (meeting.bytes_read(), meeting.stranger.application.read.bytes);
    send(meeting, 7, Reliability::Full);
    meeting.with_stranger(|sctp, _| sctp.stream(2).write(&[7; 3_000])).expect("an open stream");
    let end = meeting.now.as_secs_f64() + 100.0;
    let is_done = |meeting: &Meeting| {
        (meeting.bytes_read(), meeting.stranger.application.read.bytes)
            == (before.0 + 3_000, before.1 + 3_000)
    };
    assert!(meeting.run_until(end, is_done), "{:?}", meeting.ours);
}

/// Bytes of a message with a number.
fn numbered(number: u32) -> Vec<u8> {
    number.to_be_bytes().repeat(750)
}

/// Number of a message, whose bytes must be complete.
fn number_of(bytes: &[u8]) -> u32 {
    let number = u32::from_be_bytes(bytes[..4].try_into().expect("a number"));
    assert_eq!(bytes, numbered(number), "a complete message");
    number
}

/// Sends a numbered message from this stack.
fn send(meeting: &mut Meeting, number: u32, reliability: Reliability) {
    let how = Write { stream: 2, ppid: 53, reliability, ..Write::bytes(0) };
    let now = meeting.now;
    let accepted = meeting.ours.socket(now).write(&numbered(number), how);
    assert_eq!(accepted, 3_000, "room for a message");
    meeting.drain_ours(None);
}

const LOSS: Faults = Faults { loss: 0.1, duplication: 0.02, reordering: 0.05, damage: 0.001 };

#[test]
fn abandoned_messages_are_skipped_by_the_peer() {
    for reliability in [Reliability::Retransmissions(0), Reliability::Lifetime(Duration::from_millis(30))] {
        let mut meeting = idle(false, LOSS);
        meeting.stranger.application.log = Some(Vec::new());
        for number in 0..500 {
            send(&mut meeting, number, reliability);
            meeting.pass(0.02);
        }
        send(&mut meeting, 500, Reliability::Full);
        let is_last = |meeting: &Meeting| {
            let log = meeting.stranger.application.log.as_ref().expect("kept");
            log.last().is_some_and(|(_, bytes)| number_of(bytes) == 500)
        };
        assert!(meeting.run_until(LIMIT_S, is_last), "{:?}", meeting.ours);
        let log = meeting.stranger.application.log.take().expect("kept");
        let numbers: Vec<u32> = log.iter().map(|(_, bytes)| number_of(bytes)).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        assert!((200..500).contains(&numbers.len()), "{reliability:?}: {}", numbers.len());
    }
}

#[test]
fn messages_abandoned_by_the_peer_are_skipped() {
    for (kind, value) in [(ReliabilityType::Rexmit, 0), (ReliabilityType::Timed, 30)] {
        for unordered in [false, true] {
            let mut meeting = idle(true, LOSS);
            meeting.ours.application.is_paused = true;
            let mut numbers = Vec::new();
            for number in 0..=500 {
                let reliability = if number < 500 { kind } else { ReliabilityType::Reliable };
                meeting.with_stranger(|sctp, _| {
                    let mut stream = sctp.stream(3);
                    stream.set_reliability_params(unordered, reliability, value).expect("an open stream");
                    stream.write(&numbered(number)).expect("an open stream");
                });
                meeting.pass(0.02);
                read_numbers(&mut meeting, &mut numbers);
            }
            meeting.pass(1_000.0);
            read_numbers(&mut meeting, &mut numbers);
            assert!(numbers.contains(&500), "{numbers:?} {:?}", meeting.ours);
            assert!(unordered || numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
            assert!((200..500).contains(&numbers.len()), "{kind}: {}", numbers.len());
            numbers.sort_unstable();
            numbers.dedup();
            assert!(numbers.len() >= 200);
        }
    }
}

/// Reads the messages that this stack has received, and appends their numbers.
fn read_numbers(meeting: &mut Meeting, numbers: &mut Vec<u32>) {
    let (now, mut bytes) = (meeting.now, Vec::new());
    while let Some(delivery) = meeting.ours.socket(now).read(u64::MAX, &mut bytes) {
        assert!(!delivery.more && !delivery.aborted, "{delivery:?}");
        numbers.push(number_of(&bytes));
        bytes.clear();
    }
    meeting.drain_ours(None);
}

/// Faults, roles, sizes and buffers at random. sctp-proto has no I-DATA.
fn settings() -> impl Strategy<Value = Settings> {
    associations().prop_map(|(random, faults)| {
        let base = Settings::new();
        let association = Association { i_data: false, ppids: base.association.ppids, ..random };
        Settings { association, faults, ..base }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_transfers_deliver_every_message(
        (settings, outage) in (settings(), prop::option::of((0.0..0.5, 0.01..10.0)))
    ) {
        let bytes = settings.association.bytes;
        let mut meeting = settings.meet();
        if let Some((after, seconds)) = outage {
            meeting.pass(after);
            meeting.interrupt(seconds);
        }
        complete(&mut meeting, bytes);
    }
}
