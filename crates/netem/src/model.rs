//! What a link is set to, as plain values.

use crate::{loss, queue};
use anabranch_base::time::Duration;
use anabranch_base::units::Rate;
use std::sync::Arc;

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkModel {
    /// How fast packets leave.
    pub rate: LinkRate,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Each packet is delayed further by a uniform draw from 0 to this much; order is kept, by sharing the draws out, unless
    /// `reorder` says otherwise.
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
    /// The router before it answers packets larger than `mtu` with ICMP; otherwise they vanish without a word.
    pub icmp: bool,
    /// The link is up at the start.
    pub up: bool,
}

impl LinkModel {
    /// The same with this share (0 to 1) of what a trace's offset may be more.
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

/// How fast packets leave a link.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkRate {
    /// Constant.
    Constant(Rate),
    /// Mahimahi's format: moments, in milliseconds from the start, at which up to 1500 bytes may leave; the trace
    /// repeats with the period of its last line.
    Trace {
        /// File it came from, for messages and reports.
        file: String,
        /// Delivery opportunities, ascending.
        opportunities_ms: Arc<[u64]>,
        /// How far into the trace the run begins.
        offset: Duration,
        /// It may be up to this much further: whoever runs the link draws how much ([`LinkModel::with_offset`]).
        offset_spread: Duration,
    },
}

/// Random reordering: a packet is held back for a while and later ones overtake it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Probability that a packet is held back.
    pub rate: f64,
    /// For how long.
    pub delay: Duration,
}

/// A change of a link's direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Up or down. Going down loses what is queued and on the way; hosts with an address on the link are told.
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
