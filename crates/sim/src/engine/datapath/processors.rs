//! The time that hosts need for packets.
//!
//! A host with a cost has one processor, a queue with one server: packets that its ends send, and packets that arrive for
//! them, are served one after the other. Service depends on lists of the receiving connection
//! ([`Endpoint::entries_before`](anabranch_endpoint::Endpoint::entries_before)), which the datapath does not know. So an
//! arrival is served in two steps: after the first, [`Outcome::Searches`] asks for the number of entries, and
//! [`Datapath::search`] adds the time of the second. No other packet of the host is delivered meanwhile, so the lists are
//! those that the packet meets.

use super::{Datapath, EndId, Outcome, PacketRef, Time};
use crate::measure::digest::Digest;
use crate::scenario::Scenario;
use crate::scenario::model::HostCost;
use anabranch_base::time::Duration;
use anabranch_netem::{Frame, Network};
use anabranch_wire::sctp::Chunk;
use anabranch_wire::{Body, Packet};
use std::collections::VecDeque;

/// A packet at a processor, and its destination after the service.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// The packet is sent to the link direction with this number.
    Send(u32, PacketRef),
    /// The packet is passed to an end of a flow.
    Receive(EndId, PacketRef),
}

/// The processor of a host.
#[derive(Debug)]
struct Processor {
    /// The host.
    name: String,
    cost: HostCost,
    /// Packets in the order of their service, with the known part of its time; the first is in service.
    jobs: VecDeque<(Job, Duration)>,
    /// Start of the service of the first packet, and the time at which the known part of this service ends.
    began: Time,
    due: Time,
    /// True if the number of entries before the first packet is known.
    searched: bool,
    /// Service times of all completed packets.
    busy: Duration,
    /// `busy` when measuring began.
    before: Duration,
    drops: u64,
    dropped: Digest,
}

/// The use of a processor.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessorUse {
    /// The host.
    pub host: String,
    /// Service time since measuring began.
    pub busy: Duration,
    /// Packets that found the backlog full, since the start.
    pub drops: u64,
}

/// The processors of the hosts with a cost.
#[derive(Debug)]
pub struct Processors {
    all: Vec<Processor>,
    /// The index of the processor of each end of a flow.
    of_end: Vec<Option<u32>>,
}

impl Processors {
    /// The processors of a scenario; `None` if no host of a flow has a cost.
    pub(super) fn of(scenario: &Scenario, network: &Network) -> Option<Box<Self>> {
        let costs = scenario.hosts.iter().filter_map(|host| Some((&host.name, host.cost?)));
        let all: Vec<_> = costs.map(|(name, cost)| Processor::new(name.clone(), cost)).collect();
        let at = |node: usize| {
            let name = &network.nodes()[node].name;
            all.iter().position(|processor| processor.name == *name).map(|index| index as u32)
        };
        let ends = (0..scenario.connections().len()).flat_map(|flow| network.ends(flow));
        let of_end: Vec<_> = ends.map(at).collect();
        (!all.is_empty()).then(|| Box::new(Self { all, of_end }))
    }

    /// The ends of flows at these hosts.
    pub(super) fn ends(&self) -> impl Iterator<Item = EndId> + '_ {
        let at_processor = self.of_end.iter().enumerate().filter(|(_, index)| index.is_some());
        at_processor.map(|(end, _)| end as EndId)
    }

    /// Index of the processor of an end.
    pub(super) fn index_of(&self, end: EndId) -> Option<usize> {
        self.of_end[end as usize].map(|index| index as usize)
    }

    /// The utilisation of each processor, by the name of its host.
    pub fn uses(&self, now: Time) -> Vec<ProcessorUse> {
        let used = |processor: &Processor| ProcessorUse {
            host: processor.name.clone(),
            busy: processor.busy_at(now).saturating_sub(processor.before),
            drops: processor.drops,
        };
        let mut uses: Vec<_> = self.all.iter().map(used).collect();
        uses.sort_by(|one, other| one.host.cmp(&other.host));
        uses
    }

    /// Starts measuring.
    pub fn restart(&mut self, now: Time) {
        for processor in &mut self.all {
            processor.before = processor.busy_at(now);
        }
    }

    /// Adds the drops.
    pub(super) fn digest(&self, digest: &mut Digest) {
        for processor in &self.all {
            digest.word(processor.dropped.value());
        }
    }

    /// Calls `visit` for every packet.
    pub(super) fn visit(&mut self, mut visit: impl FnMut(&mut PacketRef)) {
        for (job, _) in self.all.iter_mut().flat_map(|processor| &mut processor.jobs) {
            let (Job::Send(_, frame) | Job::Receive(_, frame)) = job;
            visit(frame);
        }
    }
}

impl Processor {
    fn new(name: String, cost: HostCost) -> Self {
        Self {
            name,
            cost,
            jobs: VecDeque::new(),
            began: Time::ZERO,
            due: Time::ZERO,
            searched: false,
            busy: Duration::ZERO,
            before: Duration::ZERO,
            drops: 0,
            dropped: Digest::new(),
        }
    }

    /// The time for a packet without the entries of the receiver's lists.
    fn known_part(&self, len: u32, packet: &Packet) -> Duration {
        let HostCost { packet: fixed, byte, gap, .. } = self.cost;
        let blocks = if gap == Duration::ZERO { 0 } else { gap_blocks(packet) };
        fixed + byte.saturating_mul(len.into()) + gap.saturating_mul(blocks)
    }

