//! Proxies: the connection of a flow ends at a proxy, which forwards the data over another connection.

use super::applications::Transfer;
use super::delivery::Access;
use super::flow::Flow;
use super::hosts::FlowEnvironment;
use super::side::{RECEIVER, SENDER};
use crate::engine::datapath::EndId;
use anabranch_base::time::Time;
use anabranch_endpoint::Reason;

/// Maximum number of bytes per direction that a proxy has read and not written yet. The proxy for runs on the
/// kernel's sockets has the same limit.
pub const BUFFER_BYTES: u64 = 128 << 10;

/// A proxy of one flow: it listens for one connection, and opens the other.
///
/// It forwards data at the time of arrival, so its ends are not processed ahead.
#[derive(Clone, Copy, Debug)]
struct Relay {
    /// The two connections, by their indices in the simulation.
    front: usize,
    back: usize,
}

/// All proxies.
#[derive(Clone, Debug, Default)]
pub struct Relays(Vec<Relay>);

impl Relays {
    /// Creates the proxies. The connections behind proxies follow those of the `flows` flows; `fronts` contains the
    /// index of the flow of each.
    pub fn new(flows: usize, fronts: &[usize]) -> Self {
        let relays = fronts.iter().enumerate();
        Self(relays.map(|(at, &front)| Relay { front, back: flows + at }).collect())
    }

    /// The ends of connections that belong to proxies.
    pub fn ends(&self) -> impl Iterator<Item = EndId> + '_ {
        self.0.iter().flat_map(|relay| [2 * relay.front as EndId + 1, 2 * relay.back as EndId])
    }

    /// The index of the connection behind a flow's proxy, if it has one.
    pub fn behind(&self, flow: usize) -> Option<usize> {
        let at = self.0.binary_search_by_key(&flow, |relay| relay.front).ok()?;
        Some(self.0[at].back)
    }

    /// Handles an event at an end of a flow: if the end is a proxy's, forwards the data that the proxy has read.
    #[inline]
    pub fn turn(&self, now: Time, end: EndId, flows: &mut [Flow], world: &mut FlowEnvironment) {
        if !self.0.is_empty() {
            self.turn_of(now, end, flows, world);
        }
    }

    fn turn_of(&self, now: Time, end: EndId, flows: &mut [Flow], world: &mut FlowEnvironment) {
        let (flow, side) = (end as usize / 2, end as usize % 2);
        let at = match side {
            SENDER => flow.checked_sub(self.0[0].back).filter(|at| *at < self.0.len()),
            _ => self.0.binary_search_by_key(&flow, |relay| relay.front).ok(),
        };
        let Some(Relay { front, back }) = at.map(|at| self.0[at]) else { return };
        // Connections behind proxies have the highest indices.
        let (before, behind) = flows.split_at_mut(back);
        let (front, back) = (&mut before[front], &mut behind[0]);
        if front.applications.connected[RECEIVER].is_some() && !back.has_begun() {
            back.begin(now, world);
        }
        while forward(now, (&mut *front, RECEIVER), (&mut *back, SENDER), world)
            | forward(now, (&mut *back, SENDER), (&mut *front, RECEIVER), world)
        {}
        end_together(now, (front, RECEIVER), (back, SENDER), world);
        end_together(now, (back, SENDER), (front, RECEIVER), world);
    }
}

/// Writes the data that was read at one end to the other end; returns true if there was any.
fn forward(
    now: Time,
    (from, reads): (&mut Flow, usize),
    (to, writes): (&mut Flow, usize),
    world: &mut FlowEnvironment,
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
    let reads_on = incoming.is_some_and(|incoming| incoming.set_room(BUFFER_BYTES - held));
    if reads_on {
        from.read_on(now, reads, world);
    }
    given || reads_on
}

/// Aborts the other connection of a proxy after one has failed, or closes it after one has closed.
fn end_together(
    now: Time,
    (ended, side): (&Flow, usize),
    (other, others): (&mut Flow, usize),
    world: &mut FlowEnvironment,
) {
    let Some((_, reason)) = ended.applications.ended[side] else { return };
    if other.is_over(others) {
        return;
    }
    if reason != Reason::Closed {
        other.abort(now, others, world);
    } else if other.applications.allow_close(others) {
        other.close(now, others, world);
    }
}

/// The connections that carry a flow's data: one, or two with a proxy between them.
pub struct Legs<'a> {
    /// The connection of the scenario, whose paths are the flow's.
    pub first: &'a mut Flow,
    behind: Option<&'a mut Flow>,
}

impl<'a> Legs<'a> {
    /// The connections of a flow.
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

    /// The transfer from an end of the flow, at the writing end.
    pub fn written_by(&self, end: usize) -> Option<&Transfer> {
        self.at(end).applications.written_by(end)
    }

    /// The transfer from an end of the flow, at the reading end.
    pub fn read_of(&self, end: usize) -> Option<&Transfer> {
        self.at(1 - end).applications.written_by(end)
    }

    /// Bytes from an end that the other has read since the end of the warm-up.
    pub fn delivered(&self, end: usize) -> Option<u64> {
        let before = self.at(1 - end).meters.baseline.as_ref().map_or(0, |baseline| baseline.delivered[end]);
        Some(self.read_of(end)?.checker.delivered() - before)
    }

    /// Time at which the last byte arrived, as in [`Flow::completed`].
    pub fn completed(&self) -> Option<Time> {
        let first = self.first.completed()?;
        self.behind.as_ref().map_or(Some(first), |behind| Some(first.max(behind.completed()?)))
    }

    /// All writes and reads of the flow's applications in the data from an end since the last call, in order.
    pub fn take_accesses(&mut self, end: usize) -> Vec<Access> {
        let mut all = Vec::new();
        let Self { first, behind } = self;
        let mut take = |flow: &mut Flow, wanted: &dyn Fn(bool) -> bool| {
            let accesses = core::iter::from_fn(|| flow.applications.poll_access(end));
            all.extend(accesses.filter(|access| wanted(access.read)));
        };
        match behind {
            // Reads and writes of the proxy are not counted, since they are not the application's.
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
