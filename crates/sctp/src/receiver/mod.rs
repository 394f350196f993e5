//! The receiving half: TSNs, reassembly and acknowledgements.

pub(crate) mod inbound;
pub(crate) mod reassembly;
