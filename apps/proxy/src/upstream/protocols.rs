//! Connects to servers through an upstream proxy, with either of its protocols.

use crate::config::{Limits, Protocol, Via};
use crate::convert;
use crate::socks::wire::{Reply, Target};
use crate::socks::{self, UpstreamSide};
use crate::stream::Transport;
use crate::upstream::proxy::{Connected, EarlyData, NotConnected};
use std::io;

/// An upstream proxy.
pub enum Upstream {
    /// A SOCKS proxy.
    Socks(socks::Upstream),
    /// A converter.
    Convert(convert::Client),
}

impl Upstream {
    /// Creates an upstream proxy from the settings.
    pub fn new(via: Via, limits: &Limits) -> Self {
        match via.protocol {
            Protocol::Socks => Self::Socks(socks::Upstream::new(via, limits)),
            Protocol::Convert => Self::Convert(convert::Client::new(via, limits)),
        }
    }

    /// Returns the transport of connections to the upstream proxy. Such a connection falls back to TCP if the proxy has
    /// no Multipath TCP.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Socks(upstream) => upstream.transport(),
            Self::Convert(client) => client.transport(),
        }
    }

    /// Requests a connection to a target. `early` returns the data that the client has already sent; they are sent with
    /// the request.
    ///
    /// # Errors
    ///
    /// If the upstream proxy refuses or is not reached, or if the client has disconnected.
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

    /// Requests an association for datagrams. `early` returns frames that are sent with the request.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::connect`], or that the upstream proxy does not relay UDP.
    pub async fn open_datagrams(
        &self,
        early: impl FnMut() -> io::Result<Vec<u8>> + Send,
    ) -> Result<UpstreamSide, NotConnected> {
        match self {
            Self::Socks(upstream) => upstream.open_datagrams(&mut EarlyData::new(early)).await,
            Self::Convert(_) => {
                let reason = "a converter (RFC 8803) does not relay UDP; write protocol = \"socks\" in via";
                Err((Reply::CommandNotSupported, reason.to_owned()))
            }
        }
    }
}
