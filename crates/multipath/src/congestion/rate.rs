//! Additional events for congestion controls that model the path: transmissions, delivery-rate samples and lost
//! packets. [`DeliveryRate`](crate::delivery::DeliveryRate) creates the samples.

use crate::PathId;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;

/// A transmission or retransmission of a packet with data.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Time of the transmission.
    pub now: Time,
    /// The path.
    pub path: PathId,
    /// Bytes of data in the packet.
    pub bytes: u64,
    /// Bytes in flight on the path, including this packet.
    pub in_flight: u64,
    /// True if the application had run out of data, and some data that was in flight at that time has not been
    /// delivered yet.
    pub app_limited: bool,
}

/// A sample of the path's delivery rate, from one acknowledgement (draft-ietf-ccwg-bbr, "Rate Sample Output"). In the
/// comments below, *the packet* is the most recently sent one among those that the acknowledgement newly reports as
/// delivered.
#[derive(Clone, Copy, Debug)]
pub struct RateSample {
    /// Time at which the acknowledgement arrived.
    pub now: Time,
    /// The path whose data was acknowledged.
    pub path: PathId,
    /// Time since the packet was sent; `None` if the packet was sent more than once, which makes this time ambiguous.
    pub rtt: Option<Duration>,
    /// Bytes delivered since the packet was sent, including those of the packet.
    pub delivered: u64,
    /// Bytes delivered before the packet was sent, over the life of the path.
    pub prior_delivered: u64,
    /// Bytes delivered over the life of the path.
    pub total_delivered: u64,
    /// Length of the interval in which the delivered bytes were sent.
    pub send_elapsed: Duration,
    /// Length of the interval in which the delivered bytes were acknowledged.
    pub ack_elapsed: Duration,
    /// `delivered` divided by the longer of the two intervals; `None` if that interval is shorter than the smallest
    /// round-trip time.
    pub rate: Option<Rate>,
    /// True if the packet was sent in an application-limited phase, so the network may permit a higher rate.
    pub app_limited: bool,
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub newly_acked: u64,
    /// Bytes newly marked lost.
    pub newly_lost: u64,
    /// Bytes marked lost since the packet was sent.
    pub lost: u64,
    /// Bytes in flight right after the packet was sent.
    pub tx_in_flight: u64,
    /// Bytes in flight now.
    pub in_flight: u64,
    /// True if the window was fully used at some time in the last round trip.
    pub cwnd_limited: bool,
}

/// A packet that was marked lost.
#[derive(Clone, Copy, Debug)]
pub struct LostPacket {
    /// Time at which the packet was marked lost.
    pub now: Time,
    /// The path.
    pub path: PathId,
    /// Bytes of data in the packet.
    pub bytes: u64,
    /// Bytes in flight right after the packet was sent.
    pub tx_in_flight: u64,
    /// Bytes marked lost since the packet was sent, including those of the packet.
    pub lost: u64,
    /// Bytes delivered over the life of the path.
    pub total_delivered: u64,
    /// True if the packet was sent in an application-limited phase.
    pub app_limited: bool,
}
