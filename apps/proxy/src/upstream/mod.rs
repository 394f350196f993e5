//! Connections to servers: names, addresses in order, and upstream proxies.

pub mod connect;
pub mod getaddrinfo;
pub mod nat64;
pub mod pair_history;
pub mod protocols;
pub mod proxy;
pub mod resolver;
