//! Actions of a block when a deadline passes: retransmission (RFC 6298), the probing of a closed window (RFC 9293
//! §3.8.6.1), keep-alives (§3.8.4), the user timeout (§3.8.3, RFC 5482) and TIME-WAIT.
//!
//! A peer that answers is alive, whatever its answer contains: a window that it keeps closed, or closed over data
//! already sent, ends no connection (§3.8.6.1). A peer behind a closed window that has been silent for too long is
//! given up like any other.

use super::deadlines::{Life, Timers};
use super::tcb::{Context, State, Tcb};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::Reason;

/// Twice the maximum segment lifetime (RFC 9293 §3.4.2 has 4 minutes; Linux waits one).
const TIME_WAIT: Duration = Duration::from_secs(60);

/// Keep-alives without an answer after which the peer is gone (Linux's `tcp_keepalive_probes`).
const KEEPALIVES: u32 = 9;

impl Tcb {
    /// When [`on_timeout`](Self::on_timeout) is due.
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

    /// The SYN has gone unanswered for its whole timeout.
    pub fn syn_is_unanswered(&self, now: Time) -> bool {
        self.state == State::SynSent && self.timers.retransmit.is_some_and(|at| at <= now)
    }

    /// The SYN has not reached the peer, as a router reported.
    pub fn syn_is_unreachable(&self) -> bool {
        self.state == State::SynSent && self.unreachable
    }

    /// Repeats the SYN at this interval, the first time as usual, until an answer comes or the retries are used up.
    pub fn repeat_syn_every(&mut self, interval: Duration) {
        self.syn_interval = Some(interval);
    }

    /// The interface has come up: an unanswered SYN is sent again at once. The earlier ones never left the host, so
    /// they do not count as attempts.
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

    /// Handles deadlines that have passed; spurious calls do no harm.
    pub fn on_timeout(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        let due = |timer: Option<Time>| timer.is_some_and(|at| at <= now);
        self.receiver.on_timeout(now);
        if due(self.timers.time_wait) {
            self.end(Reason::Closed);
        }
        if due(self.timers.user) {
            self.end(self.silence());
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

    /// The peer keeps its window closed, and has been heard of lately.
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
                    self.end(self.silence());
                    return;
                }
                // SYNs at a fixed interval test whether the path has come up, so a timeout is no sign of congestion.
                if self.syn_interval.is_none() || self.attempts == 1 {
                    self.rtt.back_off();
                    self.counters.timeouts += 1;
                }
                self.syn_due = true;
                self.syn_sent_at = None;
            }
            _ if self.attempts > self.config.retries => self.end(self.silence()),
            _ if !self.board.is_empty() => self.lose_everything(context),
            _ => {}
        }
    }

    fn on_persist_timeout(&mut self, now: Time) {
        self.life.probes += 1;
        if self.life.probes > self.config.retries {
            self.end(self.silence());
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
            if self.life.keepalives >= KEEPALIVES {
                self.end(self.silence());
                return;
            }
            self.life.keepalives += 1;
            self.probe_due = true;
        }
        self.timers.keepalive = Some(now + interval);
    }

    /// An acceptable segment arrived: the peer is alive.
    pub(super) fn hear(&mut self, now: Time) {
        self.life = Life { heard: now, ..Life::default() };
    }

    /// The peer owes an acknowledgement from now on, if it did not before.
    pub(super) fn start_user_timer(&mut self, now: Time) {
        if self.timers.user.is_none() {
            self.restart_user_timer(now);
        }
    }

    /// The peer has acknowledged data, or announced that its window is closed; it owes no more for now.
    pub(super) fn restart_user_timer(&mut self, now: Time) {
        self.timers.user = self.config.user_timeout.map(|timeout| now + timeout);
    }

    pub(super) fn enter_time_wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.timers = Timers { time_wait: Some(now + TIME_WAIT), ..Timers::default() };
        self.rack.stop();
    }
}
