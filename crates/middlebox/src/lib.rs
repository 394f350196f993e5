//! Middleboxes: processing of packets by nodes, in addition to forwarding.
//!
//! For authors of simulators and emulators, and for researchers who ask which middleboxes break a protocol. Read
//! [`Middlebox`] first, then [`Transit`] and [`Outcome`], its input and output; [`KINDS`] lists the kinds.
//!
//! A middlebox that removes the options of Multipath TCP from SYNs, so that the connection falls back to TCP:
//!
//! ```
//! use anabranch_base::time::Time;
//! use anabranch_middlebox::{Middlebox, Outcome, Settings, Transit, strip};
//! use anabranch_wire::tcp::{Flags, Options, Segment, mptcp};
//! use anabranch_wire::{Body, Ecn, Packet};
//!
//! let capable = mptcp::Control::Capable(mptcp::Capable { version: 1, hmac_sha256: true, ..Default::default() });
//! let mptcp = mptcp::Options { dss: None, others: vec![capable] }.into();
//! let options = Options { mss: Some(1460), mptcp, ..Options::default() };
//! let syn = Segment { flags: Flags::SYN, options, ..Segment::default() };
//! let packet = Packet {
//!     source: [10, 0, 0, 1].into(),
//!     destination: [10, 0, 0, 2].into(),
//!     ecn: Ecn::NotEct,
//!     body: Body::Tcp(syn),
//! };
//! let settings = strip::Settings {
//!     mptcp: true,
//!     timestamps: false,
//!     sack: false,
//!     window_scale: false,
//!     syn: true,
//!     data: true,
//! };
//! let mut middlebox = Middlebox::new(&Settings::Strip(settings));
//! let mut outcome = Outcome::default();
//! let arrives_at = [10, 0, 0, 5].into();
//! let transit = Transit { packet, inside: true, crosses: true, arrives_at, leaves_from: None, onward: "route" };
//! middlebox.pass(Time::ZERO, transit, &mut outcome);
//!
//! let (packet, _) = &outcome.sent[0];
//! let Body::Tcp(syn) = &packet.body else { panic!("TCP") };
//! assert!(syn.options.mptcp.is_empty());
//! assert_eq!((syn.options.mss, outcome.changed), (Some(1460), 1));
//! ```
//!
//! Each kind is one file: its settings, the keys of its settings, its behaviour, and its tests. The list of
//! kinds is below. The carrier of packets (simulator or emulator) passes each packet that arrives at the node
//! to [`Middlebox::pass`], and calls [`Middlebox::due`] at the time that [`Middlebox::next_event`] returns. It
//! forwards the packets of both outcomes, in order.

pub mod drop_syn;
pub mod firewall;
mod flow;
pub mod merge;
pub mod nat;
pub mod network_control;
pub mod shaper;
pub mod source_route;
pub mod split;
pub mod strip;

pub use flow::FlowKey;

use anabranch_base::time::Time;
use anabranch_netem::keys::{InvalidValues, Keyed, Kind, Value, Values, unknown};
use anabranch_wire::{Body, Packet, tcp};
use core::marker::PhantomData;
use core::net::{IpAddr, SocketAddr};

/// A packet that has arrived at the node of a middlebox. `R` is the carrier's route for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transit<R> {
    /// The packet.
    pub packet: Packet,
    /// True if the packet has arrived by a link of the middlebox's inside: a link in its key `from`, or any link if
    /// `from` is not given.
    pub inside: bool,
    /// True if the packet crosses between inside and outside, or is addressed to the node itself.
    pub crosses: bool,
    /// The address of the interface by which it has arrived at the node.
    pub arrives_at: IpAddr,
    /// The address of the interface by which it leaves the node; `None` if it is addressed to the node
    /// itself.
    pub leaves_from: Option<IpAddr>,
    /// The carrier's route.
    pub onward: R,
}

/// The destination of a packet that a middlebox passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward<R> {
    /// The packet's original destination.
    As(R),
    /// The packet's new destination: the sender of the packets with this route.
    Back(R),
}

/// The result of a middlebox: forwarded packets in the order in which they leave, and dropped packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<R> {
    /// Forwarded packets.
    pub sent: Vec<(Packet, Onward<R>)>,
    /// Dropped packets.
    pub dropped: Vec<(Packet, R)>,
    /// Number of arrived packets that were changed, merged or split.
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

/// Generates from the list of kinds all items that depend on it.
macro_rules! middleboxes {
    ($($Kind:ident in $module:ident),+ $(,)?) => {
        /// Every kind, in the order of lists for users.
        pub static KINDS: &[&Kind] = &[$(&$module::KIND),+];

        /// The settings of a middlebox.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Settings {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Kind($module::Settings),)+
        }

        impl Settings {
            /// The kind of middlebox to which these settings belong.
            pub fn kind(&self) -> &'static Kind {
                match self { $(Self::$Kind(_) => &$module::KIND,)+ }
            }

            /// The settings of the middlebox `kind` with these values of its keys.
            ///
            /// # Errors
            ///
            /// If there is no such kind, or the values are inconsistent.
            pub fn read(kind: &str, values: Values<'_>) -> Result<Self, InvalidValues> {
                $(if kind == $module::KIND.name {
                    return $module::Settings::read(values).map(Self::$Kind);
                })+
                Err(unknown(kind, KINDS))
            }

            /// The values of the settings, by key.
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
            /// A middlebox in its initial state.
            pub fn new(settings: &Settings) -> Self {
                match *settings { $(Settings::$Kind(settings) => Self::$Kind($module::State::new(settings)),)+ }
            }

            /// Processes a packet that has arrived at the node.
            pub fn pass(&mut self, now: Time, transit: Transit<R>, outcome: &mut Outcome<R>) {
                match self { $(Self::$Kind(state) => state.pass(now, transit, outcome),)+ }
            }

            /// The time of the middlebox's next timer event.
            pub fn next_event(&self) -> Option<Time> {
                match self { $(Self::$Kind(state) => state.next_event(),)+ }
            }

            /// Processes the timer event of [`next_event`](Self::next_event).
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
    Firewall in firewall,
}

impl<R: Copy> Middlebox<R> {
    /// The inside address and port that a translator translates to `outer`, if there is one.
    pub fn inner_address(&self, transport: u8, outer: SocketAddr) -> Option<SocketAddr> {
        match self {
            Self::Nat(state) => state.inner_address(transport, outer),
            _ => None,
        }
    }
}

impl Settings {
    /// True if the middlebox distinguishes inside and outside; its key `from` is then required.
    pub const fn has_an_inside(&self) -> bool {
        matches!(self, Self::Nat(_) | Self::Firewall(_))
    }
}

/// The behaviour of a kind.
trait Behaviour<R> {
    /// See [`Middlebox::pass`].
    fn pass(&mut self, now: Time, transit: Transit<R>, outcome: &mut Outcome<R>);

    /// See [`Middlebox::next_event`].
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// See [`Middlebox::due`].
    fn due(&mut self, _now: Time, _outcome: &mut Outcome<R>) {}
}

/// A middlebox without state.
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

/// The TCP segment of a packet, if the packet arrived by a link that the middlebox is configured for.
const fn segment<R>(transit: &mut Transit<R>) -> Option<&mut tcp::Segment> {
    match &mut transit.packet.body {
        Body::Tcp(segment) if transit.inside => Some(segment),
        _ => None,
    }
}

#[cfg(test)]
mod fixture;
