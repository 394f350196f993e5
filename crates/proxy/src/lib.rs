//! Multipath TCP for hosts that have none: proxies on stock Linux. What the program `anabranch-proxy` does, in parts.
#![cfg(target_os = "linux")]

mod instance_lock;
pub mod check;
pub mod config;
mod connect;
pub mod convert;
mod error;
mod getaddrinfo;
mod upstream_proxy;
mod handover;
mod limits;
mod listen;
mod log;
mod login;
mod resolver;
mod network;
mod local_address;
mod login_backoff;
mod password_proof;
mod relay;
pub mod reverse;
pub mod router;
mod serve;
mod sockopt;
pub mod socks;
mod sources;
mod stream;
mod systemd;
mod targets;
pub mod uplinks;
mod upstream;
pub mod watch;

pub use error::Error;
pub use serve::run;
