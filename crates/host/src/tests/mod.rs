//! Tests with two hosts and a network between them in virtual time.

mod adversarial;
mod cases;
#[path = "../../tests/hosts/mod.rs"]
mod hosts;
mod turns;

use super::*;
use anabranch_base::time::Duration;
use anabranch_multipath::path_manager;
use anabranch_tcp::tcp;
use anabranch_wire::tcp::Flags;
use anabranch_wire::{Body, Packet};
use hosts::{Net, ip, mptcp, sctp, tcp};
