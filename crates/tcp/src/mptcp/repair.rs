//! Retransmission at the connection level, and subflows that are believed to have failed.
//!
//! A subflow repairs its own losses. Two kinds of data are reinjected on another subflow: data that all subflows have
//! acknowledged but no `DATA_ACK` covers, because the receiver lost it above the subflows, and data on a subflow
//! whose retransmission timer has expired.

use super::DeadPathProbe;
use super::connection::{Connection, ConnectionPhase, Repair, Role};
use super::data::DataFin;
use super::reset::ResetReason;
use super::subflow::{RESET_INTERVAL, Resend, Subflow};
use crate::tcp::Tcb;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::Reason;
use anabranch_multipath::PathId;
use anabranch_wire::tcp::Segment;

/// Limit of doublings of the data-level timeout.
const MAX_DATA_BACKOFF: u32 = 6;

/// Time for which a server probes a failed subflow before it resets the subflow because of its outstanding data.
const SERVER_RESET_DELAY: Duration = Duration::from_secs(10);
/// Maximum data that a server retains for a failed subflow during this time, in send buffers.
const MAX_RETAINED_BUFFERS: u64 = 5;

impl Connection {
    /// Time without a `DATA_ACK` after which data is reinjected.
    pub(super) fn data_timeout(&self) -> Duration {
        let slowest = (self.subflows.iter())
            .filter(|s| s.is_alive())
            .map(|s| s.block.rtt().rto())
            .max()
            .unwrap_or(self.config.tcp.rto.initial);
        slowest.saturating_mul(2 << self.data_backoff).min(self.config.tcp.rto.max)
    }

    pub(super) fn on_data_timeout(&mut self, now: Time) {
        let (una, highest) = (self.send.una, self.send.highest());
        if self.gives_up_options(now) {
            return;
        }
        // Data that is never acknowledged ends the connection, as in TCP (RFC 9293 §3.8.3). Without a path nothing is
        // sent, and `linger_until` limits the wait.
        self.unanswered_timeouts += u32::from(self.subflows.iter().any(Subflow::is_alive));
        if self.unanswered_timeouts > self.config.tcp.retries {
            self.finish(Reason::TimedOut);
            return;
        }
        if una < highest && !self.shared && !self.subflows[0].is_dead() {
            // The only subflow repairs its losses itself, and sends each byte once (see `fallback`). If it has
            // delivered the data, only the `DATA_ACK` is missing: a probe requests it, or shows that a middlebox
            // removes options.
            if !self.is_under_way(una) {
                self.subflows[0].block.probe();
            }
        } else if una < highest {
            self.has_one_subflow = false;
            self.tally.data_timeouts += 1;
            self.send.clear_avoidance(None);
            let burst = u64::from(self.locals[0].address.mtu);
            self.repair = Some(Repair { until: highest, burst });
            self.send.reinject(una, highest.min(una + burst), None);
        } else if self.send.fin == DataFin::Sent {
            self.send.fin = DataFin::Wanted;
        } else if !self.send.all_assigned()
            && let Some(subflow) = self.subflows.iter_mut().find(|s| s.is_usable())
        {
            subflow.block.probe();
        }
        self.data_backoff = (self.data_backoff + 1).min(MAX_DATA_BACKOFF);
        self.data_timer = Some(now + self.data_timeout());
    }

    /// Returns true if a living subflow still has this byte of the data outstanding.
    fn is_under_way(&self, data: u64) -> bool {
        let holds = |subflow: &Subflow| subflow.sent.iter().any(|mapping| mapping.holds(data));
        self.subflows.iter().any(|subflow| subflow.is_alive() && holds(subflow))
    }

    /// Handles a timeout without a `DATA_ACK` on a connection that receives segments without options, which the
    /// `DATA_ACK` would need. Returns true if this ended a subflow or caused fallback.
    fn gives_up_options(&mut self, now: Time) -> bool {
        let bare = |s: &Subflow| !s.is_dead() && s.stripped.bare > 0;
        let Some(index) = self.subflows.iter().position(bare) else { return false };
        self.on_stripped(index);
        if self.subflows[index].block.is_over() {
            self.on_subflow_over(now, index);
        }
        if self.phase == ConnectionPhase::Multipath {
            self.data_timer = Some(now + self.data_timeout());
        }
        true
    }

    /// Continues a repair after a new `DATA_ACK`. The next missing data is sent at once, twice as much each time, as
    /// in slow start. Data that a subflow has outstanding is left to that subflow.
    pub(super) fn continue_repair(&mut self) {
        let Some(Repair { until, burst }) = self.repair else { return };
        let una = self.send.una;
        if una >= until {
            self.repair = None;
            return;
        }
        if self.send.reinjections.is_empty() && !self.is_under_way(una) {
            let burst = burst.saturating_mul(2);
            self.repair = Some(Repair { until, burst });
            self.send.reinject(una, until.min(una + burst), None);
        }
    }

