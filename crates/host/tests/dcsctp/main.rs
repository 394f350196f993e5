//! SCTP with a stack that others have written: dcSCTP, in virtual time over a network with faults.

mod meeting;
#[path = "../transfer/mod.rs"]
mod transfer;

use anabranch_endpoint::{Endpoint, Reason, StreamChange};
use dcsctp::api::{SocketEvent, StreamId};
use meeting::{Meeting, Settings};
use proptest::prelude::*;
use transfer::Faults;

/// Limit of a transfer in seconds of virtual time.
const LIMIT_S: f64 = 2_000.0;

const FAULTS: Faults = Faults { loss: 0.02, duplication: 0.01, reordering: 0.05, damage: 0.001 };

/// Runs to the end, and checks the messages.
fn finish(meeting: &mut Meeting) {
    let is_over = meeting.run_until(LIMIT_S, Meeting::is_over);
    assert!(is_over, "open after {:?}: {:?} {:?}", meeting.now, meeting.events, meeting.closed());
    meeting.check_messages();
}

#[test]
fn messages_arrive_both_ways() {
    for opens in [false, true] {
        for i_data in [false, true] {
            for (unordered, faults) in [(false, Faults::default()), (false, FAULTS), (true, FAULTS)] {
                let settings = Settings { opens, i_data, unordered, faults, ..Settings::new() };
                let mut meeting = Meeting::new(settings);
                finish(&mut meeting);
                let metrics = meeting.socket.get_metrics();
                assert!(metrics.is_none_or(|metrics| metrics.uses_message_interleaving == i_data));
            }
        }
    }
}

fn has(meeting: &Meeting, event: impl Fn(&SocketEvent) -> bool) -> bool {
    meeting.events.iter().any(event)
}

/// An association in the middle of its transfer.
fn started(opens: bool) -> Meeting {
    let mut meeting = Meeting::new(Settings { opens, bytes: [20_000_000; 2], ..Settings::new() });
    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.bytes_read() > 1_000_000), "{:?}", meeting.events);
    meeting
}

#[test]
fn abort_of_either_end_reaches_the_other() {
    let mut meeting = started(false);
    meeting.close_theirs();
    assert!(meeting.run_until(LIMIT_S, |meeting| meeting.closed().is_some()));
    assert_eq!(meeting.closed(), Some(Reason::Reset));

    let mut meeting = started(true);
    meeting.with_ours(Endpoint::abort);
    assert!(meeting.run_until(LIMIT_S, Meeting::is_over), "{:?}", meeting.events);
    assert!(has(&meeting, |event| matches!(event, SocketEvent::OnAborted(..))), "{:?}", meeting.events);
}

#[test]
fn either_end_resets_its_streams() {
    let mut meeting = Meeting::new(Settings { bytes: [1, 1], stays_open: true, ..Settings::new() });
    let is_idle = |meeting: &Meeting| meeting.now.as_secs_f64() > 2.0;
    meeting.run_until(2.5, is_idle);
    assert!(meeting.bytes_read() > 0);
    meeting.reset_theirs(&[StreamId(1), StreamId(2)]);
    let performed =
        |event: &SocketEvent| matches!(event, SocketEvent::OnStreamsResetPerformed(ids) if ids.len() == 2);
    assert!(meeting.run_until(30.0, |meeting| has(meeting, performed)), "{:?}", meeting.events);

    let change = StreamChange::ResetOutgoing(vec![0, 3].into());
    meeting.with_ours(|association, now| assert!(association.change_streams(now, change)));
    let reset =
        |event: &SocketEvent| matches!(event, SocketEvent::OnIncomingStreamReset(ids) if ids.len() == 2);
    assert!(meeting.run_until(60.0, |meeting| has(meeting, reset)), "{:?}", meeting.events);
}

prop_compose! {
    /// Faults, roles, sizes and buffers at random.
    fn settings()(
        (opens, i_data, unordered) in any::<(bool, bool, bool)>(),
        mtu in 600..1501_u16,
        bytes in [1..1_000_000_u64, 1..1_000_000],
        longest in 1..60_000_u64,
        buffers in [65_000..1_000_000_u64, 65_000..1_000_000],
        (loss, duplication, reordering, damage) in (0.0..0.05, 0.0..0.1, 0.0..0.5, 0.0..0.02),
        seed in any::<u64>(),
    ) -> Settings {
        let faults = Faults { loss, duplication, reordering, damage };
        let lengths = (1, longest);
        Settings { opens, mtu, i_data, bytes, lengths, unordered, buffers, faults, seed, stays_open: false }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_transfers_deliver_every_message(settings in settings()) {
        finish(&mut Meeting::new(settings));
    }
}
