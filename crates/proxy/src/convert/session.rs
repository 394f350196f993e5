//! The message that a stream begins with, as it comes.

use super::{Malformed, Tlv, WORD, parse};
use crate::stream::read_some;
use std::io::{self, ErrorKind};
use tokio::net::TcpStream;

/// How a stream begins.
#[derive(Debug)]
pub struct Opening {
    /// TLVs of the message.
    pub tlvs: Vec<Tlv>,
    /// The message.
    pub message: Vec<u8>,
    /// Bytes after the message.
    pub rest: Vec<u8>,
}

/// Why a stream does not begin with a message.
#[derive(Debug)]
pub enum NoMessage {
    /// It begins with this, which is none.
    Malformed(Malformed, Vec<u8>),
    /// It broke, or ended.
    Broken(io::Error),
}

/// Reads the message, when it has come whole.
///
/// # Errors
/// If there is none.
pub async fn opening(stream: &TcpStream) -> Result<Opening, NoMessage> {
    let mut bytes = Vec::new();
    loop {
        match parse(&bytes) {
            Ok(Some((tlvs, len))) => {
                let rest = bytes.split_off(len);
                return Ok(Opening { tlvs, message: bytes, rest });
            }
            // The longest message has 1020 bytes, so that no peer makes this grow.
            Ok(None) => {}
            Err(malformed) => {
                let len = bytes.get(1).map_or(WORD, |&words| usize::from(words) * WORD);
                bytes.truncate(len);
                return Err(NoMessage::Malformed(malformed, bytes));
            }
        }
        match read_some(stream, &mut bytes).await {
            Ok(0) => return Err(NoMessage::Broken(ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) => return Err(NoMessage::Broken(error)),
        }
    }
}
