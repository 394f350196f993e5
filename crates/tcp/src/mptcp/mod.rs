//! Multipath TCP version 1 (RFC 8684): a connection of subflows, each of which is a TCP control block.

#[cfg(test)]
mod adversarial_tests;
mod connection;
mod data;
#[cfg(test)]
mod data_ack_tests;
mod driving;
mod fallback;
mod gap;
mod input;
#[cfg(test)]
mod interference_tests;
mod keys;
mod limits;
mod mapping;
#[cfg(test)]
mod middlebox_tests;
mod network_control;
#[cfg(test)]
mod network_control_tests;
mod opening;
mod opportunistic;
mod options;
mod out_of_order;
#[cfg(test)]
mod out_of_order_tests;
mod output;
mod paths;
#[cfg(test)]
mod peers_tests;
mod receive;
mod repair;
mod requests;
mod reset;
mod restart;
#[cfg(test)]
mod scheduling_tests;
mod signals;
mod snapshot;
mod source_route;
#[cfg(test)]
mod source_route_tests;
mod subflow;
mod syn;
#[cfg(test)]
mod tests;
mod wanted;

pub use anabranch_settings::mptcp::{Config, DeadPathProbe, Penalisation, SynRetransmission};
pub use connection::Connection;
pub use options::{capable, offer};
