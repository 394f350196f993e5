//! The queue in front of a link, without the frame being transmitted.
//!
//! A queue is one file: its settings, the keys of its settings, and its treatment of frames. The list of
//! queues is below.

mod backlog;
pub mod codel;
pub mod fifo;
pub mod fq_codel;
pub mod red;

pub use crate::limit::QueueLimit;
pub use backlog::{Backlog, Occupancy};

use crate::keys::{InvalidValues, Keyed, Kind, Value, Values};
use crate::{DropCause, Drops, Frame};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;

/// Time of a frame's arrival, and state of the link.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The current time.
    pub now: Time,
    /// The time for which the link has been idle; `None` while it is transmitting. An idle link has an empty
    /// queue, and removes the frame again at once: it must be admitted at any size.
    pub idle: Option<Duration>,
}

/// A queue. Its driver calls [`enqueue`](Self::enqueue) for every frame that arrives and
/// [`dequeue`](Self::dequeue) whenever the link can transmit; the time never decreases between calls.
pub trait Queue<F: Frame> {
    /// Processes an arriving frame. The queue may mark it, drop it, or drop others.
    fn enqueue(&mut self, arrival: Arrival, frame: F, drops: &mut Drops<F>);

    /// Removes and returns the next frame to transmit. The queue may mark it, or drop others; it returns `None` only
    /// if it is empty.
    fn dequeue(&mut self, now: Time, drops: &mut Drops<F>) -> Option<F>;

    /// Packets in the queue.
    fn packets(&self) -> u64;

    /// Bytes in the queue.
    fn bytes(&self) -> u64;

    /// Empties the queue without decisions, for example when the link goes down.
    fn clear(&mut self, frames: &mut Vec<F>);

    /// Empties the queue without decisions, and returns its frames in the order of their admission, each with the
    /// time of its admission, or `now` if the queue does not record it.
    fn take_all(&mut self, now: Time) -> Vec<(Time, F)>;

    /// Appends a frame that another queue had admitted at `since`, without a decision about it.
    fn append(&mut self, since: Time, frame: F);

    /// Starts with the frames of [`append`](Self::append).
    fn begin(&mut self) {}

    /// Calls `visit` for every waiting frame, in the order in which they would leave if none is dropped and no further
    /// one arrives; queues that separate flows: flow by flow.
    fn visit(&mut self, visit: &mut dyn FnMut(&mut F));

    /// Sets the link's rate; `None` if it follows a trace.
    fn rate_changed(&mut self, _: Option<Rate>) {}

    /// True if a frame that finds the link idle may bypass the queue. The queue then neither draws nor records
    /// anything for this frame.
    fn bypassed_when_idle(&self) -> bool {
        false
    }

    /// True if the queue uses the [`flow`](Frame::flow) of frames.
    fn needs_flow_hash(&self) -> bool {
        false
    }

    /// The frame at `place`, if its admission is final: it will leave unchanged at its turn. Always
    /// `None` if a queued frame may still be dropped, marked or overtaken.
    fn peek_committed(&self, _: usize) -> Option<&F> {
        None
    }
}

