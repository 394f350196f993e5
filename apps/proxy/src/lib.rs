//! The proxies of the program `anabranch-proxy`: they give Multipath TCP to hosts that do not support it, on an
//! unmodified Linux kernel.
//!
//! Start with [`config::Config`], the settings; [`run`], which runs services; and the services [`socks`], [`reverse`],
//! [`convert`] and [`router`]. [`uplinks`] maintains rules, routes and endpoints of a machine's links, [`check`] finds
//! out why only one link is used, and [`watch`] shows the traffic.
#![cfg(target_os = "linux")]

pub mod check;
pub mod config;
mod connect;
mod connection_table;
pub mod convert;
mod datagrams;
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
mod original_destination;
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
