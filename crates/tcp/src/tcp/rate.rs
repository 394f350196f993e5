//! Rate samples for congestion controls that use them, and pacing of a block.

use super::tcb::{Context, Tcb};
use anabranch_base::time::Time;
use anabranch_endpoint::rate::{PathRate, Transmission};
use anabranch_multipath::shared_bottleneck::{DelaySample, RelativeDelay};
use anabranch_wire::tcp::Timestamps;

impl Tcb {
    /// Congestion control has just been informed of the path.
    pub(super) fn start_rate(&mut self, context: &Context<'_>) {
        self.rate = PathRate::for_path(&*context.congestion, self.path);
        self.board.log_losses(self.rate.is_some());
        self.tells_delays = context.congestion.wants_delay_samples();
    }

    /// The sequence numbers `[start, start + len)` are sent, `again` or for the first time.
    pub(super) fn rate_sent(&mut self, context: &mut Context<'_>, (start, len): (u64, u32), again: bool) {
        if let Some(rate) = &mut self.rate {
            let range = start..start + u64::from(len);
            let in_flight = self.board.pipe();
            let sent = Transmission { range, bytes: len, in_flight, again, mss: self.mss };
            rate.sent(context.congestion, context.now, sent);
        }
    }

    /// Reports the segments that have been marked lost since the last call.
    #[inline]
    pub(super) fn tell_losses(&mut self, context: &mut Context<'_>) {
        if let Some(rate) = &mut self.rate {
            for (start, end) in self.board.take_losses() {
                rate.lost(context.congestion, context.now, start..end);
            }
        }
    }

    /// An acknowledgement has been processed; `limited` means that data up to it used the window fully.
    pub(super) fn tell_rate(&mut self, context: &mut Context<'_>, limited: bool) {
        self.tell_losses(context);
        if let Some(rate) = &mut self.rate {
            rate.report(context.congestion, context.now, (self.board.pipe(), limited));
        }
    }

    /// Reports a sample of the path's delay to congestion control, after an acknowledgement of new data; the newest
    /// segment that it acknowledges was sent at `sent`.
    ///
    /// The peer's timestamp shows when the acknowledgement was sent (RFC 7323 §3.2). The echoed timestamp is
    /// unsuitable: it is the one of the oldest segment not yet acknowledged (§4.3), and would include the time in
    /// which that segment waited for the newest.
    pub(super) fn tell_delay(&self, context: &mut Context<'_>, sent: Time, timestamps: Option<Timestamps>) {
        let delay = match timestamps.filter(|_| self.agreed.timestamps) {
            Some(Timestamps { value, .. }) => {
                RelativeDelay::OneWay(value.wrapping_sub(self.clock_value(sent)))
            }
            None => RelativeDelay::RoundTrip(context.now.since(sent)),
        };
        context.congestion.on_delay(&DelaySample {
            now: context.now,
            path: self.path,
            delay,
            sent: self.counters.data_packets_sent,
            lost: self.counters.fast_retransmissions + self.counters.timeout_retransmissions,
        });
    }

    /// The pacer does not permit a packet now; the pacer records that one waits.
    pub(super) fn is_paced_out(&mut self, context: &Context<'_>) -> bool {
        self.rate.as_mut().is_some_and(|rate| rate.holds_back(context.now))
    }

    /// Congestion control sets the window by a model of the path, in recovery phases too.
    pub(super) fn uses_path_model(&self) -> bool {
        self.rate.as_ref().is_some_and(|rate| rate.is_modelled())
    }

    /// Congestion control uses rate samples, or paces.
    pub(crate) fn has_rate(&self) -> bool {
        self.rate.is_some()
    }

    /// Nothing waits to be sent although congestion control permits more: the following rate samples do not show the
    /// network's rate.
    pub(crate) fn ran_dry(&mut self, context: &Context<'_>) {
        if self.rate.is_none() || self.board.waiting() > 0 {
            return;
        }
        let pipe = self.board.pipe();
        if pipe + u64::from(self.mss) <= self.allowed(context)
            && let Some(rate) = &mut self.rate
        {
            rate.ran_dry(pipe);
        }
    }

    /// A packet of new data could be sent at once, if this block had one.
    pub(crate) fn could_send(&self, context: &Context<'_>) -> bool {
        self.rate.as_ref().is_some_and(|rate| !rate.is_holding_back(context.now))
            && self.board.pipe() + u64::from(self.mss) <= self.allowed(context)
    }
}
