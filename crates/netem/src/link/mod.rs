//! One direction of a link: a queue, a transmitter and the propagation to the other end.
//!
//! A link is sans-IO: [`Link::offer`] passes it a frame, [`Link::next_event`] returns the time at which a frame
//! can arrive, [`Link::take`] removes and returns it. It serves its queue *lazily*: the first call after the transmitter
//! became free processes all departures that are due, so that a frame costs at most one event, its arrival at
//! the other end. Events of equal time have a fixed order: departures precede an offered frame, and no frame
//! arrives at the time at which it begins to leave.
//!
//! A simulator may remove frames before their time, while they still wait in the queue, if their arrival is
//! certain; see *lookahead* below.

mod fine;
mod impairments;
mod opportunities;
mod rates;
mod suspended;
mod suspension;

pub use impairments::Impairments;
pub use opportunities::Opportunities;
pub use rates::RecordedRates;

use fine::Fine;
use suspended::Suspended;

use crate::loss::{Departure, Loss, LossModel};
use crate::queue::{self, AnyQueue, Arrival, Occupancy, Queue};
use crate::{Change, DropCause, Dropped, Drops, Frame, LinkDelay, LinkModel, LinkRate, RateTrace};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use std::collections::VecDeque;

/// Traffic of a link since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets transmitted, including packets lost on the way.
    pub packets: u64,
    /// Bytes of these IP packets.
    pub bytes: u64,
    /// Total transmission time.
    pub busy: Duration,
    /// Bytes that could have been transmitted, framing included; only where the rate follows a trace.
    pub offered_bytes: Option<u64>,
    /// The part of `offered_bytes` that was transmitted.
    pub used_bytes: Option<u64>,
    /// Packets dropped, by cause in the order of [`DropCause::ALL`].
    pub drops: [u64; 6],
    /// Packets marked with "congestion experienced".
    pub marks: u64,
    /// Occupancy of the queue.
    pub occupancy: Occupancy,
}

/// The service of the transmitter.
#[derive(Clone, Debug)]
enum Service {
    Constant(Rate),
    Opportunities(Box<Opportunities>),
    Rates(Box<RecordedRates>),
}

impl Service {
    fn new(rate: &LinkRate) -> Self {
        match rate {
            LinkRate::Constant(rate) => Self::Constant(*rate),
            LinkRate::Trace { content: RateTrace::Opportunities(moments), offset, .. } => {
                Self::Opportunities(Box::new(Opportunities::new(moments.clone(), *offset)))
            }
            LinkRate::Trace { content: RateTrace::Rates(series), offset, .. } => {
                Self::Rates(Box::new(RecordedRates::new(series, *offset)))
            }
        }
    }

    /// Stops the transmission of the current packet.
    fn stop(&mut self, now: Time) {
        match self {
            Self::Constant(_) => {}
            Self::Opportunities(trace) => trace.stop(now),
            Self::Rates(trace) => trace.stop(now),
        }
    }

    /// Bytes that the recording permits until `now`, and the number of these that were sent; `None` for a constant
    /// rate.
    fn usage(&self, now: Time) -> Option<[u64; 2]> {
        match self {
            Self::Constant(_) => None,
            Self::Opportunities(trace) => Some([trace.offered_until(now), trace.used_until(now)]),
            Self::Rates(trace) => Some([trace.offered_until(now), trace.used_until(now)]),
        }
    }
}

/// One direction of a link.
///
/// The fields for a frame that finds the link idle come first, within two cache lines. In a network of many
/// links most frames are of that kind, and most links are not in the cache when their next frame arrives.
#[derive(Clone, Debug)]
pub struct Link<F> {
    /// Time from which the transmitter is free. [`Time::MAX`] while the rate is zero.
    busy_until: Time,
    /// The latest arrival of frames that keep the order.
    last_arrival: Time,
    /// The propagation delay; its minimum, if it follows a recording.
    delay: Duration,
    /// Transmission time of a frame of `memo_len` bytes: most frames of a direction have the same length.
    memo_time: Fine,
    packets: u64,
    bytes: u64,
    busy: Duration,
    /// Frames in propagation, by time of arrival.
    flight: VecDeque<(Time, F)>,
    rest: Box<Rest<F>>,
    /// Length of the frames with transmission time `memo_time`, framing included, bytes.
    memo_len: u32,
    /// Frames in the queue.
    waiting: u32,
    overhead: u16,
    mtu: u16,
    /// Fraction of a nanosecond by which the transmitter is free before `busy_until`, in units of [`Fine`].
    early: u16,
    /// A set of the flags [`FAST_PATH`], [`DETERMINISTIC`], [`HAS_DROPPED`] and [`DUPLICATES`].
    state: u8,
}

