//! Tests of the program with real peers: Multipath TCP of Linux, another instance of the program, and curl.
//!
//! A test whose requirements the machine does not meet is skipped with a message (`anabranch_testkit::machine`).
#![cfg(target_os = "linux")]

mod associations;
mod forward;
mod kernel;
mod linux;
mod program;
