//! What is measured while a run is under way: values over time, delays, and the fingerprint of all that happens.

pub mod digest;
pub mod histogram;
pub mod mean;