const _: () =
    assert!(size_of::<Link<u128>>() <= 112, "a link leaves no room in two cache lines for its driver");

/// Flag: the arrival time of a frame that finds the link idle is known in advance. The link is up and has a constant
/// rate, a constant delay, no loss, no reordering, and a queue that may be bypassed.
const FAST_PATH: u8 = 1;
/// Flag: the arrival times of queued frames are known in advance. The link is up and has a constant rate, a constant
/// delay, no loss and no reordering.
const DETERMINISTIC: u8 = 2;
/// Flag: [`take_dropped`](Link::take_dropped) has frames to return.
const HAS_DROPPED: u8 = 4;
/// Flag: some frames enter the queue twice.
const DUPLICATES: u8 = 8;

/// State of a link that only some frames need, outside the first cache lines.
#[derive(Clone, Debug)]
struct Rest<F> {
    up: bool,
    /// While the rate is zero: the interrupted transmission.
    suspended: Option<Suspended<F>>,
    service: Service,
    /// The delay, if it follows a recording.
    recorded_delay: Option<LinkDelay>,
    queue: AnyQueue<F>,
    queue_rng: Rng,
    occupancy: Occupancy,
    loss: Loss,
    loss_rng: Rng,
    impairments: Option<Impairments>,
    /// The last frame with loss or impairments: the time at which it leaves the transmitter, and its position
    /// in `flight`, counted from the end; `None` if it was lost. A frame that leaves at another time is the
    /// last one in `flight`.
    last_launched: (Time, Option<usize>),
    /// Probability that a frame enters the queue twice.
    duplicate: f64,
    duplicate_rng: Rng,
    /// The random stream from which the streams of all components are forked.
    rng: Rng,
    drops: Drops<F>,
}

impl<F: Frame> Link<F> {
    /// Creates a direction of a link. Its random draws come from streams forked off `rng`.
    ///
    /// # Panics
    ///
    /// If the MTU or the overhead of the model is more than 65,535 bytes.
    pub fn new(model: &LinkModel, rng: &Rng) -> Self {
        let (queue_rng, loss_rng) = (rng.fork("queue"), rng.fork("loss"));
        let rest = Rest {
            up: model.up,
            suspended: None,
            service: Service::new(&model.rate),
            recorded_delay: matches!(model.delay, LinkDelay::Trace { .. }).then(|| model.delay.clone()),
            queue: AnyQueue::new(&model.queue, model.mtu, queue_rng.clone()),
            queue_rng,
            occupancy: Occupancy::default(),
            loss: Loss::new(&model.loss, loss_rng.clone()),
            loss_rng,
            impairments: Impairments::new(model, rng),
            last_launched: (Time::ZERO, None),
            duplicate: model.duplicate,
            duplicate_rng: rng.fork("duplicate"),
            rng: rng.clone(),
            drops: Drops::default(),
        };
        let octets =
            |bytes| u16::try_from(bytes).expect("an IP packet and its framing have a length of 16 bits");
        let mut link = Self {
            busy_until: Time::ZERO,
            last_arrival: Time::ZERO,
            delay: model.delay.min(),
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

    /// Passes the link a frame. [`take_dropped`](Self::take_dropped) returns dropped frames.
    #[inline]
    pub fn offer(&mut self, now: Time, frame: F) {
        self.offer_beyond(now, frame, &mut 0);
    }

    /// Returns true if the next frame enters the queue twice. Then the caller offers a copy directly after it.
    #[inline]
    pub fn duplicates_next(&mut self) -> bool {
        self.state & DUPLICATES != 0 && self.rest.duplicate_rng.chance(self.rest.duplicate)
    }

    /// The time of the next event that [`take`](Self::take) has to process.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        let first = self.first_arrival();
        // A frame in the queue can arrive first if frames overtake each other, or if the frame before it is lost.
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

    /// The next frame that has left the queue and arrives before `limit`, and its time of arrival.
    #[inline]
    pub fn take_before(&mut self, limit: Time) -> Option<(Time, F)> {
        match self.flight.front() {
            Some(&(arrival, _)) if arrival < limit => self.flight.pop_front(),
            _ => None,
        }
    }

    /// The earliest arrival of the frames that have left the queue.
    #[inline]
    pub fn first_arrival(&self) -> Option<Time> {
        self.flight.front().map(|&(arrival, _)| arrival)
    }

    /// Processes the departures that are due. No frame may be offered for an earlier time afterwards.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        self.advance_beyond(now, &mut 0);
    }

    /// Frames dropped since the last call; the caller frees their packets.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<Vec<Dropped<F>>> {
        if self.state & HAS_DROPPED != 0 {
            self.state &= !HAS_DROPPED;
            return Some(self.rest.drops.take());
        }
        None
    }

