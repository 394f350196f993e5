//! Random early detection: S. Floyd, V. Jacobson: Random Early Detection Gateways for Congestion Avoidance,
//! IEEE/ACM Transactions on Networking 1(4), 1993, figure 2.

use super::{Arrival, Backlog, Queue, QueueLimit};
use crate::keys::{Default, InvalidValues, Key, Keyed, Kind, PROBABILITY, Takes, Value, Values};
use crate::{DropCause, Drops, Frame};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;

/// A threshold: a share of the limit, or a length in its unit.
const THRESHOLD: Takes = Takes::Either(&[PROBABILITY, Takes::Limit]);

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "red",
    summary: "random early detection on the average length (`min`, `max`, `max_p`, `w_q`), dropping or marking (`ecn`)",
    source: "Floyd, Jacobson 1993",
    keys: &[
        QueueLimit::key("\"100 packets\""),
        Key {
            name: "min",
            takes: THRESHOLD,
            default: Default::Is("0.3"),
            doc: "Average length below which no packet is dropped: a share of the limit, or a length in its unit.",
        },
        Key {
            name: "max",
            takes: THRESHOLD,
            default: Default::Is("0.9"),
            doc: "Average length from which on all packets are dropped: a share of the limit, or a length in its unit.",
        },
        Key {
            name: "max_p",
            takes: PROBABILITY,
            default: Default::Is("0.1"),
            doc: "Drop probability when the average reaches `max`.",
        },
        Key {
            name: "w_q",
            takes: PROBABILITY,
            default: Default::Is("0.002"),
            doc: "Weight of a sample in the average.",
        },
        Key {
            name: "gentle",
            takes: Takes::Flag,
            default: Default::Is("false"),
            doc: "Increase the drop probability from `max_p` at `max` to 1 at twice `max`, instead of dropping all packets \
                  from `max` on (Floyd 2000). Where twice `max` exceeds the limit, the full queue drops packets before.",
        },
        Key {
            name: "ecn",
            takes: Takes::Flag,
            default: Default::Is("false"),
            doc: "Mark packets of ECN-capable flows instead of dropping them.",
        },
    ],
};

/// While a link is idle the average decays as if packets of this size had passed, bytes.
const MEAN_PACKET_BYTES: u64 = 1000;

/// Settings of random early detection.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Capacity; `min` and `max` are in its unit.
    pub limit: QueueLimit,
    /// Average length below which no packet is dropped.
    pub min: f64,
    /// Average length from which on all packets are dropped; with `gentle`, from twice this length on.
    pub max: f64,
    /// Drop probability as the average reaches `max`.
    pub max_p: f64,
    /// Weight of a sample in the average.
    pub weight: f64,
    /// Increase the probability from `max_p` at `max` to 1 at twice `max`.
    pub gentle: bool,
    /// Mark ECN-capable packets instead of dropping them early.
    pub ecn: bool,
}

impl Keyed for Settings {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        let limit = values.limit("limit");
        let given = [values.get("min"), values.get("max")];
        let min = length(&given[0], limit).map_err(|problem| InvalidValues { keys: &["min"], problem })?;
        let max = length(&given[1], limit).map_err(|problem| InvalidValues { keys: &["max"], problem })?;
        if min >= max {
            let [min, max] = given.each_ref().map(threshold_text);
            let problem = format!("must be below its queue.max, but is {min}, and queue.max is {max}");
            return Err(InvalidValues { keys: &["min", "max"], problem });
        }
        let (max_p, weight) = (values.number("max_p"), values.number("w_q"));
        let (gentle, ecn) = (values.flag("gentle"), values.flag("ecn"));
        Ok(Self { limit, min, max, max_p, weight, gentle, ecn })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        let mut values = vec![
            ("limit", Value::Limit(self.limit)),
            ("min", threshold(self.min, self.limit)),
            ("max", threshold(self.max, self.limit)),
            ("max_p", Value::Number(self.max_p)),
            ("w_q", Value::Number(self.weight)),
            ("ecn", Value::Flag(self.ecn)),
        ];
        // The default is not written: files without the key keep their canonical form.
        if self.gentle {
            values.push(("gentle", Value::Flag(true)));
        }
        values
    }

    fn defaults_left_out(&self) -> Vec<(&'static str, Value)> {
        if self.gentle { Vec::new() } else { vec![("gentle", Value::Flag(false))] }
    }

    fn values_by_share(&self) -> Vec<(&'static str, Value)> {
        let share = |length| Value::Number(length / self.limit.amount() as f64);
        let mut values = self.values();
        values[1].1 = share(self.min);
        values[2].1 = share(self.max);
        values
    }
}

