//! Measurement during a run: its digest.

pub mod digest;
