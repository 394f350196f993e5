//! Pacing rate and window of one path (draft-ietf-ccwg-bbr, "Updating Control Parameters").

use super::super::RateSample;
use super::super::group::MAX_WINDOW;
use super::machine::{Path, State};
use super::model::UNBOUNDED;
use crate::pacing::quantum;
use anabranch_base::units::Rate;

/// Factor of the pacing rate. The rate is a little below the estimated rate of the path, so that queues drain in the
/// long run.
const PACING_MARGIN: f64 = 0.99;
/// The part of the safe amount of in-flight data that is reserved for other flows.
const HEADROOM: f64 = 0.15;
/// The smallest window, in packets, that keeps the path busy if the receiver acknowledges every other packet.
const MIN_PIPE_PACKETS: u64 = 4;

impl State {
    /// Returns the pacing rate as a multiple of the rate in the model.
    pub(super) const fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => 2.77,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    /// Returns the window as a multiple of the bandwidth-delay product.
    const fn cwnd_gain(self) -> f64 {
        match self {
            Self::Startup | Self::Drain | Self::Down | Self::Cruise | Self::Refill => 2.0,
            Self::Up => 2.25,
            Self::ProbeRtt => 0.5,
        }
    }
}

impl Path {
    /// Returns the pacing rate.
    pub fn pacing(&self) -> Rate {
        let bytes = self.pacing_rate.max(self.mss as f64);
        Rate::from_bits_per_second((bytes * 8.0) as u64)
    }

    /// `InitPacingRate`: sets the rate to the initial window per `rtt` seconds, times the gain.
    pub(super) fn init_pacing_rate(&mut self, rtt: f64) {
        self.pacing_rate = State::Startup.pacing_gain() * self.initial_window as f64 / rtt;
    }

    /// `SetPacingRateWithGain`: until the path has been full for the first time, the rate only rises.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.model.bw() * PACING_MARGIN;
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Returns the smallest window that the model may set, bytes.
    pub(super) const fn min_pipe(&self) -> u64 {
        MIN_PIPE_PACKETS * self.mss
    }

    /// `BDPMultiple` of the draft, bytes.
    fn bdp_multiple(&self, gain: f64, bw: f64) -> u64 {
        self.model.product(bw).map_or(self.initial_window, |product| (gain * product) as u64)
    }

    /// `QuantizationBudget` of the draft, bytes.
    fn budget(&self, inflight: u64) -> u64 {
        let floor = quantum(self.pacing(), self.mss).max(self.min_pipe());
        let more = if self.state == State::Up { 2 * self.mss } else { 0 };
        inflight.max(floor).saturating_add(more)
    }

    /// `Inflight` of the draft: the bytes in flight at rate `bw`, times `gain`.
    pub(super) fn inflight(&self, gain: f64, bw: f64) -> u64 {
        self.budget(self.bdp_multiple(gain, bw))
    }

    /// `TargetInflight` of the draft, bytes. After a timeout has reduced the window to one packet, the window before
    /// the timeout is used until the lost data has been repaired.
    pub(super) fn target_inflight(&self) -> u64 {
        let window = if self.repairing { self.cwnd.max(self.prior_cwnd) } else { self.cwnd };
        self.model.bdp().min(window)
    }

    /// `InflightWithHeadroom` of the draft, bytes.
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        let longterm = self.model.inflight_longterm;
        if longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = ((HEADROOM * longterm as f64) as u64).max(self.mss);
        longterm.saturating_sub(headroom).max(self.min_pipe())
    }

    /// `ProbeRTTCwnd` of the draft, bytes.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp_multiple(State::ProbeRtt.cwnd_gain(), self.model.bw()).max(self.min_pipe())
    }

    /// The function `SetCwnd` of the draft.
    pub(super) fn set_cwnd(&mut self, sample: &RateSample) {
        if self.usable && core::mem::take(&mut self.restore) {
            self.restore_cwnd();
        }
        let multiple = self.bdp_multiple(self.state.cwnd_gain(), self.model.bw());
        let most = self.budget(multiple.saturating_add(self.model.extra_acked(self.full_bw_reached)));
        let grown = self.cwnd.saturating_add(sample.newly_acked);
        if self.full_bw_reached {
            self.cwnd = grown.min(most);
        } else if self.cwnd < most || sample.total_delivered < self.initial_window {
            self.cwnd = grown;
        }
        self.cwnd = self.cwnd.max(self.min_pipe());
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd();
    }

    /// The function `BoundCwndForModel` of the draft.
    fn bound_cwnd(&mut self) {
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.model.inflight_longterm,
            State::ProbeRtt | State::Cruise => self.inflight_with_headroom(),
            State::Startup | State::Drain => UNBOUNDED,
        };
        let cap = cap.min(self.model.inflight_shortterm).max(self.min_pipe());
        self.cwnd = self.cwnd.min(cap).min(MAX_WINDOW).max(self.mss);
    }

    /// The function `SaveCwnd` of the draft.
    pub(super) fn save_cwnd(&mut self) {
        self.prior_cwnd = if !self.recovering && self.state != State::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    /// The function `RestoreCwnd` of the draft.
    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }
}
