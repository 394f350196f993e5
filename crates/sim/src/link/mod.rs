//! One direction of a link: a queue, a transmitter and the way to the other end.
//!
//! A link is sans-IO: [`Link::offer`] hands it a frame, [`Link::next_event`] says when something can come out,
//! [`Link::take`] takes it out. It serves its queue *lazily*: whatever call comes first after the transmitter became free
//! catches up with all the departures that are due, so that a frame costs one event at most, its arrival at the other end.
//! [`Link::take_ahead`] takes it out before that, as soon as it is certain. At one and the same moment departures come
//! before an offered frame, and no frame arrives at the moment at which it begins to leave: the order of what happens at
//! one moment rests on that.
//!
//! Frames are handles: the caller keeps the packets.

mod opportunities;
mod wire_delay;

pub use opportunities::Opportunities;
pub use wire_delay::Disturbance;

use crate::loss::Loss;
use crate::queue::red::MEAN_PACKET;
use crate::queue::{Arrival, Backlog, Discipline, Occupancy, Verdict};
use crate::scenario::model::{Change, LinkModel, LinkRate};
use multipath::rng::Rng;
use multipath::time::{Duration, Time};
use multipath::units::Rate;
use std::collections::VecDeque;
use wire::Ecn;

/// A packet as a link sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The caller's handle.
    pub id: u32,
    /// Length of the IP packet, bytes.
    pub len: u32,
    /// The caller's note of where it goes next.
    pub next: u32,
    /// ECN field; a queue may set "congestion experienced".
    pub ecn: Ecn,
}

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The queue was full.
    Queue,
    /// Random early detection.
    Red,
    /// Lost by the loss model.
    Loss,
    /// The link was or went down.
    Down,
    /// Larger than the link's MTU.
    Mtu,
}

impl Cause {
    /// All causes, in order.
    pub const ALL: [Self; 5] = [Self::Queue, Self::Red, Self::Loss, Self::Down, Self::Mtu];

    /// The name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Red => "red",
            Self::Loss => "loss",
            Self::Down => "down",
            Self::Mtu => "mtu",
        }
    }
}

/// A frame that will not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// When.
    pub at: Time,
    /// The frame.
    pub frame: Frame,
    /// Why.
    pub cause: Cause,
}

/// What passed a link since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets transmitted, packets lost on the way included.
    pub packets: u64,
    /// Bytes of these IP packets.
    pub bytes: u64,
    /// How long the transmitter was busy.
    pub busy: Duration,
    /// Bytes that could have been transmitted, framing included; only where the rate follows a trace.
    pub offered_bytes: Option<u64>,
    /// Bytes transmitted, framing included.
    pub framed_bytes: u64,
    /// Packets dropped, by cause in the order of [`Cause::ALL`].
    pub drops: [u64; 5],
    /// Packets marked with "congestion experienced".
    pub marks: u64,
    /// How full the queue was.
    pub occupancy: Occupancy,
}

/// How fast frames leave.
#[derive(Clone, Debug)]
enum Service {
    Constant(Rate),
    Trace(Box<Opportunities>),
}

/// One direction of a link.
///
/// What a frame needs that finds the link idle lies here, in two cache lines; in a network of many links most frames are
/// of that kind, and most links are not in the cache when their next frame comes.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Link {
    /// The transmitter is free from then on. [`Time::MAX`] while the rate is zero.
    busy_until: Time,
    /// The latest arrival so far, of frames that keep the order.
    last_arrival: Time,
    delay: Duration,
    /// Length, framing included, and transmission time of the last frame: most frames of a direction have the same length.
    memo_len: u32,
    memo_time: Duration,
    overhead: u32,
    mtu: u32,
    /// Frames in the queue.
    waiting: u32,
    /// How many of these, from the first on, have been handed on ahead of their time.
    ahead: u32,
    /// Up, with a constant rate, a plain queue, and nothing that draws random numbers.
    plain: bool,
    /// What is accepted arrives, and when is known at once: up, with a constant rate and no loss, in order.
    certain: bool,
    /// There is something to [`take_dropped`](Self::take_dropped).
    has_dropped: bool,
    packets: u64,
    bytes: u64,
    busy: Duration,
    /// When the last of the frames that were handed on ahead has left.
    reserved: Time,
    /// Frames on the way, by time of arrival.
    flight: VecDeque<(Time, Frame)>,
    rest: Box<Rest>,
}

const _: () = assert!(size_of::<Link>() == 128, "a link has outgrown two cache lines");

