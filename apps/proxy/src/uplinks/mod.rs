//! Maintains rules, routes and endpoints for this machine's links to the Internet. This program updates them when a
//! carrier or an address changes, so that Multipath TCP connections use all working links.

mod budget;
mod endpoints;
mod netlink;
mod origins;
mod parts;
mod plan;
mod probes;
mod reconciler;
mod routing;
mod script;
mod service;
mod view;

pub(crate) use netlink::Changes;
pub use origins::addresses;
pub(crate) use routing::{GROUPS as ROUTING_GROUPS, NFTABLES_GROUP};
pub use script::script;
pub use service::{run, runs};
