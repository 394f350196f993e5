//! Delivery-rate estimation and pacing for a path whose congestion control requires them.
//!
//! A path has a [`PathRate`] only if the connection's congestion control uses samples or paces; for all other paths
//! the pointer is empty. The state of packets in flight lies in a separate ring, which keeps the scoreboards small.
//! The ring identifies packets by ranges of numbers that ascend with the first transmission: positions in the byte
//! stream in TCP, transmission numbers in SCTP.

use anabranch_base::time::Time;
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{CongestionControl, Sent};
use anabranch_multipath::delivery::{DeliveryRate, Snapshot};
use anabranch_multipath::pacing::Pacer;
use core::ops::Range;
use std::collections::VecDeque;

/// A packet that is neither acknowledged nor declared lost, or whose entry remains until those of all earlier packets
/// are removed.
#[derive(Clone, Copy, Debug)]
struct Flight {
    start: u64,
    end: u64,
    bytes: u32,
    /// True if the packet was delivered, or was retransmitted under another number.
    done: bool,
    /// True if the packet was declared lost after its transmission.
    lost: bool,
    snapshot: Snapshot,
}

/// Progress of the repair after a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// No repair is in progress.
    #[default]
    Done,
    /// Some of the lost data has not been retransmitted yet.
    Sending,
    /// All lost data has been retransmitted, the last of it as this transmission.
    Sent(u64),
}

/// A transmission.
#[derive(Clone, Debug)]
pub struct Transmission {
    /// The packet's range of numbers: stream positions in TCP, a transmission number in SCTP.
    pub range: Range<u64>,
    /// Payload bytes of the packet.
    pub bytes: u32,
    /// Bytes in flight on the path, this packet included.
    pub in_flight: u64,
    /// True for a retransmission whose acknowledgement is ambiguous (Karn's algorithm, RFC 6298 §3).
    pub again: bool,
    /// Largest payload of a packet.
    pub mss: u32,
}

/// Delivery-rate and pacing state of one path.
#[derive(Debug, Default)]
pub struct PathRate {
    path: PathId,
    /// True if the congestion control uses delivery-rate samples.
    modelled: bool,
    /// True if the congestion control paces.
    paced: bool,
    estimator: DeliveryRate,
    flights: VecDeque<Flight>,
    pacer: Pacer,
    /// Time at which the pacer lets waiting data leave.
    wake: Option<Time>,
    /// Progress of the repair after a timeout, for protocols that have no recovery phase after a timeout.
    pub repair: Repair,
}

impl PathRate {
    /// The state that `congestion` needs for `path`, or `None` if it needs none. The path is already known to
    /// `congestion`.
    pub fn for_path(congestion: &dyn CongestionControl, path: PathId) -> Option<Box<Self>> {
        let modelled = congestion.wants_rate_samples();
        let paced = congestion.pacing_rate(path).is_some();
        (modelled || paced).then(|| Box::new(Self { path, modelled, paced, ..Self::default() }))
    }

    /// True if the congestion control sets the window by a model of the path.
    pub fn is_modelled(&self) -> bool {
        self.modelled
    }

    /// True if packets are paced.
    pub fn paces(&self) -> bool {
        self.paced
    }

    /// True if the pacer delays a packet now; stores the time of the next attempt.
    pub fn holds_back(&mut self, now: Time) -> bool {
        self.wake = self.pacer.held_until(now);
        self.wake.is_some()
    }

    /// True if the pacer would delay a packet now; changes nothing.
    pub fn is_holding_back(&self, now: Time) -> bool {
        self.pacer.held_until(now).is_some()
    }

    /// Time at which paced data may leave.
    pub fn deadline(&self) -> Option<Time> {
        self.wake
    }

    /// Handles the expiry of the pacer's timer: the driver may poll paced data again.
    pub fn on_timeout(&mut self, now: Time) {
        if self.wake.is_some_and(|at| at <= now) {
            self.wake = None;
        }
    }

    /// Records the transmission of a packet.
    pub fn sent(&mut self, congestion: &mut dyn CongestionControl, now: Time, sent: Transmission) {
        self.wake = None;
        let Transmission { range, bytes, in_flight, again, mss } = sent;
        if let Some(rate) = congestion.pacing_rate(self.path) {
            self.pacer.sent(now, u64::from(bytes), (rate, u64::from(mss)));
        }
        let app_limited = self.estimator.is_app_limited();
        let snapshot = self.estimator.sent(now, u64::from(bytes), in_flight, again);
        let flight = Flight { start: range.start, end: range.end, bytes, done: false, lost: false, snapshot };
        if self.flights.back().is_none_or(|last| last.end <= range.start) {
            self.flights.push_back(flight);
        } else {
            self.replace(range, flight);
        }
        let bytes = u64::from(bytes);
        congestion.on_sent(&Sent { now, path: self.path, bytes, in_flight, app_limited });
    }

