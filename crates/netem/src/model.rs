//! Settings of a link, as plain values.

use crate::{loss, queue};
use anabranch_base::time::Duration;
use anabranch_base::units::Rate;
use std::sync::Arc;

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkModel {
    /// The rate.
    pub rate: LinkRate,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Each packet is delayed further by a uniform draw from 0 to this. The order is kept by sorting the
    /// draws, unless `reorder` is set.
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
    /// The router before the link answers packets larger than `mtu` with ICMP; otherwise they are dropped
    /// silently.
    pub icmp: bool,
    /// The link is up at the start.
    pub up: bool,
}

impl LinkModel {
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

/// The rate of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkRate {
    /// Constant.
    Constant(Rate),
    /// Mahimahi's format: times, in milliseconds from the start, at which up to 1500 bytes may leave; the
    /// trace repeats with the period of its last line.
    Trace {
        /// The file of the trace, for messages and reports.
        file: String,
        /// Delivery opportunities, ascending.
        opportunities_ms: Arc<[u64]>,
        /// Offset within the trace at which the run begins.
        offset: Duration,
        /// Maximum of an additional random offset, which the driver of the link draws
        /// ([`LinkModel::with_offset`]).
        offset_spread: Duration,
    },
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Up or down. A link that goes down loses queued and propagating packets; hosts with an address on it
    /// are notified.
    State {
        /// True for up.
        up: bool,
    },
    /// A new rate.
    Rate(Rate),
    /// A new delay.
    Delay(Duration),
    /// A new loss model.
    Loss(loss::Settings),
}
