use super::*;

fn path(id: u8, cwnd: u64, rtt_ms: u64) -> PathState {
    PathState::new(PathId(id), cwnd, Duration::from_millis(rtt_ms))
}

/// Returns the path with a full window.
fn filled(path: PathState) -> PathState {
    PathState { queueable: 0, outstanding: path.cwnd, queued: path.cwnd, ..path }
}

const OFFER: Offer =
    Offer { now: Time::ZERO, bytes: 1000, window: 64_000, send_window: 64_000, repeated: false };

/// Returns a scheduler's decision about an offer as the number of the path, or -1 for no path.
fn choice(scheduler: &mut dyn Scheduler, offer: &Offer, paths: &[PathState]) -> i32 {
    match scheduler.select(offer, paths) {
        Decision::Send(id) => i32::from(id.0),
        Decision::Wait => -1,
    }
}

fn choices(name: &str, paths: &[PathState], n: usize) -> Vec<i32> {
    let mut scheduler = (find(name).unwrap().build)();
    (0..n).map(|_| choice(&mut *scheduler, &OFFER, paths)).collect()
}

#[test]
fn schedulers_never_select_an_ineligible_path() {
    for entry in SCHEDULERS {
        let mut scheduler = (entry.build)();
        assert_eq!(scheduler.name(), entry.name);
        assert!(!entry.summary.is_empty() && !entry.source.is_empty());
        assert_eq!(scheduler.select(&OFFER, &[]), Decision::Wait, "{}", entry.name);
        let full = PathState { queueable: 0, ..path(0, 9000, 1) };
        let failed = PathState { usable: false, ..path(1, 9000, 1) };
        let backup = PathState { backup: true, ..path(2, 9000, 1) };
        assert_eq!(scheduler.select(&OFFER, &[full, failed]), Decision::Wait, "{}", entry.name);
        // The regular path is usable, even though its window is full, so the backup stays unused.
        assert_eq!(scheduler.select(&OFFER, &[full, failed, backup]), Decision::Wait, "{}", entry.name);
        assert_eq!(scheduler.select(&OFFER, &[failed, backup]), Decision::Send(PathId(2)), "{}", entry.name);
        let open = [path(3, 9000, 1)];
        assert_eq!(scheduler.select(&Offer { bytes: 0, ..OFFER }, &open), Decision::Wait);
        assert_eq!(scheduler.select(&Offer { window: 0, ..OFFER }, &open), Decision::Wait);
        assert_eq!(scheduler.select(&OFFER, &open), Decision::Send(PathId(3)));
    }
}

#[test]
fn names_are_unique_and_are_found() {
    for (i, entry) in SCHEDULERS.iter().enumerate() {
        assert!(core::ptr::eq(find(entry.name).unwrap(), &raw const SCHEDULERS[i]));
    }
    assert!(find("fastest").is_none());
}

