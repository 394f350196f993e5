//! Recordings of hosts in virtual time, their replay, and damaged recordings.

#[path = "../fuzz_bodies/recording.rs"]
mod body;
mod hosts;

use anabranch_base::time::Time;
use anabranch_host::Protocol;
use anabranch_replay::{Outcome, Place, ReplayError, replay};
use anabranch_settings::protocol::Protocol as Settings;
use anabranch_settings::protocols::Protocols;
use anabranch_wire::Payload;
use hosts::{Recorded, Task, run};
use proptest::prelude::*;

/// A protocol with these settings.
fn protocol(kind: Protocols, settings: &[(&str, &str)]) -> Protocol {
    let mut protocol = Settings::new(kind);
    for (key, value) in settings {
        protocol.set(key, value).expect("a valid setting");
    }
    protocol.into()
}

/// A transfer of 60 kB there and 20 kB back, without losses.
fn task(protocol: Protocol) -> Task {
    Task { protocol, bytes: [60_000, 20_000], loss: 0.0, outage: None, abort: None, seed: 1, has_data: false }
}

fn read(recording: &[u8]) -> Outcome {
    replay(recording).expect("a whole recording")
}

/// The replay of both ends sends the same packets.
fn assert_equal(recorded: &Recorded) {
    for (recording, sent) in recorded.recordings.iter().zip(recorded.sent) {
        let outcome = read(recording);
        assert_eq!(outcome.difference, None);
        assert!(outcome.counts.sent as usize >= sent && sent > 10, "{outcome:?}");
    }
}

#[test]
fn replay_sends_equal_packets() {
    let protocols = [
        protocol(Protocols::TCP, &[]),
        protocol(Protocols::MPTCP, &[("paths", "fullmesh")]),
        protocol(Protocols::MPTCP, &[("paths", "fullmesh"), ("dss_checksum", "true")]),
        protocol(Protocols::SCTP, &[("streams", "3")]),
        protocol(Protocols::CMT_SCTP, &[("i_data", "true"), ("asconf", "true")]),
    ];
    for protocol in protocols {
        for has_data in [false, true] {
            let recorded = run(&Task { loss: 0.02, has_data, ..task(protocol.clone()) });
            assert_equal(&recorded);
            // An association has no half-closed state: the first end that closes ends both directions.
            if !matches!(protocol, Protocol::Sctp(_)) {
                assert_eq!(recorded.read.each_ref().map(Vec::len), [20_000, 60_000], "{protocol:?}");
            }
        }
    }
}

#[test]
fn recording_without_data_has_no_byte_of_it() {
    let plain = run(&task(protocol(Protocols::TCP, &[])));
    let data = run(&Task { has_data: true, ..task(protocol(Protocols::TCP, &[])) });
    // Sixteen bytes of the pattern, anywhere in the stream.
    let parts: Vec<[u8; 16]> = (0..60_000 / 16)
        .map(|at| core::array::from_fn(|byte| Payload::byte(16 * at + byte as u64)))
        .collect();
    let contains =
        |recording: &[u8]| recording.windows(16).any(|window| parts.iter().any(|part| part == window));
    assert!(contains(&data.recordings[0]) && contains(&data.recordings[1]));
    assert!(!contains(&plain.recordings[0]) && !contains(&plain.recordings[1]));
    // The recording has fewer bytes than half of the packets' headers.
    let packets = plain.sent.iter().sum::<usize>();
    assert!(plain.recordings.iter().map(Vec::len).sum::<usize>() < 2 * packets * 48, "{packets} packets");
}

#[test]
fn another_key_is_the_first_difference() {
    let recorded = run(&task(protocol(Protocols::TCP, &[])));
    let mut recording = recorded.recordings[0].clone();
    let key = recording.windows(32).rposition(|window| window == [0; 32]).expect("the key of host 0");
    recording[key] ^= 1;
    let difference = read(&recording).difference.expect("another initial sequence number");
    let Place::Field { number: 1, name } = &difference.place else { panic!("{difference}") };
    assert!(name == "body.source_port" || name.starts_with("body.seq"), "{difference}");
    assert_eq!(difference.at, Time::ZERO);
}

#[test]
fn surplus_and_missing_packets_are_differences() {
    let recorded = run(&task(protocol(Protocols::TCP, &[])));
    let whole = &recorded.recordings[0];
    // Without the SYN, which is the second record after the head.
    let starts = records(whole);
    let syn = starts[3]..starts[4];
    let without = [&whole[..syn.start], &whole[syn.end..]].concat();
    let difference = read(&without).difference.expect("a surplus packet");
    assert_eq!(difference.place, Place::Packet { number: 1 });
    assert_eq!((difference.recorded.as_str(), &difference.replayed[..3]), ("none", "60 "));
    let twice = [&whole[..syn.end], &whole[syn.start..]].concat();
    let difference = read(&twice).difference.expect("a missing packet");
    assert_eq!((difference.place, difference.replayed.as_str()), (Place::Packet { number: 2 }, "none"));
}

