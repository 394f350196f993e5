//! The model of one path: delivery rates, round-trip times, rounds, and bounds derived from losses
//! (draft-ietf-ccwg-bbr, "Updating Network Path Model Parameters").

use super::super::RateSample;
use anabranch_base::time::{Duration, Time};

/// A round in which a larger share of the sent bytes is lost has too many losses.
pub(super) const LOSS_THRESHOLD: f64 = 0.02;
/// A round with losses lowers the short-term bounds at most by this factor.
pub(super) const BETA: f64 = 0.7;
/// The lowest round-trip time is used for this time after its measurement.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// The path probes for a lower round-trip time when the lowest one has not been measured again for this time.
pub(super) const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// Number of rounds whose excess of acknowledged bytes is stored.
const EXTRA_ACKED_ROUNDS: usize = 10;
/// Value of a bound that does not limit.
pub(super) const UNBOUNDED: u64 = u64::MAX;

/// Rounds of packets: a round ends when a packet is acknowledged that was sent after the end of the previous round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    /// Bytes delivered at the start of the round. A packet that was sent with at least this number delivered ends the
    /// round.
    next_delivered: u64,
    /// Number of rounds that have ended.
    pub count: u64,
    /// True if the last acknowledgement ended a round.
    pub started: bool,
    /// Bytes delivered, according to the newest sample or loss.
    pub delivered: u64,
}

impl Rounds {
    /// Begins a round.
    pub fn begin(&mut self) {
        self.next_delivered = self.delivered;
    }

    fn update(&mut self, sample: &RateSample) {
        self.delivered = sample.total_delivered;
        self.started = sample.prior_delivered >= self.next_delivered;
        if self.started {
            self.begin();
            self.count += 1;
        }
    }
}

/// Congestion signals of the latest round: its delivery, and whether it had losses.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    /// Highest rate, bytes per second.
    bw: f64,
    /// Maximum number of bytes delivered in a round trip.
    inflight: u64,
    /// Bytes delivered at the start of the round.
    round_delivered: u64,
    /// True if the last acknowledgement ended the round.
    round_start: bool,
    lossy: bool,
}

/// The model.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub rounds: Rounds,
    latest: Latest,
    /// Highest rate of the previous probing cycle, and of the current one, bytes per second.
    max_bw: [f64; 2],
    /// Bound of the rate because of losses since the last probe, bytes per second.
    pub bw_shortterm: f64,
    /// Bound of the data in flight because of losses since the last probe, bytes.
    pub inflight_shortterm: u64,
    /// Maximum number of bytes in flight that probes have found to be safe.
    pub inflight_longterm: u64,
    /// Lowest round-trip time of the last ten seconds.
    pub min_rtt: Option<Duration>,
    min_rtt_at: Time,
    /// Lowest round-trip time since the path last probed for it.
    probe_rtt_min: Option<Duration>,
    pub probe_rtt_min_at: Time,
    /// True if `probe_rtt_min` is older than [`PROBE_RTT_INTERVAL`].
    pub probe_rtt_expired: bool,
    /// Bytes acknowledged beyond those that the estimated rate explains: the maximum of each of the last rounds.
    extra_acked: [u64; EXTRA_ACKED_ROUNDS],
    pub extra_acked_from: Time,
    extra_acked_delivered: u64,
    /// Number of acknowledgements in this round that reported losses.
    loss_events: u32,
}

impl Model {
    pub fn new() -> Self {
        Self {
            rounds: Rounds::default(),
            latest: Latest::default(),
            max_bw: [0.0; 2],
            bw_shortterm: f64::INFINITY,
            inflight_shortterm: UNBOUNDED,
            inflight_longterm: UNBOUNDED,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probe_rtt_min: None,
            probe_rtt_min_at: Time::ZERO,
            probe_rtt_expired: false,
            extra_acked: [0; EXTRA_ACKED_ROUNDS],
            extra_acked_from: Time::ZERO,
            extra_acked_delivered: 0,
            loss_events: 0,
        }
    }

    /// Starts the model. Called when the first packet is sent.
    pub fn start(&mut self, now: Time) {
        (self.min_rtt_at, self.probe_rtt_min_at, self.extra_acked_from) = (now, now, now);
    }

    /// Returns the highest rate of the last two cycles, bytes per second.
    pub fn max_bw(&self) -> f64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    /// Returns the rate that limits sending, bytes per second.
    pub fn bw(&self) -> f64 {
        self.max_bw().min(self.bw_shortterm)
    }

    /// Returns `bw` times the lowest round-trip time, bytes; `None` before a round-trip time has been measured.
    pub fn product(&self, bw: f64) -> Option<f64> {
        self.min_rtt.map(|rtt| bw * rtt.as_secs_f64())
    }

    /// Returns the bandwidth-delay product, bytes; 0 before it is known.
    pub fn bdp(&self) -> u64 {
        self.product(self.bw()).unwrap_or(0.0) as u64
    }

    /// `UpdateLatestDeliverySignals` and `UpdateMaxBw`; also counts the rounds. Returns true if a round with a loss
    /// ended, so the short-term bounds may have to be lowered.
    pub fn update(&mut self, sample: &RateSample) -> bool {
        let rate = rate_of(sample);
        self.latest.round_start = sample.prior_delivered >= self.latest.round_delivered;
        self.latest.bw = self.latest.bw.max(rate);
        self.latest.inflight = self.latest.inflight.max(sample.delivered);
        if self.latest.round_start {
            self.latest.round_delivered = sample.total_delivered;
        }
        self.rounds.update(sample);
        if rate > 0.0 && (rate >= self.max_bw() || !sample.app_limited) {
            self.max_bw[1] = self.max_bw[1].max(rate);
        }
        self.latest.round_start && core::mem::take(&mut self.latest.lossy)
    }

