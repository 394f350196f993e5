//! `INIT` and `INIT ACK`: what both ends need to know to begin (RFC 9260 §3.3.2, §3.3.3).

use super::parameter::{self, Parameter};
use crate::seq::Serial;

/// An `INIT` or `INIT ACK` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Init {
    /// The verification tag that the other side must write into its packets; 0 is invalid.
    pub initiate_tag: u32,
    /// Receive window, bytes.
    pub a_rwnd: u32,
    /// Streams that the sender wishes to send on; 0 is invalid.
    pub outbound_streams: u16,
    /// Streams that the sender can receive on; 0 is invalid.
    pub inbound_streams: u16,
    /// The first TSN that the sender will use.
    pub initial_tsn: Serial,
    /// Parameters, in order.
    pub parameters: Vec<Parameter>,
}

impl Init {
    /// Bytes before the parameters, chunk header included.
    pub const HEADER_LEN: u32 = 20;

    /// The chunk's length field: bytes without the padding of the last parameter.
    pub fn length(&self) -> u32 {
        Self::HEADER_LEN + parameter::list_length(&self.parameters)
    }
}
