//! `RE-CONFIG`: stream reset, TSN reset and stream addition (RFC 6525 §3, §4).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! |  Type = 130   |  Chunk Flags  |         Chunk Length          |
//! +---------------+---------------+-------------------------------+
//! :                  Re-configuration Parameter                   :
//! :             Re-configuration Parameter (optional)             :
//! +---------------------------------------------------------------+
//!
//! 13, Outgoing SSN Reset Request; 14, Incoming: without the second and third number; 15, SSN/TSN Reset: the first alone
//! +-------------------------------+-------------------------------+
//! |     Parameter Type = 13       |       Parameter Length        |
//! +-------------------------------+-------------------------------+
//! |           Re-configuration Request Sequence Number            |
//! |           Re-configuration Response Sequence Number           |
//! |                Sender's Last Assigned TSN                     |
//! +-------------------------------+-------------------------------+
//! :         Stream Number         :         Stream Number         :
//! +-------------------------------+-------------------------------+
//!
//! 16, Re-configuration Response
//! +---------------------------------------------------------------+
//! |         Re-configuration Response Sequence Number             |
//! |                            Result                             |
//! |                  Sender's Next TSN (optional)                 |
//! |                 Receiver's Next TSN (optional)                |
//! +---------------------------------------------------------------+
//!
//! 17, Add Outgoing Streams Request; 18, Add Incoming Streams Request
//! +---------------------------------------------------------------+
//! |           Re-configuration Request Sequence Number            |
//! +-------------------------------+-------------------------------+
//! |     Number of new streams     |           Reserved            |
//! +-------------------------------+-------------------------------+
//! ```

use super::{CHUNK_HEADER_LEN, tlv};
use crate::bytes::Reader;
use crate::error::{Header, ParseError};
use crate::seq::Serial;

/// Parameter type numbers.
mod kind {
    pub(super) const OUTGOING_RESET: u16 = 13;
    pub(super) const INCOMING_RESET: u16 = 14;
    pub(super) const TSN_RESET: u16 = 15;
    pub(super) const RESPONSE: u16 = 16;
    pub(super) const ADD_OUTGOING: u16 = 17;
    pub(super) const ADD_INCOMING: u16 = 18;
}

/// The result of a request (RFC 6525 §4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome(pub u32);

impl Outcome {
    /// Success: no change was necessary.
    pub const NOTHING_TO_DO: Self = Self(0);
    /// Success: carried out.
    pub const PERFORMED: Self = Self(1);
    /// Denied.
    pub const DENIED: Self = Self(2);
    /// Error: a stream number that does not exist.
    pub const WRONG_STREAM: Self = Self(3);
    /// Error: another request of this kind is in progress.
    pub const ALREADY_IN_PROGRESS: Self = Self(4);
    /// Error: the sequence number is not the next one.
    pub const BAD_SEQUENCE_NUMBER: Self = Self(5);
    /// In progress: the sender has to retransmit the request later.
    pub const IN_PROGRESS: Self = Self(6);
}

/// A request, or the answer to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reconfiguration {
    /// The sender resets its outgoing streams (RFC 6525 §4.1).
    OutgoingReset {
        /// Sequence number of the request.
        request: Serial,
        /// Sequence number of the peer's request that this one answers; it has no meaning if the request answers none.
        response: Serial,
        /// The last TSN before the reset.
        last_tsn: Serial,
        /// The streams; an empty list means all.
        streams: Box<[u16]>,
    },
    /// The receiver is to reset its outgoing streams (§4.2).
    IncomingReset {
        /// Sequence number of the request.
        request: Serial,
        /// The streams; an empty list means all.
        streams: Box<[u16]>,
    },
    /// Resets all streams and the TSNs of both directions (§4.3).
    TsnReset {
        /// Sequence number of the request.
        request: Serial,
    },
    /// The answer to a request (§4.4).
    Response {
        /// Sequence number of the request.
        response: Serial,
        /// The result.
        outcome: Outcome,
        /// After a TSN reset: the next TSN of the sender of this response, and that of its receiver.
        next_tsns: Option<(Serial, Serial)>,
    },
    /// The sender adds outgoing streams (§4.5).
    AddOutgoing {
        /// Sequence number of the request.
        request: Serial,
        /// Number of streams.
        count: u16,
    },
    /// The receiver is to add outgoing streams (§4.6).
    AddIncoming {
        /// Sequence number of the request.
        request: Serial,
        /// Number of streams.
        count: u16,
    },
    /// Any other parameter, kept unchanged.
    Unknown {
        /// Type number.
        kind: u16,
        /// Value, without header and padding.
        value: Box<[u8]>,
    },
}

