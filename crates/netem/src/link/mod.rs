//! One direction of a link: a queue, a transmitter and the way to the other end.
//!
//! A link is sans-IO: [`Link::offer`] hands it a frame, [`Link::next_event`] says when something can come out,
//! [`Link::take`] takes it out. It serves its queue *lazily*: whatever call comes first after the transmitter became free
//! catches up with all the departures that are due, so that a frame costs one event at most, its arrival at the other end.
//! At one and the same moment departures come before an offered frame, and no frame arrives at the moment at which it
//! begins to leave: the order of what happens at one moment rests on that.
//!
//! A simulator may take frames out before their moment, while they still wait in the queue, where their arrival is certain
//! by then: it finds what it needs to know for that under *lookahead* below.

mod fine;
mod impairments;
mod opportunities;

pub use impairments::Impairments;
pub use opportunities::Opportunities;

use fine::Fine;

use crate::loss::{Loss, LossModel};
use crate::queue::{AnyQueue, Arrival, Occupancy, Queue};
use crate::{Change, DropCause, Dropped, Drops, Frame, LinkModel, LinkRate};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use std::collections::VecDeque;

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
    /// Of these, bytes that were transmitted.
    pub used_bytes: Option<u64>,
    /// Packets dropped, by cause in the order of [`DropCause::ALL`].
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
/// What a frame needs that finds the link idle lies here, in less than two cache lines; in a network of many links most
/// frames are of that kind, and most links are not in the cache when their next frame comes.
#[derive(Clone, Debug)]
pub struct Link<F> {
    /// The transmitter is free from then on. [`Time::MAX`] while the rate is zero.
    busy_until: Time,
    /// The latest arrival so far, of frames that keep the order.
    last_arrival: Time,
    delay: Duration,
    /// Transmission time of a frame of `memo_len` bytes: most frames of a direction have the same length.
    memo_time: Fine,
    packets: u64,
    bytes: u64,
    busy: Duration,
    /// Frames on the way, by time of arrival.
    flight: VecDeque<(Time, F)>,
    rest: Box<Rest<F>>,
    /// Framing included.
    memo_len: u32,
    /// Frames in the queue.
    waiting: u32,
    overhead: u16,
    mtu: u16,
    /// By how much of a nanosecond the transmitter is free before `busy_until`, in units of [`Fine`].
    early: u16,
    /// Of [`FAST_PATH`], [`DETERMINISTIC`] and [`HAS_DROPPED`].
    state: u8,
}

const _: () =
    assert!(size_of::<Link<u128>>() <= 112, "a link leaves no room in two cache lines for who drives it");

/// A frame that finds the link idle only takes its time: up, with a constant rate, no loss, in order, and a queue that it
/// need not pass.
const FAST_PATH: u8 = 1;
/// What was let into the queue arrives, and when is known at once: up, with a constant rate, no loss, in order.
const DETERMINISTIC: u8 = 2;
/// There is something to [`take_dropped`](Link::take_dropped).
const HAS_DROPPED: u8 = 4;

/// What only some frames need.
#[derive(Clone, Debug)]
struct Rest<F> {
    up: bool,
    /// While the rate is zero: when the transmitter would have been free.
    stopped: Option<Time>,
    service: Service,
    queue: AnyQueue<F>,
    occupancy: Occupancy,
    loss: Loss,
    loss_rng: Rng,
    impairments: Option<Impairments>,
    drops: Drops<F>,
}

impl<F: Frame> Link<F> {
    /// A direction of a link. Its random draws come from streams forked off `rng`.
    ///
    /// # Panics
    /// If the MTU or the overhead of the model is more than 65,535 bytes.
    pub fn new(model: &LinkModel, rng: &Rng) -> Self {
        let service = match &model.rate {
            LinkRate::Constant(rate) => Service::Constant(*rate),
            LinkRate::Trace { opportunities_ms, offset, .. } => {
                Service::Trace(Box::new(Opportunities::new(opportunities_ms.clone(), *offset)))
            }
        };
        let loss_rng = rng.fork("loss");
        let rest = Rest {
            up: model.up,
            stopped: None,
            service,
            queue: AnyQueue::new(&model.queue, model.mtu, rng.fork("queue")),
            occupancy: Occupancy::default(),
            loss: Loss::new(&model.loss, loss_rng.clone()),
            loss_rng,
            impairments: Impairments::new(model, rng),
            drops: Drops::default(),
        };
        let octets =
            |bytes| u16::try_from(bytes).expect("an IP packet and its framing have a length of 16 bits");
        let mut link = Self {
            busy_until: Time::ZERO,
            last_arrival: Time::ZERO,
            delay: model.delay,
            memo_time: Fine::ZERO,
            packets: 0,
            bytes: 0,
            busy: Duration::ZERO,
            flight: VecDeque::new(),
            rest: Box::new(rest),
            memo_len: 0,
            waiting: 0,
            overhead: octets(model.overhead),
            mtu: octets(model.mtu),
            early: 0,
            state: 0,
        };
        link.rate_changed(Time::ZERO);
        link
    }

