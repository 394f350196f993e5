use super::*;
use proptest::prelude::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A path with a window of 100 kB, of which half is in the queue: 1 MB/s, and a need of 1.25 · 50 kB + 2 kB = 64.5 kB.
const FAST: Demand = Demand {
    held: 10_000,
    window: 100_000,
    smoothed: Some(Duration::from_millis(100)),
    shortest: Duration::from_millis(50),
    mss: 1_000,
};
/// A path with 100 kB/s and a need of 1.25 · 10 kB + 2 kB = 14.5 kB.
const SLOW: Demand = Demand {
    held: 10_000,
    window: 20_000,
    smoothed: Some(Duration::from_millis(200)),
    shortest: Duration::from_millis(100),
    mss: 1_000,
};

/// A buffer that all paths may use.
fn whole(size: u64, demands: &[Demand], in_order: bool) -> Buffer {
    Buffer { size, paths: demands.len() as u32, in_order }
}

fn limits(demands: &[Demand], size: u64, in_order: bool) -> Vec<u64> {
    let mut shares = Shares::default();
    shares.divide(demands, whole(size, demands, in_order));
    (0..demands.len()).map(|at| shares.limit(at)).collect()
}

#[test]
fn rest_beyond_the_needs_is_divided_equally() {
    // 200 − 64.5 − 14.5 = 121 kB.
    assert_eq!(limits(&[FAST, SLOW], 200_000, false), [125_000, 75_000]);
    assert_eq!(
        limits(&[SLOW, FAST], 200_000, false),
        [75_000, 125_000],
        "the order of paths does not matter"
    );
}

#[test]
fn faster_path_has_the_smaller_buffer_alone() {
    // The window cannot exceed the buffer: 50 kB / 100 ms · 50 ms · 1.25 + 2 kB = 33.25 kB for the fast path; the slow
    // path needs 14.5 of the other 16.75 kB.
    assert_eq!(limits(&[FAST, SLOW], 50_000, false), [34_375, 15_625]);
    let busy = Demand { shortest: ms(99), ..FAST };
    let slow = Demand { shortest: ms(101), ..SLOW };
    // 50 · 0.99 · 1.25 kB + 2 kB exceeds the buffer.
    assert_eq!(limits(&[busy, slow], 50_000, false), [50_000, 0]);
}

#[test]
fn ordered_data_reserves_the_faster_paths_data() {
    // While a packet is on the slow path for 100 ms, the fast path sends 100 kB.
    assert_eq!(limits(&[FAST, SLOW], 200_000, true), [125_000, 14_500 + (100_000 - 14_500) / 2]);
    assert_eq!(limits(&[FAST, SLOW], 100_000, true), [100_000, 0]);
    // With 15 kB on the slow path, the last packet takes 150 ms.
    let fuller = Demand { held: 15_000, ..SLOW };
    assert_eq!(limits(&[FAST, fuller], 200_000, true)[1], 14_500 + (50_000 - 14_500) / 2);
}

#[test]
fn path_without_measurement_has_an_equal_part() {
    let unmeasured = Demand { smoothed: None, shortest: Duration::MAX, ..SLOW };
    assert_eq!(limits(&[FAST, unmeasured], 200_000, true), [200_000, 100_000]);
    assert_eq!(limits(&[unmeasured; 4], 200_000, false), [50_000; 4]);
    // Two of the paths are inactive.
    let mut shares = Shares::default();
    shares.divide(&[unmeasured; 4], Buffer { size: 200_000, paths: 2, in_order: false });
    assert_eq!(shares.limit(0), 100_000);
}

#[test]
fn limits_are_infinite_before_the_first_division() {
    let mut shares = Shares::default();
    assert_eq!(shares.limit(0), u64::MAX);
    shares.divide(&[FAST, SLOW], whole(200_000, &[FAST, SLOW], false));
    shares.clear();
    assert_eq!(shares.limit(1), u64::MAX);
}

fn demand() -> impl Strategy<Value = Demand> {
    let smoothed = prop::option::weighted(0.8, 1_u64..5_000);
    (0_u64..1 << 24, 0_u64..1 << 24, smoothed, 1_u64..5_000, 1_u32..9_000).prop_map(
        |(held, window, smoothed, shortest, mss)| Demand {
            held,
            window,
            smoothed: smoothed.map(|millis| ms(millis.max(shortest))),
            shortest: ms(shortest),
            mss,
        },
    )
}

proptest! {
    /// The limits of unordered data do not exceed the buffer, and the fastest path always has a part of it. Earlier
    /// divisions do not change the result.
    #[test]
    fn fastest_path_always_has_a_share(
        before in prop::collection::vec(demand(), 1..9),
        demands in prop::collection::vec(demand(), 1..9),
        size in prop_oneof![1_u64..20_000, Just(8_000_000), Just(u64::MAX)],
        in_order in any::<bool>(),
    ) {
        let found = limits(&demands, size, in_order);
        let mut shares = Shares::default();
        shares.divide(&before, whole(size, &before, !in_order));
        shares.divide(&demands, whole(size, &demands, in_order));
        prop_assert_eq!((0..demands.len()).map(|at| shares.limit(at)).collect::<Vec<_>>(), found.clone());
        let carries = |at: &usize| demands[*at].window > 0 && demands[*at].smoothed.is_some();
        let measured: Vec<usize> = (0..demands.len()).filter(carries).collect();
        if !in_order && size < u64::MAX {
            let sum: u64 = measured.iter().map(|&at| found[at]).sum();
            prop_assert!(sum <= size, "{sum} of {size}");
        }
        if let Some(&fastest) = measured.iter().min_by_key(|&&at| (demands[at].shortest, at)) {
            let least = size.min(2 * u64::from(demands[fastest].mss));
            prop_assert!(found[fastest] >= least, "{} is less than {least}", found[fastest]);
        }
    }
}
