//! Quality of calls: R. G. Cole, J. H. Rosenbluth: Voice over IP Performance Monitoring, ACM SIGCOMM CCR 31(2), 2001.

use anabranch_base::time::Duration;

/// A codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// ITU-T G.711.
    G711,
    /// ITU-T G.729.
    G729,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Voice {
    /// Its codec.
    pub codec: Codec,
    /// Time for which its receiver holds the first datagram.
    pub playout: Duration,
}

/// The rating of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rating {
    /// The transmission rating R.
    pub r: f64,
    /// The mean opinion score, from 1 to 4.5.
    pub mos: f64,
}

impl Rating {
    /// The rating for a delay from mouth to ear, and a share of lost datagrams.
    pub fn new(codec: Codec, delay: Duration, lost_share: f64) -> Self {
        let millis = delay.as_secs_f64() * 1e3;
        let delay_impairment = 0.024 * millis + 0.11 * (millis - 177.3).max(0.0);
        let equipment_impairment = match codec {
            Codec::G711 => 30.0 * libm::log(1.0 + 15.0 * lost_share),
            Codec::G729 => 11.0 + 40.0 * libm::log(1.0 + 10.0 * lost_share),
        };
        let r = 94.2 - delay_impairment - equipment_impairment;
        // The polynomial holds for R from 0 to 100, and rises again below.
        let held = r.clamp(0.0, 100.0);
        let mos = 1.0 + 0.035 * held + 7e-6 * held * (held - 60.0) * (100.0 - held);
        Self { r, mos: mos.clamp(1.0, 4.5) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_equal_five_cases_computed_by_hand() {
        // Codec, delay in ms, share lost; R and MOS, each worked by hand with ln 1.15 = 0.139762, ln 1.3 = 0.262364,
        // ln 1.1 = 0.095310, ln 1.5 = 0.405465 and ln 16 = 2.772589.
        for (codec, millis, lost, r, mos) in [
            // 94.2 - 2.4
            (Codec::G711, 100, 0.0, 91.8, 4.3806),
            // 94.2 - 4.8 - 0.11 * 22.7 - 30 * 0.139762
            (Codec::G711, 200, 0.01, 82.71014, 4.1222),
            // 94.2 - 3.6 - 11 - 40 * 0.095310
            (Codec::G729, 150, 0.01, 75.78759, 3.8554),
            // 94.2 - 9.6 - 0.11 * 222.7 - 11 - 40 * 0.405465
            (Codec::G729, 400, 0.05, 32.88440, 1.7320),
            // 94.2 - 24 - 0.11 * 822.7 - 30 * 2.772589: below 0
            (Codec::G711, 1000, 1.0, -103.47466, 1.0),
        ] {
            let found = Rating::new(codec, Duration::from_millis(millis), lost);
            assert!((found.r - r).abs() < 1e-4, "{codec:?} {millis} {lost}: {found:?}");
            assert!((found.mos - mos).abs() < 2e-4, "{codec:?} {millis} {lost}: {found:?}");
        }
    }
}