    /// Replaces the flights that have the numbers of a retransmission.
    fn replace(&mut self, range: Range<u64>, flight: Flight) {
        let covered = self.covered(range);
        if covered.len() == 1 {
            self.flights[covered.start] = flight;
        } else {
            let behind = self.flights.split_off(covered.end);
            self.flights.truncate(covered.start);
            self.flights.push_back(flight);
            self.flights.extend(behind);
        }
    }

    /// Indices of the flights that have the numbers of `range`. A flight that crosses an end of the range is split
    /// there, because the segments of a retransmission may have other bounds.
    fn covered(&mut self, range: Range<u64>) -> Range<usize> {
        let start = self.cut(range.start);
        let end = self.cut(range.end);
        start..end.max(start)
    }

    /// Index of the first flight that starts at or after `number`.
    fn cut(&mut self, number: u64) -> usize {
        let at = self.flights.partition_point(|flight| flight.end <= number);
        let Some(flight) = self.flights.get_mut(at).filter(|flight| flight.start < number) else { return at };
        let mut rest = *flight;
        let head = (number - flight.start) as u32;
        flight.end = number;
        flight.bytes = flight.bytes.min(head);
        rest.start = number;
        rest.bytes -= flight.bytes;
        self.flights.insert(at + 1, rest);
        at + 1
    }

    /// Records that the packets with the numbers of `range` were delivered.
    pub fn delivered(&mut self, now: Time, range: Range<u64>) {
        for at in self.covered(range) {
            let flight = &mut self.flights[at];
            if !core::mem::replace(&mut flight.done, true) {
                self.estimator.delivered(now, &flight.snapshot, u64::from(flight.bytes));
            }
        }
        self.forget_front();
    }

    /// Removes the numbers of `range`, because their data was retransmitted under other numbers.
    pub fn forget(&mut self, range: Range<u64>) {
        for at in self.covered(range) {
            self.flights[at].done = true;
        }
        self.forget_front();
    }

    fn forget_front(&mut self) {
        while self.flights.front().is_some_and(|flight| flight.done) {
            self.flights.pop_front();
        }
    }

    /// Records that the packets with the numbers of `range` are marked lost.
    pub fn lost(&mut self, congestion: &mut dyn CongestionControl, now: Time, range: Range<u64>) {
        for at in self.covered(range) {
            let flight = &mut self.flights[at];
            if !flight.done && !core::mem::replace(&mut flight.lost, true) {
                let bytes = u64::from(flight.bytes);
                congestion.on_lost(&self.estimator.lost((now, self.path), &flight.snapshot, bytes));
            }
        }
    }

    /// Passes the delivery-rate sample of the acknowledgement just processed to the congestion control.
    pub fn report(
        &mut self,
        congestion: &mut dyn CongestionControl,
        now: Time,
        (in_flight, cwnd_limited): (u64, bool),
    ) {
        if let Some(sample) = self.estimator.sample((now, self.path), in_flight, cwnd_limited) {
            congestion.on_sample(&sample);
            if congestion.measures_at_rest(self.path) {
                self.estimator.set_app_limited(in_flight);
            }
        }
    }

