//! Tests of the running program.
#![cfg(target_os = "linux")]

mod balance;
mod browser;
mod command;
mod contents;
mod convert;
mod killed;
mod lan;
mod links;
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
