//! Counts of datagrams' copies.

/// State of the copies of one datagram while the network holds some.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    /// Copies that have neither arrived nor been dropped.
    pub outstanding: u32,
    /// True once one of the copies has arrived.
    pub is_delivered: bool,
}
