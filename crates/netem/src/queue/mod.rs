//! The queue in front of a link. The frame being transmitted has left it.
//!
//! A queue is one file: its settings, the keys they are read from, and what it does with frames. It is listed once, below.

mod backlog;
pub mod codel;
pub mod fifo;
pub mod fq_codel;
pub mod red;

pub use backlog::{Backlog, Occupancy};
pub use crate::limit::QueueLimit;

use crate::keys::{Keyed, Kind, Mistake, Value, Values};
use crate::{Drops, Frame};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;

/// When a frame arrives, and at what kind of link.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Now.
    pub now: Time,
    /// How long the link has had nothing to do; `None` while it is transmitting. An idle link has an empty queue, and
    /// takes the frame out again at once: it must be let in however large it is.
    pub idle: Option<Duration>,
}

/// A queue. Whoever drives it calls [`enqueue`](Self::enqueue) for every frame that arrives and
/// [`dequeue`](Self::dequeue) whenever the link can transmit; time never goes back between calls.
pub trait Queue<F: Frame> {
    /// A frame arrives. The queue may mark it, drop it, or drop others.
    fn enqueue(&mut self, arrival: Arrival, frame: F, drops: &mut Drops<F>);

    /// The frame to transmit next. The queue may mark it, or drop others; it answers `None` only once it is empty.
    fn dequeue(&mut self, now: Time, drops: &mut Drops<F>) -> Option<F>;

    /// Packets in the queue.
    fn packets(&self) -> u64;

    /// Bytes in the queue.
    fn bytes(&self) -> u64;

    /// Empties the queue without deciding anything, as when the link goes down.
    fn clear(&mut self, frames: &mut Vec<F>);

    /// The link's rate is now this; `None` if it follows a trace.
    fn rate_changed(&mut self, _: Option<Rate>) {}

    /// Whether a frame that finds the link idle may pass by the queue, which neither draws nor remembers anything for it.
    fn lets_by(&self) -> bool {
        false
    }

    /// Whether it asks frames for their [`flow`](Frame::flow).
    fn asks_for_flows(&self) -> bool {
        false
    }

    /// The frame that `place` others leave before, if admission commits: a frame that was let in leaves as it is, after
    /// those before it and before those behind it, whatever comes. `None` always where a frame may still be dropped,
    /// marked or overtaken.
    fn committed(&self, _: usize) -> Option<&F> {
        None
    }
}

/// Makes what depends on which queues there are from the list of them.
macro_rules! queues {
    ($($Queue:ident in $module:ident),+ $(,)?) => {
        /// Every kind of queue, in the order in which lists show them.
        pub static KINDS: &[&Kind] = &[$(&$module::KIND),+];

        /// What a queue is set to.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Settings {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Queue($module::Settings),)+
        }

        impl Settings {
            /// Its kind.
            pub fn kind(&self) -> &'static Kind {
                match self { $(Self::$Queue(_) => &$module::KIND,)+ }
            }

            /// The queue called `kind` with the values of its keys, for a link with this MTU.
            ///
            /// # Errors
            /// If there is no such kind, or the values do not go together.
            pub fn read(kind: &str, values: Values<'_>, mtu: u32) -> Result<Self, Mistake> {
                room_for(values, mtu)?;
                $(if kind == $module::KIND.name {
                    return $module::Settings::read(values).map(Self::$Queue);
                })+
                Err(crate::keys::unknown(kind, KINDS))
            }

            /// The values of its keys.
            pub fn values(&self) -> Vec<(&'static str, Value)> {
                match self { $(Self::$Queue(settings) => settings.values(),)+ }
            }
        }

        /// A queue of any kind.
        #[derive(Clone, Debug)]
        pub enum AnyQueue<F> {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Queue($module::$Queue<F>),)+
        }

        impl<F: Frame> AnyQueue<F> {
            /// An empty queue in front of a link with this MTU, with a random stream of its own.
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

            fn rate_changed(&mut self, rate: Option<Rate>) {
                match self { $(Self::$Queue(queue) => queue.rate_changed(rate),)+ }
            }

            fn lets_by(&self) -> bool {
                match self { $(Self::$Queue(queue) => queue.lets_by(),)+ }
            }

            fn asks_for_flows(&self) -> bool {
                match self { $(Self::$Queue(queue) => queue.asks_for_flows(),)+ }
            }

            #[inline]
            fn committed(&self, place: usize) -> Option<&F> {
                match self { $(Self::$Queue(queue) => queue.committed(place),)+ }
            }
        }
    };
}

queues! {
    Fifo in fifo,
    Red in red,
    Codel in codel,
    FqCodel in fq_codel,
}

/// The largest packet must fit into a queue with a limit in bytes.
fn room_for(values: Values<'_>, mtu: u32) -> Result<(), Mistake> {
    let limit = values.0.iter().find(|(key, _)| *key == "limit");
    if let Some(&(_, Value::Limit(QueueLimit::Bytes(bytes)))) = limit
        && bytes < u64::from(mtu)
    {
        let problem =
            format!("is {bytes} bytes, less than one packet of its mtu ({mtu} bytes); make it larger");
        return Err(Mistake { keys: &["limit"], problem });
    }
    Ok(())
}
