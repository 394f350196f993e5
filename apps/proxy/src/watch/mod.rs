//! What passes through a proxy, to be watched: over HTTP as text for Prometheus, as JSON and as a page, and in a terminal.

pub mod connection;
mod http;
pub mod kernel;
mod prometheus;
mod registry;
pub mod terminal;
mod uplinks;

pub use http::{start, stop};
pub use registry::{open, open_intercepted};
