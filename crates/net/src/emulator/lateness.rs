//! How late packets came out, and whether that was too late.

use anabranch_base::time::{Duration, Time};
use anabranch_scenario::measure::Histogram;
use anabranch_scenario::result::LatenessResult;

/// A packet that comes out later than this is late: what a link of 12 Mbit/s takes for a packet of 1500 bytes.
pub const LATE: Duration = Duration::from_millis(1);

/// The share of late packets above which the machine did not keep up.
const MOST_LATE: f64 = 0.01;

/// How much later than due packets were handed out.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    histogram: Histogram,
    packets: u64,
    late: u64,
    max: Duration,
}

impl Lateness {
    /// A packet that was due at one moment is handed out at another.
    pub fn add(&mut self, due: Time, now: Time) {
        let lateness = now.since(due);
        self.histogram.add(lateness, 1);
        self.packets += 1;
        self.late += u64::from(lateness > LATE);
        self.max = self.max.max(lateness);
    }

    /// What it comes to; `lost` packets had no room before the emulator took them.
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
            overloaded: late > MOST_LATE || lost > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_one_late_packet_in_a_hundred_is_an_overload_and_so_is_a_lost_one() {
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
