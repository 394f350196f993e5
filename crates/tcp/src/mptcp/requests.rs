//! State of network control.

/// State of network control of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requests {
    /// Random number that identifies the connection to routers, once a request was sent.
    pub association: Option<u32>,
    /// Requests sent.
    pub sent: u64,
    /// Requests received.
    pub received: u64,
    /// Received options that contain no valid request.
    pub ignored: u64,
}