/// A threshold in the notation of scenarios.
fn threshold_text(value: &Value) -> String {
    match value {
        Value::Limit(length) => length.to_string(),
        Value::Number(share) => share.to_string(),
        other => panic!("the table of keys has a threshold that is {other:?}"),
    }
}

/// A threshold in the unit of the limit; it is given in that unit, or as a share of the limit.
fn length(value: &Value, limit: QueueLimit) -> Result<f64, String> {
    let capacity = limit.amount();
    match (value, limit) {
        (&Value::Number(share), _) => Ok(share * capacity as f64),
        (&Value::Limit(QueueLimit::Packets(given)), QueueLimit::Packets(_))
        | (&Value::Limit(QueueLimit::Bytes(given)), QueueLimit::Bytes(_)) => {
            if given > capacity {
                return Err(format!("must not exceed its queue.limit of {limit}"));
            }
            Ok(given as f64)
        }
        _ => Err(format!("must be in the same unit as its queue.limit of {limit}")),
    }
}

/// Writes a threshold as a value that is read as the same threshold: a whole number as a length, any other as a
/// share of the limit.
fn threshold(length: f64, limit: QueueLimit) -> Value {
    if length.fract() == 0.0 && length >= 1.0 {
        let whole = length as u64;
        return Value::Limit(match limit {
            QueueLimit::Packets(_) => QueueLimit::Packets(whole),
            QueueLimit::Bytes(_) => QueueLimit::Bytes(whole),
        });
    }
    let capacity = limit.amount() as f64;
    let share = length / capacity;
    let exact = [share, share.next_up(), share.next_down()]
        .into_iter()
        .find(|near| (near * capacity).to_bits() == length.to_bits());
    Value::Number(exact.unwrap_or(share))
}

/// The decision of random early detection about an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RedVerdict {
    Accept,
    Mark,
    Drop(DropCause),
}

/// A queue with random early detection.
#[derive(Clone, Debug)]
pub struct Red<F> {
    settings: Settings,
    /// Largest packet, bytes: with a limit in bytes, the drop probability of smaller packets is reduced in
    /// proportion.
    mtu: u32,
    /// Transmission time of a packet of [`MEAN_PACKET_BYTES`] bytes.
    typical: Duration,
    average: f64,
    /// Packets since the last drop while the average is between the thresholds; −1 while it is below.
    count: i64,
    rng: Rng,
    backlog: Backlog<F>,
}

impl<F: Frame> Red<F> {
    pub(super) fn new(settings: &Settings, mtu: u32, rng: Rng) -> Self {
        Self {
            settings: settings.clone(),
            mtu,
            typical: Duration::ZERO,
            average: 0.0,
            count: -1,
            rng,
            backlog: Backlog::default(),
        }
    }

    fn decide(&mut self, arrival: Arrival, frame: &F) -> RedVerdict {
        self.update_average(arrival.idle);
        let len = frame.wire_len();
        let (packets, bytes) = (self.packets() + 1, self.bytes() + u64::from(len));
        if arrival.idle.is_none() && self.settings.limit.exceeded_by(packets, bytes) {
            self.count = 0;
            return RedVerdict::Drop(DropCause::Queue);
        }
        let Settings { min, max, gentle, ecn, .. } = self.settings;
        if self.average < min {
            self.count = -1;
            return RedVerdict::Accept;
        }
        if self.average >= if gentle { 2.0 * max } else { max } {
            self.count = 0;
            // RFC 3168 §7: above the upper threshold packets are dropped even if they could be marked.
            return RedVerdict::Drop(DropCause::Aqm);
        }
        self.count += 1;
        if !self.is_selected(len) {
            return RedVerdict::Accept;
        }
        self.count = 0;
        if ecn && frame.ecn_capable() && self.average < max {
            RedVerdict::Mark
        } else {
            RedVerdict::Drop(DropCause::Aqm)
        }
    }

