//! Two hosts and what happens between them, in virtual time.

mod adversarial;
mod cases;
#[path = "../../tests/hosts/mod.rs"]
mod hosts;
mod turns;

use super::*;
use crate::tcp;
use hosts::{Net, ip, mptcp, sctp, tcp};
use multipath::path_manager;
use multipath::time::Duration;
use wire::tcp::Flags;
use wire::{Body, Packet};
