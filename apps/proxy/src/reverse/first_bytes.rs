//! First bytes of a client: a PROXY header, and the host name that the client requests by TLS or by HTTP.

use super::header::{self, Addresses};
use super::malformed::{Malformed, Parsed};
use super::{http_host, server_name};
use crate::stream::read_some;
use std::fmt;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Maximum length of a request, which ends with the `ClientHello` or with the head of the HTTP request.
const MAX_REQUEST_BYTES: usize = 16 << 10;
/// Maximum time that a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason why a client is refused before it is relayed.
#[derive(Debug)]
pub enum Refusal {
    /// The client's first bytes are invalid.
    Malformed(Malformed),
    /// The request is longer than [`MAX_REQUEST_BYTES`].
    TooLong,
    /// The request was incomplete after [`REQUEST_TIMEOUT`].
    TooSlow,
    /// The connection failed.
    Broken(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(Malformed(reason)) => write!(f, "sent {reason}"),
            Self::TooLong => write!(f, "sent more than {MAX_REQUEST_BYTES} bytes without a host name"),
            Self::TooSlow => f.write_str("sent no complete PROXY header, ClientHello or HTTP head in time"),
            Self::Broken(error) => write!(f, "disconnected before its request was complete: {error}"),
        }
    }
}

/// Reads from a client until the requested host name is known, and appends all bytes read to `bytes`. Returns `None` if
/// the client requests no host name, or if its stream ends before that is known.
///
/// # Errors
/// The reason why the caller must reset the client.
pub async fn read_host(stream: &TcpStream, bytes: &mut Vec<u8>) -> Result<Option<String>, Refusal> {
    let reading = async {
        loop {
            match requested_host(bytes).map_err(Refusal::Malformed)? {
                Some((host, len)) if len <= MAX_REQUEST_BYTES => return Ok(host),
                None if bytes.len() < MAX_REQUEST_BYTES => {}
                _ => return Err(Refusal::TooLong),
            }
            if read_some(stream, bytes).await.map_err(Refusal::Broken)? == 0 {
                return Ok(None);
            }
        }
    };
    timeout(REQUEST_TIMEOUT, reading).await.unwrap_or(Err(Refusal::TooSlow))
}

/// Reads the PROXY header at the beginning of a stream. Appends to `bytes` those bytes after the header that were read
/// with it. Returns `None` if the header contains no addresses, because the other proxy opened the connection for
/// itself.
///
/// # Errors
/// The reason why the caller must reset the client.
pub async fn read_header(
    stream: &TcpStream,
    max_wait: Duration,
    bytes: &mut Vec<u8>,
) -> Result<Option<Addresses>, Refusal> {
    let reading = async {
        loop {
            if let Some((addresses, len)) = header::parse(bytes).map_err(Refusal::Malformed)? {
                bytes.drain(..len);
                return Ok(addresses);
            }
            if read_some(stream, bytes).await.map_err(Refusal::Broken)? == 0 {
                return Err(Refusal::Broken(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    };
    timeout(max_wait, reading).await.unwrap_or(Err(Refusal::TooSlow))
}

/// Parses the first bytes as TLS or HTTP. They are unambiguous, since no HTTP request begins with the first byte of a
/// TLS handshake.
fn requested_host(bytes: &[u8]) -> Parsed<Option<String>> {
    match bytes.first() {
        None => Ok(None),
        Some(&server_name::HANDSHAKE) => server_name::server_name(bytes),
        Some(_) => http_host::http_host(bytes),
    }
}
