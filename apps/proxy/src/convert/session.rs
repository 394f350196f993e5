//! Reads the message at the start of a stream.

use super::{Malformed, Tlv, WORD, parse};
use crate::stream::read_some;
use std::io::{self, ErrorKind};
use tokio::net::TcpStream;

/// The start of a stream: the message, and the bytes that were read with it.
#[derive(Debug)]
pub struct Opening {
    /// TLVs of the message.
    pub tlvs: Vec<Tlv>,
    /// Bytes of the message.
    pub message: Vec<u8>,
    /// Bytes after the message.
    pub rest: Vec<u8>,
}

/// Reason why a stream does not start with a message.
#[derive(Debug)]
pub enum OpeningError {
    /// The stream starts with these bytes, which are not a valid message.
    Malformed(Malformed, Vec<u8>),
    /// The connection failed or ended before the message was complete.
    Broken(io::Error),
}

/// Reads until the message at the start of the stream is complete.
///
/// # Errors
/// If the stream does not start with a message.
pub async fn read_opening(stream: &TcpStream) -> Result<Opening, OpeningError> {
    let mut bytes = Vec::new();
    loop {
        match parse(&bytes) {
            Ok(Some((tlvs, len))) => {
                let rest = bytes.split_off(len);
                return Ok(Opening { tlvs, message: bytes, rest });
            }
            // The buffer stays small, because a message has at most 1020 bytes.
            Ok(None) => {}
            Err(malformed) => {
                let len = bytes.get(1).map_or(WORD, |&words| usize::from(words) * WORD);
                bytes.truncate(len);
                return Err(OpeningError::Malformed(malformed, bytes));
            }
        }
        match read_some(stream, &mut bytes).await {
            Ok(0) => return Err(OpeningError::Broken(ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) => return Err(OpeningError::Broken(error)),
        }
    }
}
