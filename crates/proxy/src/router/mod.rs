//! A router: what the hosts behind it send by TCP to anywhere comes to it (TPROXY), and goes by another proxy of ours, which
//! is reached by Multipath TCP.

mod commands;
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
