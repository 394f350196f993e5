//! Status page of a proxy: Prometheus metrics, JSON and a web page over HTTP, and a view in a terminal.

pub mod connection;
mod http;
pub mod kernel;
mod prometheus;
mod registry;
pub mod terminal;
mod uplinks;

pub use http::{start, stop};
pub use registry::{register, register_intercepted};
