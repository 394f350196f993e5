//! Proxies: where the connection of a flow ends, and what it carries goes on over another.

use super::applications::Transfer;
use super::delivery::Access;
use super::flow::Flow;
use super::hosts::World;
use super::side::{RECEIVER, SENDER};
use crate::engine::datapath::EndId;
use anabranch_base::time::Time;
use anabranch_endpoint::Reason;

/// Bytes that a proxy holds of each way, which it has read and not written yet. That of the kernel's world holds as many.
pub const HELD: u64 = 128 << 10;

/// A proxy of one flow: it listens at the end of one connection, and begins the other.
///
/// What reaches it is handed on in the same moment, so neither of its ends lives ahead of its time.
#[derive(Clone, Copy, Debug)]
struct Relay {
    /// The two connections, by their places among those of the simulation.
    front: usize,
    back: usize,
}

/// All proxies.
#[derive(Clone, Debug, Default)]
pub struct Relays(Vec<Relay>);

impl Relays {
    /// The connections behind proxies come after `flows` others, which they go on from as `fronts` says.
    pub fn new(flows: usize, fronts: &[usize]) -> Self {
        let relays = fronts.iter().enumerate();
        Self(relays.map(|(at, &front)| Relay { front, back: flows + at }).collect())
    }

    /// The ends of connections that are proxies'.
    pub fn ends(&self) -> impl Iterator<Item = EndId> + '_ {
        self.0.iter().flat_map(|relay| [2 * relay.front as EndId + 1, 2 * relay.back as EndId])
    }

    /// The place of the connection on which a flow goes on behind its proxy, if it has one.
    pub fn behind(&self, flow: usize) -> Option<usize> {
        let at = self.0.binary_search_by_key(&flow, |relay| relay.front).ok()?;
        Some(self.0[at].back)
    }

    /// The flow of the scenario that a connection belongs to.
    pub fn flow_of(&self, connection: usize) -> usize {
        let behind = self.0.first().and_then(|first| connection.checked_sub(first.back));
        behind.map_or(connection, |at| self.0[at].front)
    }

    /// Something has happened at an end of a flow: if it is a proxy's, that hands on what it has read.
    #[inline]
    pub fn turn(&self, now: Time, end: EndId, flows: &mut [Flow], world: &mut World) {
        if !self.0.is_empty() {
            self.turn_of(now, end, flows, world);
        }
    }

    fn turn_of(&self, now: Time, end: EndId, flows: &mut [Flow], world: &mut World) {
        let (flow, side) = (end as usize / 2, end as usize % 2);
        let at = match side {
            SENDER => flow.checked_sub(self.0[0].back).filter(|at| *at < self.0.len()),
            _ => self.0.binary_search_by_key(&flow, |relay| relay.front).ok(),
        };
        let Some(Relay { front, back }) = at.map(|at| self.0[at]) else { return };
        // Those behind proxies come last.
        let (before, behind) = flows.split_at_mut(back);
        let (front, back) = (&mut before[front], &mut behind[0]);
        if front.applications.connected[RECEIVER].is_some() && !back.has_begun() {
            back.begin(now, world);
        }
        while hand_on(now, (&mut *front, RECEIVER), (&mut *back, SENDER), world)
            | hand_on(now, (&mut *back, SENDER), (&mut *front, RECEIVER), world)
        {}
        end_together(now, (front, RECEIVER), (back, SENDER), world);
        end_together(now, (back, SENDER), (front, RECEIVER), world);
    }
}

/// What has been read at one end is written at the other; whether that was anything.
fn hand_on(
    now: Time,
    (from, reads): (&mut Flow, usize),
    (to, writes): (&mut Flow, usize),
    world: &mut World,
) -> bool {
    let incoming = from.applications.written_by_mut(1 - reads);
    let Some((incoming, outgoing)) = incoming.zip(to.applications.written_by_mut(writes)) else {
        return false;
    };
    let before = outgoing.writer.held();
    while let Some((len, born)) = incoming.take_run() {
        outgoing.writer.give(now, len, born);
    }
    let ends = incoming.has_ended() && outgoing.writer.give_end(now);
    let given = ends || outgoing.writer.held() > before;
    if given {
        to.turn(now, writes, world);
    }
    let held = to.applications.written_by(writes).map_or(0, |outgoing| outgoing.writer.held());
    let incoming = from.applications.written_by_mut(1 - reads);
    let reads_on = incoming.is_some_and(|incoming| incoming.set_room(HELD - held));
    if reads_on {
        from.read_on(now, reads, world);
    }
    given || reads_on
}

/// A connection that has failed takes the other with it, and one that has closed lets the other close.
fn end_together(
    now: Time,
    (ended, side): (&Flow, usize),
    (other, others): (&mut Flow, usize),
    world: &mut World,
) {
    let Some((_, reason)) = ended.applications.ended[side] else { return };
    if other.is_over(others) {
        return;
    }
    if reason != Reason::Closed {
        other.abort(now, others, world);
    } else if other.applications.let_go(others) {
        other.close(now, others, world);
    }
}

/// The connections that a flow's data takes: one, or that to its proxy and the one behind it.
pub struct Legs<'a> {
    /// The one that the scenario tells of, and whose paths are the flow's.
    pub first: &'a mut Flow,
    behind: Option<&'a mut Flow>,
}

impl<'a> Legs<'a> {
    /// Those of a flow.
    pub fn of(flow: usize, flows: &'a mut [Flow], relays: &Relays) -> Self {
        match relays.behind(flow) {
            Some(behind) => {
                let (before, after) = flows.split_at_mut(behind);
                Self { first: &mut before[flow], behind: after.first_mut() }
            }
            None => Self { first: &mut flows[flow], behind: None },
        }
    }

    /// The connection at whose end `end` an application of the flow is.
    fn at(&self, end: usize) -> &Flow {
        match &self.behind {
            Some(behind) if end == RECEIVER => behind,
            _ => self.first,
        }
    }

    /// What an end of the flow writes, where it does so.
    pub fn written_by(&self, end: usize) -> Option<&Transfer> {
        self.at(end).applications.written_by(end)
    }

    /// What an end of the flow writes, where the other end reads it.
    pub fn read_of(&self, end: usize) -> Option<&Transfer> {
        self.at(1 - end).applications.written_by(end)
    }

    /// Bytes of what an end writes that the other has read since the end of the warm-up.
    pub fn delivered(&self, end: usize) -> Option<u64> {
        let before = self.at(1 - end).meters.baseline.as_ref().map_or(0, |baseline| baseline.delivered[end]);
        Some(self.read_of(end)?.checker.delivered() - before)
    }

    /// When the last byte arrived, as [`Flow::completed`].
    pub fn completed(&self) -> Option<Time> {
        let first = self.first.completed()?;
        self.behind.as_ref().map_or(Some(first), |behind| Some(first.max(behind.completed()?)))
    }

    /// Everything that applications of the flow have written and read of what an end writes since somebody asked, in order.
    pub fn take_accesses(&mut self, end: usize) -> Vec<Access> {
        let mut all = Vec::new();
        let Self { first, behind } = self;
        let mut take = |flow: &mut Flow, wanted: &dyn Fn(bool) -> bool| {
            let accesses = core::iter::from_fn(|| flow.applications.poll_access(end));
            all.extend(accesses.filter(|access| wanted(access.read)));
        };
        match behind {
            // What the proxy in between reads and writes is its own.
            Some(behind) => {
                take(first, &|read| read == (end == RECEIVER));
                take(behind, &|read| read == (end == SENDER));
                all.sort_by_key(|access| access.at);
            }
            None => take(first, &|_| true),
        }
        all
    }
}
