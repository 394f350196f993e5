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
use crate::{Drops, Frame};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;

/// Time of a frame's arrival, and state of the link.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Now.
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

    /// Sets the link's rate; `None` if it follows a trace.
    fn rate_changed(&mut self, _: Option<Rate>) {}

    /// Whether a frame that finds the link idle may bypass the queue, which neither draws nor records
    /// anything for it.
    fn bypassed_when_idle(&self) -> bool {
        false
    }

    /// Whether it uses the [`flow`](Frame::flow) of frames.
    fn needs_flow_hash(&self) -> bool {
        false
    }

    /// The frame at `place`, if admission is final: an admitted frame leaves unchanged, after those before it
    /// and before those behind it. Always `None` if a frame may still be dropped, marked or overtaken.
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
            /// Its kind.
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

queues! {
    Fifo in fifo,
    Red in red,
    Codel in codel,
    FqCodel in fq_codel,
}

/// The largest packet must fit into a queue with a limit in bytes.
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
