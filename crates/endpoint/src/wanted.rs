//! Paths that an end wants, and the obstacle of each that has never opened.

use core::net::{IpAddr, SocketAddr};

/// The reason for which a path has never opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It was not tried, or its handshake had not ended, while the connection lived.
    Pending,
    /// Its handshake got no answer.
    NoAnswer,
    /// The peer refused it.
    Refused,
    /// No route leads to the peer, or the interface of its address is down.
    NoRoute,
    /// The number of paths or of ports does not admit it.
    Limit,
    /// An option of its handshake did not arrive, or the connection has fallen back to a single path.
    Stripped,
}

impl Obstacle {
    /// Every obstacle once.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::NoAnswer, Self::Refused, Self::NoRoute, Self::Limit, Self::Stripped];

    /// The name in results; stable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::NoAnswer => "no-answer",
            Self::Refused => "refused",
            Self::NoRoute => "no-route",
            Self::Limit => "limit",
            Self::Stripped => "stripped",
        }
    }
}

/// A path that an end wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedPath {
    /// The address of this end.
    pub local: IpAddr,
    /// The address and port of the peer.
    pub remote: SocketAddr,
    /// `None` if it has been open, now or earlier.
    pub obstacle: Option<Obstacle>,
}
