//! Work that is done ahead of its time.
//!
//! Most of what happens concerns one flow alone, and doing it in the order of time would go round all flows for every
//! packet, each time with a flow that the processor's caches have forgotten. So work is done ahead where nothing can come
//! between: a direction hands a frame over as soon as its arrival is certain to directions that nothing else feeds, and an
//! end of a flow that shares none of its own links lives on until the first moment at which something may arrive that is
//! not on the way yet ([`horizon`](Fabric::horizon)). Nobody works beyond the *barrier*, the next moment at which somebody
//! looks or the scenario orders something. The result is the same, whatever is done ahead.

use super::{ATTENDED, EndId, Fabric, Interface, NEVER, Packet, Time};

impl Fabric {
    /// From now on nothing is done ahead of its time.
    pub const fn keep_order(&mut self) {
        self.in_order = true;
    }

    /// Nothing may be done ahead that belongs to this moment or a later one.
    pub const fn set_barrier(&mut self, barrier: Time) {
        self.barrier = barrier;
    }

    /// Until when an end of a flow can live on by itself: everything that reaches it before is in its inlets now.
    pub fn horizon(&mut self, end: EndId, now: Time) -> Time {
        let inlets = self.ways.inlets(end);
        let mut until = if self.in_order || inlets.is_empty() { now.just_after() } else { self.barrier };
        for at in inlets {
            let inlet = self.ways.inlet(at);
            let slot = &mut self.slots[inlet as usize];
            if slot.scheduled == NEVER {
                slot.scheduled = ATTENDED;
            }
            let offered = self.offered_until(inlet, now);
            let link = &mut self.slots[inlet as usize].link;
            link.advance(offered);
            until = until.min(link.lower_bound(offered));
        }
        until.max(now.just_after())
    }

    /// The next packet in the inlets of an end that arrives before `limit`, and when; at one moment in the order of the
    /// links.
    #[inline]
    pub fn take_arrival(&mut self, end: EndId, limit: Time) -> Option<(Time, Packet)> {
        let inlets = self.ways.inlets(end);
        let first = |at: &usize| self.slots[self.ways.inlet(*at) as usize].link.first_arrival();
        let at = if inlets.len() == 1 {
            inlets.start
        } else {
            inlets.min_by_key(|at| first(at).unwrap_or(Time::MAX))?
        };
        let inlet = self.ways.inlet(at);
        let (time, frame) = self.slots[inlet as usize].link.take_before(limit)?;
        if self.capture.is_some() {
            self.record(time, Interface(inlet).opposite(), frame);
        }
        self.hops_done += 1;
        Some((time, self.unwrap(frame)))
    }

    /// An end has lived up to its horizon: from now on its inlets have events of their own again.
    pub fn rest(&mut self, end: EndId) {
        for at in self.ways.inlets(end) {
            let inlet = self.ways.inlet(at);
            let slot = &mut self.slots[inlet as usize];
            if slot.scheduled == ATTENDED {
                slot.scheduled = NEVER;
            }
            self.settle(inlet);
        }
    }

    /// Has those that feed a direction hand over what they can; until when nothing more can be offered to it, except at
    /// that moment itself.
    fn offered_until(&mut self, direction: u32, now: Time) -> Time {
        let Some(feeder) = self.ways.feeder(direction).filter(|_| !self.in_order) else { return now };
        let offered = self.offered_until(feeder, now);
        self.slots[feeder as usize].link.advance(offered);
        self.settle(feeder);
        self.slots[feeder as usize].link.lower_bound(offered).min(self.barrier)
    }

    /// Hands over the frames of a direction that are certain to arrive before the barrier.
    #[inline]
    pub(super) fn hand_over(&mut self, direction: u32) {
        while let Some((at, frame)) = self.slots[direction as usize].link.take_ahead(self.barrier) {
            self.hops_done += 1;
            let hop = self.hops[frame.next as usize];
            self.offer(at, hop, frame.onwards());
        }
    }
}