/// Generates from the list of queues all items that depend on it.
macro_rules! queues {
    ($($Queue:ident in $module:ident),+ $(,)?) => {
        /// Every kind of queue, in the order of lists for users.
        pub static KINDS: &[&Kind] = &[$(&$module::KIND),+];

        /// The settings of a queue.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Settings {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Queue($module::Settings),)+
        }

        impl Settings {
            /// The kind of queue to which these settings belong.
            pub fn kind(&self) -> &'static Kind {
                match self { $(Self::$Queue(_) => &$module::KIND,)+ }
            }

            /// The settings of the queue `kind` with these values of its keys, for a link with this MTU.
            ///
            /// # Errors
            ///
            /// If there is no such kind, or the values are inconsistent.
            pub fn read(kind: &str, values: Values<'_>, mtu: u32) -> Result<Self, InvalidValues> {
                room_for(values, mtu)?;
                $(if kind == $module::KIND.name {
                    return $module::Settings::read(values).map(Self::$Queue);
                })+
                Err(crate::keys::unknown(kind, KINDS))
            }

            /// The values of the settings, by key.
            pub fn values(&self) -> Vec<(&'static str, Value)> {
                match self { $(Self::$Queue(settings) => settings.values(),)+ }
            }

            /// Values that [`values`](Self::values) leaves out, because they are the defaults.
            pub fn defaults_left_out(&self) -> Vec<(&'static str, Value)> {
                match self { $(Self::$Queue(settings) => settings.defaults_left_out(),)+ }
            }

            /// Like [`values`](Self::values), but lengths in the unit of the limit are shares of it, so that they fit
            /// another limit.
            pub fn values_by_share(&self) -> Vec<(&'static str, Value)> {
                match self { $(Self::$Queue(settings) => settings.values_by_share(),)+ }
            }

            /// True if the queue uses the [`flow`](Frame::flow) of frames.
            pub const fn needs_flow_hash(&self) -> bool {
                matches!(self, Self::FqCodel(_))
            }

            /// Capacity of the queue.
            pub const fn limit(&self) -> QueueLimit {
                match self { $(Self::$Queue(settings) => settings.limit,)+ }
            }
        }

        /// A queue of any kind.
        #[derive(Clone, Debug)]
        pub enum AnyQueue<F> {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Queue($module::$Queue<F>),)+
        }

        impl<F: Frame> AnyQueue<F> {
            /// An empty queue in front of a link with this MTU, with a separate random stream.
            pub fn new(settings: &Settings, mtu: u32, rng: Rng) -> Self {
                match settings {
                    $(Settings::$Queue(settings) => Self::$Queue($module::$Queue::new(settings, mtu, rng)),)+
                }
            }
        }

        impl<F: Frame> Queue<F> for AnyQueue<F> {
            #[inline]
            fn enqueue(&mut self, arrival: Arrival, frame: F, drops: &mut Drops<F>) {
                match self { $(Self::$Queue(queue) => queue.enqueue(arrival, frame, drops),)+ }
            }

            #[inline]
            fn dequeue(&mut self, now: Time, drops: &mut Drops<F>) -> Option<F> {
                match self { $(Self::$Queue(queue) => queue.dequeue(now, drops),)+ }
            }

            #[inline]
            fn packets(&self) -> u64 {
                match self { $(Self::$Queue(queue) => queue.packets(),)+ }
            }

            #[inline]
            fn bytes(&self) -> u64 {
                match self { $(Self::$Queue(queue) => queue.bytes(),)+ }
            }

            fn clear(&mut self, frames: &mut Vec<F>) {
                match self { $(Self::$Queue(queue) => queue.clear(frames),)+ }
            }

            fn take_all(&mut self, now: Time) -> Vec<(Time, F)> {
                match self { $(Self::$Queue(queue) => queue.take_all(now),)+ }
            }

            fn append(&mut self, since: Time, frame: F) {
                match self { $(Self::$Queue(queue) => queue.append(since, frame),)+ }
            }

            fn begin(&mut self) {
                match self { $(Self::$Queue(queue) => queue.begin(),)+ }
            }

            fn visit(&mut self, visit: &mut dyn FnMut(&mut F)) {
                match self { $(Self::$Queue(queue) => queue.visit(visit),)+ }
            }

            fn rate_changed(&mut self, rate: Option<Rate>) {
                match self { $(Self::$Queue(queue) => queue.rate_changed(rate),)+ }
            }

            fn bypassed_when_idle(&self) -> bool {
                match self { $(Self::$Queue(queue) => queue.bypassed_when_idle(),)+ }
            }

            fn needs_flow_hash(&self) -> bool {
                match self { $(Self::$Queue(queue) => queue.needs_flow_hash(),)+ }
            }

            #[inline]
            fn peek_committed(&self, place: usize) -> Option<&F> {
                match self { $(Self::$Queue(queue) => queue.peek_committed(place),)+ }
            }
        }
    };
}

impl<F: Frame> AnyQueue<F> {
    /// Replaces the queue by one with other settings, which begins with the waiting frames in their order. Those beyond
    /// its limit are dropped, the last ones first. The rest of the queue's state is that of a new queue, with a separate
    /// random stream.
    pub fn replace(
        &mut self,
        now: Time,
        (settings, mtu, rng): (&Settings, u32, Rng),
        rate: Option<Rate>,
        drops: &mut Drops<F>,
    ) {
        let waiting = self.take_all(now);
        *self = Self::new(settings, mtu, rng);
        self.rate_changed(rate);
        let limit = settings.limit();
        let mut is_full = false;
        for (since, frame) in waiting {
            let bytes = self.bytes() + u64::from(frame.wire_len());
            is_full |= limit.exceeded_by(self.packets() + 1, bytes);
            if is_full {
                drops.drop(now, frame, DropCause::Changed);
            } else {
                self.append(since, frame);
            }
        }
        self.begin();
    }
}

queues! {
    Fifo in fifo,
    Red in red,
    Codel in codel,
    FqCodel in fq_codel,
}

/// Checks that the largest packet fits into a queue with a limit in bytes.
fn room_for(values: Values<'_>, mtu: u32) -> Result<(), InvalidValues> {
    let limit = values.0.iter().find(|(key, _)| *key == "limit");
    if let Some(&(_, Value::Limit(QueueLimit::Bytes(bytes)))) = limit
        && bytes < u64::from(mtu)
    {
        let problem = format!("is {bytes} bytes, less than one packet of its mtu ({mtu} bytes); increase it");
        return Err(InvalidValues { keys: &["limit"], problem });
    }
    Ok(())
}
