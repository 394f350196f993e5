//! Delivery-rate estimation (draft-ietf-ccwg-bbr §"Delivery Rate Samples", formerly
//! draft-cheng-iccrg-delivery-rate-estimation): the rate at which the network has delivered the data of one
//! path.
//!
//! A sample covers the time from a packet's transmission to its acknowledgement. It is the data delivered
//! meanwhile, divided by the longer of two intervals: that of the transmissions and that of the
//! acknowledgements. The first interval limits the overestimation by aggregated acknowledgements, the second
//! the overestimation by a burst into a buffer.
//!
//! The transport keeps a [`Snapshot`] with each packet in flight: [`DeliveryRate::sent`] returns it,
//! [`DeliveryRate::delivered`] and [`DeliveryRate::lost`] take it, and [`DeliveryRate::sample`] ends the
//! processing of one acknowledgement.

use crate::PathId;
use crate::congestion::{LostPacket, RateSample};
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;

/// State of the estimator when a packet was sent; the transport keeps it until the packet is delivered or
/// lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Number of the transmission, ascending over all transmissions of the path.
    number: u64,
    sent_at: Time,
    /// The transmission time of the packet whose delivery started the send interval.
    first_sent: Time,
    /// Time at which data was last delivered.
    delivered_at: Time,
    /// Total of bytes delivered.
    delivered: u64,
    /// Total of bytes marked lost.
    lost: u64,
    /// Bytes in flight right after this packet left.
    in_flight: u64,
    app_limited: bool,
    /// True for a retransmission: an acknowledgement does not identify which transmission arrived (Karn).
    again: bool,
}

/// The newest packet that the present acknowledgement reports, and the intervals of its rate sample: between two
/// transmissions, and between two acknowledgements.
#[derive(Clone, Copy, Debug)]
struct Newest {
    snapshot: Snapshot,
    send_elapsed: Duration,
    ack_elapsed: Duration,
}

/// The estimator of one path.
#[derive(Clone, Debug, Default)]
pub struct DeliveryRate {
    transmissions: u64,
    /// Bytes delivered over the life of the path.
    delivered: u64,
    delivered_at: Time,
    /// Transmission time of the packet delivered last or, after an idle time, of the first packet after it.
    first_sent: Time,
    /// Bytes marked lost over the life of the path.
    lost: u64,
    /// Samples are application-limited until this number of bytes is delivered; 0 if they are not.
    app_limited_until: u64,
    /// Smallest unambiguous round-trip time.
    min_rtt: Option<Duration>,
    newest: Option<Newest>,
    newly_acked: u64,
    newly_lost: u64,
}

impl DeliveryRate {
    /// An estimator without samples.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records the transmission of a packet of `bytes` bytes. `in_flight` is the number of bytes in flight,
    /// including the packet. `again` is true for a retransmission, whose acknowledgement is ambiguous.
    pub fn sent(&mut self, now: Time, bytes: u64, in_flight: u64, again: bool) -> Snapshot {
        if in_flight <= bytes {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        self.transmissions += 1;
        Snapshot {
            number: self.transmissions,
            sent_at: now,
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            lost: self.lost,
            in_flight,
            app_limited: self.is_app_limited(),
            again,
        }
    }

    /// Records that `bytes` bytes of a packet are newly reported as delivered, cumulatively or selectively.
    pub fn delivered(&mut self, now: Time, packet: &Snapshot, bytes: u64) {
        self.delivered += bytes;
        self.delivered_at = now;
        self.newly_acked += bytes;
        if self.newest.is_none_or(|newest| packet.number > newest.snapshot.number) {
            self.newest = Some(Newest {
                snapshot: *packet,
                send_elapsed: packet.sent_at.since(packet.first_sent),
                ack_elapsed: now.since(packet.delivered_at),
            });
            self.first_sent = packet.sent_at;
        }
    }

    /// Records that `bytes` bytes of a packet are marked lost.
    pub fn lost(&mut self, (now, path): (Time, PathId), packet: &Snapshot, bytes: u64) -> LostPacket {
        self.lost += bytes;
        self.newly_lost += bytes;
        LostPacket {
            now,
            path,
            bytes,
            tx_in_flight: packet.in_flight,
            lost: self.lost.saturating_sub(packet.lost),
            total_delivered: self.delivered,
            app_limited: packet.app_limited,
        }
    }

    /// Ends the processing of an acknowledgement: returns the sample, if it reported newly delivered data.
    /// `in_flight` are the bytes in flight now; `cwnd_limited`: the window was fully used at some time in the
    /// last round trip.
    pub fn sample(
        &mut self,
        (now, path): (Time, PathId),
        in_flight: u64,
        cwnd_limited: bool,
    ) -> Option<RateSample> {
        if self.is_app_limited() && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let (newly_acked, newly_lost) =
            (core::mem::take(&mut self.newly_acked), core::mem::take(&mut self.newly_lost));
        let Newest { snapshot, send_elapsed, ack_elapsed } = self.newest.take()?;
        let rtt = (!snapshot.again).then(|| now.since(snapshot.sent_at));
        if let Some(rtt) = rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
        let interval = send_elapsed.max(ack_elapsed);
        let delivered = self.delivered - snapshot.delivered;
        // A shorter interval belongs to a spurious retransmission, whose original has arrived.
        let plausible = interval > Duration::ZERO && self.min_rtt.is_none_or(|min| interval >= min);
        Some(RateSample {
            now,
            path,
            rtt,
            delivered,
            prior_delivered: snapshot.delivered,
            total_delivered: self.delivered,
            send_elapsed,
            ack_elapsed,
            rate: plausible.then(|| rate_of(delivered, interval)),
            app_limited: snapshot.app_limited,
            newly_acked,
            newly_lost,
            lost: self.lost.saturating_sub(snapshot.lost),
            tx_in_flight: snapshot.in_flight,
            in_flight,
            cwnd_limited,
        })
    }

    /// Starts an application-limited phase: the window has room, but there is no data. Packets that are sent
    /// before the data now in flight is delivered give no information about the network's limit.
    pub fn set_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// Whether the path is in an application-limited phase.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }
}

/// The rate of `bytes` bytes in `interval`, which is not zero.
fn rate_of(bytes: u64, interval: Duration) -> Rate {
    let bits = u128::from(bytes) * 8_000_000_000 / u128::from(interval.as_nanos());
    Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
