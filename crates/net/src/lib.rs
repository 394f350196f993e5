//! The protocol cores on real packets, on Linux: the machine's clock, its secrets, and devices that carry packets.
#![cfg(target_os = "linux")]

mod clock;
mod device;
mod network;
mod secrets;
mod stack;
mod tun;
mod udp;

pub use clock::Clock;
pub use device::{Device, Fill};
pub use network::Network;
pub use secrets::secrets;
pub use stack::{Accept, Application, Stack};
pub use tun::Tun;
pub use udp::Udp;
