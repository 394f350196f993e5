//! Rate samples for congestion controls that use them, and pacing of the segments of a control block.

use super::tcb::{Context, Tcb};
use anabranch_base::time::Time;
use anabranch_endpoint::rate::{PathRate, Transmission};
use anabranch_multipath::shared_bottleneck::{DelaySample, RelativeDelay};
use anabranch_wire::tcp::Timestamps;

impl Tcb {
    /// Starts rate samples and pacing of a path that congestion control already knows.
    pub(super) fn start_rate(&mut self, context: &Context<'_>) {
        self.rate = PathRate::for_path(&*context.congestion, self.path);
        self.board.log_losses(self.rate.is_some());
        self.tells_delays = context.congestion.wants_delay_samples();
    }

    /// Records that the sequence numbers `[start, start + len)` are sent, `again` or for the first time.
    pub(super) fn rate_sent(&mut self, context: &mut Context<'_>, (start, len): (u64, u32), again: bool) {
        if let Some(rate) = &mut self.rate {
            let range = start..start + u64::from(len);
            let in_flight = self.board.pipe();
            let sent = Transmission { range, bytes: len, in_flight, again, mss: self.mss };
            rate.sent(context.congestion, context.now, sent);
        }
    }

    /// Reports to congestion control the segments that were marked lost since the last call.
    #[inline]
    pub(super) fn tell_losses(&mut self, context: &mut Context<'_>) {
        if let Some(rate) = &mut self.rate {
            for (start, end) in self.board.take_losses() {
                rate.lost(context.congestion, context.now, start..end);
            }
        }
    }

    /// Reports a rate sample after an acknowledgement; `limited` means that the acknowledged data had filled the
    /// window.
    pub(super) fn tell_rate(&mut self, context: &mut Context<'_>, limited: bool) {
        self.tell_losses(context);
        if let Some(rate) = &mut self.rate {
            rate.report(context.congestion, context.now, (self.board.pipe(), limited));
        }
    }

    /// Reports a sample of the path's delay after an acknowledgement of new data; `sent` is the send time of the
    /// newest acknowledged segment.
    ///
    /// The peer's timestamp shows when the acknowledgement was sent (RFC 7323 §3.2). The echoed timestamp is
    /// unsuitable: it belongs to the oldest segment not yet acknowledged (§4.3), and would include the time in which
    /// that segment waited for the newest.
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

    /// Returns true if the pacer permits no packet now, and records that one waits.
    pub(super) fn is_paced_out(&mut self, context: &Context<'_>) -> bool {
        self.rate.as_mut().is_some_and(|rate| rate.holds_back(context.now))
    }

    /// Returns true if congestion control sets the window from a model of the path, in recovery phases too.
    pub(super) fn uses_path_model(&self) -> bool {
        self.rate.as_ref().is_some_and(|rate| rate.is_modelled())
    }

    /// Returns true if congestion control uses rate samples, or paces.
    pub(crate) fn has_rate(&self) -> bool {
        self.rate.is_some()
    }

    /// Records that no data waits although congestion control permits more: the following rate samples show the rate
    /// of the application.
    pub(crate) fn set_application_limited(&mut self, context: &Context<'_>) {
        if self.rate.is_none() || self.board.waiting() > 0 {
            return;
        }
        let pipe = self.board.pipe();
        if pipe + u64::from(self.mss) <= self.allowed(context)
            && let Some(rate) = &mut self.rate
        {
            rate.set_application_limited(pipe);
        }
    }

    /// Returns true if a packet of new data could be sent now.
    pub(crate) fn could_send(&self, context: &Context<'_>) -> bool {
        self.rate.as_ref().is_some_and(|rate| !rate.is_holding_back(context.now))
            && self.board.pipe() + u64::from(self.mss) <= self.allowed(context)
    }
}
