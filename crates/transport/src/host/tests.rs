//! Two hosts and what happens between them, in virtual time.

mod adversarial;
mod cases;
#[path = "../../tests/hosts/mod.rs"]
mod hosts;

use super::*;
use crate::tcp;
use hosts::{Net, ip, mptcp, sctp, tcp};
use multipath::time::Duration;