impl Reconfiguration {
    const fn kind(&self) -> u16 {
        match self {
            Self::OutgoingReset { .. } => kind::OUTGOING_RESET,
            Self::IncomingReset { .. } => kind::INCOMING_RESET,
            Self::TsnReset { .. } => kind::TSN_RESET,
            Self::Response { .. } => kind::RESPONSE,
            Self::AddOutgoing { .. } => kind::ADD_OUTGOING,
            Self::AddIncoming { .. } => kind::ADD_INCOMING,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// The parameter's length field: header and value in bytes, without the padding behind them.
    fn length(&self) -> u32 {
        tlv::HEADER_LEN
            + match self {
                Self::OutgoingReset { streams, .. } => 12 + 2 * streams.len() as u32,
                Self::IncomingReset { streams, .. } => 4 + 2 * streams.len() as u32,
                Self::TsnReset { .. } => 4,
                Self::Response { next_tsns: None, .. }
                | Self::AddOutgoing { .. }
                | Self::AddIncoming { .. } => 8,
                Self::Response { .. } => 16,
                Self::Unknown { value, .. } => value.len() as u32,
            }
    }

    /// Appends the parameter without padding.
    fn emit(&self, out: &mut Vec<u8>) {
        tlv::emit_header(self.kind(), self.length(), out);
        let mut numbers = |serials: &[Serial]| {
            out.extend(serials.iter().flat_map(|serial| serial.0.to_be_bytes()));
        };
        match self {
            Self::OutgoingReset { request, response, last_tsn, streams } => {
                numbers(&[*request, *response, *last_tsn]);
                out.extend(streams.iter().flat_map(|stream| stream.to_be_bytes()));
            }
            Self::IncomingReset { request, streams } => {
                numbers(&[*request]);
                out.extend(streams.iter().flat_map(|stream| stream.to_be_bytes()));
            }
            Self::TsnReset { request } => numbers(&[*request]),
            Self::Response { response, outcome, next_tsns } => {
                numbers(&[*response, Serial(outcome.0)]);
                if let Some((sender, receiver)) = next_tsns {
                    numbers(&[*sender, *receiver]);
                }
            }
            Self::AddOutgoing { request, count } | Self::AddIncoming { request, count } => {
                numbers(&[*request, Serial(u32::from(*count) << 16)]);
            }
            Self::Unknown { value, .. } => out.extend_from_slice(value),
        }
    }

    /// Reads the value of a parameter.
    fn parse(kind: u16, value: &[u8]) -> Result<Self, ParseError> {
        let header = Header::SctpParameter(kind);
        let mut reader = Reader::new(header, value);
        let mut number = || reader.u32().map(Serial);
        let parsed = match kind {
            kind::OUTGOING_RESET => Self::OutgoingReset {
                request: number()?,
                response: number()?,
                last_tsn: number()?,
                streams: streams(header, value, 12)?,
            },
            kind::INCOMING_RESET => {
                Self::IncomingReset { request: number()?, streams: streams(header, value, 4)? }
            }
            kind::TSN_RESET => Self::TsnReset { request: number()? },
            kind::RESPONSE => Self::Response {
                response: number()?,
                outcome: Outcome(number()?.0),
                next_tsns: if value.len() > 8 { Some((number()?, number()?)) } else { None },
            },
            kind::ADD_OUTGOING => Self::AddOutgoing { request: number()?, count: (number()?.0 >> 16) as u16 },
            kind::ADD_INCOMING => Self::AddIncoming { request: number()?, count: (number()?.0 >> 16) as u16 },
            _ => Self::Unknown { kind, value: value.into() },
        };
        if parsed.length() as usize == tlv::HEADER_LEN as usize + value.len() {
            Ok(parsed)
        } else {
            Err(tlv::wrong_length(header, value))
        }
    }
}

/// The stream numbers behind the first `at` bytes of a value.
fn streams(header: Header, value: &[u8], at: usize) -> Result<Box<[u16]>, ParseError> {
    match value[at..].as_chunks() {
        (numbers, []) => Ok(numbers.iter().map(|&number| u16::from_be_bytes(number)).collect()),
        _ => Err(tlv::wrong_length(header, value)),
    }
}

/// A `RE-CONFIG` chunk: one parameter, or two in a combination that RFC 6525 §3.1 allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconfig {
    /// Requests and answers, in order.
    pub parameters: Vec<Reconfiguration>,
}

impl Reconfig {
    /// The chunk's length field: bytes without the padding of the last parameter.
    pub fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + tlv::list_length(self.parameters.iter().map(Reconfiguration::length))
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        tlv::emit_list(&self.parameters, out, Reconfiguration::emit);
    }

    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        tlv::parse_list(value, Reconfiguration::parse).map(|parameters| Self { parameters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, refuse_chunk};

    /// Asserts the encoding of a chunk with these parameters.
    fn check(parameters: impl Into<Vec<Reconfiguration>>, bytes: &str) {
        check_chunk(&Chunk::Reconfig(Reconfig { parameters: parameters.into() }), bytes);
    }

    #[test]
    fn encodings_equal_vectors() {
        let [request, response] = [Serial(0x0102_0304), Serial(0x0506_0708)];
        let last_tsn = Serial(9);
        check(
            [Reconfiguration::OutgoingReset { request, response, last_tsn, streams: [1, 2, 3].into() }],
            "82 00 001a 000d 0016 01020304 05060708 00000009 0001 0002 0003 0000",
        );
        check(
            [Reconfiguration::OutgoingReset { request, response, last_tsn, streams: [].into() }],
            "82 00 0014 000d 0010 01020304 05060708 00000009",
        );
        check(
            [
                Reconfiguration::IncomingReset { request, streams: [7].into() },
                Reconfiguration::TsnReset { request },
            ],
            "82 00 0018 000e 000a 01020304 0007 0000 000f 0008 01020304",
        );
        let outcome = Outcome::IN_PROGRESS;
        check(
            [Reconfiguration::Response { response, outcome, next_tsns: None }],
            "82 00 0010 0010 000c 05060708 00000006",
        );
        let next_tsns = Some((Serial(1), Serial(2)));
        check(
            [Reconfiguration::Response { response, outcome: Outcome::PERFORMED, next_tsns }],
            "82 00 0018 0010 0014 05060708 00000001 00000001 00000002",
        );
        check(
            [
                Reconfiguration::AddOutgoing { request, count: 2 },
                Reconfiguration::AddIncoming { request, count: 0xffff },
            ],
            "82 00 001c 0011 000c 01020304 0002 0000 0012 000c 01020304 ffff 0000",
        );
        check(
            [Reconfiguration::Unknown { kind: 0x8123, value: [1].into() }],
            "82 00 0009 8123 0005 01 000000",
        );
        check([], "82 00 0004");
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for bytes in [
            "82 00 0013 000d 000f 01020304 05060708 000000 00",
            "82 00 0015 000d 0011 01020304 05060708 00000009 01 000000",
            "82 00 000a 000e 0006 0102 0000",
            "82 00 0010 000f 000c 01020304 00000000",
            "82 00 0014 0010 0010 01020304 00000000 00000001",
            "82 00 000c 0011 0008 01020304",
            "82 00 0006 0011 0000",
        ] {
            refuse_chunk(bytes);
        }
    }
}
