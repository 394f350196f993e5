//! Scoreboard cases with known results, and its counters compared with a recount of all segments.

use super::*;
use proptest::prelude::*;

const MSS: u32 = 100;

fn board(segments: u64) -> Scoreboard {
    let mut board = Scoreboard::default();
    for i in 0..segments {
        board.push(i * u64::from(MSS), MSS, false, Time::from_nanos(i));
    }
    board
}

#[test]
fn three_blocks_or_over_two_segments_mark_a_loss() {
    let mut b = board(10);
    b.sack(100, 200, |_| {});
    b.sack(300, 400, |_| {});
    b.mark_lost_by_sack(MSS);
    assert_eq!((b.pipe(), b.waiting()), (800, 0));
    b.sack(500, 600, |_| {});
    b.mark_lost_by_sack(MSS);
    // Only segment 0 is below the third block from the top.
    assert_eq!(b.next_lost(), Some(0));
    assert_eq!(b.pipe(), 600);
    let mut b = board(10);
    b.sack(400, 700, |_| {});
    b.mark_lost_by_sack(MSS);
    assert_eq!(b.pipe(), 300); // four lost, three sacked
    b.check();
}

#[test]
fn memory_is_released_after_a_loss() {
    let mut b = board(4000);
    b.sack(100, 200, |_| {});
    b.acknowledge(390_000);
    assert_eq!(b.segments.len(), 100);
    assert!((200..400).contains(&b.segments.capacity()), "{}", b.segments.capacity());
    // A list that uses more than a quarter of its memory keeps it.
    let before = b.segments.capacity();
    b.sack(391_000, 391_100, |_| {});
    b.acknowledge(394_000);
    assert_eq!((b.segments.len(), b.segments.capacity()), (60, before));
    b.check();
}

#[test]
fn a_retransmission_counts_in_the_pipe_again() {
    let mut b = board(5);
    b.sack(100, 500, |_| {});
    b.mark_lost_by_sack(MSS);
    assert_eq!(b.pipe(), 0);
    b.retransmitted(0, Time::from_nanos(9));
    assert_eq!((b.pipe(), b.next_lost()), (100, None));
    let acked = b.acknowledge(500);
    assert_eq!((b.pipe(), acked.delivered), (0, 100));
    // Karn's algorithm: the retransmitted segment gives no sample. The others arrived long before this
    // acknowledgement.
    assert_eq!((acked.oldest, acked.newest), (None, None));
}

#[test]
fn data_sacked_earlier_gives_no_sample() {
    let mut b = board(3);
    b.sack(100, 200, |_| {});
    b.acknowledge(100);
    assert_eq!(b.acknowledge(200).oldest, None);
    assert_eq!(b.acknowledge(300).oldest, Some(Time::from_nanos(2)));
}

#[test]
fn a_timeout_after_reneging_forgets_every_sack() {
    let mut b = board(3);
    b.sack(0, 100, |_| {});
    b.mark_all_lost();
    assert_eq!((b.sacked_bytes(), b.next_lost()), (0, Some(0)));
    b.check();
}

#[test]
fn restored_segment_is_in_flight_and_may_be_lost() {
    let mut b = board(6);
    b.sack(400, 600, |_| {});
    b.mark_all_lost();
    b.retransmitted(0, Time::from_nanos(50));
    let left: Vec<_> = b.restore().iter().map(|&(at, start)| (at.as_nanos(), start)).collect();
    assert_eq!(left, [(1, 100), (2, 200), (3, 300)]);
    assert_eq!((b.pipe(), b.waiting(), b.next_lost()), (400, 0, None));
    b.check();
    b.mark_lost_below(300);
    assert_eq!((b.pipe(), b.waiting(), b.next_lost()), (100, 300, Some(0)));
    b.check();
}

#[test]
fn partial_acknowledgement_shortens_first_segment() {
    let mut b = board(2);
    b.acknowledge(30);
    assert_eq!((b.pipe(), b.front().map(|s| (s.start, s.len))), (170, Some((30, 70))));
    b.check();
}

