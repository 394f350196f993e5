//! TCP (RFC 9293). A TCP connection and a Multipath TCP subflow are the same code.

pub mod config;

pub use config::{Config, Recovery};