    /// Marks later samples as application-limited, because the congestion window has free space but there is no data.
    pub fn set_application_limited(&mut self, in_flight: u64) {
        self.estimator.set_app_limited(in_flight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::time::Duration;
    use anabranch_base::units::Rate;
    use anabranch_multipath::congestion::{LostPacket, RateSample};
    use anabranch_testkit::takes_no_notice;

    /// Records all calls.
    #[derive(Debug, Default)]
    struct Listener {
        rate: u64,
        resting: bool,
        sent: Vec<Sent>,
        lost: Vec<LostPacket>,
        samples: Vec<RateSample>,
    }

    impl CongestionControl for Listener {
        fn name(&self) -> &'static str {
            "listener"
        }
        takes_no_notice!();
        fn window(&self, _: PathId) -> u64 {
            10_000
        }
        fn ssthresh(&self, _: PathId) -> u64 {
            u64::MAX
        }
        fn wants_rate_samples(&self) -> bool {
            true
        }
        fn pacing_rate(&self, _: PathId) -> Option<Rate> {
            (self.rate > 0).then(|| Rate::from_bits_per_second(self.rate))
        }
        fn measures_at_rest(&self, _: PathId) -> bool {
            self.resting
        }
        fn on_sent(&mut self, sent: &Sent) {
            self.sent.push(*sent);
        }
        fn on_lost(&mut self, lost: &LostPacket) {
            self.lost.push(*lost);
        }
        fn on_sample(&mut self, sample: &RateSample) {
            self.samples.push(*sample);
        }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn bytes(range: Range<u64>, in_flight: u64) -> Transmission {
        let bytes = (range.end - range.start) as u32;
        Transmission { range, bytes, in_flight, again: false, mss: 1_000 }
    }

    #[test]
    fn segments_are_tracked_across_resegmentation() {
        let mut control = Listener::default();
        let mut rate = PathRate::for_path(&control, PathId(1)).expect("the control uses samples of the rate");
        for i in 0..4 {
            rate.sent(&mut control, at(i), bytes(1_000 * i..1_000 * (i + 1), 1_000 * (i + 1)));
        }
        assert_eq!((control.sent.len(), control.sent[3].in_flight), (4, 4_000));
        // The fourth segment is reported as delivered; the second is lost, and is retransmitted as two segments.
        rate.delivered(at(50), 3_000..4_000);
        rate.lost(&mut control, at(50), 1_000..2_000);
        rate.report(&mut control, at(50), (2_000, false));
        assert_eq!((control.samples[0].newly_acked, control.samples[0].newly_lost), (1_000, 1_000));
        assert_eq!((control.lost[0].bytes, control.lost[0].tx_in_flight), (1_000, 2_000));
        rate.lost(&mut control, at(50), 1_000..2_000);
        assert_eq!(control.lost.len(), 1, "the segment counts as lost once");
        rate.sent(&mut control, at(51), Transmission { again: true, ..bytes(1_000..1_600, 2_600) });
        rate.sent(&mut control, at(52), Transmission { again: true, ..bytes(1_600..2_000, 3_000) });
        assert_eq!(rate.flights.len(), 5);
        rate.delivered(at(60), 0..1_300); // a part of a retransmitted segment
        rate.report(&mut control, at(60), (1_700, false));
        assert_eq!((control.samples[1].newly_acked, control.samples[1].rtt), (1_300, None));
        rate.delivered(at(110), 0..4_000);
        rate.report(&mut control, at(110), (0, false));
        assert_eq!((control.samples[2].newly_acked, control.samples[2].total_delivered), (1_700, 4_000));
        assert!(rate.flights.is_empty());
        rate.report(&mut control, at(111), (0, false));
        assert_eq!(control.samples.len(), 3, "nothing new, no sample");
    }

    #[test]
    fn transmission_number_names_one_packet() {
        let mut control = Listener::default();
        let mut rate = PathRate::for_path(&control, PathId(0)).expect("the control uses samples of the rate");
        for number in [5, 7, 8] {
            let sent = Transmission { range: number..number + 1, ..bytes(0..700, 700) };
            rate.sent(&mut control, at(number), sent);
        }
        rate.delivered(at(20), 6..7); // another path's
        rate.delivered(at(20), 8..9);
        rate.forget(7..8);
        rate.report(&mut control, at(20), (700, true));
        assert_eq!((control.samples[0].newly_acked, control.samples[0].cwnd_limited), (700, true));
        assert_eq!(rate.flights.len(), 3, "finished flights stay behind an unfinished one");
        rate.delivered(at(21), 5..6);
        assert!(rate.flights.is_empty());
    }

    #[test]
    fn pacer_wakes_only_for_waiting_data() {
        let mut control = Listener { rate: 8_000_000, ..Listener::default() };
        let mut rate = PathRate::for_path(&control, PathId(0)).expect("the control sets a pacing rate");
        let mut left = 0;
        while !rate.holds_back(at(10)) {
            rate.sent(&mut control, at(10), bytes(1_000 * left..1_000 * (left + 1), 1_000));
            left += 1;
        }
        assert_eq!((left, rate.deadline()), (4, Some(at(12))));
        rate.on_timeout(at(11));
        assert_eq!(rate.deadline(), Some(at(12)));
        rate.on_timeout(at(12));
        assert_eq!((rate.deadline(), rate.is_holding_back(at(12))), (None, false));
    }

    #[test]
    fn resting_control_marks_later_samples_app_limited() {
        let mut control = Listener { resting: true, ..Listener::default() };
        let mut rate = PathRate::for_path(&control, PathId(0)).expect("the control uses samples of the rate");
        rate.sent(&mut control, at(0), bytes(0..1_000, 1_000));
        rate.delivered(at(10), 0..1_000);
        rate.report(&mut control, at(10), (0, false));
        rate.sent(&mut control, at(10), bytes(1_000..2_000, 1_000));
        assert!(!control.samples[0].app_limited && control.sent[1].app_limited);
        rate.delivered(at(20), 0..2_000);
        rate.report(&mut control, at(20), (0, false));
        assert!(control.samples[1].app_limited);
    }
}