    /// Changes a setting of the link. The frame being transmitted leaves at the old rate, unless the new rate is zero,
    /// which suspends it.
    pub fn change(&mut self, now: Time, change: &Change) {
        self.advance(now);
        match change {
            Change::State { up } => self.set_up(now, *up),
            Change::Rate(rate) => {
                if rate.bits_per_second() == 0 {
                    self.suspend(now);
                }
                self.rest.service = Service::Constant(*rate);
                self.rate_changed(now);
            }
            Change::Delay(delay) => {
                self.delay = *delay;
                self.rest.recorded_delay = None;
            }
            Change::Jitter(jitter) => self.set_jitter(*jitter),
            Change::Loss(loss) => {
                // Each change gets a separate random stream, so that equal models do not repeat the same draws.
                self.rest.loss_rng = self.rest.loss_rng.fork("change");
                self.rest.loss = Loss::new(loss, self.rest.loss_rng.clone());
            }
            Change::Queue(queue) => self.set_queue(now, queue),
            Change::Reorder(reorder) => {
                let rest = self.rest.as_mut();
                let none = || Impairments::of_jitter(Duration::ZERO, &rest.rng);
                rest.impairments.get_or_insert_with(none).set_reorder(*reorder);
            }
        }
        self.classify();
    }

    fn set_jitter(&mut self, jitter: Duration) {
        let rest = self.rest.as_mut();
        let none = || Impairments::of_jitter(Duration::ZERO, &rest.rng);
        let impairments = rest.impairments.get_or_insert_with(none);
        self.last_arrival = impairments.set_jitter(jitter, self.last_arrival, &self.flight);
    }

    fn set_queue(&mut self, now: Time, settings: &queue::Settings) {
        let rate = self.rate();
        let rest = self.rest.as_mut();
        // As with the loss model, each change has a separate random stream.
        rest.queue_rng = rest.queue_rng.fork("change");
        let new = (settings, self.mtu.into(), rest.queue_rng.clone());
        rest.queue.replace(now, new, rate, &mut rest.drops);
        let packets = rest.queue.packets();
        rest.occupancy.set(now, packets, rest.queue.bytes());
        self.waiting = packets as u32;
        self.note_drops();
    }

    /// Calls `visit` for every frame on the link: with its time of arrival if it has left the queue. Frames that wait
    /// come after those in flight, in the order of the queue.
    pub fn visit(&mut self, mut visit: impl FnMut(Option<Time>, &mut F)) {
        self.flight.iter_mut().for_each(|(arrival, frame)| visit(Some(*arrival), frame));
        self.rest.queue.visit(&mut |frame| visit(None, frame));
    }

    /// The rate; `None` if it follows a trace.
    pub fn rate(&self) -> Option<Rate> {
        match self.rest.service {
            Service::Constant(rate) => Some(rate),
            _ => None,
        }
    }

    /// True if the link is up.
    pub const fn is_up(&self) -> bool {
        self.rest.up
    }

