//! The emulator: a scenario's network for packets of any hosts, by the machine's clock.
//!
//! The links, queues, losses and events are the simulator's own ([`netem`]). Of a packet nothing is read but its IP header
//! and, for queues that tell flows apart, its ports. Hosts reach it by TUN interfaces in their network namespaces; what their
//! kernels hand over as one long packet is cut into those of a wire before the network sees it ([`segments`]).

mod capture;
mod device;
mod drive;
mod lateness;
mod network;
mod packet;
mod segments;

pub use capture::Tap;
pub use drive::{Attachment, Emulator, OpenError, Outcome, Running, Settings};
pub use lateness::{LATE, Lateness};
pub use network::{Arrived, EmulatedNetwork};
pub use packet::{RawPacket, Unfinished};
