//! Reverse proxies: they accept Multipath TCP for servers that support only TCP.

pub mod header;
mod health;
mod service;

pub use service::Proxy;
