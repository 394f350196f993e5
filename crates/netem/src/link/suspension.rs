//! Interruption of transmissions by a rate of zero.

use super::suspended::Suspended;
use super::{Frame, Link, Service};
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;

impl<F: Frame> Link<F> {
    /// Interrupts the transmission at a constant rate.
    pub(super) fn suspend(&mut self, now: Time) {
        let Service::Constant(rate) = self.rest.service else { return };
        if self.busy_until <= now || self.busy_until == Time::MAX {
            return;
        }
        let left = self.busy_until.since(now);
        self.busy = self.busy.saturating_sub(left);
        let from_end = match self.rest.last_launched {
            (end, place) if end == self.busy_until => place,
            _ => Some(1),
        };
        let place = from_end.and_then(|from_end| self.flight.len().checked_sub(from_end));
        let frame = place.and_then(|place| self.flight.remove(place));
        self.rest.suspended = Some(Suspended {
            left: u128::from(rate.bits_per_second()) * u128::from(left.as_nanos()),
            frame: frame.map(|(arrival, frame)| (arrival.since(self.busy_until), frame)),
        });
    }

    /// Continues after the rate was zero: completes the interrupted transmission at the new rate.
    pub(super) fn resume(&mut self, now: Time, rate: Rate) {
        self.busy_until = now;
        let Some(Suspended { left, frame }) = self.rest.suspended.take() else { return };
        let nanos = left.div_ceil(u128::from(rate.bits_per_second()));
        let left = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.busy_until = now + left;
        self.busy += left;
        let Some((delay, frame)) = frame else { return };
        let arrival = self.busy_until + delay;
        self.last_arrival = self.last_arrival.max(arrival);
        let place = self.flight.partition_point(|&(other, _)| other <= arrival);
        self.flight.insert(place, (arrival, frame));
        self.rest.last_launched = (self.busy_until, Some(self.flight.len() - place));
    }
}