    fn update_average(&mut self, idle: Option<Duration>) {
        let weight = self.settings.weight;
        if let Some(idle) = idle {
            // In the idle time, m packets of typical size could have passed an empty queue.
            let m = idle.as_nanos() as f64 / self.typical.as_nanos().max(1) as f64;
            self.average *= libm::pow(1.0 - weight, m);
        }
        self.average += weight * (self.length() as f64 - self.average);
    }

    /// The present length in the unit of the limit.
    fn length(&self) -> u64 {
        match self.settings.limit {
            QueueLimit::Packets(_) => self.backlog.packets(),
            QueueLimit::Bytes(_) => self.backlog.bytes(),
        }
    }

    /// True if the packet is selected, so that the gaps between selected packets are uniform (the paper's
    /// method 2).
    fn is_selected(&mut self, len: u32) -> bool {
        let Settings { min, max, max_p, limit, .. } = self.settings;
        let mut p = if self.average < max {
            max_p * (self.average - min) / (max - min)
        } else {
            max_p + (1.0 - max_p) * (self.average - max) / max
        };
        if matches!(limit, QueueLimit::Bytes(_)) {
            p *= f64::from(len) / f64::from(self.mtu.max(1));
        }
        let passed = self.count as f64 * p;
        if passed >= 1.0 {
            return true;
        }
        self.rng.chance(p / (1.0 - passed))
    }
}

impl<F: Frame> Queue<F> for Red<F> {
    #[inline(never)]
    fn enqueue(&mut self, arrival: Arrival, mut frame: F, drops: &mut Drops<F>) {
        match self.decide(arrival, &frame) {
            RedVerdict::Accept => self.backlog.push(frame),
            RedVerdict::Mark => {
                drops.mark(&mut frame);
                self.backlog.push(frame);
            }
            RedVerdict::Drop(cause) => drops.drop(arrival.now, frame, cause),
        }
    }

    #[inline(never)]
    fn dequeue(&mut self, _: Time, _: &mut Drops<F>) -> Option<F> {
        self.backlog.pop()
    }

    fn packets(&self) -> u64 {
        self.backlog.packets()
    }

    fn bytes(&self) -> u64 {
        self.backlog.bytes()
    }

    fn clear(&mut self, frames: &mut Vec<F>) {
        self.backlog.clear(frames);
    }

    fn take_all(&mut self, now: Time) -> Vec<(Time, F)> {
        self.backlog.take_all(now)
    }

    fn append(&mut self, _: Time, frame: F) {
        self.backlog.push(frame);
    }

    fn begin(&mut self) {
        self.average = self.length() as f64;
    }

    fn visit(&mut self, visit: &mut dyn FnMut(&mut F)) {
        self.backlog.visit(visit);
    }

    fn rate_changed(&mut self, rate: Option<Rate>) {
        // A trace has no constant rate, so idle time is counted in opportunities of one packet.
        self.typical = rate.map_or(Duration::from_millis(1), |rate| rate.time_to_send(MEAN_PACKET_BYTES));
    }

