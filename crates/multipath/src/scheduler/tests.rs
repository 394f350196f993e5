use super::*;

fn path(id: u8, cwnd: u64, rtt_ms: u64) -> PathState {
    PathState {
        id: PathId(id),
        usable: true,
        backup: false,
        cwnd,
        outstanding: 0,
        queueable: cwnd,
        srtt: Some(Duration::from_millis(rtt_ms)),
        mss: 1000,
    }
}

const OFFER: Offer = Offer { now: Time::ZERO, bytes: 1000, window: 64_000 };

fn choices(name: &str, paths: &[PathState], n: usize) -> Vec<i32> {
    let mut scheduler = (find(name).unwrap().build)();
    (0..n)
        .map(|_| match scheduler.select(&OFFER, paths) {
            Decision::Send(id) => i32::from(id.0),
            Decision::Wait => -1,
        })
        .collect()
}

#[test]
fn every_scheduler_waits_without_room_data_or_window_and_never_picks_an_ineligible_path() {
    for entry in SCHEDULERS {
        let mut scheduler = (entry.build)();
        assert_eq!(scheduler.name(), entry.name);
        assert!(!entry.summary.is_empty() && !entry.source.is_empty());
        assert_eq!(scheduler.select(&OFFER, &[]), Decision::Wait, "{}", entry.name);
        let full = PathState { queueable: 0, ..path(0, 9000, 1) };
        let failed = PathState { usable: false, ..path(1, 9000, 1) };
        let backup = PathState { backup: true, ..path(2, 9000, 1) };
        assert_eq!(scheduler.select(&OFFER, &[full, failed]), Decision::Wait, "{}", entry.name);
        // A regular path lives, even if it is full: the backup stays out.
        assert_eq!(scheduler.select(&OFFER, &[full, failed, backup]), Decision::Wait, "{}", entry.name);
        assert_eq!(scheduler.select(&OFFER, &[failed, backup]), Decision::Send(PathId(2)), "{}", entry.name);
        let open = [path(3, 9000, 1)];
        assert_eq!(scheduler.select(&Offer { bytes: 0, ..OFFER }, &open), Decision::Wait);
        assert_eq!(scheduler.select(&Offer { window: 0, ..OFFER }, &open), Decision::Wait);
        assert_eq!(scheduler.select(&OFFER, &open), Decision::Send(PathId(3)));
    }
}

#[test]
fn names_are_unique_and_found() {
    for (i, entry) in SCHEDULERS.iter().enumerate() {
        assert!(core::ptr::eq(find(entry.name).unwrap(), &raw const SCHEDULERS[i]));
    }
    assert!(find("fastest").is_none());
}

#[test]
fn lowest_rtt_prefers_the_fast_path_and_a_measured_one() {
    let unmeasured = PathState { srtt: None, ..path(2, 9000, 1) };
    assert_eq!(choices("lowest-rtt", &[unmeasured, path(0, 9000, 30), path(1, 9000, 20)], 2), [1, 1]);
    let full = PathState { queueable: 0, ..path(1, 9000, 20) };
    assert_eq!(choices("lowest-rtt", &[unmeasured, path(0, 9000, 30), full], 1), [0]);
    assert_eq!(choices("lowest-rtt", &[unmeasured], 1), [2]);
    assert_eq!(
        choices("lowest-rtt", &[path(4, 1, 20), path(1, 1, 20)], 1),
        [4],
        "the first listed wins a tie"
    );
}

#[test]
fn round_robin_takes_turns_and_passes_over() {
    assert_eq!(choices("round-robin", &[path(0, 1, 1), path(2, 1, 1), path(5, 1, 9)], 5), [0, 2, 5, 0, 2]);
    let full = PathState { queueable: 0, ..path(2, 1, 1) };
    assert_eq!(choices("round-robin", &[path(0, 1, 1), full, path(5, 1, 9)], 4), [0, 5, 0, 5]);
}

#[test]
fn weighted_interleaves_by_rate() {
    // 30 kB / 10 ms against 10 kB / 10 ms: three packets to one.
    assert_eq!(choices("weighted", &[path(0, 30_000, 10), path(1, 10_000, 10)], 8), [0, 0, 1, 0, 0, 0, 1, 0]);
    // An unmeasured path gets an average share: a third of three packets.
    let unmeasured = PathState { srtt: None, ..path(2, 1, 1) };
    let taken = choices("weighted", &[path(0, 30_000, 10), path(1, 10_000, 10), unmeasured], 300);
    let count = |id| taken.iter().filter(|&&t| t == id).count();
    assert_eq!((count(0), count(1), count(2)), (150, 50, 100));
    // With no measurement at all, all are equal.
    let blank = |id| PathState { srtt: None, ..path(id, 1, 1) };
    assert_eq!(choices("weighted", &[blank(0), blank(1)], 4), [0, 1, 0, 1]);
}

#[test]
fn only_redundant_duplicates() {
    for entry in SCHEDULERS {
        assert_eq!((entry.build)().duplicates(), entry.name == "redundant");
    }
    assert_eq!(choices("redundant", &[path(0, 1, 30)], 1), [0]);
}