    /// `AdvanceLatestDeliverySignals`: the last step of processing a sample.
    pub fn advance_latest(&mut self, sample: &RateSample) {
        if self.latest.round_start {
            self.latest.bw = rate_of(sample);
            self.latest.inflight = sample.delivered;
        }
    }

    /// The function `ResetCongestionSignals` of the draft.
    pub fn reset_congestion_signals(&mut self) {
        self.latest.lossy = false;
        (self.latest.bw, self.latest.inflight) = (0.0, 0);
    }

    /// The function `ResetShortTermModel` of the draft.
    pub fn reset_short_term(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (f64::INFINITY, UNBOUNDED);
    }

    /// `InitLowerBounds` and `LossLowerBounds`: lowers the short-term bounds after a round with losses outside of a
    /// probe.
    pub fn lower_bounds(&mut self, cwnd: u64) {
        if self.bw_shortterm.is_infinite() {
            self.bw_shortterm = self.max_bw();
        }
        self.bound_inflight(cwnd);
        self.bw_shortterm = self.latest.bw.max(BETA * self.bw_shortterm);
        self.inflight_shortterm = self.latest.inflight.max((BETA * self.inflight_shortterm as f64) as u64);
    }

    /// Sets the short-term bound of the data in flight to the window before a loss, if it is not set.
    pub fn bound_inflight(&mut self, cwnd: u64) {
        if self.inflight_shortterm == UNBOUNDED {
            self.inflight_shortterm = cwnd;
        }
    }

    /// True if a packet was lost in this round.
    pub fn is_lossy(&self) -> bool {
        self.latest.lossy
    }

    /// Records a lost packet; returns true if it is the first one of its round.
    pub fn note_loss(&mut self) -> bool {
        let first = !core::mem::replace(&mut self.latest.lossy, true);
        if first {
            self.latest.round_delivered = self.rounds.delivered;
        }
        first
    }

    /// Makes this round count as one without losses.
    pub fn forget_loss(&mut self) {
        self.latest.lossy = false;
    }

    /// Counts the acknowledgements with losses in a round; returns their number if this sample ends the round.
    pub fn count_loss_events(&mut self, sample: &RateSample) -> Option<u32> {
        if sample.newly_lost > 0 {
            self.loss_events = self.loss_events.saturating_add(1);
        }
        self.latest.round_start.then(|| core::mem::take(&mut self.loss_events))
    }

    /// Returns the maximum number of bytes delivered within a round trip in the latest round.
    pub fn inflight_latest(&self) -> u64 {
        self.latest.inflight
    }

    /// `AdvanceMaxBwFilter`: ends a probing cycle. If the cycle had no sample, the rate of the previous one is kept.
    pub fn advance_max_bw(&mut self) {
        if self.max_bw[1] > 0.0 {
            self.max_bw = [self.max_bw[1], 0.0];
        }
    }

    /// `UpdateACKAggregation`: computes the number of bytes acknowledged beyond those that the estimated rate explains.
    /// Before the path has been full, only the latest round is used.
    pub fn update_aggregation(&mut self, sample: &RateSample, cwnd: u64) {
        let slot = (self.rounds.count % EXTRA_ACKED_ROUNDS as u64) as usize;
        if self.rounds.started {
            self.extra_acked[slot] = 0;
        }
        let mut expected = self.bw() * sample.now.since(self.extra_acked_from).as_secs_f64();
        if self.extra_acked_delivered as f64 <= expected {
            self.extra_acked_delivered = 0;
            self.extra_acked_from = sample.now;
            expected = 0.0;
        }
        self.extra_acked_delivered = self.extra_acked_delivered.saturating_add(sample.newly_acked);
        let extra = (self.extra_acked_delivered as f64 - expected) as u64;
        self.extra_acked[slot] = self.extra_acked[slot].max(extra.min(cwnd));
    }

    /// Returns the maximum excess of acknowledged bytes: of the last ten rounds if the path has been `full`, otherwise
    /// of this round.
    pub fn extra_acked(&self, full: bool) -> u64 {
        if full {
            self.extra_acked.iter().copied().max().unwrap_or(0)
        } else {
            self.extra_acked[(self.rounds.count % EXTRA_ACKED_ROUNDS as u64) as usize]
        }
    }

    /// The function `UpdateMinRTT` of the draft.
    pub fn update_min_rtt(&mut self, sample: &RateSample) {
        let now = sample.now;
        self.probe_rtt_expired = now > self.probe_rtt_min_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = sample.rtt.filter(|rtt| *rtt > Duration::ZERO)
            && (self.probe_rtt_expired || self.probe_rtt_min.is_none_or(|min| rtt < min))
        {
            (self.probe_rtt_min, self.probe_rtt_min_at) = (Some(rtt), now);
        }
        let expired = now > self.min_rtt_at + MIN_RTT_WINDOW;
        let lower = match (self.probe_rtt_min, self.min_rtt) {
            (Some(new), Some(old)) => new < old,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if lower || (expired && self.probe_rtt_min.is_some()) {
            (self.min_rtt, self.min_rtt_at) = (self.probe_rtt_min, self.probe_rtt_min_at);
        }
    }
}

/// Returns the rate of a sample, bytes per second; 0 if the sample has no rate.
pub(super) fn rate_of(sample: &RateSample) -> f64 {
    sample.rate.map_or(0.0, |rate| rate.bits_per_second() as f64 / 8.0)
}
