//! Sockets: descriptors with their options.

use anabranch_host::ConnectionId;
use anabranch_settings::tcp;
use std::fs::File;
use std::os::fd::IntoRawFd;

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub state: State,
    /// Settings of the next connection.
    pub config: tcp::Config,
    /// True for `IPPROTO_MPTCP`.
    pub multipath: bool,
    pub nonblocking: bool,
    /// The port of `bind`, or zero.
    pub port: u16,
    /// Maximum number of established connections that are not accepted.
    pub backlog: usize,
    /// True after `shutdown` of the reading side.
    pub read_shut: bool,
    /// True after `shutdown` of the writing side.
    pub write_shut: bool,
    /// Maximum segment size that the application chose.
    pub max_segment: Option<u32>,
    /// Abort on `close` (`SO_LINGER` with zero).
    pub lingers: bool,
    /// Values of other options, by level and name, that are only returned.
    pub kept: Vec<((i32, i32), i32)>,
}

/// The state of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The socket is neither connected nor listening.
    Fresh,
    /// The socket listens on its port.
    Listening,
    /// Connecting or connected; the connection may have ended.
    Connected(ConnectionId),
}

impl Socket {
    pub fn new(state: State, config: tcp::Config, multipath: bool) -> Self {
        Self {
            state,
            config,
            multipath,
            nonblocking: false,
            port: 0,
            backlog: 1,
            read_shut: false,
            write_shut: false,
            max_segment: None,
            lingers: false,
            kept: Vec::new(),
        }
    }
}

/// A descriptor that no other file of the process has: packetdrill closes descriptors itself at its end.
pub(crate) fn descriptor() -> Option<i32> {
    File::open("/dev/null").ok().map(IntoRawFd::into_raw_fd)
}