    /// Hands the link a frame. What is dropped shows in [`take_dropped`](Self::take_dropped).
    #[inline]
    pub fn offer(&mut self, now: Time, frame: F) {
        self.offer_beyond(now, frame, &mut 0);
    }

    /// When [`take`](Self::take) can next have something to hand out, or to do.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        let first = self.first_arrival();
        // A frame in the queue can be the first: where frames overtake each other, or after one that was lost.
        if self.waiting == 0 || self.busy_until == Time::MAX || (first.is_some() && self.is_deterministic()) {
            return first;
        }
        let possible = self.busy_until + self.delay;
        Some(first.map_or(possible, |first| first.min(possible)))
    }

    /// The next frame that has arrived at the other end, if any.
    #[inline]
    pub fn take(&mut self, now: Time) -> Option<F> {
        self.advance(now);
        self.take_before(now.just_after()).map(|(_, frame)| frame)
    }

    /// The next frame that has left the queue and arrives before `limit`, and when.
    #[inline]
    pub fn take_before(&mut self, limit: Time) -> Option<(Time, F)> {
        match self.flight.front() {
            Some(&(arrival, _)) if arrival < limit => self.flight.pop_front(),
            _ => None,
        }
    }

    /// When the first frame on the way arrives, of those that have left the queue.
    #[inline]
    pub fn first_arrival(&self) -> Option<Time> {
        self.flight.front().map(|&(arrival, _)| arrival)
    }

    /// Catches up with the departures that are due. Nothing may be offered for an earlier moment afterwards.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        self.advance_beyond(now, &mut 0);
    }

    /// What was dropped since the last call; the caller disposes of the packets.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<Vec<Dropped<F>>> {
        if self.state & HAS_DROPPED != 0 {
            self.state &= !HAS_DROPPED;
            return Some(self.rest.drops.take());
        }
        None
    }

    /// A change of what the link is set to. The frame being transmitted leaves at the old rate.
    pub fn change(&mut self, now: Time, change: &Change) {
        self.advance(now);
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

    /// Whether its queue asks frames for their [`flow`](Frame::flow).
    pub fn asks_for_flows(&self) -> bool {
        self.rest.queue.asks_for_flows()
    }

    /// The largest IP packet it carries, bytes.
    pub fn mtu(&self) -> u32 {
        self.mtu.into()
    }

    /// Packets and bytes in the queue.
    pub fn queued(&mut self, now: Time) -> (u64, u64) {
        self.advance(now);
        (self.rest.queue.packets(), self.rest.queue.bytes())
    }

    /// What passed the link until `now`. Asking changes nothing.
    pub fn totals(&mut self, now: Time) -> Totals {
        self.advance(now);
        self.rest.occupancy.account(now);
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
            used_bytes: match &self.rest.service {
                Service::Trace(trace) => Some(trace.used_until(now)),
                Service::Constant(_) => None,
            },
            drops: self.rest.drops.counts(),
            marks: self.rest.drops.marks(),
            occupancy: self.rest.occupancy,
        }
    }

    /// Forgets the maxima of the queue, at the end of the warm-up.
    pub fn restart_maxima(&mut self, now: Time) {
        self.advance(now);
        self.rest.occupancy.restart_maxima();
    }

    /// A frame that may be dropped or have to wait. Out of line: most frames need not be asked.
    #[inline(never)]
    fn consider(&mut self, now: Time, frame: F) {
        let too_big = frame.wire_len() > u32::from(self.mtu) && !frame.may_fragment();
        if !self.rest.up || too_big {
            let cause = if self.rest.up { DropCause::Mtu } else { DropCause::Down };
            self.drop_frame(now, frame, cause);
            return;
        }
        // After catching up, a free transmitter has an empty queue.
        let idle = (self.busy_until <= now).then(|| now.since(self.busy_until));
        let Rest { queue, occupancy, drops, .. } = self.rest.as_mut();
        queue.enqueue(Arrival { now, idle }, frame, drops);
        if idle.is_some() {
            if let Some(frame) = queue.dequeue(now, drops) {
                self.transmit(now, frame);
            }
        } else {
            let packets = queue.packets();
            occupancy.set(now, packets, queue.bytes());
            self.waiting = packets as u32;
        }
        self.note_drops();
    }

    /// The next frame of the queue leaves. One that is already `beyond` this link does not go on the way again.
    fn depart(&mut self, at: Time, beyond: &mut u32) {
        let Rest { queue, occupancy, drops, .. } = self.rest.as_mut();
        let frame = queue.dequeue(at, drops);
        let packets = queue.packets();
        occupancy.set(at, packets, queue.bytes());
        self.waiting = packets as u32;
        self.note_drops();
        let Some(frame) = frame else { return };
        // It begins where the last one ended, to a part of a nanosecond.
        let end = self.begin(at, self.early, frame.wire_len());
        if *beyond > 0 {
            *beyond -= 1;
            self.last_arrival = self.last_arrival.max(end + self.delay);
        } else {
            self.launch(at, end, frame);
        }
    }

    /// Transmits a frame.
    #[expect(clippy::inline_always, reason = "most frames find the link idle")]
    #[inline(always)]
    fn transmit(&mut self, at: Time, frame: F) {
        let end = self.begin(at, 0, frame.wire_len());
        self.launch(at, end, frame);
    }

    /// Starts to transmit an IP packet of `len` bytes, `early` of a nanosecond before a moment; when its last bit leaves.
    #[inline]
    fn begin(&mut self, at: Time, early: u16, len: u32) -> Time {
        let (end, early) = self.transmitted((at, early), len);
        (self.busy_until, self.early) = (end, early);
        self.busy += end.since(at);
        self.packets += 1;
        self.bytes += u64::from(len);
        end
    }

    /// Puts a frame on the way whose last bit leaves at `end`.
    #[inline]
    fn launch(&mut self, at: Time, end: Time, frame: F) {
        // An opportunity of a trace takes no time, and there may be no delay.
        let arrival = (end + self.delay).max(at.just_after());
        if self.is_deterministic() {
            // A shorter delay than before does not let a frame overtake.
            self.last_arrival = self.last_arrival.max(arrival);
            if self.flight.is_empty() {
                // Begins at its first place again, which is still in the caches.
                self.flight.clear();
            }
            self.flight.push_back((self.last_arrival, frame));
        } else {
            self.apply_impairments(at, arrival, frame);
        }
    }

    fn work_out(&mut self, (at, early): (Time, u16), framed: u32) -> (Time, u16) {
        match &mut self.rest.service {
            Service::Constant(rate) => {
                self.memo_len = framed;
                self.memo_time = Fine::to_send(*rate, framed);
                self.memo_time.after(at, early)
            }
            Service::Trace(trace) => (trace.send(at, framed), 0),
        }
    }

    /// A frame that left may be lost or take longer.
    #[inline(never)]
    fn apply_impairments(&mut self, at: Time, arrival: Time, frame: F) {
        let rest = self.rest.as_mut();
        if rest.loss.loses() {
            self.drop_frame(at, frame, DropCause::Loss);
            return;
        }
        // A shorter delay than before does not let a frame overtake.
        self.last_arrival = self.last_arrival.max(arrival);
        let Some(impairments) = &mut rest.impairments else {
            self.flight.push_back((self.last_arrival, frame));
            return;
        };
        impairments.forget_before(at);
        if let Some(held) = impairments.hold(arrival, &self.flight) {
            let place = self.flight.partition_point(|&(other, _)| other <= held);
            self.flight.insert(place, (held, frame));
        } else {
            impairments.send(self.last_arrival, frame, &mut self.flight);
        }
    }

    #[cold]
    fn drop_frame(&mut self, at: Time, frame: F, cause: DropCause) {
        self.rest.drops.drop(at, frame, cause);
        self.state |= HAS_DROPPED;
    }

    /// Something may have been dropped.
    #[inline]
    fn note_drops(&mut self) {
        if !self.rest.drops.is_empty() {
            self.state |= HAS_DROPPED;
        }
    }

    #[inline]
    const fn is_deterministic(&self) -> bool {
        self.state & DETERMINISTIC != 0
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
            (self.busy_until, self.early) = (now, 0);
            if let Service::Trace(trace) = &mut self.rest.service {
                trace.stop(now);
            }
        }
        self.rest.occupancy.set(now, 0, 0);
        let mut lost: Vec<F> = self.flight.drain(..).map(|(_, frame)| frame).collect();
        self.rest.queue.clear(&mut lost);
        for frame in lost {
            self.drop_frame(now, frame, DropCause::Down);
        }
        self.waiting = 0;
        self.last_arrival = now;
    }

    fn rate_changed(&mut self, now: Time) {
        let rest = self.rest.as_mut();
        (self.memo_len, self.early) = (0, 0);
        if let Service::Constant(rate) = rest.service {
            rest.queue.rate_changed(Some(rate));
            // A rate of zero stops the transmitter until it changes again.
            if rate.bits_per_second() == 0 {
                rest.stopped.get_or_insert(self.busy_until);
                self.busy_until = Time::MAX;
            } else if let Some(free) = rest.stopped.take() {
                self.busy_until = free.max(now);
                self.advance(now);
            }
        } else {
            rest.queue.rate_changed(None);
        }
        self.classify();
    }

    /// Finds out what frames need.
    fn classify(&mut self) {
        let rest = self.rest.as_ref();
        let deterministic = rest.up
            && matches!(rest.service, Service::Constant(_))
            && rest.loss.never()
            && rest.impairments.is_none();
        let fast_path = deterministic && rest.queue.lets_by();
        self.state &= HAS_DROPPED;
        self.state |= (u8::from(deterministic) * DETERMINISTIC) | (u8::from(fast_path) * FAST_PATH);
    }
}

