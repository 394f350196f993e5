//! Decisions for multipath transport: congestion control, schedulers, path managers, buffers and round-trip times.
//!
//! For authors of a transport, and for researchers who add a control or a scheduler. Read
//! [`CongestionControl`](congestion::CongestionControl) and [`Scheduler`](scheduler::Scheduler) first, which a
//! transport calls; then [`Algorithm`](congestion::Algorithm), the part of a control that differs between algorithms.
//! The tables [`ALGORITHMS`](congestion::ALGORITHMS), [`SCHEDULERS`](scheduler::SCHEDULERS) and
//! [`PATH_MANAGERS`](path_manager::PATH_MANAGERS) list all of them. This crate has no connections, packets or clocks.
//!
//! A coupled control owns the windows of all paths of a connection. In slow start a path grows by the acknowledged
//! bytes, and a loss halves it:
//!
//! ```
//! use anabranch_base::time::{Duration, Time};
//! use anabranch_multipath::PathId;
//! use anabranch_multipath::congestion::{Ack, Choice, Loss, LossKind, PathSetup, Rules};
//!
//! let mut control = Choice::find("lia").expect("the name is in the table").build();
//! let setup = PathSetup { abc_limit: None, ..PathSetup::new(Rules::Tcp, 1000) };
//! let (fast, slow) = (PathId(0), PathId(1));
//! control.add_path(fast, setup);
//! control.add_path(slow, setup);
//!
//! let rtt = Duration::from_millis(20);
//! let now = Time::ZERO + rtt;
//! control.on_ack(&Ack::timed(now, fast, 10_000, rtt));
//! assert_eq!((control.window(fast), control.window(slow)), (20_000, 10_000));
//!
//! control.on_loss(&Loss { now, path: fast, in_flight: 20_000, kind: LossKind::FastRetransmit });
//! assert_eq!(control.window(fast), 10_000);
//! ```
//!
//! A scheduler selects a path from copies of the paths' states:
//!
//! ```
//! use anabranch_base::time::{Duration, Time};
//! use anabranch_multipath::PathId;
//! use anabranch_multipath::scheduler::{Decision, Offer, PathState, find};
//!
//! let mut scheduler = (find("lowest-rtt").expect("the name is in the table").build)();
//! let path = |id, rtt_ms, free| PathState {
//!     outstanding: 10_000 - free,
//!     queueable: free,
//!     queued: 10_000 - free,
//!     ..PathState::new(PathId(id), 10_000, Duration::from_millis(rtt_ms))
//! };
//! let offer =
//!     Offer { now: Time::ZERO, bytes: 5000, window: 50_000, send_window: 50_000, repeated: false };
//! // The path with the lowest round-trip time, as long as its window has room.
//! assert_eq!(scheduler.select(&offer, &[path(0, 10, 2000), path(1, 50, 9000)]), Decision::Send(PathId(0)));
//! assert_eq!(scheduler.select(&offer, &[path(0, 10, 0), path(1, 50, 9000)]), Decision::Send(PathId(1)));
//! assert_eq!(scheduler.select(&offer, &[path(0, 10, 0), path(1, 50, 0)]), Decision::Wait);
//! ```
//!
//! A path manager selects the pairs of addresses to connect:
//!
//! ```
//! use anabranch_multipath::path_manager::{AddressId, parse};
//!
//! let (local, remote) = ([AddressId(0), AddressId(1)], [AddressId(0), AddressId(1)]);
//! assert_eq!(parse("fullmesh")?.build(0).wanted(&local, &remote).len(), 4);
//! assert_eq!(parse("disjoint")?.build(0).wanted(&local, &remote).len(), 2);
//! # Ok::<(), String>(())
//! ```

#![allow(
    clippy::doc_markdown,
    reason = "subscripts of formulas and protocol names such as MP_PRIO are not code"
)]

pub mod buffer;
pub mod congestion;
pub mod delivery;
pub mod pacing;
pub mod path_manager;
pub mod registry;
pub mod rtt;
pub mod scheduler;
pub mod shared_bottleneck;

/// A path (MPTCP subflow, SCTP destination) within one connection: a small index, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PathId(pub u8);

/// Maximum number of paths of a connection, with any protocol. More paths have no benefit, and a peer
/// must not be able to make a host open an unlimited number of paths.
pub const MAX_PATHS: usize = 64;

impl PathId {
    /// The path as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
