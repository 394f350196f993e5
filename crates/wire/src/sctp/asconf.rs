//! `ASCONF` and `ASCONF ACK`: address reconfiguration (RFC 5061 §4.1).

use super::parameter::{self, Parameter};
use super::{CHUNK_HEADER_LEN, padded};
use crate::seq::Serial;
use core::net::IpAddr;

/// An `ASCONF` chunk: requests, carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asconf {
    /// Serial number; the first one is the sender's initial TSN.
    pub serial: Serial,
    /// An address of the sender by which the association can be found.
    pub address: IpAddr,
    /// Requests: [`Parameter::AddAddress`], [`Parameter::DeleteAddress`], [`Parameter::SetPrimary`].
    pub parameters: Vec<Parameter>,
}

impl Asconf {
    /// The chunk's length field: bytes without the padding of the last parameter.
    pub fn length(&self) -> u32 {
        CHUNK_HEADER_LEN
            + 4
            + padded(parameter::address_length(&self.address))
            + parameter::list_length(&self.parameters)
    }
}

/// An `ASCONF ACK` chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AsconfAck {
    /// The serial number of the `ASCONF` answered.
    pub serial: Serial,
    /// Answers: [`Parameter::Success`], [`Parameter::ErrorCause`]; a request without one succeeded.
    pub parameters: Vec<Parameter>,
}

impl AsconfAck {
    /// The chunk's length field: bytes without the padding of the last parameter.
    pub fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + 4 + parameter::list_length(&self.parameters)
    }
}
