//! The program at work, over loopback.
#![cfg(target_os = "linux")]

#[path = "../../../net/tests/real/bed.rs"]
#[allow(dead_code, reason = "the tests of real transfers have more use for it")]
mod bed;
mod browser;
mod command;
mod contents;
mod convert;
mod killed;
mod lan;
mod links;
#[path = "../../../net/tests/real/namespace.rs"]
#[allow(dead_code, reason = "the tests of real transfers have more use for it")]
mod namespace;
mod outages;
mod portal;
mod program;
mod resolver;
mod reverse;
mod router;
mod router_links;
mod socks;
mod uplinks;
mod watch;