/// The start of each record behind the mark.
fn records(recording: &[u8]) -> Vec<usize> {
    let (mut starts, mut at) = (Vec::new(), 8);
    while at < recording.len() {
        starts.push(at);
        let (mut len, mut shift) = (0, 0);
        loop {
            let byte = recording[at];
            at += 1;
            len |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        at += len;
    }
    starts
}

#[test]
fn truncation_of_a_recording_is_always_an_error() {
    let recorded = run(&Task { bytes: [3000, 1000], ..task(protocol(Protocols::MPTCP, &[])) });
    let whole = &recorded.recordings[1];
    for len in (0..whole.len()).step_by(7) {
        match replay(&whole[..len]) {
            Err(ReplayError::NoRecording) => assert!(len < 8, "{len}"),
            Err(ReplayError::Truncated { packets }) => assert!(packets <= recorded.sent[1] as u64 + 1),
            other => panic!("{len} bytes: {other:?}"),
        }
    }
}

#[test]
fn foreign_files_and_versions_are_refused() {
    assert_eq!(
        replay(&b"\x0a\x0d\x0d\x0a pcapng"[..]).expect_err("a capture").to_string(),
        "is not a recording; make one with --record"
    );
    let error = replay(&b"anabrec\x02"[..]).expect_err("another version");
    assert!(matches!(error, ReplayError::Format { found: 2, known: 1 }), "{error}");
    // A length beyond any record needs no memory.
    let error = replay(&b"anabrec\x01\xff\xff\xff\xff\xff\xff\x0f"[..]).expect_err("a long record");
    assert!(matches!(error, ReplayError::Damaged { .. }), "{error}");
}

fn any_task() -> impl Strategy<Value = Task> {
    let protocols = prop_oneof![
        Just(protocol(Protocols::TCP, &[])),
        Just(protocol(Protocols::MPTCP, &[("paths", "fullmesh"), ("dss_checksum", "true")])),
        Just(protocol(Protocols::MPTCP, &[("paths", "fullmesh"), ("scheduler", "blest")])),
        Just(protocol(Protocols::CMT_SCTP, &[])),
        Just(protocol(Protocols::CMT_SCTP, &[("i_data", "true"), ("asconf", "true")])),
    ];
    let at = |from: u64| move |ms: u64| Time::from_nanos((from + ms) * 1_000_000);
    let outage = prop::option::of((0..200_u64, 1..2000_u64))
        .prop_map(move |times| times.map(|(from, len)| [at(0)(from), at(from)(len)]));
    let abort = prop::option::weighted(0.2, (0..400_u64).prop_map(at(0)));
    let bytes = (1..60_000_u64, 1..40_000_u64);
    (protocols, bytes, 0..6_u32, outage, abort, any::<(u64, bool)>()).prop_map(
        |(protocol, bytes, loss, outage, abort, (seed, has_data))| Task {
            protocol,
            bytes: bytes.into(),
            loss: f64::from(loss) / 100.0,
            outage,
            abort,
            seed,
            has_data,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_run_is_repeated(task in any_task()) {
        let recorded = run(&task);
        for recording in &recorded.recordings {
            prop_assert_eq!(replay(&recording[..]).expect("a whole recording").difference, None);
        }
        for (read, written) in recorded.read.iter().zip(task.bytes.into_iter().rev()) {
            prop_assert!(read.len() as u64 <= written);
        }
    }

    #[test]
    fn damaged_recording_ends_with_an_outcome_or_error(
        task in any_task(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let task = Task { bytes: [4000, 2000], abort: None, ..task };
        for mut recording in run(&task).recordings {
            for (place, byte) in &changes {
                let place = place.index(recording.len());
                recording[place] = *byte;
            }
            if let Ok(Outcome { difference: Some(difference), .. }) = replay(&recording[..]) {
                prop_assert!(!matches!(difference.place, Place::Panic { .. }), "{}", difference);
            }
        }
    }

    #[test]
    fn hostile_recording_causes_no_panic(program in prop::collection::vec(any::<u8>(), 1..40)) {
        // The first recordings are valid ones, which most programs should change.
        let mut program = program;
        program[0] %= 18;
        body::recording(&program);
    }
}
