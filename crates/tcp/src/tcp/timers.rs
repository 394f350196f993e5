//! Actions of a block when a deadline passes: retransmission (RFC 6298), probes of a closed window (RFC 9293
//! §3.8.6.1), keep-alives (§3.8.4), the user timeout (§3.8.3, RFC 5482) and TIME-WAIT.
//!
//! A peer that answers is alive, and a window that it keeps closed ends no connection (§3.8.6.1), even if it closes
//! over data already sent. A silent peer ends the connection, with a closed window or without.

use super::deadlines::{Life, Timers};
use super::tcb::{Context, State, Tcb};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::Reason;

/// Twice the maximum segment lifetime (RFC 9293 §3.4.2 has 4 minutes; Linux waits one).
const TIME_WAIT_DURATION: Duration = Duration::from_secs(60);

/// Unanswered keep-alives after which the peer counts as dead (Linux's `tcp_keepalive_probes`).
const MAX_KEEPALIVES: u32 = 9;

impl Tcb {
    /// Time of the next deadline.
    pub fn next_timeout(&self) -> Option<Time> {
        let mut next = Time::MAX;
        let mut consider = |at: Option<Time>| {
            if let Some(at) = at {
                next = next.min(at);
            }
        };
        let Timers { retransmit, persist, keepalive, user, raise_mtu, time_wait, .. } = self.timers;
        consider(retransmit);
        consider(self.receiver.deadline());
        consider(persist);
        consider(keepalive);
        consider(user);
        consider(time_wait);
        consider(raise_mtu);
        consider(self.rack.deadline());
        if let Some(rate) = &self.rate {
            consider(rate.deadline());
        }
        (next < Time::MAX).then_some(next)
    }

    /// Returns true if the timeout of the SYN is over.
    pub fn syn_is_unanswered(&self, now: Time) -> bool {
        self.state == State::SynSent && self.timers.retransmit.is_some_and(|at| at <= now)
    }

    /// Returns true if a router has reported that the SYN did not reach the peer.
    pub fn syn_is_unreachable(&self) -> bool {
        self.state == State::SynSent && self.unreachable
    }

    /// Sets a fixed interval between SYNs, after a first repetition at the usual timeout, until an answer arrives or
    /// the retries are used up.
    pub fn repeat_syn_every(&mut self, interval: Duration) {
        self.syn_interval = Some(interval);
    }

    /// Sends an unanswered SYN again at once, because the interface has come up. The earlier SYNs never left the
    /// host, so they do not count as attempts.
    pub fn restart_syn(&mut self) {
        if self.state == State::SynSent {
            (self.attempts, self.syns) = (0, 0);
            self.rtt.reset_backoff();
            self.timers.retransmit = None;
            self.syn_due = true;
        }
    }

    /// Timeout of a SYN that is sent now.
    pub(super) fn syn_timeout(&self) -> Duration {
        self.syn_interval.filter(|_| self.syns > 1).unwrap_or_else(|| self.rtt.rto())
    }

    /// Handles deadlines that have passed; may be called without one.
    pub fn on_timeout(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        let due = |timer: Option<Time>| timer.is_some_and(|at| at <= now);
        self.receiver.on_timeout(now);
        if due(self.timers.time_wait) {
            self.end(Reason::Closed);
        }
        if due(self.timers.user) {
            self.end(self.reason_of_silence());
        }
        if let Some(rate) = &mut self.rate {
            rate.on_timeout(now);
        }
        if due(self.rack.deadline()) {
            self.on_rack_timeout(context);
        }
        if due(self.timers.retransmit) {
            self.timers.retransmit = None;
            self.on_retransmission_timeout(context);
        }
        if due(self.timers.raise_mtu) {
            self.raise_mtu(context);
        }
        if due(self.timers.persist) {
            self.timers.persist = None;
            self.on_persist_timeout(now);
        }
        if due(self.timers.keepalive) {
            self.on_keepalive_timeout(now);
        }
    }

    /// Returns true if the peer keeps its window closed, and has sent a segment recently.
    fn is_shut_out(&self, now: Time) -> bool {
        self.is_synchronised() && self.peer.bytes == 0 && now.since(self.life.heard) <= self.config.rto.max
    }

    fn on_retransmission_timeout(&mut self, context: &mut Context<'_>) {
        // A retransmission into a closed window is a probe.
        if !self.is_shut_out(context.now) || self.attempts < self.config.retries {
            self.attempts += 1;
        }
        match self.state {
            State::SynSent | State::SynReceived => {
                if self.attempts > self.config.syn_retries {
                    self.end(self.reason_of_silence());
                    return;
                }
                // SYNs at a fixed interval test whether the path has come up, so their timeouts show no congestion.
                if self.syn_interval.is_none() || self.attempts == 1 {
                    self.rtt.back_off();
                    self.counters.timeouts += 1;
                }
                self.syn_due = true;
                self.syn_sent_at = None;
            }
            _ if self.attempts > self.config.retries => self.end(self.reason_of_silence()),
            _ if !self.board.is_empty() => self.lose_everything(context),
            _ => {}
        }
    }

    fn on_persist_timeout(&mut self, now: Time) {
        self.life.probes += 1;
        if self.life.probes > self.config.retries {
            self.end(self.reason_of_silence());
            return;
        }
        self.rtt.back_off();
        self.probe_due = true;
        self.start_user_timer(now);
    }

    /// Sends a keep-alive after a silence of the peer (RFC 9293 §3.8.4), unless outstanding data requests an answer
    /// anyway.
    fn on_keepalive_timeout(&mut self, now: Time) {
        let Some(interval) = self.config.keepalive else { return };
        let due = self.life.heard + interval.saturating_mul(u64::from(self.life.keepalives) + 1);
        if due > now {
            self.timers.keepalive = Some(due);
            return;
        }
        if self.board.is_empty() {
            if self.life.keepalives >= MAX_KEEPALIVES {
                self.end(self.reason_of_silence());
                return;
            }
            self.life.keepalives += 1;
            self.probe_due = true;
        }
        self.timers.keepalive = Some(now + interval);
    }

    /// Records an acceptable segment, which shows that the peer is alive.
    pub(super) fn note_alive(&mut self, now: Time) {
        self.life = Life { heard: now, ..Life::default() };
    }

    /// Changes the user timeout. If the peer owes an acknowledgement, the new time starts now.
    pub fn set_user_timeout(&mut self, now: Time, timeout: Option<Duration>) {
        self.config.user_timeout = timeout;
        self.timers.user = None;
        if self.is_synchronised() && (!self.board.is_empty() || self.timers.persist.is_some()) {
            self.restart_user_timer(now);
        }
    }

    /// Starts the user timeout when the peer owes an acknowledgement, if it is not running.
    pub(super) fn start_user_timer(&mut self, now: Time) {
        if self.timers.user.is_none() {
            self.restart_user_timer(now);
        }
    }

    /// Restarts the user timeout, because the peer has acknowledged data or announced a closed window.
    pub(super) fn restart_user_timer(&mut self, now: Time) {
        self.timers.user = self.config.user_timeout.map(|timeout| now + timeout);
    }

    pub(super) fn enter_time_wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.timers = Timers { time_wait: Some(now + TIME_WAIT_DURATION), ..Timers::default() };
        self.rack.stop();
    }
}
