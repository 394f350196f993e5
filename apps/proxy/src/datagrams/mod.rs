//! Relays UDP datagrams between a client's side and the servers' side.

mod exit;
mod framed;
mod paths;
mod recent;
mod relay;
mod side;
mod socket;

pub use exit::Exit;
pub use framed::Framed;
pub use paths::{Keys, MAX_PATHS, Nonce, PathsSide};
pub use recent::Recent;
pub use relay::relay_datagrams;
pub use side::{Datagram, Side};
pub use socket::{bind, receive_from};

use std::time::Duration;

/// Time for which the state of a server is kept after its last datagram (RFC 4787 §4.3, REQ-5: at least two minutes).
pub const STATE_TIMEOUT: Duration = Duration::from_secs(120);
