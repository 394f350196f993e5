//! What is measured while a run is under way: the fingerprint of all that happens.

pub mod digest;