    /// Begins the service of the first packet, if there is one.
    fn begin(&mut self, now: Time) -> Option<Time> {
        let &(_, service) = self.jobs.front()?;
        (self.began, self.due, self.searched) = (now, now + service, self.cost.gap == Duration::ZERO);
        Some(self.due)
    }

    /// Service until `now`.
    fn busy_at(&self, now: Time) -> Duration {
        let present = if self.jobs.is_empty() { Duration::ZERO } else { now.min(self.due).since(self.began) };
        self.busy + present
    }
}

/// Number of gap blocks in a packet.
fn gap_blocks(packet: &Packet) -> u64 {
    match &packet.body {
        Body::Tcp(segment) => segment.options.sack.count().into(),
        Body::Sctp(packet) => {
            let blocks = |chunk: &Chunk| match chunk {
                Chunk::Sack(sack) => sack.gaps.len() as u64,
                Chunk::NrSack(sack) => (sack.sack.gaps.len() + sack.nr_gaps.len()) as u64,
                _ => 0,
            };
            packet.chunks.iter().map(blocks).sum()
        }
        Body::Udp(_) | Body::Icmp(_) => 0,
    }
}

impl Datapath {
    /// The processors, if there are any.
    pub fn processors(&mut self) -> Option<&mut Processors> {
        self.processors.as_deref_mut()
    }

    /// Encodes a packet that an end sends, if packets are encoded, and passes it to the processor of its host or to its
    /// first link.
    #[cold]
    pub(super) fn intercept_sent(&mut self, now: Time, from: EndId, direction: u32, frame: PacketRef) {
        if self.encoding.is_some() {
            self.encode_sent(now, from, frame.id);
        }
        match self.processors.as_ref().and_then(|processors| processors.index_of(from)) {
            Some(index) => self.enqueue(now, index, Job::Send(direction, frame)),
            None => self.offer(now, direction, frame),
        }
    }

    /// Passes a packet that has arrived for an end to the processor of its host, or to the end.
    pub(super) fn receive_by_processor(&mut self, now: Time, end: EndId, frame: PacketRef) -> Outcome {
        let Some(index) = self.processors.as_ref().and_then(|processors| processors.index_of(end)) else {
            return Outcome::Arrived(end, frame);
        };
        self.enqueue(now, index, Job::Receive(end, frame));
        Outcome::Nothing
    }

    fn enqueue(&mut self, now: Time, index: usize, job: Job) {
        let (Job::Send(_, frame) | Job::Receive(_, frame)) = job;
        let packet = self.slab.get(frame.id);
        let processors = self.processors.as_mut().expect("a processor has an index");
        let processor = &mut processors.all[index];
        if processor.jobs.len() as u64 >= processor.cost.backlog {
            processor.drops += 1;
            processor.dropped.packet(now, (index as u32, frame.wire_len()), packet);
            self.drop_at_processor(frame);
            return;
        }
        let service = processor.known_part(frame.wire_len(), packet);
        processor.jobs.push_back((job, service));
        if processor.jobs.len() == 1
            && let Some(due) = processor.begin(now)
        {
            self.schedule_processor(index, due);
        }
    }

    /// Removes a packet that found the backlog full.
    #[cold]
    fn drop_at_processor(&mut self, frame: PacketRef) {
        let sender = self.sender_of(frame);
        let packet = self.slab.take(frame.id);
        if let Some(sender) = sender {
            self.record_lost(sender, &packet);
        }
    }

    /// Processes the event of a processor.
    pub(super) fn processor_due(&mut self, now: Time, index: usize) -> Outcome {
        let processors = self.processors.as_mut().expect("a processor has an event");
        let processor = &mut processors.all[index];
        let &(job, _) = processor.jobs.front().expect("a processor with an event has a packet in service");
        if let (Job::Receive(end, frame), false) = (job, processor.searched) {
            // The answer schedules its next event.
            processor.searched = true;
            return Outcome::Searches(end, frame);
        }
        processor.jobs.pop_front();
        processor.busy += processor.due.since(processor.began);
        if let Some(due) = processor.begin(now) {
            self.schedule_processor(index, due);
        }
        match job {
            Job::Send(direction, frame) => {
                self.offer(now, direction, frame);
                Outcome::Nothing
            }
            Job::Receive(end, frame) => Outcome::Arrived(end, frame),
        }
    }

    /// Adds the time for the entries before the packet for which a processor searches at `now`.
    pub fn search(&mut self, now: Time, end: EndId, entries: u64) {
        let Some(processors) = &mut self.processors else { return };
        let Some(index) = processors.index_of(end) else { return };
        let processor = &mut processors.all[index];
        // In real time the answer may be late.
        processor.due = now.max(processor.due + processor.cost.gap.saturating_mul(entries));
        let due = processor.due;
        self.schedule_processor(index, due);
    }

    fn schedule_processor(&mut self, index: usize, due: Time) {
        let middleboxes = self.middleboxes.as_ref().map_or(0, |middleboxes| middleboxes.count());
        let component = self.links.len() as u32 + self.ends + (middleboxes + index) as u32;
        self.queue.push(due, component);
    }

    /// Processes the event of a middlebox or processor, by its number among these.
    #[cold]
    pub(super) fn node_due(&mut self, now: Time, index: usize) -> Outcome {
        let middleboxes = self.middleboxes.as_ref().map_or(0, |middleboxes| middleboxes.count());
        if let Some(index) = index.checked_sub(middleboxes) {
            return self.processor_due(now, index);
        }
        self.middlebox_due(now, index);
        Outcome::Nothing
    }
}
