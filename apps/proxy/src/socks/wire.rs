//! Codec of the messages of SOCKS 5.
//!
//! A client may send all of its messages and its first data in one flight, so a buffer may contain more than one message. A parser
//! returns the length of its message, or that the message is not complete.

use crate::password_proof::{Epoch, Proof};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::fmt;

/// Version of the protocol.
const VERSION: u8 = 5;
/// Version of log-in by name and password.
const LOGIN_VERSION: u8 = 1;
/// Version of log-in by proof.
const PROOF_VERSION: u8 = 2;

/// Methods of log-in (RFC 1928 §3).
pub mod method {
    /// None.
    pub const NONE: u8 = 0;
    /// Name and password.
    pub const PASSWORD: u8 = 2;
    /// Proof of a password, of our own: one of the numbers for private methods.
    pub const PROOF: u8 = 0x82;
    /// None of those that the client offers.
    pub const UNACCEPTABLE: u8 = 0xff;
}

/// A message that was parsed, and its length in bytes; nothing if it is not complete.
pub type Parsed<T> = Result<Option<(T, usize)>, Malformed>;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The first byte is of no version of the message; with that byte.
    Version(u8),
    /// No address is of this type.
    AddressType(u8),
    /// The name of a host is empty or no text.
    Name,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(4) => f.write_str("speaks SOCKS 4, this is SOCKS 5"),
            Self::Version(letter @ b'A'..=b'Z') => {
                write!(f, "begins with \"{}\" as HTTP does, this is SOCKS 5", char::from(*letter))
            }
            Self::Version(byte) => write!(f, "begins a message with {byte}, which is no version of SOCKS 5"),
            Self::AddressType(kind) => write!(f, "gives an address of type {kind}, which there is not"),
            Self::Name => f.write_str("gives a name that no host has"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Where a client wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address.
    Address(SocketAddr),
    /// A name, to be resolved at the proxy, and a port.
    Name(String, u16),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A connection.
    Connect,
    /// To be connected to.
    Bind,
    /// Datagrams.
    UdpAssociate,
    /// Something that RFC 1928 does not have.
    Other(u8),
}

/// The answer to a request (RFC 1928 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reply {
    /// Done.
    Succeeded = 0,
    /// Something is wrong with the proxy.
    Failure = 1,
    /// The proxy's rules forbid it.
    Denied = 2,
    /// No network leads there.
    NetworkUnreachable = 3,
    /// The host is not there, or has no address.
    HostUnreachable = 4,
    /// The connection was refused.
    Refused = 5,
    /// No answer before `connect_timeout`.
    TimedOut = 6,
    /// The proxy does not do that.
    CommandNotSupported = 7,
    /// The proxy has no such addresses.
    AddressTypeNotSupported = 8,
}

impl Reply {
    /// From its number; numbers outside RFC 1928 are a failure.
    pub const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Succeeded,
            2 => Self::Denied,
            3 => Self::NetworkUnreachable,
            4 => Self::HostUnreachable,
            5 => Self::Refused,
            6 => Self::TimedOut,
            7 => Self::CommandNotSupported,
            8 => Self::AddressTypeNotSupported,
            _ => Self::Failure,
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Succeeded => "connected",
            Self::Failure => "something went wrong",
            Self::Denied => "private or denied",
            Self::NetworkUnreachable => "no network leads there",
            Self::HostUnreachable => "no such host",
            Self::Refused => "connection refused",
            Self::TimedOut => "no answer before connect_timeout",
            Self::CommandNotSupported => "not done here",
            Self::AddressTypeNotSupported => "no such addresses here",
        })
    }
}

/// Takes parts of a message that may end too early.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let part = self.bytes.get(self.at..self.at + len)?;
        self.at += len;
        Some(part)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// Bytes with their number before them.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let len = self.byte()?;
        self.take(len.into())
    }
}

/// The versions that a message may begin with.
fn version(bytes: &[u8], expected: u8) -> Result<(), Malformed> {
    match bytes.first() {
        Some(&byte) if byte != expected => Err(Malformed::Version(byte)),
        _ => Ok(()),
    }
}

/// A client's greeting: the methods of log-in that it offers (RFC 1928 §3).
///
/// ```text
/// | version 5 | number of methods | methods |
/// ```
///
/// # Errors
/// If it is of another protocol.
pub fn greeting(bytes: &[u8]) -> Parsed<Vec<u8>> {
    version(bytes, VERSION)?;
    let mut reader = Reader { bytes, at: 1 };
    Ok(reader.counted().map(|methods| (methods.to_vec(), reader.at)))
}

/// A client's name and password (RFC 1929 §2).
///
/// ```text
/// | version 1 | length | name | length | password |
/// ```
///
/// # Errors
/// If it is of another version.
pub fn login(bytes: &[u8]) -> Parsed<(Vec<u8>, Vec<u8>)> {
    version(bytes, LOGIN_VERSION)?;
    let mut reader = Reader { bytes, at: 1 };
    let name_and_password =
        reader.counted().and_then(|name| Some((name.to_vec(), reader.counted()?.to_vec())));
    Ok(name_and_password.map(|login| (login, reader.at)))
}

