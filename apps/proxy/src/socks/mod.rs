//! SOCKS version 5 (RFC 1928) with login by name and password (RFC 1929).

mod association;
mod service;
mod session;
mod via;
pub mod wire;

pub use service::Proxy;
pub(crate) use session::probe_socks_proxy;
pub(crate) use via::{Upstream, UpstreamSide};