#[test]
fn lowest_rtt_prefers_fast_and_measured_paths() {
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
fn round_robin_alternates_and_skips_full_paths() {
    assert_eq!(choices("round-robin", &[path(0, 1, 1), path(2, 1, 1), path(5, 1, 9)], 5), [0, 2, 5, 0, 2]);
    let full = PathState { queueable: 0, ..path(2, 1, 1) };
    assert_eq!(choices("round-robin", &[path(0, 1, 1), full, path(5, 1, 9)], 4), [0, 5, 0, 5]);
}

#[test]
fn weighted_interleaves_by_rate() {
    // The rates are 30 kB / 10 ms and 10 kB / 10 ms, so there are three packets on the first path for each on the
    // second.
    assert_eq!(choices("weighted", &[path(0, 30_000, 10), path(1, 10_000, 10)], 8), [0, 0, 1, 0, 0, 0, 1, 0]);
    // A path without a measurement gets a mean share: a third of the packets.
    let unmeasured = PathState { srtt: None, ..path(2, 1, 1) };
    let taken = choices("weighted", &[path(0, 30_000, 10), path(1, 10_000, 10), unmeasured], 300);
    let count = |id| taken.iter().filter(|&&t| t == id).count();
    assert_eq!((count(0), count(1), count(2)), (150, 50, 100));
    // If no path has a measurement, all paths have equal shares.
    let blank = |id| PathState { srtt: None, ..path(id, 1, 1) };
    assert_eq!(choices("weighted", &[blank(0), blank(1)], 4), [0, 1, 0, 1]);
}

#[test]
fn only_redundant_scheduler_duplicates_data() {
    for entry in SCHEDULERS {
        assert_eq!((entry.build)().duplicates(), entry.name == "redundant");
    }
    assert_eq!(choices("redundant", &[path(0, 1, 30)], 1), [0]);
}

#[test]
fn reinjected_data_does_not_wait_for_better_path() {
    let paths = [filled(path(0, 9000, 1)), path(1, 9000, 200)];
    for entry in SCHEDULERS {
        let offer = Offer { repeated: true, ..OFFER };
        assert_eq!(choice(&mut *(entry.build)(), &offer, &paths), 1, "{}", entry.name);
    }
}

#[test]
fn no_scheduler_waits_for_path_with_nothing_in_flight() {
    // A path may have no room although it has no data in flight, because it has used up its share of a buffer.
    let paths = [PathState { queueable: 0, ..path(0, 9000, 1) }, path(1, 9000, 200)];
    for entry in SCHEDULERS {
        assert_eq!(choice(&mut *(entry.build)(), &OFFER, &paths), 1, "{}", entry.name);
    }
}

#[test]
fn blest_uses_slow_path_if_window_suffices() {
    // With r = 5, the fast path sends (10 + 4/2) * 5 = 60 packets meanwhile, and 72 with λ = 1.2. The slow path would
    // occupy 3 packets of the send window.
    let slow = PathState { outstanding: 2000, queueable: 8000, ..path(1, 10_000, 100) };
    let paths = [filled(path(0, 10_000, 20)), slow];
    let (just, short) = (Offer { send_window: 75_000, ..OFFER }, Offer { send_window: 74_999, ..OFFER });
    let mut blest = (find("blest").unwrap().build)();
    assert_eq!((choice(&mut *blest, &just, &paths), choice(&mut *blest, &short, &paths)), (1, -1));
    // When the fast path has room, it is used.
    assert_eq!(choice(&mut *blest, &short, &[path(0, 10_000, 20), slow]), 0);
    // After a round trip of the slow path in which the send window was full, λ rises to 1.24. The next round trip, in
    // which the window was not full, lowers it to 1.23.
    blest.on_blocked();
    let at =
        |millis, send_window| Offer { now: Time::ZERO + Duration::from_millis(millis), send_window, ..OFFER };
    assert_eq!(choice(&mut *blest, &at(99, 75_000), &paths), 1);
    assert_eq!(choice(&mut *blest, &at(100, 77_399), &paths), -1);
    assert_eq!(choice(&mut *blest, &at(100, 77_401), &paths), 1);
    assert_eq!(choice(&mut *blest, &at(200, 76_799), &paths), -1);
    assert_eq!(choice(&mut *blest, &at(200, 76_801), &paths), 1);
    // λ stays between 1.0 and 1.3 in any case.
    for second in 1..100 {
        choice(&mut *blest, &at(1000 * second, 0), &paths);
    }
    assert_eq!(choice(&mut *blest, &at(99_000, 63_001), &paths), 1);
    for second in 100..200 {
        blest.on_blocked();
        choice(&mut *blest, &at(1000 * second, 0), &paths);
    }
    assert_eq!(choice(&mut *blest, &at(199_000, 80_999), &paths), -1);
}

#[test]
fn ecf_waits_if_fastest_path_completes_first() {
    let offer = |bytes| Offer { bytes, ..OFFER };
    let ecf = || (find("ecf").unwrap().build)();
    // The example of the publication: round-trip times of 10 and 100 ms, windows of ten packets, and the eleventh
    // packet. Over the slow path it would arrive at a time at which the fast path could have sent ten windows.
    let paths = [filled(path(0, 10_000, 10)), path(1, 10_000, 100)];
    assert_eq!(choice(&mut *ecf(), &offer(1000), &paths), -1);
    // For 100 packets the fast path needs 11 more round trips, which take longer than one round trip of the slow path.
    // So the slow path is used.
    assert_eq!(choice(&mut *ecf(), &offer(100_000), &paths), 1);

    let paths = [filled(path(0, 10_000, 20)), path(1, 10_000, 100)];
    // (1 + 4.5) * 20 ms = 110 ms. The slow path is used above 100 ms, or above 125 ms if ECF already waits (its
    // hysteresis of 1/4).
    assert_eq!(choice(&mut *ecf(), &offer(45_000), &paths), 1);
    let mut waiting = ecf();
    assert_eq!(choice(&mut *waiting, &offer(10_000), &paths), -1);
    assert_eq!(choice(&mut *waiting, &offer(45_000), &paths), -1);
    assert_eq!(choice(&mut *waiting, &offer(52_500), &paths), 1, "6.25 * 20 ms are 125 ms");
    assert_eq!(choice(&mut *waiting, &offer(45_000), &paths), 1, "the scheduler no longer waits");

    // The deviation δ is a margin on both sides: 3 * 20 ms is compared with 35 ms + δ, and 2 * 35 ms with 40 ms + δ.
    let jittery =
        |rtt_variation| [PathState { rtt_variation, ..filled(path(0, 10_000, 20)) }, path(1, 10_000, 35)];
    assert_eq!(choice(&mut *ecf(), &offer(20_000), &jittery(Duration::from_millis(24))), 1);
    assert_eq!(choice(&mut *ecf(), &offer(20_000), &jittery(Duration::from_millis(26))), -1);
    assert_eq!(choice(&mut *ecf(), &offer(20_000), &jittery(Duration::from_millis(31))), 1);
}

#[test]
fn linux_gives_bursts_to_earliest_completing_path() {
    // The rate of the first path is 1.2 * 20 kB / 20 ms = 1.2 MB/s, that of the second a fifth: 12 kB and 2.4 kB take
    // 10 ms.
    let state = |id, rtt, queued| PathState { queued, ssthresh: 10_000, ..path(id, 20_000, rtt) };
    let linux = || (find("linux").unwrap().build)();
    assert_eq!(choice(&mut *linux(), &OFFER, &[state(0, 20, 12_001), state(1, 100, 2400)]), 1);
    assert_eq!(choice(&mut *linux(), &OFFER, &[state(0, 20, 12_000), state(1, 100, 2401)]), 0);
    // In slow start, the rate is 2 c/RTT, so the 12 kB take 6 ms.
    let starting = |queued| PathState { ssthresh: u64::MAX, ..state(0, 20, queued) };
    assert_eq!(choice(&mut *linux(), &OFFER, &[state(1, 100, 2400), starting(19_999)]), 0);
    assert_eq!(choice(&mut *linux(), &OFFER, &[state(1, 100, 2400), starting(20_001)]), 1);
    // If the congestion control sets a pacing rate, that rate is used.
    let paced =
        PathState { pacing_rate: Some(Rate::from_bits_per_second(8_000_000)), ..state(0, 20, 10_001) };
    assert_eq!(choice(&mut *linux(), &OFFER, &[paced, state(1, 100, 2400)]), 1);

    // A burst is 65 packets and 428 bytes, whatever the queues of the other paths are. It ends early if the path has no
    // room.
    let offer = Offer { bytes: 1_000_000, window: 1_000_000, ..OFFER };
    let mut scheduler = linux();
    assert_eq!(choice(&mut *scheduler, &offer, &[state(0, 20, 0), state(1, 100, 1)]), 0);
    for _ in 1..66 {
        assert_eq!(choice(&mut *scheduler, &offer, &[state(0, 20, 20_000), state(1, 100, 0)]), 0);
    }
    assert_eq!(choice(&mut *scheduler, &offer, &[state(0, 20, 20_000), state(1, 100, 0)]), 1);
    assert_eq!(choice(&mut *scheduler, &offer, &[state(0, 20, 0), filled(state(1, 100, 0))]), 0);

    // The average moves by the share of the burst: with 21809 bytes queued, it moves three quarters of the way from 1
    // MB/s (1.2 * 10 kB / 12 ms) to 2 MB/s, so 17.5 kB take 10 ms. The 240 bytes of the other path also take 10 ms, at
    // 24 kB/s.
    let state = |queued, cwnd| PathState { queued, ssthresh: 0, ..path(0, cwnd, 12) };
    let other = PathState { queued: 240, ssthresh: 0, ..path(1, 2000, 100) };
    let offer = Offer { window: 65_428, ..OFFER };
    let after_two_bursts = |queued| {
        let mut scheduler = linux();
        for of in [state(0, 10_000), state(21_809, 20_000)] {
            for _ in 0..66 {
                assert_eq!(choice(&mut *scheduler, &offer, &[of, filled(other)]), 0);
            }
        }
        choice(&mut *scheduler, &offer, &[state(queued, 20_000), other])
    };
    assert_eq!((after_two_bursts(17_490), after_two_bursts(17_510)), (0, 1));
}

#[test]
fn linux_keeps_no_rate_of_an_unmeasured_path() {
    let state = |id, rtt, queued| PathState { queued, ssthresh: 10_000, ..path(id, 20_000, rtt) };
    let unmeasured = PathState { srtt: None, ..state(0, 20, 0) };
    let mut linux = (find("linux").unwrap().build)();
    let offer = Offer { bytes: 1000, window: 1000, ..OFFER };
    assert_eq!(choice(&mut *linux, &offer, &[unmeasured, state(1, 100, 1)]), 0);
    // From the first round-trip time on, the rate is 1.2 MB/s: 12 kB take as long as 2.4 kB at a fifth of that rate on
    // the other path.
    assert_eq!(choice(&mut *linux, &offer, &[state(0, 20, 12_001), state(1, 100, 2400)]), 1);
}

/// Returns the next piece from a scheduler that places data, for 400 kB of data of which none is acknowledged.
fn placed(scheduler: &mut dyn Scheduler, paths: &[PathState]) -> Option<(u8, u64, u64)> {
    let arrived = RangeSet::default();
    let data = Data { now: Time::ZERO, una: 0, end: 400_000, more: false, arrived: &arrived };
    scheduler.place(&data, paths).map(|piece| (piece.path.0, piece.start, piece.end))
}

#[test]
fn linux_ahead_assigns_data_beyond_windows() {
    // At 1.2 and 0.24 MB/s, bursts of 66 packets take 55 and 275 ms. The first burst is for the first path, the second
    // for the other path, and all further data for the first path, which also needs 275 ms.
    let state = |id, rtt| PathState { ssthresh: 10_000, ..path(id, 20_000, rtt) };
    let (near, far) = (state(0, 20), state(1, 100));
    let mut scheduler = (find("linux-ahead").unwrap().build)();
    assert_eq!(placed(&mut *scheduler, &[near, far]), Some((0, 0, 1000)));
    assert_eq!(placed(&mut *scheduler, &[filled(near), far]), Some((1, 66_000, 67_000)));
    // When the window of a path collapses, no other path sends the data that waits there.
    let collapsed = PathState { cwnd: 2000, ..filled(far) };
    let mut next = 1000;
    while let Some((id, start, end)) = placed(&mut *scheduler, &[near, collapsed]) {
        next = if next == 66_000 { 132_000 } else { next };
        assert_eq!((id, start, end), (0, next, next + 1000));
        next = end;
    }
    assert_eq!(next, 400_000);
    // When that path fails, another path sends the data.
    let failed = PathState { usable: false, ..collapsed };
    assert_eq!(placed(&mut *scheduler, &[near, failed]), Some((0, 67_000, 68_000)));
    // Data that has been acknowledged in the meantime is not sent.
    let arrived = RangeSet::default();
    let data = Data { now: Time::ZERO, una: 131_500, end: 400_000, more: false, arrived: &arrived };
    let last = Piece { path: PathId(0), start: 131_500, end: 132_000, repeated: false };
    assert_eq!(scheduler.place(&data, &[near, failed]), Some(last));
    assert_eq!(scheduler.place(&data, &[near, failed]), None);
}

#[test]
fn linux_ahead_keeps_partial_packets_at_window_end() {
    let arrived = RangeSet::default();
    let mut scheduler = (find("linux-ahead").unwrap().build)();
    let mut end_of = |end, more| {
        let data = Data { now: Time::ZERO, una: 0, end, more, arrived: &arrived };
        scheduler.place(&data, &[path(0, 10_000, 20)]).map(|piece| piece.end)
    };
    assert_eq!([end_of(1500, true), end_of(1500, true)], [Some(1000), None]);
    assert_eq!([end_of(2500, true), end_of(2500, true)], [Some(2000), None]);
    assert_eq!([end_of(2500, false), end_of(2500, false)], [Some(2500), None]);
}

#[test]
fn otias_assigns_packets_for_in_order_arrival() {
    // Windows of ten packets on the near path arrive after 10, 30, 50 ms and so on, those on the far path after 50,
    // 150, 250 ms and so on. So the first three windows are for the near path, which comes first in the list, and the
    // fourth is for the far path. Of each six windows after that, the sixth is for the far path.
    let (near, far) = (path(0, 10_000, 20), path(1, 10_000, 100));
    let mut scheduler = (find("otias").unwrap().build)();
    assert_eq!(placed(&mut *scheduler, &[near, far]), Some((0, 0, 1000)));
    let mut left = |paths: &[PathState]| -> Vec<u64> {
        core::iter::from_fn(|| placed(&mut *scheduler, paths)).map(|(_, start, _)| start / 1000).collect()
    };
    let of_far = left(&[filled(near), far]);
    assert_eq!(of_far, (0..7).flat_map(|round| 30 + 60 * round..40 + 60 * round).collect::<Vec<_>>());
    let of_near = left(&[near, filled(far)]);
    assert_eq!(of_near, (1..400).filter(|packet| !of_far.contains(packet)).collect::<Vec<_>>());
    // The packets leave out of order and would arrive in order.
    let mut arrivals = vec![0; 400];
    for (place, packet) in (1_u64..).zip(of_near) {
        arrivals[packet as usize] = 10 + 20 * (place / 10);
    }
    for (place, packet) in (0_u64..).zip(of_far) {
        arrivals[packet as usize] = 50 + 100 * (place / 10);
    }
    assert!(arrivals.is_sorted(), "{arrivals:?}");
}

#[test]
fn otias_counts_free_window_and_waiting_round_trips() {
    let far = path(1, 10_000, 100);
    let first_of_far = |near: PathState| {
        let mut scheduler = (find("otias").unwrap().build)();
        placed(&mut *scheduler, &[near, far]);
        placed(&mut *scheduler, &[filled(near), far]).map(|(_, start, _)| start)
    };
    // The window has room for two packets. Twenty further packets arrive after at most two and a half round trips.
    let state = |outstanding, rtt| PathState { outstanding, ..path(0, 10_000, rtt) };
    assert_eq!(first_of_far(state(8000, 20)), Some(22_000));
    assert_eq!(first_of_far(state(7001, 20)), Some(22_000), "half a packet counts as a packet");
    assert_eq!(first_of_far(state(10_000, 20)), Some(20_000));
    // One and a half round trips are less than 50 ms if the round-trip time is 33 ms, but more if it is 34 ms.
    assert_eq!((first_of_far(state(0, 33)), first_of_far(state(0, 34))), (Some(20_000), Some(10_000)));
    // A window smaller than a packet counts as one packet. A path without a round-trip time gets no data while another
    // path has one.
    assert_eq!(first_of_far(PathState { cwnd: 10, queueable: 1000, ..state(0, 20) }), Some(3000));
    assert_eq!(
        first_of_far(PathState { srtt: None, ..state(0, 20) }),
        Some(1000),
        "all data up to this offset has been sent"
    );
}

#[test]
fn otias_keeps_assignments_while_path_is_usable() {
    let (near, far) = (path(0, 10_000, 20), path(1, 10_000, 100));
    let mut scheduler = (find("otias").unwrap().build)();
    assert_eq!(placed(&mut *scheduler, &[near, far]), Some((0, 0, 1000)));
    let collapsed = PathState { cwnd: 1000, ..filled(far) };
    let starts = core::iter::from_fn(|| placed(&mut *scheduler, &[near, collapsed])).map(|piece| piece.1);
    assert_eq!(starts.last(), Some(389_000), "the last ten packets are the other path's");
    let failed = PathState { usable: false, ..collapsed };
    assert_eq!(placed(&mut *scheduler, &[near, failed]), Some((0, 30_000, 31_000)));
    // A reinjection is sent on the path with room that would deliver it first. Data queued for this path does not
    // count.
    let offer = Offer { repeated: true, ..OFFER };
    let mut scheduler = (find("otias").unwrap().build)();
    assert_eq!(choice(&mut *scheduler, &offer, &[far, near]), 0);
    assert_eq!(choice(&mut *scheduler, &offer, &[far, filled(near)]), 1);
    assert_eq!(placed(&mut *scheduler, &[near, filled(far)]), Some((0, 0, 1000)));
    assert_eq!(choice(&mut *scheduler, &offer, &[near, PathState { srtt: near.srtt, ..far }]), 1);
}

#[test]
fn strict_variants_wait_for_a_full_window() {
    let slow = path(1, 10_000, 100);
    let fast = filled(path(0, 10_000, 20));
    let recovering = PathState { recovering: true, ..fast };
    let shrunken = PathState { outstanding: 11_000, ..fast };
    for name in ["strict-lowest-rtt", "strict-round-robin"] {
        let state = |fast| choice(&mut *(find(name).unwrap().build)(), &OFFER, &[fast, slow]);
        assert_eq!(state(path(0, 10_000, 20)), 0);
        assert_eq!((state(fast), state(recovering), state(shrunken)), (-1, 1, 1), "{name}");
    }
    // With 8000 outstanding bytes, a window of 10,000 bytes has room for two packets. So another mechanism must forbid
    // to send on the path, and the next path is used. With 9001 bytes there is no room for a packet.
    let refused = PathState { outstanding: 8000, ..fast };
    let almost = PathState { outstanding: 9001, ..fast };
    for name in ["strict-lowest-rtt", "strict-round-robin"] {
        let state = |fast| choice(&mut *(find(name).unwrap().build)(), &OFFER, &[fast, slow]);
        assert_eq!((state(refused), state(almost)), (1, -1), "{name} skips");
    }
    // The turn stays with the path until it has room.
    let mut scheduler = (find("strict-round-robin").unwrap().build)();
    let both = [path(0, 10_000, 20), slow];
    assert_eq!(choice(&mut *scheduler, &OFFER, &both), 0);
    assert_eq!(choice(&mut *scheduler, &OFFER, &[path(0, 10_000, 20), filled(slow)]), -1);
    assert_eq!(choice(&mut *scheduler, &OFFER, &both), 1);
    assert_eq!(choice(&mut *scheduler, &OFFER, &both), 0);
    // A full window on the slower path does not affect the fastest path.
    let mut scheduler = (find("strict-lowest-rtt").unwrap().build)();
    assert_eq!(choice(&mut *scheduler, &OFFER, &[path(0, 10_000, 20), filled(slow)]), 0);
}
