//! Settings of a link, as plain values.

use crate::queue::{QueueLimit, fifo};
use crate::series::Series;
use crate::{loss, queue};
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use std::sync::Arc;

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkModel {
    /// The rate.
    pub rate: LinkRate,
    /// One-way propagation delay.
    pub delay: LinkDelay,
    /// Maximum random delay in addition to `delay`: each packet gets a uniform draw from 0 to this. Unless `reorder` is
    /// set, the draws are sorted, so that packets keep their order.
    pub jitter: Duration,
    /// Largest IP packet, bytes; at most 65,535.
    pub mtu: u32,
    /// Framing overhead added to each packet on the wire, bytes (e.g. 38 for Ethernet with preamble and gap); at most
    /// 65,535.
    pub overhead: u32,
    /// Queue in front of the link.
    pub queue: queue::Settings,
    /// Loss on the link.
    pub loss: loss::Settings,
    /// Reordering on the link.
    pub reorder: Option<Reorder>,
    /// Probability that a packet enters the queue twice.
    pub duplicate: f64,
    /// True if the router before the link answers packets larger than `mtu` with ICMP; otherwise they are dropped
    /// silently.
    pub icmp: bool,
    /// True if the link is up at the start.
    pub up: bool,
}

impl LinkModel {
    /// A link that is up, without losses, jitter and overhead, with packets of at most 1500 bytes, a queue of 100
    /// packets and answers by ICMP to larger packets.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate: LinkRate::Constant(rate),
            delay: LinkDelay::Constant(delay),
            jitter: Duration::ZERO,
            mtu: 1500,
            overhead: 0,
            queue: queue::Settings::Fifo(fifo::Settings { limit: QueueLimit::Packets(100) }),
            loss: loss::Settings::None(loss::none::None),
            reorder: None,
            duplicate: 0.0,
            icmp: true,
            up: true,
        }
    }

    /// Copies the model, and increases the trace offset by this fraction (0 to 1) of its spread.
    #[must_use]
    pub fn with_offset(&self, share: f64) -> Self {
        let mut drawn = self.clone();
        if let LinkRate::Trace { offset, offset_spread, .. } = &mut drawn.rate {
            *offset += Duration::from_nanos((offset_spread.as_nanos() as f64 * share) as u64);
            *offset_spread = Duration::ZERO;
        }
        drawn
    }
}

impl LinkModel {
    /// Applies a change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::State { up } => self.up = *up,
            Change::Rate(rate) => self.rate = LinkRate::Constant(*rate),
            Change::Delay(delay) => self.delay = LinkDelay::Constant(*delay),
            Change::Jitter(jitter) => self.jitter = *jitter,
            Change::Loss(loss) => self.loss = loss.clone(),
            Change::Queue(queue) => self.queue = queue.clone(),
            Change::Reorder(reorder) => self.reorder = *reorder,
        }
    }
}

/// The rate of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkRate {
    /// Constant.
    Constant(Rate),
    /// A recording, which repeats.
    Trace {
        /// The file of the trace, for messages and reports.
        file: String,
        /// Content of the trace file.
        content: RateTrace,
        /// Offset within the trace at which the run begins.
        offset: Duration,
        /// Maximum of an additional random offset, which the driver of the link draws
        /// ([`LinkModel::with_offset`]).
        offset_spread: Duration,
    },
}

/// The content of a recording of rates.
#[derive(Clone, Debug, PartialEq)]
pub enum RateTrace {
    /// Mahimahi's format: ascending times, in milliseconds from the start, at which up to 1500 bytes may leave; the
    /// last one is the period.
    Opportunities(Arc<[u64]>),
    /// Rates in bit/s over time, at least one of them above zero.
    Rates(Series),
}

/// The propagation delay of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkDelay {
    /// Constant.
    Constant(Duration),
    /// A recording of delays in nanoseconds, which repeats. A packet gets the delay of the time at which its last bit
    /// leaves.
    Trace {
        /// Delays over time.
        series: Series,
        /// True if the delay follows straight lines between the points instead of steps.
        linear: bool,
    },
}

impl From<Duration> for LinkDelay {
    fn from(delay: Duration) -> Self {
        Self::Constant(delay)
    }
}

impl LinkDelay {
    /// The delay of a packet whose last bit leaves at a time.
    pub fn at(&self, time: Time) -> Duration {
        match self {
            Self::Constant(delay) => *delay,
            Self::Trace { series, linear: false } => Duration::from_nanos(series.step_at(time) as u64),
            Self::Trace { series, linear: true } => Duration::from_nanos(series.linear_at(time) as u64),
        }
    }

    /// The smallest delay.
    pub fn min(&self) -> Duration {
        match self {
            Self::Constant(delay) => *delay,
            Self::Trace { series, linear } => {
                // The last value ends the last line, but begins no step.
                let end = series.points().last().filter(|_| *linear).map(|&(_, value)| value);
                Duration::from_nanos(series.steps().chain(end).fold(f64::INFINITY, f64::min) as u64)
            }
        }
    }
}

/// Random reordering: a packet is held back for a fixed time and later ones overtake it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Probability that a packet is held back.
    pub rate: f64,
    /// Time for which a packet is held back.
    pub delay: Duration,
}

/// A change of a link's direction.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Up or down. A link that goes down loses queued and propagating packets; hosts with an address on it
    /// are notified.
    State {
        /// True for up.
        up: bool,
    },
    /// A new rate; the packet being transmitted leaves at the old rate. A rate of zero suspends the transmission until
    /// the rate changes again.
    Rate(Rate),
    /// A new delay.
    Delay(Duration),
    /// A new jitter. Packets that are propagating keep their times of arrival, and their order.
    Jitter(Duration),
    /// A new loss model.
    Loss(loss::Settings),
    /// A new queue, which begins with the waiting packets in their order; those beyond its limit are dropped.
    Queue(queue::Settings),
    /// Another reordering, or none. Packets that are propagating keep their times of arrival.
    Reorder(Option<Reorder>),
}
