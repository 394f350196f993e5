//! The state machine of one path (draft-ietf-ccwg-bbr, "State Machine Operation").

use super::super::group::MAX_WINDOW;
use super::super::{LostPacket, PathSetup, RateSample, Sent};
use super::model::{BETA, LOSS_THRESHOLD, Model, UNBOUNDED, rate_of};
use crate::PathId;
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};

/// A path may be full if its rate grows by less than this factor in a round.
const FULL_BW_GROWTH: f64 = 1.25;
/// A path is full after this number of rounds in a row with less growth.
const FULL_BW_ROUNDS: u32 = 3;
/// Number of ranges of lost packets in one round that ends Startup.
const STARTUP_LOSS_EVENTS: u32 = 6;
/// Maximum number of rounds in Drain.
const DRAIN_ROUNDS: u64 = 3;
/// A probe starts after this number of rounds at the latest, so that a competing Reno flow is not starved.
const RENO_ROUNDS: u64 = 63;
/// Maximum number of rounds in which the growth of the long-term bound doubles each time.
const MAX_UP_ROUNDS: u32 = 30;
/// Duration of ProbeRtt. It starts when so few bytes are in flight that there is no queue.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// Round-trip time that is assumed until the first measurement, seconds.
const ASSUMED_RTT: f64 = 1e-3;

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The sender doubles the rate every round until the path is full.
    Startup,
    /// Drains the queue of Startup.
    Drain,
    /// Sends below the path's rate, until the queue is empty and there is headroom for other flows.
    Down,
    /// Sends at the rate of the path.
    Cruise,
    /// Fills the path for one round, so that the probe starts from a full path.
    Refill,
    /// Sends above the path's rate, until the delivery rate stops growing or losses occur.
    Up,
    /// Keeps few packets in flight for a short time, to measure the round-trip time without a queue.
    ProbeRtt,
}

/// Packets to which the incoming acknowledgements belong, in relation to a bandwidth probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    /// No probe is in progress.
    Init,
    /// Acknowledgements belong to packets that fill the path before the probe.
    Refilling,
    /// The first packets of the probe are in flight.
    ProbeStarting,
    /// Acknowledgements belong to packets of the probe.
    ProbeFeedback,
    /// The probe is over, but acknowledgements still belong to its packets.
    ProbeStopping,
}

/// Values that are restored if a loss proves spurious.
#[derive(Clone, Copy, Debug)]
struct Undo {
    /// The state that the loss ended, [`State::Startup`] or [`State::Up`]; `None` if it ended neither.
    state: Option<State>,
    bw_shortterm: f64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

/// Detects that the path is full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullBw {
    /// The rate of an earlier round with which the rates of later rounds are compared, bytes per second.
    pub bw: f64,
    pub rounds: u32,
    /// True if the path has been found full since the last reset.
    pub now: bool,
}

/// A probe for bandwidth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    ack_phase: AckPhase,
    /// True while samples belong to packets of a probe that has not yet caused too many losses.
    pub sampling: bool,
    /// Bytes acknowledged since the long-term bound grew last.
    up_acked: u64,
    /// Number of acknowledged bytes for which the long-term bound grows by a packet.
    up_acked_per_packet: u64,
    up_rounds: u32,
    rounds_since: u64,
    /// Start of the probing cycle.
    cycle_start: Time,
    /// Time from the start of the cycle to the next probe.
    wait: Duration,
    /// True if the last probe exceeded the capacity of the path. If false, it ended when it reached the bound that the
    /// previous probe had found.
    pub too_high: bool,
    pub precautionary: bool,
}

/// A path.
#[derive(Clone, Debug)]
pub(super) struct Path {
    id: PathId,
    pub usable: bool,
    pub mss: u64,
    pub initial_window: u64,
    pub cwnd: u64,
    /// Pacing rate, bytes per second.
    pub pacing_rate: f64,
    pub prior_cwnd: u64,
    pub recovering: bool,
    /// True if recovery has ended, so the next sample restores the window.
    pub restore: bool,
    /// True from a timeout until data is acknowledged: the window is one packet.
    collapsed: bool,
    /// True until the data that was lost at a timeout has been repaired.
    pub repairing: bool,
    pub state: State,
    pub model: Model,
    pub full_bw_reached: bool,
    pub full_bw: FullBw,
    pub probe: Probe,
    drain_start_round: u64,
    probe_rtt_done_at: Option<Time>,
    probe_rtt_round_done: bool,
    /// True from the first data after an idle time until some of this data is acknowledged.
    pub idle_restart: bool,
    /// True once a packet has been sent.
    begun: bool,
    /// True once the round-trip time has been measured.
    timed: bool,
    in_flight: u64,
    undo: Option<Undo>,
}

