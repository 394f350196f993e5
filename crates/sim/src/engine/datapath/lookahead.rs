//! Conservative lookahead: work that is done ahead of its time.
//!
//! Invariant: nothing is done for a moment before which something else may still come. The lower bound on the timestamps of
//! what a link can still deliver follows from when its transmitter is free, from when something can be offered to it, and
//! from its delay; nobody works beyond the synchronisation point, the next moment at which somebody looks or the scenario
//! orders something. So the result is the same, whatever is done ahead.
//!
//! A direction hands a frame over as soon as its arrival is certain, to directions that nothing else feeds. An end of a flow
//! that shares none of its own links lives on until the lower bound over its ingress links
//! ([`safe_until`](Datapath::safe_until)). That is worth it because in the order of time every packet would be the turn of
//! another flow, one that the processor's caches have forgotten.

use super::{Datapath, Due, EndId, Interface, PacketRef, Role, Time};

impl Datapath {
    /// From now on nothing is done ahead of its time.
    pub fn keep_order(&mut self) {
        self.in_order = true;
        for state in self.links.iter_mut().filter(|state| state.role == Role::Feeds) {
            state.role = Role::Plain;
        }
    }

    /// Nothing may be done ahead that belongs to this moment or a later one.
    pub const fn set_sync_point(&mut self, sync_point: Time) {
        self.sync_point = sync_point;
    }

    /// Until when an end of a flow can live on by itself: everything that reaches it before is on its ingress links now.
    pub fn safe_until(&mut self, end: EndId, now: Time) -> Time {
        let ingress = self.graph.ingress(end);
        let mut until = if self.in_order || ingress.is_empty() { now.just_after() } else { self.sync_point };
        for at in ingress {
            let ingress_link = self.graph.ingress_link(at);
            let state = &mut self.links[ingress_link as usize];
            if state.due == Due::NEVER {
                state.due = Due::ATTENDED;
            }
            let offered = self.earliest_offer(ingress_link, now);
            let link = &mut self.links[ingress_link as usize].link;
            link.advance(offered);
            until = until.min(link.lower_bound(offered));
        }
        until.max(now.just_after())
    }

    /// The frame of the next packet on the ingress links of an end that arrives before `limit`, and when; at one moment in the order of the
    /// links.
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

    /// An end has lived as long as it was safe: from now on its ingress links have events of their own again.
    pub fn resume(&mut self, end: EndId) {
        for at in self.graph.ingress(end) {
            let ingress_link = self.graph.ingress_link(at);
            let state = &mut self.links[ingress_link as usize];
            if state.due == Due::ATTENDED {
                state.due = Due::NEVER;
            }
            // It leads to the end, and feeds nobody.
            self.schedule(ingress_link);
        }
    }

    /// The lower bound on when something more is offered to a direction, once the links upstream of it have handed over
    /// what they can.
    #[expect(clippy::inline_always, reason = "most have nobody upstream")]
    #[inline(always)]
    fn earliest_offer(&mut self, direction: u32, now: Time) -> Time {
        match self.graph.upstream(direction) {
            Some(upstream) if !self.in_order => self.earliest_from(upstream, now),
            _ => now,
        }
    }

    /// The same for what comes from a direction that feeds.
    fn earliest_from(&mut self, upstream: u32, now: Time) -> Time {
        let offered = self.earliest_offer(upstream, now);
        self.links[upstream as usize].link.advance(offered);
        self.reschedule(upstream);
        self.links[upstream as usize].link.lower_bound(offered).min(self.sync_point)
    }

    /// Hands over the frames of a direction that are certain to arrive before the synchronisation point.
    #[inline(never)]
    pub(super) fn forward_ahead(&mut self, direction: u32) {
        while let Some((at, frame)) = self.links[direction as usize].link.take_ahead(self.sync_point) {
            self.hops_done += 1;
            let hop = self.hops[frame.next as usize];
            self.offer(at, hop, frame.onwards());
        }
    }
}
