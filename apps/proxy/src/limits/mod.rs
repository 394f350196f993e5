//! Limits of connections, clients and destinations.

pub mod connection_table;
pub mod descriptors;
pub mod sources;
pub mod targets;
