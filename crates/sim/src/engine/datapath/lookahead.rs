//! Conservative lookahead: events are processed ahead of their time, where the result cannot change.
//!
//! Invariant: no event is processed for a time before which another event may still occur. The lower bound on the
//! times of a link's further deliveries follows from its transmitter, from the earliest further offer to it, and from
//! its delay. No event is processed beyond the synchronisation point, the next time at which the state is sampled or
//! the scenario has an event.
//!
//! A direction forwards a frame as soon as its arrival is certain, to directions that have no other source. An
//! endpoint of a flow without shared access links is processed up to the lower bound over its ingress links
//! ([`safe_until`](Datapath::safe_until)). The benefit: in strict order of time, consecutive packets belong to
//! different flows, whose state is no longer in the processor's caches.

use super::{Datapath, Due, EndId, Interface, PacketRef, Role, Time};

impl Datapath {
    /// Disables lookahead.
    pub fn keep_order(&mut self) {
        self.in_order = true;
        for state in self.links.iter_mut().filter(|state| state.role == Role::Feeds) {
            state.role = Role::Plain;
        }
    }

    /// Sets the time from which on no event may be processed ahead.
    pub const fn set_sync_point(&mut self, sync_point: Time) {
        self.sync_point = sync_point;
    }

    /// Time until which an end of a flow can be processed independently, because all earlier arrivals are already on
    /// its ingress links.
    pub fn safe_until(&mut self, end: EndId, now: Time) -> Time {
        let ingress = self.graph.ingress(end);
        let mut until = if self.in_order || ingress.is_empty() { now.just_after() } else { self.sync_point };
        for at in ingress {
            let ingress_link = self.graph.ingress_link(at);
            let state = &mut self.links[ingress_link as usize];
            if state.due == Due::NEVER {
                state.due = Due::POLLED;
            }
            let offered = self.earliest_offer(ingress_link, now);
            let link = &mut self.links[ingress_link as usize].link;
            link.advance(offered);
            until = until.min(link.lower_bound(offered));
        }
        until.max(now.just_after())
    }

    /// The frame and time of the next arrival on the ingress links of an end before `limit`; at equal times
    /// in the order of the links.
    #[inline]
    pub fn take_arrival(&mut self, end: EndId, limit: Time) -> Option<(Time, PacketRef)> {
        let ingress = self.graph.ingress(end);
        let ingress_link = if ingress.len() == 1 {
            self.graph.ingress_link(ingress.start)
        } else {
            let (mut earliest, mut first) = (None, limit);
            for ingress_link in ingress.map(|at| self.graph.ingress_link(at)) {
                if let Some(arrival) = self.links[ingress_link as usize].link.first_arrival()
                    && arrival < first
                {
                    (earliest, first) = (Some(ingress_link), arrival);
                }
            }
            earliest?
        };
        let (time, frame) = self.links[ingress_link as usize].link.take_before(limit)?;
        if self.capture.is_some() {
            self.record(time, Interface(ingress_link).opposite(), frame);
        }
        self.hops_done += 1;
        Some((time, frame))
    }

    /// Schedules the events of an end's ingress links, after the end has been processed as far as it is safe.
    pub fn resume(&mut self, end: EndId) {
        for at in self.graph.ingress(end) {
            let ingress_link = self.graph.ingress_link(at);
            let state = &mut self.links[ingress_link as usize];
            if state.due == Due::POLLED {
                state.due = Due::NEVER;
            }
            // This link leads to the end and has no other destination.
            self.schedule(ingress_link);
        }
    }

    /// The lower bound on the next offer to a direction, once the links upstream of it have forwarded all
    /// certain frames.
    #[expect(clippy::inline_always, reason = "most directions have no upstream")]
    #[inline(always)]
    fn earliest_offer(&mut self, direction: u32, now: Time) -> Time {
        match self.graph.upstream(direction) {
            Some(upstream) if !self.in_order => self.earliest_from(upstream, now),
            _ => now,
        }
    }

    /// The lower bound on offers from a direction that is upstream.
    fn earliest_from(&mut self, upstream: u32, now: Time) -> Time {
        let offered = self.earliest_offer(upstream, now);
        self.links[upstream as usize].link.advance(offered);
        self.reschedule(upstream);
        self.links[upstream as usize].link.lower_bound(offered).min(self.sync_point)
    }

    /// Forwards the frames of a direction that are certain to arrive before the synchronisation point.
    #[inline(never)]
    pub(super) fn forward_ahead(&mut self, direction: u32) {
        while let Some((at, frame)) = self.links[direction as usize].link.take_ahead(self.sync_point) {
            self.hops_done += 1;
            let hop = self.hops[frame.next as usize];
            self.offer(at, hop, frame.onwards());
        }
    }
}
