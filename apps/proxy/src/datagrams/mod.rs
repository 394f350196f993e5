//! Relays UDP datagrams between a client's side and the servers' side.

mod exit;
mod framed;
mod paths;
mod receive;
mod recent;
mod relay;
mod side;

pub use exit::Exit;
pub use framed::Framed;
pub use paths::{Keys, Nonce, PathsSide, bind};
pub use receive::receive_from;
pub use recent::Recent;
pub use relay::relay_datagrams;
pub use side::{Datagram, Side};

use std::time::Duration;

/// Time for which the state of a server is kept after its last datagram (RFC 4787 §4.3, REQ-5: at least two minutes).
pub const STATE_TIMEOUT: Duration = Duration::from_secs(120);
