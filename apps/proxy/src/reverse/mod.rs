//! Reverse proxies: they accept Multipath TCP for servers that support only TCP.

mod balance;
pub mod header;
mod health;
mod host_names;
pub mod http_host;
pub mod malformed;
mod requested_host;
pub mod server_name;
mod service;

pub use service::Proxy;