/// Lookahead: what a simulator has to know that takes frames out of the queue before their moment.
///
/// It keeps count of the frames that it has taken while they wait. They still wait: they count for the queue, and
/// [`advance_beyond`](Self::advance_beyond) has them leave it in their time, but not arrive. Before a [`change`](Self::change)
/// every frame that was taken must have left the queue.
impl<F: Frame> Link<F> {
    /// As [`advance`](Self::advance); the first frames that leave, as many as are `beyond` this link, have been taken
    /// before, and the count is reduced by them.
    #[inline]
    pub fn advance_beyond(&mut self, now: Time, beyond: &mut u32) {
        while self.waiting > 0 && self.busy_until <= now {
            self.depart(self.busy_until, beyond);
        }
    }

    /// As [`offer`](Self::offer); it has caught up as [`advance_beyond`](Self::advance_beyond) does.
    #[expect(clippy::inline_always, reason = "most frames find the link idle, and are through at once")]
    #[inline(always)]
    pub fn offer_beyond(&mut self, now: Time, frame: F, beyond: &mut u32) {
        self.advance_beyond(now, beyond);
        if self.state & FAST_PATH != 0 && self.busy_until <= now && frame.wire_len() <= u32::from(self.mtu) {
            self.transmit(now, frame);
        } else {
            self.consider(now, frame);
        }
    }