    /// True if its queue uses the [`flow`](Frame::flow) of frames.
    pub fn needs_flow_hash(&self) -> bool {
        self.rest.queue.needs_flow_hash()
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

    /// Traffic of the link until `now`. Does not affect the link.
    pub fn totals(&mut self, now: Time) -> Totals {
        self.advance(now);
        self.rest.occupancy.account(now);
        // Subtract the time that the current transmission still needs. A suspended transmission does not count until it
        // continues.
        let left = if self.busy_until == Time::MAX { Duration::ZERO } else { self.busy_until.since(now) };
        let usage = self.rest.service.usage(now);
        Totals {
            packets: self.packets,
            bytes: self.bytes,
            busy: self.busy.saturating_sub(left),
            offered_bytes: usage.map(|[offered, _]| offered),
            used_bytes: usage.map(|[_, used]| used),
            drops: self.rest.drops.counts(),
            marks: self.rest.drops.marks(),
            occupancy: self.rest.occupancy,
        }
    }

    /// Resets the maxima of the queue, at the end of the warm-up.
    pub fn restart_maxima(&mut self, now: Time) {
        self.advance(now);
        self.rest.occupancy.restart_maxima();
    }

    /// Processes a frame that may be dropped or has to wait. Not inlined: most frames do not need it.
    #[inline(never)]
    fn offer_to_queue(&mut self, now: Time, frame: F) {
        let too_big = frame.wire_len() > u32::from(self.mtu) && !frame.may_fragment();
        if !self.rest.up || too_big {
            let cause = if self.rest.up { DropCause::Mtu } else { DropCause::Down };
            self.drop_frame(now, frame, cause);
            return;
        }
        // With all departures processed, a free transmitter has an empty queue.
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

    /// Transmits the next frame of the queue. A frame that was taken ahead of time (counted by `beyond`) is not
    /// propagated again.
    fn transmit_next(&mut self, at: Time, beyond: &mut u32) {
        let Rest { queue, occupancy, drops, .. } = self.rest.as_mut();
        let frame = queue.dequeue(at, drops);
        let packets = queue.packets();
        occupancy.set(at, packets, queue.bytes());
        self.waiting = packets as u32;
        self.note_drops();
        let Some(frame) = frame else { return };
        // The transmission begins at the exact end of the previous one, including the fraction of a nanosecond.
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

    /// Starts to transmit an IP packet of `len` bytes, `early` before `at`; returns when its last bit leaves.
    #[inline]
    fn begin(&mut self, at: Time, early: u16, len: u32) -> Time {
        let (end, early) = self.transmitted((at, early), len);
        (self.busy_until, self.early) = (end, early);
        self.busy += end.since(at);
        self.packets += 1;
        self.bytes += u64::from(len);
        end
    }

    /// Starts the propagation of a frame whose last bit leaves at `end`.
    #[inline]
    fn launch(&mut self, at: Time, end: Time, frame: F) {
        if self.is_deterministic() {
            // The delay may be zero.
            let arrival = (end + self.delay).max(at.just_after());
            // A frame does not overtake others after the delay was reduced.
            self.last_arrival = self.last_arrival.max(arrival);
            if self.flight.is_empty() {
                // An empty buffer restarts at its first slot, which is still in the caches.
                self.flight.clear();
            }
            self.flight.push_back((self.last_arrival, frame));
        } else {
            self.apply_impairments(at, end, frame);
        }
    }

    fn work_out(&mut self, (at, early): (Time, u16), framed: u32) -> (Time, u16) {
        match &mut self.rest.service {
            Service::Constant(rate) => {
                self.memo_len = framed;
                self.memo_time = Fine::to_send(*rate, framed);
                self.memo_time.after(at, early)
            }
            Service::Opportunities(trace) => (trace.send(at, framed), 0),
            Service::Rates(trace) => (trace.send(at, framed), 0),
        }
    }

    /// Applies loss and additional delay to a frame that begins to leave at `at` and has left at `end`.
    #[inline(never)]
    fn apply_impairments(&mut self, at: Time, end: Time, frame: F) {
        let rest = self.rest.as_mut();
        let departure = Departure { at, len: frame.wire_len(), has_data: frame.has_data() };
        rest.last_launched = (end, None);
        if rest.loss.is_next_lost(&departure) {
            self.drop_frame(at, frame, DropCause::Loss);
            return;
        }
        let delay = rest.recorded_delay.as_ref().map_or(self.delay, |recorded| recorded.at(end));
        // A delivery opportunity of a trace takes no time, and the delay may be zero.
        let arrival = (end + delay).max(at.just_after());
        // A frame does not overtake others after the delay was reduced.
        self.last_arrival = self.last_arrival.max(arrival);
        let Some(impairments) = &mut rest.impairments else {
            self.flight.push_back((self.last_arrival, frame));
            rest.last_launched = (end, Some(1));
            return;
        };
        impairments.forget_before(at);
        let place = if let Some(held) = impairments.hold(arrival, &self.flight) {
            let place = self.flight.partition_point(|&(other, _)| other <= held);
            self.flight.insert(place, (held, frame));
            place
        } else {
            impairments.send(self.last_arrival, frame, &mut self.flight)
        };
        rest.last_launched = (end, Some(self.flight.len() - place));
    }

    #[cold]
    fn drop_frame(&mut self, at: Time, frame: F, cause: DropCause) {
        self.rest.drops.drop(at, frame, cause);
        self.state |= HAS_DROPPED;
    }

    /// Sets the flag [`HAS_DROPPED`] after an operation that may have dropped frames.
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
        // The transmitter stops in the middle of a frame.
        if self.busy_until > now && self.busy_until != Time::MAX {
            self.busy = self.busy.saturating_sub(self.busy_until.since(now));
            (self.busy_until, self.early) = (now, 0);
            self.rest.service.stop(now);
        }
        self.rest.occupancy.set(now, 0, 0);
        let mut lost: Vec<F> = self.flight.drain(..).map(|(_, frame)| frame).collect();
        lost.extend(self.rest.suspended.take().and_then(Suspended::into_frame));
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
                self.busy_until = Time::MAX;
            } else if self.busy_until == Time::MAX {
                self.resume(now, rate);
                self.advance(now);
            }
        } else {
            rest.queue.rate_changed(None);
        }
        self.classify();
    }

