//! The emulator: a scenario's network for packets of any hosts, by the machine's clock.
//!
//! The links, queues, losses and events are those of the simulator ([`netem`]). Of a packet, only the IP
//! header and, for queues that separate flows, the ports are read. Hosts are attached by TUN interfaces in
//! their network namespaces; long packets of their kernels are split into wire packets before they enter the
//! network ([`segments`]).

mod capture;
mod control;
mod device;
mod drive;
mod error;
mod fragments;
mod lateness;
mod middleboxes;
mod network;
mod packet;
mod segments;
mod stack_port;

pub use crate::offload::Unfinished;
pub use capture::Tap;
pub use control::{Applied, Control, ControlError};
pub use drive::{Attachment, Emulator, Outcome, Running, Settings};
pub use error::OpenError;
pub use lateness::{Lateness, MAX_LATENESS};
pub use middleboxes::Translations;
pub use network::{Arrived, EmulatedNetwork};
pub use packet::RawPacket;
#[cfg(test)]
pub(crate) use segments::Train;
pub(crate) use segments::split_output;
pub use stack_port::{FlowEnd, StackDevice};
