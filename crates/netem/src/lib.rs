//! Networks of links: topology and routing, links with queues, loss and reordering, and changes during a run.
//!
//! For authors of simulators and emulators, and for researchers who add a queue or a loss model. Read [`Link`] first, one
//! direction of a link, with its [`LinkModel`]; then [`Queue`](queue::Queue), and [`Network`], which finds routes.
//!
//! A queue of two packets in front of a link of 12 Mbit/s drops the fourth of four packets that arrive at once:
//!
//! ```
//! use anabranch_base::rng::Rng;
//! use anabranch_base::time::{Duration, Time};
//! use anabranch_base::units::Rate;
//! use anabranch_netem::queue::{QueueLimit, fifo};
//! use anabranch_netem::{DropCause, Frame, Link, LinkModel, LinkRate, loss, queue};
//!
//! #[derive(Clone, Debug, PartialEq)]
//! struct Packet(u32);
//!
//! impl Frame for Packet {
//!     fn wire_len(&self) -> u32 {
//!         1500
//!     }
//!     fn ecn_capable(&self) -> bool {
//!         false
//!     }
//!     fn mark(&mut self) {}
//!     fn flow(&self) -> u32 {
//!         0
//!     }
//! }
//!
//! let model = LinkModel {
//!     queue: queue::Settings::Fifo(fifo::Settings { limit: QueueLimit::Packets(2) }),
//!     ..LinkModel::new(Rate::from_bits_per_second(12_000_000), Duration::from_millis(10))
//! };
//! let mut link = Link::new(&model, &Rng::new(1));
//! (0..4).for_each(|number| link.offer(Time::ZERO, Packet(number)));
//!
//! let dropped = link.take_dropped().expect("the queue dropped a frame");
//! assert_eq!((&dropped[0].frame, dropped[0].cause), (&Packet(3), DropCause::Queue));
//! // One millisecond of transmission for each packet, then ten of propagation.
//! let mut arrivals = Vec::new();
//! while let Some(now) = link.next_event() {
//!     arrivals.extend(link.take(now).map(|Packet(number)| (number, now.as_nanos() / 1_000_000)));
//! }
//! assert_eq!(arrivals, [(0, 11), (1, 12), (2, 13)]);
//! ```
//!
//! A queue alone. `CoDel` accepts what its limit allows and drops at the head, only after the delay has been too long:
//!
//! ```
//! # use anabranch_netem::Frame;
//! # #[derive(Clone, Debug, PartialEq)]
//! # struct Packet(u32);
//! # impl Frame for Packet {
//! #     fn wire_len(&self) -> u32 {
//! #         1500
//! #     }
//! #     fn ecn_capable(&self) -> bool {
//! #         false
//! #     }
//! #     fn mark(&mut self) {}
//! #     fn flow(&self) -> u32 {
//! #         0
//! #     }
//! # }
//! use anabranch_base::rng::Rng;
//! use anabranch_base::time::{Duration, Time};
//! use anabranch_netem::queue::{AnyQueue, Arrival, Queue, QueueLimit, Settings, codel};
//! use anabranch_netem::{DropCause, Drops};
//!
//! let law = codel::Law {
//!     target: Duration::from_millis(5),
//!     interval: Duration::from_millis(100),
//!     ecn: false,
//! };
//! let settings = Settings::Codel(codel::Settings { limit: QueueLimit::Packets(1000), law });
//! let mut queue = AnyQueue::new(&settings, 1500, Rng::new(1));
//! let mut drops = Drops::default();
//! for number in 0..100 {
//!     queue.enqueue(Arrival { now: Time::ZERO, idle: None }, Packet(number), &mut drops);
//! }
//! // A slow link takes a packet every ten milliseconds.
//! let mut sent = 0;
//! for turn in 1..=20 {
//!     let now = Time::ZERO + Duration::from_millis(10 * turn);
//!     sent += u64::from(queue.dequeue(now, &mut drops).is_some());
//! }
//! assert_eq!(sent, 20);
//! assert!(drops.take().iter().all(|drop| drop.cause == DropCause::Aqm && drop.at.as_nanos() >= 100_000_000));
//! ```
//!
//! Everything here is sans-IO and generic over its payload ([`Frame`]): a simulator passes handles of
//! packets, an emulator packets, and equal arrivals lead to equal decisions. This crate has no clock, no
//! protocol and no scenario file.
//!
//! Queues and loss models declare the keys of their settings ([`keys`]); the scenario reader takes them from
//! [`queue::KINDS`] and [`loss::KINDS`].

mod frame;
pub mod keys;
mod limit;
pub mod link;
pub mod loss;
mod model;
pub mod network;
pub mod queue;
mod series;

pub use frame::{DropCause, Dropped, Drops, Frame};
pub use link::{Link, Totals};
pub use model::{Change, LinkDelay, LinkModel, LinkRate, RateTrace, Reorder};
pub use network::{FlowHash, Interface, InterfaceAddress, IpVersion, IpVersions, Network, Scope};
pub use series::Series;