    pub(super) fn on_subflow_timeout(&mut self, now: Time, index: usize) {
        let syn_retries = self.config.tcp.syn_retries;
        let subflow = &mut self.subflows[index];
        if subflow.is_dead() {
            // A dead subflow has a timer only in TIME-WAIT or while its RST is repeated.
            subflow.repeat_reset(now);
            if subflow.block.next_timeout().is_some_and(|at| at <= now) {
                self.with_block(now, index, Tcb::on_timeout);
            }
            return;
        }
        if self.try_next_pair(now, index) {
            return;
        }
        let subflow = &mut self.subflows[index];
        subflow.repeat_join(now, syn_retries);
        if subflow.probe_at.is_some_and(|at| at <= now) {
            self.probe(now, index);
        }
        let subflow = &self.subflows[index];
        let attempts = subflow.block.attempts();
        if subflow.block.next_timeout().is_some_and(|at| at <= now) {
            self.with_block(now, index, Tcb::on_timeout);
        }
        let subflow = &self.subflows[index];
        if subflow.block.is_over() {
            self.on_subflow_over(now, index);
        } else if subflow.block.attempts() > attempts && subflow.block.is_synchronised() {
            // The subflow counts as failed until it acknowledges data. Its data is reinjected on the others.
            self.reinject_all(index, Some(PathId(index as u8)));
            self.update_counted();
            if self.phase == ConnectionPhase::Multipath {
                let DeadPathProbe::Every(interval) = self.config.dead_path_probe else { return };
                let subflow = &mut self.subflows[index];
                if subflow.probe_at.is_none() {
                    subflow.probed_since = None;
                    subflow.probe_at = Some(now + subflow.not_within_rtt(interval));
                }
            }
        }
    }

    /// Probes a subflow that is believed to have failed. Its retransmission timer backs off, so without probes a
    /// returning path would stay idle until that timer expires. If another subflow is usable, this one is reset once
    /// the `DATA_ACK` is more than a send buffer beyond its oldest unacknowledged data (RFC 8684 §3.6, reason 4). A client
    /// joins again at once. A server cannot join, and Linux as a client does not join after a reset, so that a server waits
    /// longer.
    fn probe(&mut self, now: Time, index: usize) {
        let DeadPathProbe::Every(interval) = self.config.dead_path_probe else { return };
        let others = self.subflows.iter().any(Subflow::is_usable);
        let (una, most) = (self.send.una, self.config.tcp.send_buffer);
        let subflow = &mut self.subflows[index];
        subflow.probe_at = None;
        if self.phase != ConnectionPhase::Multipath || subflow.block.attempts() == 0 || !subflow.is_alive() {
            return;
        }
        let oldest = subflow.sent.iter().map(|mapping| mapping.data).min().unwrap_or(una);
        let lag = una.saturating_sub(oldest);
        let has_waited = self.role == Role::Client
            || lag > most.saturating_mul(MAX_RETAINED_BUFFERS)
            || subflow.probed_since.is_some_and(|since| now.since(since) >= SERVER_RESET_DELAY);
        if others && lag > most && has_waited {
            subflow.reset(ResetReason::Outstanding);
            if self.role == Role::Server {
                let at = now + subflow.not_within_rtt(RESET_INTERVAL);
                subflow.reset_again = Some(Resend { at, times: 0 });
            }
            return;
        }
        subflow.block.probe();
        subflow.probed_since.get_or_insert(now);
        subflow.probe_at = Some(now + subflow.not_within_rtt(interval));
    }

    /// Handles a segment on a subflow that is believed to have failed. If the segment answers a probe, lost data is
    /// retransmitted at once instead of at the next expiry of the timer.
    ///
    /// For one round trip after the first probe, the peer's segments may be older than the probe: such a segment may
    /// respond to data that waited in a queue. So an answer has to arrive at least a smoothed round-trip time after
    /// the first probe, or to echo a later timestamp, and it acknowledges no data.
    pub(super) fn on_probe_answer(&mut self, now: Time, index: usize, news: &AcceptedSegment<'_>) {
        let subflow = &mut self.subflows[index];
        let Some(since) = subflow.probed_since.filter(|_| subflow.block.attempts() > 0) else { return };
        let block = &subflow.block;
        let is_late = now.since(since) >= block.rtt().srtt().unwrap_or(Duration::ZERO);
        let is_answer = is_late || block.echoes_after(news.segment.options.timestamps, since);
        if is_answer && block.sacked_bytes() == news.sacked_before {
            subflow.probed_since = None;
            self.with_block(now, index, Tcb::repair_now);
        }
    }
}

/// A segment that the block of a subflow has accepted, and the number of bytes that were selectively acknowledged
/// before it.
pub(super) struct AcceptedSegment<'a> {
    pub segment: &'a Segment,
    pub sacked_before: u64,
}
