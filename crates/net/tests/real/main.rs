//! Real transfers between this stack and others, in separate network namespaces.
//!
//! A test that misses a requirement of the machine prints it and passes.
#![cfg(target_os = "linux")]

#[path = "../../../host/tests/transfer/application.rs"]
mod application;
mod bed;
#[path = "../../../host/tests/transfer/contents.rs"]
mod contents;
mod emulator;
mod kernel;
mod mptcp;
mod namespace;
mod ours;
mod sctp;
mod tcp;
mod usrsctp;
