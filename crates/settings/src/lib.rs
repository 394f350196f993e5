//! Settings of the protocols: pure data, apart from the protocols that obey them.
//!
//! For authors of drivers and of descriptions of experiments. Read [`tcp::Config`], [`mptcp::Config`] and
//! [`sctp::Config`]; the protocols' crates re-export them. [`policy`] has the choices that a protocol implements.

pub mod mptcp;
pub mod policy;
pub mod sctp;
pub mod tcp;
