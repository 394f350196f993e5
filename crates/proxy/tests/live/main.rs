//! The program at work, over loopback.
#![cfg(target_os = "linux")]

mod contents;
mod program;
mod socks;
