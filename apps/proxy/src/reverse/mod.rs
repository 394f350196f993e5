//! Reverse proxies: they accept Multipath TCP for servers that support only TCP.

mod balance;
mod first_bytes;
pub mod header;
mod health;
mod host_names;
pub mod http_host;
pub mod malformed;
pub mod server_name;
mod service;

pub use service::Proxy;