/// A client's proof of a password. Its request follows, without waiting for the verdict.
///
/// ```text
/// | version 2 | length | name | time, 8 bytes | nonce, 16 | epoch, 16 | code, 32 |
/// ```
///
/// # Errors
/// If it is of another version.
pub fn proof(bytes: &[u8]) -> Parsed<Proof> {
    version(bytes, PROOF_VERSION)?;
    let mut reader = Reader { bytes, at: 1 };
    let mut proof = || {
        let name = reader.counted()?.to_vec();
        let time_s = u64::from_be_bytes(reader.array()?);
        let (nonce, epoch, code) = (reader.array()?, reader.array()?, reader.array()?);
        Some((Proof { name, time_s, nonce, epoch, code }, reader.at))
    };
    Ok(proof())
}

/// Writes a proof. Its name has 255 bytes at most.
pub fn emit_proof(proof: &Proof, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&[PROOF_VERSION, proof.name.len() as u8]);
    bytes.extend_from_slice(&proof.name);
    bytes.extend_from_slice(&proof.time_s.to_be_bytes());
    bytes.extend_from_slice(&proof.nonce);
    bytes.extend_from_slice(&proof.epoch);
    bytes.extend_from_slice(&proof.code);
}

/// A proxy's verdict on a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Right,
    /// It does not.
    Wrong,
    /// It is to be made again for the proxy's epoch, over another connection; bytes that follow here are ignored.
    Again(Epoch),
    /// It holds, and the clocks differ by too much.
    Clock,
    /// It may hold, and is not looked at: too many others came.
    Busy,
}

/// A proxy's verdict on a proof.
///
/// ```text
/// | version 2 | 0 right, 1 wrong, 2 again, 3 clock, 4 busy | again: epoch, 16 bytes |
/// ```
///
/// # Errors
/// If it is of another version.
pub fn verdict_on_proof(bytes: &[u8]) -> Parsed<Verdict> {
    version(bytes, PROOF_VERSION)?;
    let mut reader = Reader { bytes, at: 1 };
    let mut verdict = || match reader.byte()? {
        0 => Some(Verdict::Right),
        2 => Some(Verdict::Again(reader.array()?)),
        3 => Some(Verdict::Clock),
        4 => Some(Verdict::Busy),
        _ => Some(Verdict::Wrong),
    };
    Ok(verdict().map(|verdict| (verdict, reader.at)))
}

/// Writes what a proxy says of a proof.
pub fn emit_verdict_on_proof(verdict: Verdict) -> Vec<u8> {
    let (code, epoch) = match &verdict {
        Verdict::Right => (0, None),
        Verdict::Wrong => (1, None),
        Verdict::Again(epoch) => (2, Some(epoch)),
        Verdict::Clock => (3, None),
        Verdict::Busy => (4, None),
    };
    let mut bytes = vec![PROOF_VERSION, code];
    bytes.extend(epoch.into_iter().flatten());
    bytes
}

/// Writes the greeting of a client that offers one method.
pub const fn emit_greeting(method: u8) -> [u8; 3] {
    [VERSION, 1, method]
}

/// The proxy's choice of a method.
///
/// # Errors
/// If it is of another protocol.
pub fn chosen(bytes: &[u8]) -> Parsed<u8> {
    version(bytes, VERSION)?;
    Ok(bytes.get(1).map(|&method| (method, 2)))
}

/// A client's request (RFC 1928 §4).
///
/// ```text
/// | version 5 | command | 0 | type of address | address | port |
/// ```
///
/// # Errors
/// If it is of another version, or its address is none.
pub fn request(bytes: &[u8]) -> Parsed<(Command, Target)> {
    version(bytes, VERSION)?;
    let mut reader = Reader { bytes, at: 1 };
    let Some([command, _reserved]) = reader.array() else { return Ok(None) };
    let command = match command {
        1 => Command::Connect,
        2 => Command::Bind,
        3 => Command::UdpAssociate,
        other => Command::Other(other),
    };
    Ok(target(&mut reader)?.map(|target| ((command, target), reader.at)))
}

/// A proxy's answer to a request, with the address that it is bound to.
///
/// # Errors
/// If it is of another version, or its address is none.
pub fn reply(bytes: &[u8]) -> Parsed<(u8, Target)> {
    version(bytes, VERSION)?;
    let mut reader = Reader { bytes, at: 1 };
    let Some([code, _reserved]) = reader.array() else { return Ok(None) };
    Ok(target(&mut reader)?.map(|target| ((code, target), reader.at)))
}

/// Type of address, address and port (RFC 1928 §5).
fn target(reader: &mut Reader<'_>) -> Result<Option<Target>, Malformed> {
    let Some(kind) = reader.byte() else { return Ok(None) };
    let address: Option<IpAddr> = match kind {
        1 => reader.array::<4>().map(|bytes| Ipv4Addr::from(bytes).into()),
        4 => reader.array::<16>().map(|bytes| Ipv6Addr::from(bytes).into()),
        3 => return name(reader),
        other => return Err(Malformed::AddressType(other)),
    };
    let Some((address, port)) = address.zip(reader.array()) else { return Ok(None) };
    Ok(Some(Target::Address(SocketAddr::new(address, u16::from_be_bytes(port)))))
}