#[test]
fn too_long_segment_is_cut_and_waits_for_resending() {
    let mut b = board(4);
    b.push(400, 31, true, Time::from_nanos(4));
    b.sack(100, 200, |_| {});
    // 331 bytes are in flight. Segments of 100 bytes are cut into 40, 40 and 20; the last 30 with their FIN fit
    // uncut.
    assert!(b.resegment(40, 0));
    assert_eq!((b.pipe(), b.waiting()), (31, 300));
    let cut: Vec<_> = (0..11).map(|i| (b.get(i).start, b.get(i).len)).collect();
    let expected = [0, 40, 80, 100, 200, 240, 280, 300, 340, 380, 400];
    assert!(cut.iter().map(|c| c.0).eq(expected), "{cut:?}");
    assert_eq!(b.next_lost(), Some(0));
    b.check();
    assert!(!b.resegment(40, 0), "nothing is left to cut");
    b.resegment(20, 400);
    assert_eq!(b.get(0).len, 40, "before the offset nothing is cut");
    assert_eq!((b.get(b.index_of(400)).len, b.get(b.index_of(420)).fin), (20, true));
    b.check();
}

#[test]
fn partly_acknowledged_segment_stays_in_flight() {
    let mut b = board(3);
    let acked = b.acknowledge(30);
    assert_eq!(acked.latest, Some((Time::from_nanos(0), 30, false)));
    assert_eq!(b.in_flight_since(0, Time::from_nanos(0)), Some(0));
    assert_eq!(b.in_flight_since(0, Time::from_nanos(1)), None);
    b.mark_lost(0);
    assert_eq!(b.in_flight_since(0, Time::from_nanos(0)), None);
}

#[test]
fn sack_inside_a_segment_cuts_it() {
    let mut b = board(10);
    let mut news = Vec::new();
    b.sack(150, 500, |sent| news.push((sent.start, sent.len)));
    assert_eq!(news, [(150, 50), (200, 100), (300, 100), (400, 100)]);
    b.mark_lost_by_sack(MSS);
    assert_eq!((b.pipe(), b.waiting()), (500, 150));
    for index in [0, 1] {
        b.retransmitted(index, Time::from_nanos(20));
    }
    b.sack(600, 1000, |_| {});
    b.mark_lost_by_sack(MSS);
    // Bytes 500 to 600 are marked lost now, and the two retransmissions are in flight.
    assert_eq!((b.pipe(), b.waiting(), b.next_lost()), (150, 100, Some(6)));
    b.check();
}

#[test]
fn parts_of_a_segment_keep_its_transmission_time() {
    let mut b = board(3);
    let sent = Time::from_nanos(1);
    b.sack(130, 150, |_| {});
    b.sack(160, 180, |_| {});
    let mut found = Vec::new();
    while let Some(index) = b.in_flight_since(100, sent) {
        found.push((b.get(index).start, b.get(index).len));
        b.mark_lost(index);
    }
    assert_eq!(found, [(100, 30), (150, 10), (180, 20)]);
    b.check();
}

#[test]
fn cuts_are_bounded() {
    let mut b = board(1);
    b.push(100, 50_000, false, Time::from_nanos(1));
    for at in 0..20_000 {
        b.sack(100 + 2 * at, 101 + 2 * at, |_| {});
    }
    assert!(b.segments.len() <= 2 + MAX_CUTS as usize, "{}", b.segments.len());
    b.check();
    b.acknowledge(50_100);
    assert_eq!((b.pipe(), b.cuts), (0, 0));
}

proptest! {
    #[test]
    fn counters_match_the_segments(steps in prop::collection::vec((0_u8..8, 0_u64..40, 1_u64..12), 1..80)) {
        let mut b = board(4);
        let mut next = 4;
        let mut acked = 0;
        for (kind, at, len) in steps {
            let now = Time::from_nanos(next);
            match kind {
                0 => {
                    b.push(next * 100, MSS, false, now);
                    next += 1;
                }
                1 => {
                    acked = (acked + at * 25).min(next * 100);
                    b.acknowledge(acked);
                }
                2 => {
                    let left = acked + at * 50;
                    let right = (left + len * 100).min(next * 100);
                    if left < right {
                        b.sack(left, right, |_| {});
                    }
                }
                3 => b.mark_lost_by_sack(MSS),
                4 => b.mark_all_lost(),
                6 => drop(b.resegment(20 + len as u32 * 8, acked + at * 25)),
                7 => drop(b.restore()),
                _ => {
                    if let Some(i) = b.next_lost() {
                        b.retransmitted(i, now);
                    }
                }
            }
            b.check();
        }
    }
}