    /// The frame in a place of the queue, if it is certain by now that it arrives, and when: the transmitter sends it when
    /// it has sent those before it, and it is on the way for the [`delay`](Self::delay).
    #[inline]
    pub fn certain(&self, place: usize) -> Option<&F> {
        if self.is_deterministic() { self.rest.queue.committed(place) } else { None }
    }

    /// Frames in the queue.
    #[inline]
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// When the transmitter has sent the frame that it is at; [`Time::MAX`] while the rate is zero.
    #[inline]
    pub const fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// When the last bit of an IP packet of `len` bytes leaves if the first leaves that much of a nanosecond before a moment;
    /// in the same form, so that packets that follow each other lose nothing to rounding.
    #[inline]
    pub fn transmitted(&mut self, (at, early): (Time, u16), len: u32) -> (Time, u16) {
        let framed = len + u32::from(self.overhead);
        // A trace keeps the memo empty.
        if self.memo_len == framed {
            self.memo_time.after(at, early)
        } else {
            self.work_out((at, early), framed)
        }
    }

    /// When the transmitter has sent the frame that it is at, to a part of a nanosecond, as [`transmitted`](Self::transmitted)
    /// has it; [`Time::MAX`] while the rate is zero.
    #[inline]
    pub const fn free(&self) -> (Time, u16) {
        (self.busy_until, self.early)
    }

    /// The propagation delay.
    #[inline]
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// The latest arrival so far: no frame that leaves from now on arrives earlier, where they keep their order.
    #[inline]
    pub const fn last_arrival(&self) -> Time {
        self.last_arrival
    }

    /// Whether frames arrive in the order in which they leave the queue.
    pub const fn keeps_order(&self) -> bool {
        self.rest.impairments.is_none()
    }
}

#[cfg(test)]
mod tests;