/// What only some frames need.
#[derive(Clone, Debug)]
struct Rest {
    up: bool,
    /// While the rate is zero: when the transmitter would have been free.
    stopped: Option<Time>,
    service: Service,
    discipline: Discipline,
    backlog: Backlog,
    loss: Loss,
    loss_rng: Rng,
    disturbance: Option<Disturbance>,
    dropped: Vec<Dropped>,
    drops: [u64; 5],
    marks: u64,
}

impl Link {
    /// A direction of a link. Its random draws come from streams forked off `rng`.
    pub fn new(model: &LinkModel, rng: &Rng) -> Self {
        let service = match &model.rate {
            LinkRate::Constant(rate) => Service::Constant(*rate),
            LinkRate::Trace { opportunities_ms, .. } => {
                Service::Trace(Box::new(Opportunities::new(opportunities_ms.clone())))
            }
        };
        let loss_rng = rng.fork("loss");
        let rest = Rest {
            up: model.up,
            stopped: None,
            service,
            discipline: Discipline::new(&model.queue, Duration::ZERO, model.mtu, rng.fork("queue")),
            backlog: Backlog::new(),
            loss: Loss::new(&model.loss, loss_rng.clone()),
            loss_rng,
            disturbance: Disturbance::new(model, rng),
            dropped: Vec::new(),
            drops: [0; 5],
            marks: 0,
        };
        let mut link = Self {
            busy_until: Time::ZERO,
            last_arrival: Time::ZERO,
            delay: model.delay,
            memo_len: 0,
            memo_time: Duration::ZERO,
            overhead: model.overhead,
            mtu: model.mtu,
            waiting: 0,
            ahead: 0,
            plain: false,
            certain: false,
            has_dropped: false,
            packets: 0,
            bytes: 0,
            busy: Duration::ZERO,
            reserved: Time::ZERO,
            flight: VecDeque::new(),
            rest: Box::new(rest),
        };
        link.rate_changed(Time::ZERO);
        link
    }

    /// Hands the link a frame. What is dropped shows in [`take_dropped`](Self::take_dropped).
    #[inline]
    pub fn offer(&mut self, now: Time, frame: Frame) {
        self.advance(now);
        if self.plain && self.busy_until <= now && frame.len <= self.mtu {
            self.transmit(now, frame);
        } else {
            self.consider(now, frame);
        }
    }

