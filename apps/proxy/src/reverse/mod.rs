//! Reverse proxies: clients come by Multipath TCP, servers behind have TCP alone.

pub mod header;
mod health;
mod service;

pub use service::Proxy;
