//! The handle of a host: streams and associations between two hosts in memory or over UDP on the loopback interface.
//! The tests need no rights.
#![cfg(target_os = "linux")]

mod associations;
mod hosts;
mod recordings;
mod streams;
