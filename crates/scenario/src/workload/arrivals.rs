//! Files that arrive over time.

use super::sizes::Sizes;
use super::timing::Interval;
use crate::model::{Arrivals, Distribution, MessageSize};
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;

/// Draws the times and the sizes of the files of a flow with arrivals. Neither depends on the connections.
#[derive(Clone, Debug)]
pub struct ArrivalProcess {
    interval: Interval,
    sizes: Sizes,
    /// Remaining arrivals; `None` for no limit.
    left: Option<u64>,
    next: Time,
    stop: Time,
}

impl ArrivalProcess {
    /// Arrivals from `start`, the time of the first, until before `stop`.
    pub fn new(arrivals: &Arrivals, size: MessageSize, [start, stop]: [Time; 2], rng: &Rng) -> Self {
        let distribution = Distribution::exponential(arrivals.exponential);
        let interval = Interval::new(arrivals.mean_interval, distribution, rng.fork("arrivals"));
        Self { interval, sizes: Sizes::new(size, rng.fork("file")), left: arrivals.count, next: start, stop }
    }

    /// Time of the next arrival; the maximum after the last one.
    pub fn due(&self) -> Time {
        if self.left == Some(0) || self.next >= self.stop { Time::MAX } else { self.next }
    }

    /// The size of the file that arrives at [`due`](Self::due).
    pub fn draw(&mut self) -> u64 {
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        self.next += self.interval.draw();
        self.sizes.draw()
    }
}
