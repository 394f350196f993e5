//! Measurement during a run: its fingerprint.

pub mod digest;
