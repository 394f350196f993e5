//! Middleboxes: what nodes on the way do to packets beside forwarding them.
//!
//! A kind is one file: its settings, the keys they are read from, what it does, and its tests. It is listed once, below. Whoever
//! carries packets hands each one that comes to the node to [`Middlebox::pass`], calls [`Middlebox::due`] at the time that
//! [`Middlebox::next_event`] names, and sends on what comes out of either, in order.

pub mod drop_syn;
mod flow;
pub mod merge;
pub mod nat;
pub mod shaper;
pub mod split;
pub mod strip;

pub use flow::FlowKey;

use anabranch_base::time::Time;
use anabranch_netem::keys::{Keyed, Kind, Mistake, Value, Values, unknown};
use anabranch_wire::{Body, Packet, tcp};
use core::marker::PhantomData;
use core::net::{IpAddr, SocketAddr};

/// A packet that has come to the node of a middlebox. `R` tells its carrier where it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transit<R> {
    /// The packet.
    pub packet: Packet,
    /// It has come by one of the links that the middlebox is set up for (`from`; all, if none is named).
    pub inside: bool,
    /// It would leave by another one than these, or is addressed to the node: it is on its way out, or comes from there.
    pub crosses: bool,
    /// The address of the interface by which it leaves the node; none if it is addressed to the node itself.
    pub leaves_from: Option<IpAddr>,
    /// Where it goes on.
    pub onward: R,
}

/// Where a packet goes that a middlebox lets on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward<R> {
    /// As it would have.
    As(R),
    /// To its destination address, which is another one now, and there to whoever sent the packet that was to go on like this.
    Back(R),
}

/// What a middlebox has done: packets in the order in which they leave, and those that it keeps from going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<R> {
    /// They go on.
    pub sent: Vec<(Packet, Onward<R>)>,
    /// They do not.
    pub dropped: Vec<(Packet, R)>,
    /// How many of the packets that came were changed, put together or cut up.
    pub changed: u64,
}

impl<R> Default for Outcome<R> {
    fn default() -> Self {
        Self { sent: Vec::new(), dropped: Vec::new(), changed: 0 }
    }
}

impl<R> Outcome<R> {
    fn send(&mut self, packet: Packet, onward: R) {
        self.sent.push((packet, Onward::As(onward)));
    }

    fn drop(&mut self, packet: Packet, onward: R) {
        self.dropped.push((packet, onward));
    }
}

/// Makes what depends on which middleboxes there are from the list of them.
macro_rules! middleboxes {
    ($($Kind:ident in $module:ident),+ $(,)?) => {
        /// Every kind, in the order in which lists show them.
        pub static KINDS: &[&Kind] = &[$(&$module::KIND),+];

        /// What a middlebox is set to.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Settings {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Kind($module::Settings),)+
        }

        impl Settings {
            /// Its kind.
            pub fn kind(&self) -> &'static Kind {
                match self { $(Self::$Kind(_) => &$module::KIND,)+ }
            }

            /// The middlebox called `kind` with the values of its keys.
            ///
            /// # Errors
            /// If there is no such kind, or the values do not go together.
            pub fn read(kind: &str, values: Values<'_>) -> Result<Self, Mistake> {
                $(if kind == $module::KIND.name {
                    return $module::Settings::read(values).map(Self::$Kind);
                })+
                Err(unknown(kind, KINDS))
            }

            /// The values of its keys.
            pub fn values(&self) -> Vec<(&'static str, Value)> {
                match self { $(Self::$Kind(settings) => settings.values(),)+ }
            }
        }

        /// A middlebox with its state.
        #[derive(Clone, Debug)]
        pub enum Middlebox<R> {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Kind($module::State<R>),)+
        }

        impl<R: Copy> Middlebox<R> {
            /// One that has seen nothing yet.
            pub fn new(settings: &Settings) -> Self {
                match *settings { $(Settings::$Kind(settings) => Self::$Kind($module::State::new(settings)),)+ }
            }

            /// A packet has come to the node.
            pub fn pass(&mut self, now: Time, transit: Transit<R>, outcome: &mut Outcome<R>) {
                match self { $(Self::$Kind(state) => state.pass(now, transit, outcome),)+ }
            }

            /// When it does something by itself.
            pub fn next_event(&self) -> Option<Time> {
                match self { $(Self::$Kind(state) => state.next_event(),)+ }
            }

            /// The time of [`next_event`](Self::next_event) has come.
            pub fn due(&mut self, now: Time, outcome: &mut Outcome<R>) {
                match self { $(Self::$Kind(state) => state.due(now, outcome),)+ }
            }
        }
    };
}

middleboxes! {
    Strip in strip,
    DropSyn in drop_syn,
    Split in split,
    Merge in merge,
    Nat in nat,
    Shaper in shaper,
}

impl<R: Copy> Middlebox<R> {
    /// Who is behind an address and port of a transport that it shows to others, if somebody is.
    pub fn behind(&self, transport: u8, outer: SocketAddr) -> Option<SocketAddr> {
        match self {
            Self::Nat(state) => state.behind(transport, outer),
            _ => None,
        }
    }
}

impl Settings {
    /// It tells the links of its own network from others, which have to be named.
    pub const fn has_an_inside(&self) -> bool {
        matches!(self, Self::Nat(_))
    }
}

/// What a kind does to packets.
trait Acts<R> {
    /// See [`Middlebox::pass`].
    fn pass(&mut self, now: Time, transit: Transit<R>, outcome: &mut Outcome<R>);

    /// See [`Middlebox::next_event`].
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// See [`Middlebox::due`].
    fn due(&mut self, _now: Time, _outcome: &mut Outcome<R>) {}
}

/// A middlebox that remembers nothing.
#[derive(Clone, Debug)]
pub struct Stateless<S, R> {
    settings: S,
    carrier: PhantomData<R>,
}

impl<S, R> Stateless<S, R> {
    const fn new(settings: S) -> Self {
        Self { settings, carrier: PhantomData }
    }
}

/// The TCP segment of a packet that a middlebox has to do with: of what comes by the links that it is set up for.
const fn segment<R>(transit: &mut Transit<R>) -> Option<&mut tcp::Segment> {
    match &mut transit.packet.body {
        Body::Tcp(segment) if transit.inside => Some(segment),
        _ => None,
    }
}

#[cfg(test)]
mod fixture;
