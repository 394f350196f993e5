//! Paths that an end wants to have, and the obstacle to each that has never opened.

use core::net::{IpAddr, SocketAddr};

/// The reason for which a path has never opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The connection ended before the path was tried, or before the path's handshake ended.
    Pending,
    /// The handshake of the path got no answer.
    NoAnswer,
    /// The peer refused the path.
    Refused,
    /// No route leads to the peer, or the interface of its address is down.
    NoRoute,
    /// The limit on the number of paths, or the lack of a free port, prevents the path.
    Limit,
    /// An option of the path's handshake did not arrive, or the connection has fallen back to a single path.
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

/// A path that an end wants to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedPath {
    /// The address of this end.
    pub local: IpAddr,
    /// The address and port of the peer.
    pub remote: SocketAddr,
    /// The obstacle; `None` if the path has ever been open.
    pub obstacle: Option<Obstacle>,
}
