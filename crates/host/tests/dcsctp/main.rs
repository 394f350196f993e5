//! SCTP with a stack that others have written: dcSCTP, in virtual time over a network with faults.

mod meeting;
#[path = "../strangers/mod.rs"]
mod strangers;

use anabranch_endpoint::{Endpoint, Reason, StreamChange};
use dcsctp::api::{SocketEvent, StreamId};
use meeting::{Meeting, Settings};
use proptest::prelude::*;
use strangers::network::Faults;
use strangers::sctp::{Association, associations};
use strangers::{FAULTS, cases};

/// Limit of a transfer in seconds of virtual time.
const LIMIT_S: f64 = 2_000.0;

/// Runs to the end, and checks the messages.
fn finish(settings: Settings) -> Meeting {
    let bytes = settings.association.bytes;
    let mut meeting = settings.meet();
    let is_over = meeting.run_until(LIMIT_S, Meeting::is_over);
    assert!(is_over, "open after {:?}: {:?} {:?}", meeting.now, meeting.stranger.events, meeting.ours);
    meeting.check_contents(bytes);
    meeting
}

#[test]
fn messages_arrive_both_ways() {
    for opens in [false, true] {
        for i_data in [false, true] {
            for (unordered, faults) in [(false, Faults::default()), (false, FAULTS), (true, FAULTS)] {
                let association = Association { opens, i_data, unordered, ..Association::new() };
                let meeting = finish(Settings { association, faults, ..Settings::new() });
                let metrics = meeting.stranger.socket.get_metrics();
                assert!(metrics.is_none_or(|metrics| metrics.uses_message_interleaving == i_data));
            }
        }
    }
}

fn has(meeting: &Meeting, event: impl Fn(&SocketEvent) -> bool) -> bool {
    meeting.stranger.events.iter().any(event)
}

/// An association in the middle of its transfer.
fn started(opens: bool) -> Meeting {
    let association = Association { opens, bytes: [20_000_000; 2], ..Association::new() };
    let mut meeting = Settings { association, ..Settings::new() }.meet();
    assert!(
        meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000),
        "{:?}",
        meeting.stranger.events
    );
    meeting
}

#[test]
fn abort_of_either_end_reaches_the_other() {
    let mut meeting = started(false);
    meeting.with_stranger(|dcsctp, _| dcsctp.socket.close());
    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.ours.closed.is_some()));
    assert_eq!(meeting.ours.closed, Some(Reason::Reset));

    let mut meeting = started(true);
    meeting.with_ours(Endpoint::abort);
    assert!(meeting.run_until(LIMIT_S, Meeting::is_over), "{:?}", meeting.stranger.events);
    assert!(
        has(&meeting, |event| matches!(event, SocketEvent::OnAborted(..))),
        "{:?}",
        meeting.stranger.events
    );
}

#[test]
fn either_end_resets_its_streams() {
    let association = Association { bytes: [1, 1], ..Association::new() };
    let mut meeting = Settings { association, stays_open: true, ..Settings::new() }.meet();
    meeting.pass(2.0);
    assert!(meeting.bytes_read() > 0);
    let streams = [StreamId(1), StreamId(2)];
    let reset = meeting.with_stranger(|dcsctp, _| dcsctp.socket.reset_streams(&streams));
    reset.expect("both ends support it");
    let performed =
        |event: &SocketEvent| matches!(event, SocketEvent::OnStreamsResetPerformed(ids) if ids.len() == 2);
    assert!(meeting.run_until(30.0, |meeting| has(meeting, performed)), "{:?}", meeting.stranger.events);

    let change = StreamChange::ResetOutgoing(vec![0, 3].into());
    meeting.with_ours(|association, now| assert!(association.change_streams(now, change)));
    let reset =
        |event: &SocketEvent| matches!(event, SocketEvent::OnIncomingStreamReset(ids) if ids.len() == 2);
    assert!(meeting.run_until(60.0, |meeting| has(meeting, reset)), "{:?}", meeting.stranger.events);
}

/// Faults, roles, sizes and buffers at random.
fn settings() -> impl Strategy<Value = Settings> {
    associations().prop_map(|(association, faults)| Settings { association, faults, stays_open: false })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_transfers_deliver_every_message(settings in settings()) {
        finish(settings);
    }
}
