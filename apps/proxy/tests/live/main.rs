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
mod router_udp;
mod socks;
mod udp;
mod udp_links;
mod uplinks;
mod watch;
