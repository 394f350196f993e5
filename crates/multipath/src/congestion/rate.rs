//! Additional events for controls that model the path: transmissions, delivery-rate samples and lost packets,
//! as [`DeliveryRate`](crate::delivery::DeliveryRate) creates them.

use crate::PathId;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;

/// A packet with data has left: a first transmission or a retransmission.
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
    /// True if the application had run out of data, and the data that was in flight at that time is not all delivered.
    pub app_limited: bool,
}

/// A sample of the path's delivery rate, from one acknowledgement (draft-ietf-ccwg-bbr, "Rate Sample
/// Output"). *The packet* is the most recently sent one that it newly reports as delivered.
#[derive(Clone, Copy, Debug)]
pub struct RateSample {
    /// When the acknowledgement arrived.
    pub now: Time,
    /// The path whose data was acknowledged.
    pub path: PathId,
    /// Time since the packet was sent; `None` if ambiguous because it was sent more than once.
    pub rtt: Option<Duration>,
    /// Bytes delivered since the packet was sent, including it.
    pub delivered: u64,
    /// Bytes delivered before the packet was sent, over the life of the path.
    pub prior_delivered: u64,
    /// Bytes delivered over the life of the path.
    pub total_delivered: u64,
    /// The time in which the delivered bytes were sent.
    pub send_elapsed: Duration,
    /// The time in which the delivered bytes were acknowledged.
    pub ack_elapsed: Duration,
    /// `delivered` over the longer of the two intervals; `None` if that interval is shorter than the smallest
    /// round-trip time.
    pub rate: Option<Rate>,
    /// True if the packet was sent in an application-limited phase: the network may be faster than the rate.
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

/// A packet was marked lost.
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
    /// Bytes marked lost since the packet was sent, including its own.
    pub lost: u64,
    /// Bytes delivered over the life of the path.
    pub total_delivered: u64,
    /// True if the packet was sent in an application-limited phase.
    pub app_limited: bool,
}
