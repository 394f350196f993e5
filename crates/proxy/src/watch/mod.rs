//! Status page of a proxy: text for Prometheus, JSON and a page by HTTP, and a view in a terminal.

pub mod connection;
mod http;
pub mod kernel;
mod prometheus;
mod registry;
pub mod terminal;
mod uplinks;

pub use http::{start, stop};
pub use registry::{open, open_intercepted};
