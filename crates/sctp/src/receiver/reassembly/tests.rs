//! Reassembly of fragments, delivery of messages, and messages that the sender abandons.

use super::*;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

fn piece(tsn: u64, (first, last): (bool, bool), message: u32, unordered: bool) -> Fragment {
    Fragment {
        tsn,
        stream: 0,
        unordered,
        first,
        last,
        immediate: false,
        message,
        number: None,
        ppid: tsn as u32,
        len: 100,
    }
}

/// The payload protocol identifier of a message, which is the TSN of its first fragment, its length and fragments.
type Read = (u32, u64, Vec<(u64, u32)>);

fn read(inbox: &mut Inbox) -> Vec<Read> {
    let next = || inbox.pop().map(|delivery| (delivery.ppid, delivery.len, inbox.last().to_vec()));
    core::iter::from_fn(next).collect()
}

/// Chunks discarded since the last call.
fn given_up(re: &mut Reassembly) -> Vec<(u64, u32)> {
    let mut runs = VecDeque::new();
    re.take_abandoned(&mut runs);
    runs.into()
}

#[test]
fn fragments_join_in_any_order() {
    let (mut re, mut inbox) = (Reassembly::new(1, false), Inbox::default());
    for (tsn, ends) in [(12, (false, true)), (10, (true, false)), (11, (false, false))] {
        re.insert(&piece(tsn, ends, 0, false), &mut inbox).unwrap();
    }
    assert_eq!(read(&mut inbox), [(10, 300, vec![(10, 3)])]);
    assert_eq!(re.held(), 0);
}

#[test]
fn ordered_messages_wait_and_unordered_ones_do_not() {
    let (mut re, mut inbox) = (Reassembly::new(1, false), Inbox::default());
    re.insert(&piece(11, (true, true), 1, false), &mut inbox).unwrap();
    assert_eq!(re.held(), 100);
    re.insert(&piece(12, (true, true), 0, true), &mut inbox).unwrap();
    assert_eq!(read(&mut inbox), [(12, 100, vec![(12, 1)])]);
    re.insert(&piece(10, (true, true), 0, false), &mut inbox).unwrap();
    assert_eq!(read(&mut inbox), [(10, 100, vec![(10, 1)]), (11, 100, vec![(11, 1)])]);
    assert!(re.insert(&piece(13, (true, true), 0, false), &mut inbox).is_err());
}

#[test]
fn stream_numbers_wrap() {
    let (mut re, mut inbox) = (Reassembly::new(1, false), Inbox::default());
    for number in 0..70_000_u32 {
        let ssn = number & 0xffff;
        re.insert(&piece(u64::from(number), (true, true), ssn, false), &mut inbox).unwrap();
    }
    assert_eq!(read(&mut inbox).len(), 70_000);
}

#[test]
fn mixed_messages_are_violations() {
    let mut inbox = Inbox::default();
    let mut re = Reassembly::new(1, false);
    re.insert(&piece(10, (true, false), 0, false), &mut inbox).unwrap();
    assert!(re.insert(&piece(11, (true, false), 1, false), &mut inbox).is_err());
    let mut re = Reassembly::new(1, false);
    re.insert(&piece(10, (true, false), 0, false), &mut inbox).unwrap();
    assert!(re.insert(&piece(11, (false, true), 1, false), &mut inbox).is_err());
    let mut re = Reassembly::new(1, false);
    re.insert(&piece(11, (false, true), 0, false), &mut inbox).unwrap();
    re.insert(&piece(12, (true, false), 1, false), &mut inbox).unwrap();
    assert!(re.insert(&piece(10, (false, false), 1, false), &mut inbox).is_err());
}

/// Length of each readable part, and whether more parts follow.
fn parts(inbox: &mut Inbox) -> Vec<(u64, bool)> {
    core::iter::from_fn(|| inbox.pop().map(|delivery| (delivery.len, delivery.more))).collect()
}

#[test]
fn large_message_is_sent_in_parts() {
    for unordered in [false, true] {
        let (mut re, mut inbox) = (Reassembly::new(1, false), Inbox::default());
        for tsn in [10, 11, 13] {
            re.insert(&piece(tsn, (tsn == 10, false), 0, unordered), &mut inbox).unwrap();
        }
        re.insert(&piece(15, (true, true), 1, unordered), &mut inbox).unwrap();
        inbox.pop().map_or_else(|| assert!(!unordered), |whole| assert!(unordered && !whole.more));
        re.deliver_parts(9, &mut inbox);
        let behind_a_gap: &[_] = if unordered { &[] } else { &[(200, true)] };
        assert_eq!(parts(&mut inbox), behind_a_gap, "an unordered message behind a gap waits");
        re.deliver_parts(11, &mut inbox);
        let at_last: &[_] = if unordered { &[(200, true)] } else { &[] };
        assert_eq!(parts(&mut inbox), at_last);
        re.insert(&piece(16, (true, true), 2, unordered), &mut inbox).unwrap();
        re.insert(&piece(12, (false, false), 0, unordered), &mut inbox).unwrap();
        assert_eq!(parts(&mut inbox), [(200, true)], "other messages of this kind wait");
        re.insert(&piece(14, (false, true), 0, unordered), &mut inbox).unwrap();
        let behind: &[_] = if unordered { &[(100, false)] } else { &[(100, false), (100, false)] };
        assert_eq!(parts(&mut inbox), [&[(100, false)], behind].concat());
        assert_eq!(re.held(), 0);
    }
}

