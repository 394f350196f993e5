//! The proxies of the program `anabranch-proxy`: they give Multipath TCP to hosts that do not support it, on an
//! unmodified Linux kernel.
//!
//! Start with [`config::Config`], the settings; [`run`], which runs services; and the services [`socks`], [`reverse`],
//! [`convert`] and [`router`]. [`uplinks`] maintains rules, routes and endpoints of a machine's links, [`check`] finds
//! out why only one link is used, and [`watch`] shows the traffic.
#![cfg(target_os = "linux")]

mod auth;
pub mod check;
pub mod config;
pub mod convert;
mod datagrams;
mod error;
mod handover;
mod instance_lock;
mod limits;
mod listen;
mod local_address;
mod log;
mod network;
mod original_destination;
mod proxy_check;
mod relay;
pub mod reverse;
pub mod router;
mod serve;
mod sockopt;
pub mod socks;
mod stream;
mod systemd;
pub mod uplinks;
mod upstream;
pub mod watch;

pub use error::Error;
pub use log::printable;
pub use serve::run;
