//! Multipath TCP version 1 (RFC 8684).

pub mod config;

pub use config::Config;