/// The name of a host. One that is written as an address is that address: resolvers take it so, too.
fn name(reader: &mut Reader<'_>) -> Result<Option<Target>, Malformed> {
    let Some(name) = reader.counted() else { return Ok(None) };
    let name = std::str::from_utf8(name).map_err(|_| Malformed::Name)?;
    if name.is_empty() || name.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return Err(Malformed::Name);
    }
    let Some(port) = reader.array().map(u16::from_be_bytes) else { return Ok(None) };
    let address = name.parse::<IpAddr>();
    Ok(Some(address.map_or_else(
        |_| Target::Name(name.to_owned(), port),
        |address| Target::Address(SocketAddr::new(address, port)),
    )))
}

/// Writes the proxy's choice of a method.
pub const fn choice(method: u8) -> [u8; 2] {
    [VERSION, method]
}

/// Writes whether name and password are right.
pub const fn verdict(right: bool) -> [u8; 2] {
    [LOGIN_VERSION, !right as u8]
}

/// Writes the answer to a request.
pub fn emit_reply(reply: Reply, bound: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![VERSION, reply as u8, 0];
    emit_target(&Target::Address(bound), &mut bytes);
    bytes
}

/// Writes a request. A name has 255 bytes at most.
pub fn emit_request(command: u8, target: &Target, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&[VERSION, command, 0]);
    emit_target(target, bytes);
}

fn emit_target(target: &Target, bytes: &mut Vec<u8>) {
    let port = match target {
        Target::Address(address) => {
            match address.ip() {
                IpAddr::V4(v4) => {
                    bytes.push(1);
                    bytes.extend_from_slice(&v4.octets());
                }
                IpAddr::V6(v6) => {
                    bytes.push(4);
                    bytes.extend_from_slice(&v6.octets());
                }
            }
            address.port()
        }
        Target::Name(name, port) => {
            bytes.extend_from_slice(&[3, name.len() as u8]);
            bytes.extend_from_slice(name.as_bytes());
            *port
        }
    };
    bytes.extend_from_slice(&port.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layouts of RFC 1928 and RFC 1929.
    #[test]
    fn messages_of_the_rfcs() {
        assert_eq!(greeting(&[5, 2, 0, 2]), Ok(Some((vec![0, 2], 4))));
        assert_eq!(
            login(b"\x01\x05alice\x06secret"),
            Ok(Some(((b"alice".to_vec(), b"secret".to_vec()), 14)))
        );
        let connect = |target| Ok(Some(((Command::Connect, target), 0)));
        let without_length = |bytes: &[u8]| {
            request(bytes).map(|parsed| {
                parsed.map(|(request, len)| {
                    assert_eq!(len, bytes.len());
                    (request, 0)
                })
            })
        };
        let v4 = Target::Address("192.0.2.1:80".parse().unwrap());
        assert_eq!(without_length(&[5, 1, 0, 1, 192, 0, 2, 1, 0, 80]), connect(v4));
        let v6 = Target::Address("[2001:db8::1]:443".parse().unwrap());
        let bytes = [5, 1, 0, 4, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 187];
        assert_eq!(without_length(&bytes), connect(v6));
        let name = Target::Name("example.org".to_owned(), 80);
        assert_eq!(without_length(b"\x05\x01\x00\x03\x0bexample.org\x00\x50"), connect(name));
        assert_eq!(
            emit_reply(Reply::Refused, "192.0.2.1:80".parse().unwrap()),
            [5, 5, 0, 1, 192, 0, 2, 1, 0, 80]
        );
        assert_eq!((choice(method::PASSWORD), verdict(true), verdict(false)), ([5, 2], [1, 0], [1, 1]));
    }

    #[test]
    fn an_address_written_as_a_name_is_that_address() {
        let parsed = request(b"\x05\x01\x00\x03\x09127.0.0.1\x00\x50").unwrap().unwrap().0.1;
        assert_eq!(parsed, Target::Address("127.0.0.1:80".parse().unwrap()));
    }

    #[test]
    fn malformed_message_is_reported() {
        assert_eq!(greeting(b"GET / HTTP/1.1"), Err(Malformed::Version(b'G')));
        assert!(Malformed::Version(b'G').to_string().contains("HTTP"));
        assert_eq!(greeting(&[4, 1]), Err(Malformed::Version(4)));
        assert_eq!(login(&[5, 1]), Err(Malformed::Version(5)));
        assert_eq!(request(&[5, 1, 0, 2, 0, 0]), Err(Malformed::AddressType(2)));
        for name in [&b"\x00"[..], b"\x01\xff", b"\x03a b", b"\x02a\x00"] {
            let bytes = [b"\x05\x01\x00\x03", name, b"\x00\x50"].concat();
            assert_eq!(request(&bytes), Err(Malformed::Name), "{name:?}");
        }
    }
}
