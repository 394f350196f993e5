//! Durations to fractions of a nanosecond.

use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;

/// A duration in units of 2^-16 ns. At 100 Gbit/s an acknowledgement takes 3.2 ns: rounded to whole
/// nanoseconds for each packet, it would take 4, and the link would carry 80 Gbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fine(u64);

/// Bits of the fraction of a nanosecond.
const FRACTION_BITS: u32 = 16;
/// A nanosecond in units of this type.
const NANOSECOND: u64 = 1 << FRACTION_BITS;

impl Fine {
    pub const ZERO: Self = Self(0);

    /// The duration of a transmission that never ends; adding a nanosecond does not overflow.
    const ENDLESS: u64 = u64::MAX >> 1;

    /// The transmission time of `bytes`, rounded; at most two days.
    pub fn to_send(rate: Rate, bytes: u32) -> Self {
        let bits_per_second = u128::from(rate.bits_per_second());
        if bits_per_second == 0 {
            return Self(Self::ENDLESS);
        }
        let exact = u128::from(bytes) * 8_000_000_000 * u128::from(NANOSECOND);
        let units = (exact + bits_per_second / 2) / bits_per_second;
        Self(u64::try_from(units).unwrap_or(Self::ENDLESS).min(Self::ENDLESS))
    }

    /// End of this duration, which begins `early` units before `at`: the next whole nanosecond, and its distance to
    /// the exact time.
    #[inline]
    pub fn after(self, at: Time, early: u16) -> (Time, u16) {
        let early = u64::from(early);
        let nanos = (self.0 + (NANOSECOND - 1) - early) >> FRACTION_BITS;
        // `at` is a whole number of nanoseconds and does not change the fraction.
        (at + Duration::from_nanos(nanos), early.wrapping_sub(self.0) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_nanoseconds_accumulate() {
        for (rate, bytes) in
            [(100_000_000_000, 40), (45_000_000, 1500), (7_000_000, 1), (999_999_999_999, 41)]
        {
            let time = Fine::to_send(Rate::from_bits_per_second(rate), bytes);
            let mut point = (Time::ZERO, 0);
            for _ in 0..1000 {
                point = time.after(point.0, point.1);
            }
            let exact = f64::from(bytes) * 8e12 / rate as f64;
            let found = point.0.as_nanos() as f64 - f64::from(point.1) / 65536.0;
            assert!((found - exact).abs() < 0.01, "{rate}: {found} for {exact}");
        }
    }

    #[test]
    fn whole_nanoseconds_have_no_fraction() {
        let millisecond = Fine::to_send(Rate::from_bits_per_second(12_000_000), 1500);
        let moment = Time::from_nanos(5);
        assert_eq!(millisecond.after(moment, 0), (Time::from_nanos(1_000_005), 0));
        // The start has a fraction of a nanosecond (0x4000 is a quarter), and so has the duration in the next two
        // lines.
        assert_eq!(millisecond.after(moment, 0x4000), (Time::from_nanos(1_000_005), 0x4000));
        assert_eq!(Fine(0x8000).after(moment, 0x4000), (Time::from_nanos(6), 0xc000));
        assert_eq!(Fine(0x4000).after(moment, 0x8000), (moment, 0x4000));
        assert_eq!(Fine::to_send(Rate::from_bits_per_second(0), 1).after(Time::MAX, 0).0, Time::MAX);
    }
}
