//! Theorems about times ([method](anabranch_proof)).

use crate::time::{Duration, Time};
use anabranch_proof::theorem;

theorem! {
    /// For all times and durations, a sum is never earlier, and `since` returns the duration unless the sum is
    /// [`Time::MAX`].
    fn sum_of_time_and_duration_is_not_earlier(time: u64, duration: u64) {
        let (time, duration) = (Time::from_nanos(time), Duration::from_nanos(duration));
        let sum = time + duration;
        assert!(sum >= time);
        assert!(sum.since(time) == duration || sum == Time::MAX);
    }
}

theorem! {
    /// For all times, the difference is exact in one order and zero in the other.
    fn differences_of_times_are_exact_or_zero(one: u64, other: u64) {
        let (one, other) = (Time::from_nanos(one), Time::from_nanos(other));
        assert!(other + one.since(other) == one.max(other));
        assert!(one.since(other) == Duration::ZERO || other.since(one) == Duration::ZERO);
    }
}