    fn peek_committed(&self, place: usize) -> Option<&F> {
        self.backlog.get(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::TestFrame;

    /// A queue whose link transmits 1000 bytes in 1 ms.
    fn red(weight: f64, ecn: bool) -> Red<TestFrame> {
        let limit = QueueLimit::Packets(100);
        let settings = Settings { limit, min: 30.0, max: 90.0, max_p: 0.1, weight, gentle: false, ecn };
        let mut red = Red::new(&settings, 1500, Rng::new(5));
        red.rate_changed(Some(Rate::from_bits_per_second(8_000_000)));
        red
    }

    /// The decision about a packet that finds `packets` in the queue.
    fn verdict(red: &mut Red<TestFrame>, packets: u64, idle: Option<Duration>, ecn: bool) -> RedVerdict {
        while red.packets() < packets {
            red.backlog.push(TestFrame::new(0, 1500));
        }
        while red.packets() > packets {
            red.backlog.pop();
        }
        red.decide(Arrival { now: Time::ZERO, idle }, &TestFrame { ecn, ..TestFrame::new(1, 1500) })
    }

    #[test]
    fn average_equals_value_computed_by_hand() {
        let mut red = red(0.5, false);
        verdict(&mut red, 8, None, false);
        assert!((red.average - 4.0).abs() < 1e-12);
        verdict(&mut red, 8, None, false);
        assert!((red.average - 6.0).abs() < 1e-12);
        // The link was idle for the time of two typical packets: 6 · 0.5² = 1.5. Then a packet arrives at an empty
        // queue: 0.75.
        verdict(&mut red, 0, Some(Duration::from_millis(2)), false);
        assert!((red.average - 0.75).abs() < 1e-12);
    }

    #[test]
    fn all_pass_below_min_and_none_above_max() {
        let mut red = red(1.0, true);
        assert!((0..1000).all(|_| verdict(&mut red, 29, None, true) == RedVerdict::Accept));
        assert!((0..1000).all(|_| verdict(&mut red, 90, None, true) == RedVerdict::Drop(DropCause::Aqm)));
        assert_eq!(verdict(&mut red, 100, None, true), RedVerdict::Drop(DropCause::Queue));
    }

    #[test]
    fn gentle_probability_rises_to_twice_max() {
        let limit = QueueLimit::Packets(100);
        let settings =
            Settings { limit, min: 10.0, max: 40.0, max_p: 0.1, weight: 1.0, gentle: true, ecn: true };
        let mut red = Red::new(&settings, 1500, Rng::new(5));
        // At 44, a tenth of the way, p = 0.1 + 0.9/10 = 0.19: gaps of 1 to 4 packets with probability p/(1 − p) = 0.2346
        // each, else 5, which makes 2.654 packets in the mean. All are drops (RFC 3168 §7).
        let verdicts: Vec<RedVerdict> = (0..20_000).map(|_| verdict(&mut red, 44, None, true)).collect();
        let dropped = verdicts.iter().filter(|&&verdict| verdict == RedVerdict::Drop(DropCause::Aqm)).count();
        let passed = verdicts.iter().filter(|&&verdict| verdict == RedVerdict::Accept).count();
        assert_eq!(dropped + passed, 20_000);
        let share = dropped as f64 / 20_000.0;
        assert!((share - 1.0 / 2.654).abs() < 0.01, "{share}");
        assert!((0..1000).all(|_| verdict(&mut red, 80, None, true) == RedVerdict::Drop(DropCause::Aqm)));
        assert!((0..1000).any(|_| verdict(&mut red, 39, None, true) == RedVerdict::Mark));
    }

    #[test]
    fn drop_gaps_are_uniform() {
        // At an average of 60, p = 0.05. The paper counts the first packet after a drop as 1, so that its
        // probability is p/(1 − p) = 1/19, and the gaps are uniform on 1..=19 with a mean of 10.
        let mut red = red(1.0, false);
        let mut gaps = Vec::new();
        let mut gap = 0_u32;
        for _ in 0..200_000 {
            gap += 1;
            if verdict(&mut red, 60, None, true) != RedVerdict::Accept {
                gaps.push(gap);
                gap = 0;
            }
        }
        // The first gap starts from a count of −1, so it may be one longer.
        assert!(gaps.iter().skip(1).all(|&g| g <= 19), "{:?}", gaps.iter().max());
        let mean = gaps.iter().map(|&g| f64::from(g)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 10.0).abs() < 0.2, "{mean}");
        for length in 1..=19 {
            let share = gaps.iter().filter(|&&g| g == length).count() as f64 / gaps.len() as f64;
            assert!((share - 1.0 / 19.0).abs() < 0.008, "gap {length}: {share}");
        }
    }

    #[test]
    fn ecn_capable_packets_are_marked() {
        let mut red = red(1.0, true);
        let verdicts: Vec<RedVerdict> = (0..1000).map(|_| verdict(&mut red, 60, None, true)).collect();
        assert!(
            verdicts.contains(&RedVerdict::Mark) && !verdicts.contains(&RedVerdict::Drop(DropCause::Aqm))
        );
        assert!((0..1000).any(|_| verdict(&mut red, 60, None, false) == RedVerdict::Drop(DropCause::Aqm)));
    }

    #[test]
    fn thresholds_round_trip() {
        let packets = QueueLimit::Packets(100);
        for (length, value) in [(30.0, Value::Limit(QueueLimit::Packets(30))), (0.5, Value::Number(0.005))] {
            assert_eq!(threshold(length, packets), value);
            assert_eq!(super::length(&value, packets), Ok(length), "{value:?}");
        }
        let other = length(&Value::Limit(QueueLimit::Bytes(9)), packets);
        assert_eq!(other, Err("must be in the same unit as its queue.limit of 100 packets".into()));
    }
}
