//! Real transfers: this stack and those of others, in network namespaces of the tests' own.
//!
//! A test that finds something missing on the machine says so and passes.
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
