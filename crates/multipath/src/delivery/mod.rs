//! Delivery-rate estimation (draft-ietf-ccwg-bbr §"Delivery Rate Samples", formerly
//! draft-cheng-iccrg-delivery-rate-estimation): how fast the network has carried what was sent on one path.
//!
//! A sample covers the time from a packet's transmission to its acknowledgement: what was delivered meanwhile,
//! divided by the longer of two intervals, that in which the packets left and that in which the acknowledgements
//! came. The first bounds what acknowledgements that arrive in a bunch would pretend, the second what a burst
//! into a buffer would.
//!
//! The transport keeps a [`Snapshot`] with each packet in flight: [`DeliveryRate::sent`] hands it out,
//! [`DeliveryRate::delivered`] and [`DeliveryRate::lost`] take it back, and [`DeliveryRate::sample`] closes the
//! handling of one acknowledgement.

use crate::PathId;
use crate::congestion::{LostPacket, RateSample};
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;

/// What the estimator knew when a packet left; the transport keeps it until the packet's fate is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Ascending over all transmissions of the path.
    number: u64,
    sent_at: Time,
    /// When the packet left whose delivery began the send interval.
    first_sent: Time,
    /// When data was last delivered.
    delivered_at: Time,
    /// Bytes delivered so far.
    delivered: u64,
    /// Bytes marked lost so far.
    lost: u64,
    /// Bytes in flight right after this packet left.
    in_flight: u64,
    app_limited: bool,
    /// A retransmission: which transmission an acknowledgement means is not known (Karn).
    again: bool,
}

/// The newest packet that the acknowledgement at hand reports, and when its data came before it.
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
    /// When the packet left that was delivered last, or, after silence, the first one after it.
    first_sent: Time,
    /// Bytes marked lost over the life of the path.
    lost: u64,
    /// Samples are limited by the application until so many bytes are delivered; 0 while they are not.
    app_limited_until: u64,
    /// Smallest unambiguous round-trip time.
    min_rtt: Option<Duration>,
    newest: Option<Newest>,
    newly_acked: u64,
    newly_lost: u64,
}

impl DeliveryRate {
    /// An estimator that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A packet leaves. `in_flight` counts the bytes in flight with it, `bytes` its own; `again` says that it was
    /// sent before and that an acknowledgement will not tell which transmission it means.
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

    /// `bytes` of a packet are reported as delivered for the first time, cumulatively or selectively.
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

    /// `bytes` of a packet are marked lost.
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

    /// Closes the handling of an acknowledgement: the sample, if it reported anything new as delivered.
    /// `in_flight` is what is in flight now, and `cwnd_limited` says that the window was fully used at some time in
    /// the last round trip.
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
        // A shorter interval is that of a retransmission whose original arrived after all.
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

    /// There is room to send and nothing to send: what is sent until all that is in flight now is delivered says
    /// nothing about the network's limit.
    pub fn set_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// The path is in an application-limited phase.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }
}

/// `bytes` in `interval`, which is not zero.
fn rate_of(bytes: u64, interval: Duration) -> Rate {
    let bits = u128::from(bytes) * 8_000_000_000 / u128::from(interval.as_nanos());
    Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