impl Path {
    pub fn new(id: PathId, setup: &PathSetup) -> Self {
        let mss = u64::from(setup.mss.max(1));
        let initial_window = setup.initial_window.clamp(mss, MAX_WINDOW);
        let mut path = Self {
            id,
            usable: true,
            mss,
            initial_window,
            cwnd: initial_window,
            pacing_rate: 0.0,
            prior_cwnd: 0,
            recovering: false,
            restore: false,
            collapsed: false,
            repairing: false,
            state: State::Startup,
            model: Model::new(),
            full_bw_reached: false,
            full_bw: FullBw::default(),
            probe: Probe {
                ack_phase: AckPhase::Init,
                sampling: false,
                up_acked: 0,
                up_acked_per_packet: UNBOUNDED,
                up_rounds: 0,
                rounds_since: 0,
                cycle_start: Time::ZERO,
                wait: Duration::ZERO,
                too_high: false,
                precautionary: false,
            },
            drain_start_round: 0,
            probe_rtt_done_at: None,
            probe_rtt_round_done: false,
            idle_restart: false,
            begun: false,
            timed: false,
            in_flight: 0,
            undo: None,
        };
        path.init_pacing_rate(ASSUMED_RTT);
        path
    }

    pub fn set_mss(&mut self, mss: u64) {
        self.mss = mss;
        self.initial_window = self.initial_window.max(mss);
        self.cwnd = self.cwnd.max(mss);
    }

    /// Returns the window, bytes.
    pub fn window(&self) -> u64 {
        if self.collapsed { self.mss } else { self.cwnd }
    }

    pub fn is_probing_rtt(&self) -> bool {
        self.state == State::ProbeRtt
    }

    const fn in_probe_bw(&self) -> bool {
        matches!(self.state, State::Down | State::Cruise | State::Refill | State::Up)
    }

    fn begin(&mut self, now: Time) {
        if !core::mem::replace(&mut self.begun, true) {
            self.model.start(now);
        }
    }

