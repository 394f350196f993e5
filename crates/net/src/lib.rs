//! Real packets on Linux: the machine's clock, secrets and network devices; the protocol cores on these, and
//! an emulator of a scenario's network between hosts.
#![cfg(target_os = "linux")]

mod clock;
pub mod counters;
mod device;
pub mod emulator;
pub mod layout;
mod machine;
pub mod meter;
mod namespace;
mod network;
mod secrets;
mod stack;
mod tun;
mod udp;

pub use clock::Clock;
pub use device::{Device, Fill};
pub use machine::Machine;
pub use namespace::Namespace;
pub use network::Network;
pub use secrets::secrets;
pub use stack::{Accept, Application, Stack};
pub use tun::Tun;
pub use udp::Udp;
