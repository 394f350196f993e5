//! Servers reached by another proxy, by the protocol that it speaks.

use super::config::{Limits, Protocol, Via};
use super::convert;
use super::socks::{self, wire::Target};
use super::stream::Transport;
use super::upstream_proxy::{Connected, EarlyData, NotConnected};
use std::io;

/// The other proxy.
pub enum Upstream {
    /// A SOCKS proxy.
    Socks(socks::Upstream),
    /// A converter.
    Convert(convert::Client),
}

impl Upstream {
    /// Creates it from the settings.
    pub fn new(via: Via, limits: &Limits) -> Self {
        match via.protocol {
            Protocol::Socks => Self::Socks(socks::Upstream::new(via, limits)),
            Protocol::Convert => Self::Convert(convert::Client::new(via, limits)),
        }
    }

    /// By what it is reached, unless it has that not.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Socks(upstream) => upstream.transport(),
            Self::Convert(client) => client.transport(),
        }
    }

    /// Has the other proxy connect to a target. `early` is called for the client's first data, which go out with the request.
    ///
    /// # Errors
    ///
    /// The other proxy's reason, or why it is not reached; that the client has disconnected.
    pub async fn connect(
        &self,
        target: &Target,
        early: impl FnMut() -> io::Result<Vec<u8>> + Send,
    ) -> Result<Connected, NotConnected> {
        let mut early = EarlyData::new(early);
        match self {
            Self::Socks(upstream) => upstream.connect(target, &mut early).await,
            Self::Convert(client) => client.connect(target, &mut early).await,
        }
    }
}
