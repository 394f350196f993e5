//! Real transfers between this stack and others, in separate network namespaces.
//!
//! A test that misses a requirement of the machine is skipped with a message (`anabranch_testkit::machine`).
#![cfg(target_os = "linux")]

mod differential;
mod emulator;
mod kernel;
mod mptcp;
mod ours;
mod sctp;
mod tcp;
mod usrsctp;
