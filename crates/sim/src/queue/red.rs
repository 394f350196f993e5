//! Random early detection: S. Floyd, V. Jacobson: Random Early Detection Gateways for Congestion Avoidance,
//! IEEE/ACM Transactions on Networking 1(4), 1993, figure 2.

use super::{Arrival, Verdict};
use crate::link::Cause;
use crate::scenario::model::QueueLimit;
use multipath::rng::Rng;
use multipath::time::Duration;
use wire::Ecn;

/// Name and description.
pub(super) const ENTRY: (&str, &str) = (
    "red",
    "random early detection on the average length (`min`, `max`, `max_p`, `w_q`), dropping or marking (`ecn`)",
);

/// While a link is idle the average decays as if packets of this size had passed, bytes.
pub const MEAN_PACKET: u32 = 1000;

/// What random early detection is set to.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Capacity; `min` and `max` are in its unit.
    pub limit: QueueLimit,
    /// Average length below which nothing is dropped.
    pub min: f64,
    /// Average length from which everything is dropped.
    pub max: f64,
    /// Drop probability as the average reaches `max`.
    pub max_p: f64,
    /// Weight of a sample in the average.
    pub weight: f64,
    /// Mark ECN-capable packets instead of dropping them early.
    pub ecn: bool,
    /// How long a packet of [`MEAN_PACKET`] bytes takes to leave.
    pub typical: Duration,
    /// Largest packet, bytes: with a limit in bytes, smaller packets are dropped in proportion less often.
    pub mtu: u32,
}

/// The state of random early detection.
#[derive(Clone, Debug)]
pub struct Red {
    parameters: Parameters,
    average: f64,
    /// Packets since the last drop while the average is between the thresholds; −1 while it is below.
    count: i64,
    rng: Rng,
}

impl Red {
    /// Starts with an average of zero.
    pub fn new(parameters: Parameters, rng: Rng) -> Self {
        Self { parameters, average: 0.0, count: -1, rng }
    }

    /// The average queue length, in the unit of the limit.
    pub const fn average(&self) -> f64 {
        self.average
    }

    /// The link's rate changed.
    pub fn set_typical(&mut self, typical: Duration) {
        self.parameters.typical = typical;
    }

    /// What happens to an arriving packet.
    pub fn admit(&mut self, arrival: &Arrival) -> Verdict {
        self.update_average(arrival);
        if arrival.overflows(self.parameters.limit) {
            self.count = 0;
            return Verdict::Drop(Cause::Queue);
        }
        let Parameters { min, max, ecn, .. } = self.parameters;
        if self.average < min {
            self.count = -1;
            return Verdict::Accept;
        }
        if self.average >= max {
            self.count = 0;
            // RFC 3168 §7: above the upper threshold packets are dropped even if they could be marked.
            return Verdict::Drop(Cause::Red);
        }
        self.count += 1;
        if !self.picks(arrival.len) {
            return Verdict::Accept;
        }
        self.count = 0;
        if ecn && arrival.ecn != Ecn::NotEct { Verdict::Mark } else { Verdict::Drop(Cause::Red) }
    }

    fn update_average(&mut self, arrival: &Arrival) {
        let weight = self.parameters.weight;
        if let Some(idle) = arrival.idle {
            // While the link was idle, m small packets could have passed an empty queue.
            let typical = self.parameters.typical.as_nanos().max(1);
            let m = idle.as_nanos() as f64 / typical as f64;
            self.average *= libm::pow(1.0 - weight, m);
        }
        let length = match self.parameters.limit {
            QueueLimit::Packets(_) => arrival.packets,
            QueueLimit::Bytes(_) => arrival.bytes,
        };
        self.average += weight * (length as f64 - self.average);
    }

    /// Whether the packet is picked, so that the gaps between picked packets are uniform (the paper's method 2).
    fn picks(&mut self, len: u32) -> bool {
        let Parameters { min, max, max_p, mtu, limit, .. } = self.parameters;
        let mut p = max_p * (self.average - min) / (max - min);
        if matches!(limit, QueueLimit::Bytes(_)) {
            p *= f64::from(len) / f64::from(mtu.max(1));
        }
        let passed = self.count as f64 * p;
        if passed >= 1.0 {
            return true;
        }
        self.rng.chance(p / (1.0 - passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multipath::time::Time;

    fn red(weight: f64, ecn: bool) -> Red {
        let parameters = Parameters {
            limit: QueueLimit::Packets(100),
            min: 30.0,
            max: 90.0,
            max_p: 0.1,
            weight,
            ecn,
            typical: Duration::from_millis(1),
            mtu: 1500,
        };
        Red::new(parameters, Rng::new(5))
    }

    fn arrival(packets: u64, idle: Option<Duration>) -> Arrival {
        Arrival { now: Time::ZERO, len: 1500, ecn: Ecn::Ect0, packets, bytes: packets * 1500, idle }
    }

    #[test]
    fn the_average_by_hand() {
        let mut red = red(0.5, false);
        red.admit(&arrival(8, None));
        assert!((red.average() - 4.0).abs() < 1e-12);
        red.admit(&arrival(8, None));
        assert!((red.average() - 6.0).abs() < 1e-12);
        // Two typical packets' time idle: 6 · 0.5² = 1.5, then the arrival at an empty queue: 0.75.
        red.admit(&arrival(0, Some(Duration::from_millis(2))));
        assert!((red.average() - 0.75).abs() < 1e-12);
    }

    #[test]
    fn below_min_everything_passes_and_above_max_nothing() {
        let mut red = red(1.0, true);
        assert!((0..1000).all(|_| red.admit(&arrival(29, None)) == Verdict::Accept));
        assert!((0..1000).all(|_| red.admit(&arrival(90, None)) == Verdict::Drop(Cause::Red)));
        assert_eq!(red.admit(&arrival(100, None)), Verdict::Drop(Cause::Queue));
    }

    #[test]
    fn gaps_between_drops_are_uniform() {
        // At an average of 60, p = 0.05. The paper counts the first packet after a drop as 1, so that it goes with
        // p/(1 − p) = 1/19, and the gaps are uniform on 1..=19 with a mean of 10.
        let mut red = red(1.0, false);
        let mut gaps = Vec::new();
        let mut gap = 0_u32;
        for _ in 0..200_000 {
            gap += 1;
            if red.admit(&arrival(60, None)) != Verdict::Accept {
                gaps.push(gap);
                gap = 0;
            }
        }
        // The very first gap starts from a count of −1 and may be one longer.
        assert!(gaps.iter().skip(1).all(|&g| g <= 19), "{:?}", gaps.iter().max());
        let mean = gaps.iter().map(|&g| f64::from(g)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 10.0).abs() < 0.2, "{mean}");
        for length in 1..=19 {
            let share = gaps.iter().filter(|&&g| g == length).count() as f64 / gaps.len() as f64;
            assert!((share - 1.0 / 19.0).abs() < 0.008, "gap {length}: {share}");
        }
    }

    #[test]
    fn marks_where_it_may() {
        let mut red = red(1.0, true);
        let verdicts: Vec<Verdict> = (0..1000).map(|_| red.admit(&arrival(60, None))).collect();
        assert!(verdicts.contains(&Verdict::Mark) && !verdicts.contains(&Verdict::Drop(Cause::Red)));
        let plain = Arrival { ecn: Ecn::NotEct, ..arrival(60, None) };
        assert!((0..1000).any(|_| red.admit(&plain) == Verdict::Drop(Cause::Red)));
    }
}
