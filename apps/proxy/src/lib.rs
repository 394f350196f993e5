//! Multipath TCP for hosts that have none: proxies on stock Linux, as the program `anabranch-proxy` runs them.
//!
//! Readers begin with [`config::Config`], the settings; [`run`], which serves them; and the proxies [`socks`], [`reverse`],
//! [`convert`] and [`router`]. [`uplinks`] keeps the links of a machine ready, [`check`] finds out why only one link is used,
//! and [`watch`] shows the traffic.
#![cfg(target_os = "linux")]

pub mod check;
pub mod config;
mod connect;
pub mod convert;
mod error;
mod getaddrinfo;
mod handover;
mod instance_lock;
mod limits;
mod listen;
mod local_address;
mod log;
mod login;
mod login_backoff;
mod nat64;
mod network;
mod occupants;
mod pair_history;
mod password_proof;
mod proxy_check;
mod relay;
mod resolver;
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
mod upstream_proxy;
pub mod watch;

pub use error::Error;
pub use log::printable;
pub use serve::run;