    /// When [`take`](Self::take) can next have something to hand out, or to do.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        let first = self.first_arrival();
        // A frame in the queue can be the first: where frames overtake each other, or after one that was handed on or lost.
        if self.waiting == self.ahead || self.busy_until == Time::MAX || (first.is_some() && self.certain) {
            return first;
        }
        let possible = self.free() + self.delay;
        Some(first.map_or(possible, |first| first.min(possible)))
    }

    /// The next frame that has arrived at the other end, if any.
    #[inline]
    pub fn take(&mut self, now: Time) -> Option<Frame> {
        self.advance(now);
        self.take_before(now.just_after()).map(|(_, frame)| frame)
    }

    /// The next frame that has left the queue and arrives before `limit`, and when.
    #[inline]
    pub fn take_before(&mut self, limit: Time) -> Option<(Time, Frame)> {
        match self.flight.front() {
            Some(&(arrival, _)) if arrival < limit => self.flight.pop_front(),
            _ => None,
        }
    }

    /// The next frame of which it is certain by now that it arrives, and when, if that is before `limit`: one may still be
    /// in the queue. For what takes the frames of this link ahead of their time.
    #[inline]
    pub fn take_ahead(&mut self, limit: Time) -> Option<(Time, Frame)> {
        if !self.flight.is_empty() {
            return self.take_before(limit);
        }
        if self.waiting == self.ahead || !self.certain {
            return None;
        }
        let frame = self.rest.backlog.get(self.ahead as usize)?;
        let end = self.serialise(self.free(), frame.len + self.overhead);
        let arrival = self.last_arrival.max(end + self.delay);
        if arrival >= limit {
            return None;
        }
        self.ahead += 1;
        self.reserved = end;
        self.last_arrival = arrival;
        Some((arrival, frame))
    }

    /// A frame that has not left the queue, or is offered at `offered` or later, arrives then or later.
    #[inline]
    pub fn none_before(&self, offered: Time) -> Time {
        offered.max(self.free()) + self.delay
    }

    /// When the transmitter has sent the frame that it is at, and those that were taken ahead.
    #[inline]
    fn free(&self) -> Time {
        self.reserved.max(self.busy_until)
    }

    /// When the first frame on the way arrives, of those that have left the queue.
    #[inline]
    pub fn first_arrival(&self) -> Option<Time> {
        self.flight.front().map(|&(arrival, _)| arrival)
    }

    /// Whether frames arrive in the order in which they leave the queue.
    pub const fn keeps_order(&self) -> bool {
        self.rest.disturbance.is_none()
    }

    /// What was dropped since the last call; the caller disposes of the packets.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<Vec<Dropped>> {
        if self.has_dropped {
            self.has_dropped = false;
            return Some(core::mem::take(&mut self.rest.dropped));
        }
        None
    }

    /// A change ordered by the scenario. The frame being transmitted leaves at the old rate.
    pub fn change(&mut self, now: Time, change: &Change) {
        self.advance(now);
        debug_assert!(self.ahead == 0, "a frame was handed on beyond a change at {now:?}");
        match *change {
            Change::State { up } => self.set_up(now, up),
            Change::Rate(rate) => {
                self.rest.service = Service::Constant(rate);
                self.rate_changed(now);
            }
            Change::Delay(delay) => self.delay = delay,
            Change::Loss(ref loss) => {
                // A stream of its own for each change, so that equal models do not repeat each other's draws.
                self.rest.loss_rng = self.rest.loss_rng.fork("change");
                self.rest.loss = Loss::new(loss, self.rest.loss_rng.clone());
            }
        }
        self.classify();
    }

    /// Whether the link is up.
    pub const fn is_up(&self) -> bool {
        self.rest.up
    }

    /// The largest IP packet it carries, bytes.
    pub const fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The constant rate, unless the link follows a trace.
    pub const fn rate(&self) -> Option<Rate> {
        match self.rest.service {
            Service::Constant(rate) => Some(rate),
            Service::Trace(_) => None,
        }
    }

    /// Packets and bytes in the queue.
    pub fn queued(&mut self, now: Time) -> (u64, u64) {
        self.advance(now);
        (self.rest.backlog.packets(), self.rest.backlog.bytes())
    }

    /// What passed the link until `now`. Asking changes nothing.
    pub fn totals(&mut self, now: Time) -> Totals {
        self.advance(now);
        // What is being transmitted has only been transmitted in part.
        let free = self.rest.stopped.unwrap_or(self.busy_until);
        Totals {
            packets: self.packets,
            bytes: self.bytes,
            busy: self.busy.saturating_sub(free.since(now)),
            offered_bytes: match &self.rest.service {
                Service::Trace(trace) => Some(trace.offered_until(now)),
                Service::Constant(_) => None,
            },
            framed_bytes: self.bytes + self.packets * u64::from(self.overhead),
            drops: self.rest.drops,
            marks: self.rest.marks,
            occupancy: self.rest.backlog.occupancy(now),
        }
    }

    /// Forgets the maxima of the queue, at the end of the warm-up.
    pub fn restart_maxima(&mut self, now: Time) {
        self.advance(now);
        self.rest.backlog.restart_maxima();
    }

    /// Catches up with the departures that are due. Nothing may be offered for an earlier moment afterwards.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        while self.waiting > 0 && self.busy_until <= now {
            let at = self.busy_until;
            let Some(frame) = self.rest.backlog.pop(at) else { return };
            self.waiting -= 1;
            let end = self.begin(at, frame.len);
            if self.ahead > 0 {
                self.ahead -= 1;
            } else {
                self.launch(at, end, frame);
            }
        }
    }

    /// A frame that may be dropped or have to wait.
    fn consider(&mut self, now: Time, mut frame: Frame) {
        let rest = self.rest.as_mut();
        if !rest.up || frame.len > self.mtu {
            let cause = if rest.up { Cause::Mtu } else { Cause::Down };
            self.drop_frame(now, frame, cause);
            return;
        }
        // After catching up, a free transmitter has an empty queue.
        let idle = (self.busy_until <= now).then(|| now.since(self.busy_until));
        let arrival = Arrival {
            now,
            len: frame.len,
            ecn: frame.ecn,
            packets: rest.backlog.packets(),
            bytes: rest.backlog.bytes(),
            idle,
        };
        match rest.discipline.admit(&arrival) {
            Verdict::Accept => {}
            Verdict::Mark => {
                frame.ecn = Ecn::Ce;
                rest.marks += 1;
            }
            Verdict::Drop(cause) => {
                self.drop_frame(now, frame, cause);
                return;
            }
        }
        if idle.is_some() {
            self.transmit(now, frame);
        } else {
            rest.backlog.push(now, frame);
            self.waiting += 1;
        }
    }

    /// Transmits a frame.
    #[inline]
    fn transmit(&mut self, at: Time, frame: Frame) {
        let end = self.begin(at, frame.len);
        self.launch(at, end, frame);
    }

    /// Starts to transmit an IP packet of `len` bytes; when its last bit leaves.
    #[inline]
    fn begin(&mut self, at: Time, len: u32) -> Time {
        let end = self.serialise(at, len + self.overhead);
        self.busy_until = end;
        self.busy += end.since(at);
        self.packets += 1;
        self.bytes += u64::from(len);
        end
    }

    /// Puts a frame on the way whose last bit leaves at `end`.
    #[inline]
    fn launch(&mut self, at: Time, end: Time, frame: Frame) {
        // An opportunity of a trace takes no time, and there may be no delay.
        let arrival = (end + self.delay).max(at.just_after());
        if self.plain {
            // A shorter delay than before does not let a frame overtake.
            self.last_arrival = self.last_arrival.max(arrival);
            if self.flight.is_empty() {
                // Begins at its first place again, which is still in the caches.
                self.flight.clear();
            }
            self.flight.push_back((self.last_arrival, frame));
        } else {
            self.gamble(at, arrival, frame);
        }
    }

    /// When the last bit of so many bytes leaves if the first leaves at `at`.
    #[inline]
    fn serialise(&mut self, at: Time, framed: u32) -> Time {
        // A trace keeps the memo empty.
        if self.memo_len == framed { at + self.memo_time } else { self.work_out(at, framed) }
    }

    fn work_out(&mut self, at: Time, framed: u32) -> Time {
        match &mut self.rest.service {
            Service::Constant(rate) => {
                self.memo_len = framed;
                self.memo_time = rate.time_to_send(u64::from(framed));
                at + self.memo_time
            }
            Service::Trace(trace) => trace.send(at, framed),
        }
    }

    /// A frame that left may be lost or take longer.
    fn gamble(&mut self, at: Time, arrival: Time, frame: Frame) {
        let rest = self.rest.as_mut();
        if rest.loss.loses() {
            self.drop_frame(at, frame, Cause::Loss);
            return;
        }
        let jitter = rest.disturbance.as_mut().map_or(Duration::ZERO, Disturbance::jitter);
        let arrival = if let Some(held) = rest.disturbance.as_mut().and_then(Disturbance::held_back) {
            arrival + held
        } else {
            self.last_arrival = self.last_arrival.max(arrival + jitter);
            self.last_arrival
        };
        let place = self.flight.iter().rposition(|&(other, _)| other <= arrival).map_or(0, |at| at + 1);
        self.flight.insert(place, (arrival, frame));
    }

    #[cold]
    fn drop_frame(&mut self, at: Time, frame: Frame, cause: Cause) {
        self.rest.drops[cause as usize] += 1;
        self.rest.dropped.push(Dropped { at, frame, cause });
        self.has_dropped = true;
    }

    fn set_up(&mut self, now: Time, up: bool) {
        if self.rest.up == up {
            return;
        }
        self.rest.up = up;
        if up {
            return;
        }
        // The transmitter falls silent in the middle of a frame.
        if self.rest.stopped.is_none() && self.busy_until > now {
            self.busy = self.busy.saturating_sub(self.busy_until.since(now));
            self.busy_until = now;
        }
        while let Some((_, frame)) = self.flight.pop_front() {
            self.drop_frame(now, frame, Cause::Down);
        }
        while let Some(frame) = self.rest.backlog.pop(now) {
            self.drop_frame(now, frame, Cause::Down);
        }
        self.waiting = 0;
        self.last_arrival = now;
    }

    fn rate_changed(&mut self, now: Time) {
        let rest = self.rest.as_mut();
        self.memo_len = 0;
        if let Service::Constant(rate) = rest.service {
            rest.discipline.set_typical(rate.time_to_send(u64::from(MEAN_PACKET)));
            // A rate of zero stops the transmitter until it changes again.
            if rate.bits_per_second() == 0 {
                rest.stopped.get_or_insert(self.busy_until);
                self.busy_until = Time::MAX;
            } else if let Some(free) = rest.stopped.take() {
                self.busy_until = free.max(now);
                self.advance(now);
            }
        } else {
            // A trace has no rate to speak of; RED's idle time then counts one opportunity as a packet.
            rest.discipline.set_typical(Duration::from_millis(1));
        }
        self.classify();
    }

    /// Finds out whether frames need more than the plain treatment.
    fn classify(&mut self) {
        let rest = self.rest.as_ref();
        self.certain = rest.up
            && matches!(rest.service, Service::Constant(_))
            && matches!(rest.loss, Loss::None)
            && rest.disturbance.is_none();
        self.plain = self.certain && matches!(rest.discipline, Discipline::Fifo(_));
    }
}

#[cfg(test)]
mod tests;