#[test]
fn each_stream_delivers_its_message_in_parts() {
    let (mut re, mut inbox) = (Reassembly::new(2, false), Inbox::default());
    let cut = |tsn, stream, message, number, last| Fragment {
        number: Some(number),
        stream,
        ..piece(tsn, (number == 0, last), message, false)
    };
    for (tsn, stream, message, number) in [(10, 0, 0, 0), (11, 1, 0, 0), (12, 0, 0, 1), (13, 0, 1, 0)] {
        re.insert(&cut(tsn, stream, message, number, false), &mut inbox).unwrap();
    }
    re.deliver_parts(9, &mut inbox);
    assert_eq!(parts(&mut inbox), [(200, true), (100, true)], "the second message of stream 0 waits");
    re.insert(&cut(14, 0, 0, 3, true), &mut inbox).unwrap();
    assert!(re.insert(&cut(15, 0, 0, 1, false), &mut inbox).is_err(), "the fragment was already delivered");
    re.insert(&cut(16, 0, 0, 2, false), &mut inbox).unwrap();
    assert_eq!(parts(&mut inbox), [(200, false)]);
    re.insert(&cut(17, 0, 1, 1, true), &mut inbox).unwrap();
    re.insert(&cut(18, 1, 0, 1, true), &mut inbox).unwrap();
    assert_eq!(parts(&mut inbox), [(200, false), (100, false)]);
}

#[test]
fn interleaved_fragments_join_by_message() {
    let (mut re, mut inbox) = (Reassembly::new(1, false), Inbox::default());
    let cut =
        |tsn, ends, message, number| Fragment { number: Some(number), ..piece(tsn, ends, message, false) };
    re.insert(&cut(10, (true, false), 0, 0), &mut inbox).unwrap();
    re.insert(&cut(11, (true, false), 1, 0), &mut inbox).unwrap();
    re.insert(&cut(12, (false, true), 1, 1), &mut inbox).unwrap();
    assert_eq!(read(&mut inbox), []);
    re.insert(&cut(14, (false, true), 0, 2), &mut inbox).unwrap();
    re.insert(&cut(13, (false, false), 0, 1), &mut inbox).unwrap();
    let first = (10, 300, vec![(10, 1), (13, 2)]);
    assert_eq!(read(&mut inbox), [first, (11, 200, vec![(11, 2)])]);
    re.insert(&cut(15, (false, true), 2, 1), &mut inbox).unwrap();
    assert!(re.insert(&cut(16, (false, false), 2, 2), &mut inbox).is_err());
    assert!(re.insert(&cut(17, (false, true), 2, 1), &mut inbox).is_err());
    assert!(re.insert(&cut(18, (false, false), 3, 0), &mut inbox).is_err());
}

/// Time to skip a hundred messages at once, a hundred times, while `held` fragments of other messages are held.
fn time_to_skip(held: u64, wide: bool) -> Duration {
    let (mut re, mut inbox) = (Reassembly::new(2, true), Inbox::default());
    let cut = |tsn: u64, stream, message| Fragment {
        stream,
        number: wide.then_some(0),
        ..piece(tsn, (true, false), message, false)
    };
    for i in 0..held {
        re.insert(&cut(100_000 + 2 * i, 1, i as u32 & 0x7fff), &mut inbox).unwrap();
    }
    #[expect(clippy::disallowed_methods, reason = "the test measures elapsed time")]
    let begin = Instant::now();
    for packet in 0..100 {
        let first = packet * 100;
        re.insert(&cut(first + 50, 0, first as u32 + 50), &mut inbox).unwrap();
        let skips =
            (first..first + 100).map(|number| Skip { stream: 0, unordered: false, number: number as u32 });
        re.skip(first + 99, &skips.collect::<Vec<_>>(), wide, &mut inbox);
    }
    let took = begin.elapsed();
    assert_eq!(given_up(&mut re).len(), 100);
    assert_eq!(re.held(), 100 * held, "no other message is discarded");
    took
}

