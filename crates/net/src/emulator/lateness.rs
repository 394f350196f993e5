//! Lateness of packets, and detection of overload.

use anabranch_base::time::{Duration, Time};
use anabranch_scenario::measure::Histogram;
use anabranch_scenario::result::LatenessResult;

/// A packet that is delivered later than this is late: the transmission time of 1500 bytes at 12
/// Mbit/s.
pub const MAX_LATENESS: Duration = Duration::from_millis(1);

/// Maximum share of late packets; with more, the machine was overloaded.
const MAX_LATE_SHARE: f64 = 0.01;

/// Delays of packets after their due time.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    histogram: Histogram,
    packets: u64,
    late: u64,
    max: Duration,
}

impl Lateness {
    /// Adds a packet that was due at `due` and is delivered at `now`.
    pub fn add(&mut self, due: Time, now: Time) {
        let lateness = now.since(due);
        self.histogram.add(lateness, 1);
        self.packets += 1;
        self.late += u64::from(lateness > MAX_LATENESS);
        self.max = self.max.max(lateness);
    }

    /// The lateness in the form of results. `lost` is the number of packets that the kernel dropped because
    /// the emulator did not read them in time.
    pub fn result(&self, lost: u64) -> LatenessResult {
        let quantile = |q| self.histogram.quantile_s(q).unwrap_or_default();
        let late = self.late as f64 / self.packets.max(1) as f64;
        LatenessResult {
            packets: self.packets,
            mean_s: self.histogram.mean_s().unwrap_or_default(),
            p50_s: quantile(0.5),
            p99_s: quantile(0.99),
            max_s: self.max.as_secs_f64(),
            late_share: late,
            lost,
            overloaded: late > MAX_LATE_SHARE || lost > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_or_lost_packets_are_an_overload() {
        let mut lateness = Lateness::default();
        let at = |micros| Time::ZERO + Duration::from_micros(micros);
        for packet in 0..199 {
            lateness.add(at(packet), at(packet + 20));
        }
        lateness.add(at(300), at(2300));
        let result = lateness.result(0);
        assert_eq!((result.packets, result.late_share, result.overloaded), (200, 0.005, false));
        assert!((result.mean_s - 29.9e-6).abs() < 1e-12 && (result.max_s - 2e-3).abs() < 1e-12);
        assert!((result.p50_s / 20e-6 - 1.0).abs() < 0.01);
        assert!(lateness.result(1).overloaded);
        for _ in 0..2 {
            lateness.add(at(300), at(2300));
        }
        assert!(lateness.result(0).overloaded);
        assert!(!Lateness::default().result(0).overloaded);
    }
}