    /// Determines which of the flags apply.
    fn classify(&mut self) {
        let rest = self.rest.as_ref();
        let deterministic = rest.up
            && matches!(rest.service, Service::Constant(_))
            && rest.loss.is_lossless()
            && rest.recorded_delay.is_none()
            && !rest.impairments.as_ref().is_some_and(Impairments::is_active);
        let fast_path = deterministic && rest.queue.bypassed_when_idle();
        self.state &= HAS_DROPPED;
        self.state |= u8::from(rest.duplicate > 0.0) * DUPLICATES;
        self.state |= (u8::from(deterministic) * DETERMINISTIC) | (u8::from(fast_path) * FAST_PATH);
    }
}

/// Lookahead: state that a simulator needs to remove frames from the queue before their time.
///
/// The simulator counts the frames that it has taken while they wait. They still occupy the queue.
/// [`advance_beyond`](Self::advance_beyond) removes them from the queue at their time of departure, without
/// delivering them again. Before a [`change`](Self::change) every frame that was taken must have left the queue.
impl<F: Frame> Link<F> {
    /// Like [`advance`](Self::advance), but the simulator has taken the first `beyond` frames of the queue already:
    /// these leave without a delivery, and `beyond` decreases by their number.
    #[inline]
    pub fn advance_beyond(&mut self, now: Time, beyond: &mut u32) {
        while self.waiting > 0 && self.busy_until <= now {
            self.transmit_next(self.busy_until, beyond);
        }
    }

    /// Like [`offer`](Self::offer), with the departures processed by
    /// [`advance_beyond`](Self::advance_beyond).
    #[expect(clippy::inline_always, reason = "most frames find the link idle and need no further processing")]
    #[inline(always)]
    pub fn offer_beyond(&mut self, now: Time, frame: F, beyond: &mut u32) {
        self.advance_beyond(now, beyond);
        if self.state & FAST_PATH != 0 && self.busy_until <= now && frame.wire_len() <= u32::from(self.mtu) {
            self.transmit(now, frame);
        } else {
            self.offer_to_queue(now, frame);
        }
    }

    /// The frame at a position of the queue, if its arrival is certain by now. The transmitter sends it after
    /// those before it, and its propagation takes the [`delay`](Self::delay).
    #[inline]
    pub fn certain(&self, place: usize) -> Option<&F> {
        if self.is_deterministic() { self.rest.queue.peek_committed(place) } else { None }
    }

    /// Frames in the queue.
    #[inline]
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The end of the current transmission; [`Time::MAX`] while the rate is zero.
    #[inline]
    pub const fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// Departure time of the last bit of an IP packet of `len` bytes, if its transmission begins the fraction `early`
    /// of a nanosecond before `at`. The result has the same form, so that consecutive packets accumulate no rounding
    /// errors.
    #[inline]
    pub fn transmitted(&mut self, (at, early): (Time, u16), len: u32) -> (Time, u16) {
        let framed = len + u32::from(self.overhead);
        // With a trace, `memo_len` stays 0.
        if self.memo_len == framed {
            self.memo_time.after(at, early)
        } else {
            self.work_out((at, early), framed)
        }
    }

    /// The end of the current transmission with the fraction of a nanosecond, as for
    /// [`transmitted`](Self::transmitted); [`Time::MAX`] while the rate is zero.
    #[inline]
    pub const fn free(&self) -> (Time, u16) {
        (self.busy_until, self.early)
    }

    /// The propagation delay; its minimum, if it follows a recording.
    #[inline]
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// The latest arrival: with order kept, no frame that leaves from now on arrives earlier.
    #[inline]
    pub const fn last_arrival(&self) -> Time {
        self.last_arrival
    }

    /// True if frames arrive in the order in which they leave the queue.
    pub fn keeps_order(&self) -> bool {
        !self.rest.impairments.as_ref().is_some_and(Impairments::is_active)
    }
}

#[cfg(test)]
mod changes_tests;
#[cfg(test)]
mod tests;