    /// `HandleRestartFromIdle`, on the first packet after an idle time.
    pub fn on_sent(&mut self, sent: &Sent) {
        self.begin(sent.now);
        self.in_flight = sent.in_flight;
        if sent.in_flight > sent.bytes || !sent.app_limited {
            return;
        }
        self.idle_restart = true;
        self.model.extra_acked_from = sent.now;
        if self.in_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(sent.now);
        }
    }

    /// The function `UpdateOnACK` of the draft.
    pub fn on_sample(&mut self, sample: &RateSample) {
        self.begin(sample.now);
        self.in_flight = sample.in_flight;
        let before = self.window();
        self.cwnd = before;
        self.collapsed = false;
        if let Some(rtt) = sample.rtt.filter(|rtt| !self.timed && *rtt > Duration::ZERO) {
            self.timed = true;
            self.init_pacing_rate(rtt.as_secs_f64());
        }
        let lossy_round = self.model.update(sample);
        self.probe.rounds_since += u64::from(self.model.rounds.started);
        if lossy_round && !matches!(self.state, State::Startup | State::Refill | State::Up) {
            self.model.lower_bounds(self.cwnd);
        }
        self.model.update_aggregation(sample, self.cwnd);
        self.check_full_bw(sample);
        self.check_startup_done(sample);
        self.check_drain_done(sample);
        self.update_probe_bw(sample);
        self.model.update_min_rtt(sample);
        self.check_probe_rtt(sample);
        self.model.advance_latest(sample);
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_cwnd(sample);
        if !self.usable {
            self.cwnd = self.cwnd.min(before);
        }
    }

    fn reset_full_bw(&mut self, bw: f64) {
        self.full_bw = FullBw { bw, ..FullBw::default() };
    }

    /// `CheckFullBWReached`: the path is full after three rounds in which the rate grew by less than a quarter each.
    fn check_full_bw(&mut self, sample: &RateSample) {
        let rate = rate_of(sample);
        if self.full_bw.now || !self.model.rounds.started || sample.app_limited || rate == 0.0 {
            return;
        }
        if rate >= self.full_bw.bw * FULL_BW_GROWTH {
            self.reset_full_bw(rate);
            return;
        }
        self.full_bw.rounds += 1;
        self.full_bw.now = self.full_bw.rounds >= FULL_BW_ROUNDS;
        self.full_bw_reached |= self.full_bw.now;
    }

    fn check_startup_done(&mut self, sample: &RateSample) {
        let events = self.model.count_loss_events(sample);
        if self.state != State::Startup {
            return;
        }
        let often = events.is_some_and(|events| events >= STARTUP_LOSS_EVENTS);
        if often && self.recovering && too_high(sample.lost, sample.tx_in_flight) {
            self.leave_startup_by_loss();
        }
        if self.full_bw_reached {
            self.state = State::Drain;
            self.drain_start_round = self.model.rounds.count;
        }
    }

    /// Ends Startup because of too many losses: the path is considered full.
    fn leave_startup_by_loss(&mut self) {
        if let Some(undo) = &mut self.undo {
            undo.state = Some(State::Startup);
        }
        self.full_bw_reached = true;
        self.model.inflight_longterm = self.model.bdp().max(self.model.inflight_latest());
    }

    fn check_drain_done(&mut self, sample: &RateSample) {
        if self.state == State::Drain
            && (sample.in_flight <= self.inflight(1.0, self.model.bw())
                || self.model.rounds.count > self.drain_start_round + DRAIN_ROUNDS)
        {
            self.start_down(sample.now);
        }
    }

    /// The function `StartProbeBW_DOWN` of the draft.
    fn start_down(&mut self, now: Time) {
        self.model.reset_congestion_signals();
        self.probe.up_acked_per_packet = UNBOUNDED;
        self.pick_probe_wait(now);
        self.probe.cycle_start = now;
        self.probe.ack_phase = AckPhase::ProbeStopping;
        self.model.rounds.begin();
        self.state = State::Down;
    }

    /// `PickProbeWait`: chooses a random time of two to three seconds until the next probe; the count of rounds starts
    /// at 0 or 1.
    fn pick_probe_wait(&mut self, now: Time) {
        let history = now.as_nanos() ^ self.model.rounds.delivered.rotate_left(32);
        let mut rng = Rng::new(history ^ u64::from(self.id.0).rotate_left(56));
        self.probe.rounds_since = rng.below(2);
        self.probe.wait = Duration::from_secs(2) + Duration::from_secs_f64(rng.unit());
    }

    /// The function `StartProbeBW_REFILL` of the draft.
    fn start_refill(&mut self) {
        self.model.reset_short_term();
        (self.probe.up_rounds, self.probe.up_acked) = (0, 0);
        self.probe.precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.model.rounds.begin();
        self.state = State::Refill;
    }

    /// The function `StartProbeBW_UP` of the draft.
    fn start_up(&mut self, sample: &RateSample) {
        self.probe.ack_phase = AckPhase::ProbeStarting;
        self.model.rounds.begin();
        self.reset_full_bw(rate_of(sample));
        self.state = State::Up;
        self.raise_slope();
    }

    /// The function `UpdateProbeBWCyclePhase` of the draft.
    fn update_probe_bw(&mut self, sample: &RateSample) {
        if !self.full_bw_reached || self.adapt_long_term(sample) {
            return;
        }
        match self.state {
            State::Down => {
                if !self.probe_is_due(sample.now) && self.may_cruise(sample) {
                    self.state = State::Cruise;
                }
            }
            State::Cruise => {
                self.probe_is_due(sample.now);
            }
            State::Refill if self.model.rounds.started => {
                self.probe.sampling = true;
                self.start_up(sample);
            }
            State::Up => {
                if self.probe_is_over(sample) {
                    self.probe.too_high = false;
                    self.start_down(sample.now);
                }
            }
            State::Startup | State::Drain | State::Refill | State::ProbeRtt => {}
        }
    }

    /// `IsTimeToProbeBW`: starts the next probe if it is due.
    fn probe_is_due(&mut self, now: Time) -> bool {
        let rounds = (self.target_inflight() / self.mss).min(RENO_ROUNDS);
        let due = now > self.probe.cycle_start + self.probe.wait || self.probe.rounds_since >= rounds;
        if due {
            self.start_refill();
        }
        due
    }

    /// The function `IsTimeToCruise` of the draft.
    fn may_cruise(&self, sample: &RateSample) -> bool {
        sample.in_flight <= self.inflight_with_headroom()
            && sample.in_flight <= self.inflight(1.0, self.model.max_bw())
    }

    /// The function `IsTimeToGoDown` of the draft.
    fn probe_is_over(&mut self, sample: &RateSample) -> bool {
        if self.probe.too_high && sample.in_flight >= self.model.inflight_longterm {
            self.probe.precautionary = true;
            return true;
        }
        if sample.cwnd_limited && self.cwnd >= self.model.inflight_longterm {
            // The bound limits the rate, so a lack of growth does not show that the path is full.
            self.reset_full_bw(rate_of(sample));
            return false;
        }
        self.full_bw.now
    }

    /// `AdaptLongTermModel`; returns true if it changed the state.
    fn adapt_long_term(&mut self, sample: &RateSample) -> bool {
        let round = self.model.rounds.started;
        if self.probe.ack_phase == AckPhase::ProbeStarting && round {
            self.probe.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.probe.ack_phase == AckPhase::ProbeStopping && round {
            self.probe.sampling = false;
            self.probe.ack_phase = AckPhase::Init;
            if self.in_probe_bw() && !sample.app_limited {
                self.model.advance_max_bw();
            }
            if self.in_probe_bw() && self.probe.precautionary && !self.probe.too_high {
                self.start_refill();
                return true;
            }
        }
        if too_high(sample.lost, sample.tx_in_flight) || self.model.inflight_longterm == UNBOUNDED {
            return false;
        }
        self.model.inflight_longterm = self.model.inflight_longterm.max(sample.tx_in_flight);
        if self.state == State::Up {
            self.grow_long_term(sample);
        }
        false
    }

    /// The function `ProbeInflightLongtermUpward` of the draft.
    fn grow_long_term(&mut self, sample: &RateSample) {
        if !sample.cwnd_limited || self.cwnd < self.model.inflight_longterm {
            return;
        }
        self.probe.up_acked = self.probe.up_acked.saturating_add(sample.newly_acked);
        let packets = self.probe.up_acked / self.probe.up_acked_per_packet;
        self.probe.up_acked -= packets * self.probe.up_acked_per_packet;
        let more = packets.saturating_mul(self.mss);
        self.model.inflight_longterm = self.model.inflight_longterm.saturating_add(more).min(MAX_WINDOW);
        if self.model.rounds.started {
            self.raise_slope();
        }
    }

    /// `RaiseInflightLongtermSlope`: the bound grows by one packet per window in the first round of a probe, by two in
    /// the second, and by four in the third.
    fn raise_slope(&mut self) {
        let packets = 1_u64 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.probe.up_acked_per_packet = (self.cwnd / packets).max(self.mss);
    }

    /// The function `CheckProbeRTT` of the draft.
    fn check_probe_rtt(&mut self, sample: &RateSample) {
        if self.state != State::ProbeRtt && self.model.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt_done_at = None;
            self.probe.ack_phase = AckPhase::ProbeStopping;
            self.model.rounds.begin();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(sample);
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// `HandleProbeRTT`: when so few bytes are in flight that there is no queue, waits for 200 ms and one round.
    fn handle_probe_rtt(&mut self, sample: &RateSample) {
        if self.probe_rtt_done_at.is_none() {
            if sample.in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt_done_at = Some(sample.now + PROBE_RTT_DURATION);
                self.probe_rtt_round_done = false;
                self.model.rounds.begin();
            }
            return;
        }
        self.probe_rtt_round_done |= self.model.rounds.started;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(sample.now);
        }
    }

    /// `CheckProbeRTTDone` and `ExitProbeRTT`.
    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done_at.is_none_or(|done| now <= done) {
            return;
        }
        self.model.probe_rtt_min_at = now;
        self.restore_cwnd();
        self.model.reset_short_term();
        if self.full_bw_reached {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// The function `HandleLostPacket` of the draft.
    pub fn on_lost(&mut self, lost: &LostPacket) {
        self.begin(lost.now);
        self.model.rounds.delivered = lost.total_delivered;
        self.note_loss();
        if !self.probe.sampling || !too_high(lost.lost, lost.tx_in_flight) {
            return;
        }
        // `InflightAtLoss`: the byte within the packet at which the share of losses exceeds the limit.
        let before = lost.tx_in_flight.saturating_sub(lost.bytes) as f64;
        let lost_before = lost.lost.saturating_sub(lost.bytes) as f64;
        let prefix = (LOSS_THRESHOLD * before - lost_before) / (1.0 - LOSS_THRESHOLD);
        self.handle_too_high(lost.now, (before + prefix.max(0.0)) as u64, lost.app_limited);
    }

    fn note_loss(&mut self) {
        if self.model.note_loss() {
            self.save_upon_loss();
        }
    }

    /// The function `HandleInflightTooHigh` of the draft.
    fn handle_too_high(&mut self, now: Time, in_flight: u64, app_limited: bool) {
        self.probe.too_high = true;
        self.probe.sampling = false; // one reaction per probe
        if !app_limited {
            let least = (BETA * self.target_inflight() as f64) as u64;
            self.model.inflight_longterm = in_flight.max(least).min(MAX_WINDOW);
        }
        if self.state == State::Up {
            if let Some(undo) = &mut self.undo {
                undo.state = Some(State::Up);
            }
            self.start_down(now);
        }
    }

    /// Processes an ECN echo, which has the effect of too many losses.
    pub fn on_mark(&mut self, now: Time) {
        self.note_loss();
        if self.state == State::Startup {
            self.leave_startup_by_loss();
        } else if self.probe.sampling {
            self.handle_too_high(now, self.in_flight, false);
        }
        self.undo = None;
    }

    /// The function `SaveStateUponLoss` of the draft.
    fn save_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo = Some(Undo {
            state: None,
            bw_shortterm: self.model.bw_shortterm,
            inflight_shortterm: self.model.inflight_shortterm,
            inflight_longterm: self.model.inflight_longterm,
        });
    }

    /// The function `OnEnterFastRecovery` of the draft.
    pub fn enter_recovery(&mut self) {
        self.save_upon_loss();
        self.recovering = true;
    }

    /// Ends recovery, because the lost data has been repaired. The next sample restores the window within the bounds of
    /// the model.
    pub fn leave_recovery(&mut self) {
        (self.recovering, self.repairing) = (false, false);
        self.restore = true;
    }

    /// `OnEnterRTO`: all outstanding data is marked lost, and the window is one packet. The losses of this data are
    /// compared with the window with which it was sent, whether they are reported before or after the timeout.
    pub fn on_timeout(&mut self) {
        if self.undo.is_none() || !self.model.is_lossy() {
            self.save_upon_loss();
        }
        self.save_cwnd();
        if !matches!(self.state, State::Startup | State::Refill | State::Up) {
            self.model.bound_inflight(self.cwnd);
        }
        self.recovering = false;
        (self.collapsed, self.repairing) = (true, true);
    }

    /// The function `HandleSpuriousLossDetection` of the draft.
    pub fn undo(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        self.restore_cwnd();
        (self.collapsed, self.repairing) = (false, false);
        self.model.forget_loss();
        self.reset_full_bw(0.0);
        self.model.bw_shortterm = self.model.bw_shortterm.max(undo.bw_shortterm);
        self.model.inflight_shortterm = self.model.inflight_shortterm.max(undo.inflight_shortterm);
        self.model.inflight_longterm = self.model.inflight_longterm.max(undo.inflight_longterm);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => self.start_refill(),
            _ => {}
        }
    }

    /// Reduces the window of a path that blocks its connection. The bounds keep it low until the next probe.
    pub fn penalise(&mut self) {
        self.cwnd = (self.window() / 2).max(self.mss);
        self.prior_cwnd = self.cwnd;
        self.model.inflight_shortterm = self.model.inflight_shortterm.min(self.cwnd);
    }
}

/// `IsInflightTooHigh`: more than 2 % of the data in flight was lost.
fn too_high(lost: u64, in_flight: u64) -> bool {
    lost as f64 > in_flight as f64 * LOSS_THRESHOLD
}
