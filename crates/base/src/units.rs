//! Units as types: a rate is in bits per second and is converted to bytes explicitly.

use crate::time::Duration;

/// A transmission rate in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Rate(u64);

impl Rate {
    /// `bits` per second.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// The time to transmit `bytes` at this rate, rounded up to a nanosecond. With a rate of zero it is
    /// [`Duration::MAX`].
    pub fn time_to_send(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let Some(product) = bytes.checked_mul(8_000_000_000) else {
            let nanos = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0));
            return Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        };
        Duration::from_nanos(product.div_ceil(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_at_ten_megabit_takes_computed_time() {
        let rate = Rate::from_bits_per_second(10_000_000);
        assert_eq!(rate.time_to_send(1500), Duration::from_micros(1200));
        assert_eq!(Rate::from_bits_per_second(3).time_to_send(1), Duration::from_nanos(2_666_666_667));
        assert_eq!(Rate::from_bits_per_second(0).time_to_send(1), Duration::MAX);
        assert_eq!(Rate::from_bits_per_second(8).time_to_send(u64::MAX), Duration::MAX);
    }
}