/// The cost of skipping messages depends on their number, not on the number of other messages held.
#[test]
fn skipped_messages_are_found_without_a_search() {
    for wide in [false, true] {
        let (few, many) = (time_to_skip(300, wide), time_to_skip(30_000, wide));
        assert!(many < few * 10 + Duration::from_millis(100), "{few:?} with few, {many:?} with many held");
    }
}

/// Only the beginning of a message was skipped: its other fragments are discarded, also those received later.
#[test]
fn skip_discards_the_rest_of_a_message() {
    let (mut re, mut inbox) = (Reassembly::new(2, true), Inbox::default());
    for (tsn, first) in [(10, true), (12, false), (14, false)] {
        re.insert(&piece(tsn, (first, false), 0, false), &mut inbox).unwrap();
    }
    let other = Fragment { stream: 1, ..piece(17, (true, false), 0, false) };
    re.insert(&other, &mut inbox).unwrap();
    re.skip(11, &[Skip { stream: 0, unordered: false, number: 0 }], false, &mut inbox);
    assert_eq!(given_up(&mut re), [(10, 1), (12, 1), (14, 1)]);
    re.insert(&piece(13, (false, false), 0, false), &mut inbox).unwrap();
    assert_eq!((given_up(&mut re), re.held()), (vec![(13, 1)], 100));
    re.insert(&piece(16, (true, true), 1, false), &mut inbox).unwrap();
    assert_eq!(read(&mut inbox), [(16, 100, vec![(16, 1)])]);
}

/// Message numbers wrap, and so do the runs of abandoned messages.
#[test]
fn skipped_message_numbers_wrap() {
    let (mut re, mut inbox) = (Reassembly::new(1, true), Inbox::default());
    let cut = |tsn, message, unordered| Fragment {
        number: Some(0),
        ..piece(tsn, (true, false), message, unordered)
    };
    for (tsn, message) in [(10, u32::MAX), (11, 1), (12, 3)] {
        re.insert(&cut(tsn, message, true), &mut inbox).unwrap();
    }
    re.skip(11, &[Skip { stream: 0, unordered: true, number: 2 }], true, &mut inbox);
    assert_eq!(given_up(&mut re), [(10, 1), (11, 1)]);
    re.streams[0].next = u64::from(u32::MAX);
    for (tsn, message) in [(20, u32::MAX), (21, 0), (22, 2)] {
        re.insert(&cut(tsn, message, false), &mut inbox).unwrap();
    }
    re.skip(21, &[Skip { stream: 0, unordered: false, number: 1 }], true, &mut inbox);
    assert_eq!(given_up(&mut re), [(20, 1), (21, 1)]);
    assert_eq!((re.held(), re.streams[0].next), (200, (1 << 32) + 2));
}

#[test]
fn entries_before_a_fragment_are_counted() {
    let (mut re, mut inbox) = (Reassembly::new(2, false), Inbox::default());
    let whole = (true, true);
    for (tsn, message) in [(12, 2), (13, 3), (15, 5)] {
        re.insert(&piece(tsn, whole, message, false), &mut inbox).unwrap();
    }
    // Waiting are messages 2, 3 and 5; two parts of others follow.
    let before = |re: &Reassembly, tsn, message| re.waiting_before(&piece(tsn, whole, message, false));
    assert_eq!([0, 2, 3, 4, 6].map(|message| before(&re, 10 + u64::from(message), message)), [0, 0, 1, 2, 3]);
    assert_eq!(re.waiting_before(&piece(14, whole, 4, true)), 0, "an unordered message does not wait");
    assert_eq!(re.waiting_before(&Fragment { stream: 1, ..piece(16, whole, 6, false) }), 0, "another stream");
    assert_eq!(re.waiting_before(&Fragment { stream: 9, ..piece(16, whole, 6, false) }), 0, "no stream");
    for tsn in [21, 30] {
        re.insert(&piece(tsn, (false, false), 8, false), &mut inbox).unwrap();
    }
    let part = |tsn| re.waiting_before(&piece(tsn, (false, false), 8, false));
    assert_eq!([20, 21, 22, 31].map(part), [0, 0, 1, 2]);
    let interleaved =
        |message, number| Fragment { number: Some(number), ..piece(50, (false, false), message, false) };
    for (tsn, number) in [(40, 2), (41, 5)] {
        re.insert(&Fragment { tsn, ..interleaved(9, number) }, &mut inbox).unwrap();
    }
    assert_eq!(
        [(9, 1), (9, 3), (9, 6), (10, 1)].map(|(m, n)| re.waiting_before(&interleaved(m, n))),
        [0, 1, 2, 1]
    );
}
