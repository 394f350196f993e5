//! Counts of datagrams' copies.

/// The copies of a datagram, which the network still holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    /// Copies that have neither arrived nor been dropped.
    pub outstanding: u32,
    /// One of them has arrived.
    pub is_delivered: bool,
}
