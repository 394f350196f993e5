//! What is recorded of a run.

pub mod capture;
pub mod collect;
pub mod digest;
pub mod histogram;
pub mod mean;
pub mod result;
pub mod trace;
