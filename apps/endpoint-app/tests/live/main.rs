//! The program with real peers: Linux's Multipath TCP, itself, and curl.
//!
//! A test that misses a requirement of the machine is skipped with a message (`anabranch_testkit::machine`).
#![cfg(target_os = "linux")]

mod associations;
mod forward;
mod kernel;
mod linux;
mod program;
