//! A router: intercepts the TCP connections of the hosts behind it (TPROXY), and UDP if it is configured, and relays them
//! through an upstream Anabranch proxy, which it reaches with Multipath TCP.

mod commands;
mod datagrams;
mod firewall;
mod guard;
mod install;
mod names;
mod rules;
mod script;
mod service;
mod state;

pub use script::script;
pub use service::Proxy;
pub use state::findings;
