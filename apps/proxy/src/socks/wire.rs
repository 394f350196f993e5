//! Codec of SOCKS 5 messages.
//!
//! A client may send all of its messages and its first data in one flight, so a buffer may contain more than one
//! message. Each parser returns the length of its message, or `None` while the message is incomplete.

use crate::auth::password_proof::{Epoch, Proof};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::fmt;

/// Version of SOCKS.
const VERSION: u8 = 5;
/// Version of the login with name and password.
const LOGIN_VERSION: u8 = 1;
/// Version of the login with a proof.
const PROOF_VERSION: u8 = 2;

/// Code of the command CONNECT (RFC 1928 §4).
pub const CONNECT: u8 = 1;
/// Code of the command that relays datagrams in the stream. RFC 1928 defines the codes 1 to 3 and reserves none for
/// private use; an older proxy answers that it does not support the command.
pub const DATAGRAMS: u8 = 0x83;
/// Code of the command that relays datagrams over several paths.
pub const DATAGRAM_PATHS: u8 = 0x84;

/// Authentication methods (RFC 1928 §3).
pub mod method {
    /// No authentication.
    pub const NONE: u8 = 0;
    /// Name and password.
    pub const PASSWORD: u8 = 2;
    /// Proof of a password: a method that only Anabranch proxies support. RFC 1928 reserves this range of numbers for
    /// private methods.
    pub const PROOF: u8 = 0x82;
    /// The answer of a proxy that accepts no offered method.
    pub const UNACCEPTABLE: u8 = 0xff;
}

/// A parsed message and its length in bytes; `None` if it is incomplete.
pub type Parsed<T> = Result<Option<(T, usize)>, Malformed>;

/// Reason why bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The first byte is not the version of the message; contains the first byte.
    Version(u8),
    /// The address type is unknown.
    AddressType(u8),
    /// The host name is empty or not a valid text.
    Name,
    /// The address is longer than the frame.
    Length,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(4) => f.write_str("uses SOCKS 4 instead of SOCKS 5"),
            Self::Version(letter @ b'A'..=b'Z') => {
                write!(f, "starts with \"{}\" like HTTP; SOCKS 5 is required", char::from(*letter))
            }
            Self::Version(byte) => {
                write!(f, "starts a message with {byte}, which is not a version of SOCKS 5")
            }
            Self::AddressType(kind) => write!(f, "sends an address of the unknown type {kind}"),
            Self::Name => f.write_str("sends an invalid host name"),
            Self::Length => f.write_str("sends a frame that is shorter than its address"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Target of a client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address.
    Address(SocketAddr),
    /// A name and a port. The proxy looks up the name.
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
    /// Connect to the target.
    Connect,
    /// Accept a connection for the client.
    Bind,
    /// Relay UDP datagrams.
    UdpAssociate,
    /// Relay datagrams in this stream, as frames: a command that only Anabranch proxies support.
    Datagrams,
    /// Relay datagrams over UDP on several paths, or in this stream while no path answers. The address in the request is a
    /// random number.
    DatagramPaths,
    /// A command that neither RFC 1928 nor this program defines.
    Other(u8),
}

/// The answer to a request (RFC 1928 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reply {
    /// The connection is established.
    Succeeded = 0,
    /// General failure of the proxy.
    Failure = 1,
    /// The proxy's rules forbid the connection.
    Denied = 2,
    /// There is no route to the target's network.
    NetworkUnreachable = 3,
    /// The host does not answer, or its name has no address.
    HostUnreachable = 4,
    /// The target refused the connection.
    Refused = 5,
    /// No answer before `connect_timeout`.
    TimedOut = 6,
    /// The proxy does not support the command.
    CommandNotSupported = 7,
    /// The proxy does not support the address type.
    AddressTypeNotSupported = 8,
}

impl Reply {
    /// Returns the reply with this number, or the general failure if RFC 1928 does not define the number.
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
            Self::Failure => "general failure",
            Self::Denied => "not permitted (private or denied address)",
            Self::NetworkUnreachable => "network unreachable",
            Self::HostUnreachable => "host unreachable",
            Self::Refused => "connection refused",
            Self::TimedOut => "no answer before connect_timeout",
            Self::CommandNotSupported => "command not supported",
            Self::AddressTypeNotSupported => "address type not supported",
        })
    }
}

/// Reads the fields of a message; returns `None` if a field is incomplete.
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

    /// Reads a field that starts with a byte that contains its length.
    fn length_prefixed(&mut self) -> Option<&'a [u8]> {
        let len = self.byte()?;
        self.take(len.into())
    }
}

/// Checks that the first byte, if there is one, is the expected version.
fn check_version(bytes: &[u8], expected: u8) -> Result<(), Malformed> {
    match bytes.first() {
        Some(&byte) if byte != expected => Err(Malformed::Version(byte)),
        _ => Ok(()),
    }
}

/// Parses a client's greeting, which offers authentication methods (RFC 1928 §3).
///
/// ```text
/// | version 5 | number of methods | methods |
/// ```
///
/// # Errors
/// If the bytes are from another protocol.
pub fn greeting(bytes: &[u8]) -> Parsed<Vec<u8>> {
    check_version(bytes, VERSION)?;
    let mut reader = Reader { bytes, at: 1 };
    Ok(reader.length_prefixed().map(|methods| (methods.to_vec(), reader.at)))
}

/// Parses a client's name and password (RFC 1929 §2).
///
/// ```text
/// | version 1 | length | name | length | password |
/// ```
///
/// # Errors
/// If the message has another version.
pub fn login(bytes: &[u8]) -> Parsed<(Vec<u8>, Vec<u8>)> {
    check_version(bytes, LOGIN_VERSION)?;
    let mut reader = Reader { bytes, at: 1 };
    let name_and_password =
        reader.length_prefixed().and_then(|name| Some((name.to_vec(), reader.length_prefixed()?.to_vec())));
    Ok(name_and_password.map(|login| (login, reader.at)))
}

/// Parses a client's proof of a password. The client's request follows immediately; it does not wait for the reply to
/// the proof.
///
/// ```text
/// | version 2 | length | name | time, 8 bytes | nonce, 16 | epoch, 16 | code, 32 |
/// ```
///
/// # Errors
/// If the message has another version.
pub fn proof(bytes: &[u8]) -> Parsed<Proof> {
    check_version(bytes, PROOF_VERSION)?;
    let mut reader = Reader { bytes, at: 1 };
    let mut proof = || {
        let name = reader.length_prefixed()?.to_vec();
        let time_s = u64::from_be_bytes(reader.array()?);
        let (nonce, epoch, code) = (reader.array()?, reader.array()?, reader.array()?);
        Some((Proof { name, time_s, nonce, epoch, code }, reader.at))
    };
    Ok(proof())
}

/// Encodes a proof. The name in it must have at most 255 bytes.
pub fn emit_proof(proof: &Proof, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&[PROOF_VERSION, proof.name.len() as u8]);
    bytes.extend_from_slice(&proof.name);
    bytes.extend_from_slice(&proof.time_s.to_be_bytes());
    bytes.extend_from_slice(&proof.nonce);
    bytes.extend_from_slice(&proof.epoch);
    bytes.extend_from_slice(&proof.code);
}

/// A proxy's reply to a proof of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginReply {
    /// The proof is accepted.
    Accepted,
    /// The proof is invalid.
    Rejected,
    /// The client must repeat the proof for this epoch over another connection. The proxy ignores further bytes of this
    /// connection.
    OtherEpoch(Epoch),
    /// The proof is valid, but the clocks differ too much.
    ClockDiffers,
    /// The proof was not checked, because too many other logins were being checked.
    Busy,
}

/// Parses a proxy's reply to a proof of a password.
///
/// ```text
/// | version 2 | 0 right, 1 wrong, 2 again, 3 clock, 4 busy | again: epoch, 16 bytes |
/// ```
///
/// # Errors
/// If the message has another version.
pub fn proof_reply(bytes: &[u8]) -> Parsed<LoginReply> {
    check_version(bytes, PROOF_VERSION)?;
    let mut reader = Reader { bytes, at: 1 };
    let mut verdict = || match reader.byte()? {
        0 => Some(LoginReply::Accepted),
        2 => Some(LoginReply::OtherEpoch(reader.array()?)),
        3 => Some(LoginReply::ClockDiffers),
        4 => Some(LoginReply::Busy),
        _ => Some(LoginReply::Rejected),
    };
    Ok(verdict().map(|verdict| (verdict, reader.at)))
}

/// Encodes the reply to a proof of a password.
pub fn emit_proof_reply(verdict: LoginReply) -> Vec<u8> {
    let (code, epoch) = match &verdict {
        LoginReply::Accepted => (0, None),
        LoginReply::Rejected => (1, None),
        LoginReply::OtherEpoch(epoch) => (2, Some(epoch)),
        LoginReply::ClockDiffers => (3, None),
        LoginReply::Busy => (4, None),
    };
    let mut bytes = vec![PROOF_VERSION, code];
    bytes.extend(epoch.into_iter().flatten());
    bytes
}

/// Encodes the greeting of a client that offers one method.
pub const fn emit_greeting(method: u8) -> [u8; 3] {
    [VERSION, 1, method]
}

/// Parses the authentication method that the proxy has selected.
///
/// # Errors
/// If the bytes are from another protocol.
pub fn selected_method(bytes: &[u8]) -> Parsed<u8> {
    check_version(bytes, VERSION)?;
    Ok(bytes.get(1).map(|&method| (method, 2)))
}

/// Parses a client's request (RFC 1928 §4).
///
/// ```text
/// | version 5 | command | 0 | type of address | address | port |
/// ```
///
/// # Errors
/// If the message has another version, or the address is invalid.
pub fn request(bytes: &[u8]) -> Parsed<(Command, Target)> {
    check_version(bytes, VERSION)?;
    let mut reader = Reader { bytes, at: 1 };
    let Some([command, _reserved]) = reader.array() else { return Ok(None) };
    let command = match command {
        1 => Command::Connect,
        2 => Command::Bind,
        3 => Command::UdpAssociate,
        DATAGRAMS => Command::Datagrams,
        DATAGRAM_PATHS => Command::DatagramPaths,
        other => Command::Other(other),
    };
    Ok(target(&mut reader)?.map(|target| ((command, target), reader.at)))
}

/// Parses a proxy's reply to a request: a code, and the local address of the proxy's connection to the server.
///
/// # Errors
/// If the message has another version, or the address is invalid.
pub fn reply(bytes: &[u8]) -> Parsed<(u8, Target)> {
    check_version(bytes, VERSION)?;
    let mut reader = Reader { bytes, at: 1 };
    let Some([code, _reserved]) = reader.array() else { return Ok(None) };
    Ok(target(&mut reader)?.map(|target| ((code, target), reader.at)))
}

/// Parses the type of an address, the address and the port; returns the length as well.
///
/// # Errors
/// If the address is invalid.
pub fn target_of(bytes: &[u8]) -> Parsed<Target> {
    let mut reader = Reader { bytes, at: 0 };
    Ok(target(&mut reader)?.map(|target| (target, reader.at)))
}

/// Parses the type of an address, the address and the port (RFC 1928 §5).
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

/// Parses a host name and a port. A name that is the text of an IP address becomes this address, as in other resolvers.
fn name(reader: &mut Reader<'_>) -> Result<Option<Target>, Malformed> {
    let Some(name) = reader.length_prefixed() else { return Ok(None) };
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

/// Parses a datagram of a SOCKS client (RFC 1928 §7); returns the server, and the position of the data. Returns `None`
/// for a fragment, which this proxy does not reassemble, and for a malformed datagram.
///
/// ```text
/// | 0, 2 bytes | fragment | type of address | address | port | data |
/// ```
pub fn datagram(bytes: &[u8]) -> Option<(Target, usize)> {
    let mut reader = Reader { bytes, at: 0 };
    let [0, 0, 0] = reader.array()? else { return None };
    Some((target(&mut reader).ok()??, reader.at))
}

/// Encodes a datagram for a SOCKS client. A name in the target must have at most 255 bytes.
pub fn emit_datagram(server: &Target, data: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&[0, 0, 0]);
    emit_target(server, bytes);
    bytes.extend_from_slice(data);
}

/// Parses a datagram in a stream between two proxies; returns the server, and the position of the data.
///
/// ```text
/// | length of the rest, 2 bytes | type of address | address | port | data |
/// ```
///
/// # Errors
/// If the address is invalid, or longer than the frame.
pub fn frame(bytes: &[u8]) -> Result<Option<(Target, core::ops::Range<usize>)>, Malformed> {
    let Some((len, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let Some(rest) = rest.get(..u16::from_be_bytes(*len).into()) else { return Ok(None) };
    let mut reader = Reader { bytes: rest, at: 0 };
    let server = target(&mut reader)?.ok_or(Malformed::Length)?;
    Ok(Some((server, len.len() + reader.at..len.len() + rest.len())))
}

/// Encodes a datagram in a stream. A frame that would be longer than its length field permits is dropped: UDP over
/// IPv4 and IPv6 has no datagram of that length. A name in the target must have at most 255 bytes.
pub fn emit_frame(server: &Target, data: &[u8], bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0, 0]);
    emit_target(server, bytes);
    match u16::try_from(bytes.len() - start - 2 + data.len()) {
        Ok(len) => {
            bytes[start..start + 2].copy_from_slice(&len.to_be_bytes());
            bytes.extend_from_slice(data);
        }
        Err(_) => bytes.truncate(start),
    }
}

/// Encodes the method that the proxy selects.
pub const fn emit_selected_method(method: u8) -> [u8; 2] {
    [VERSION, method]
}

/// Encodes the result of a login with name and password.
pub const fn emit_login_result(is_correct: bool) -> [u8; 2] {
    [LOGIN_VERSION, !is_correct as u8]
}

/// Encodes the reply to a request.
pub fn emit_reply(reply: Reply, bound: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![VERSION, reply as u8, 0];
    emit_target(&Target::Address(bound), &mut bytes);
    bytes
}

/// Encodes a request. A name in it must have at most 255 bytes.
pub fn emit_request(command: u8, target: &Target, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&[VERSION, command, 0]);
    emit_target(target, bytes);
}

/// Encodes the type of an address, the address and the port. A name must have at most 255 bytes.
pub fn emit_target(target: &Target, bytes: &mut Vec<u8>) {
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

    /// The expected layouts are those of RFC 1928 and RFC 1929.
    #[test]
    fn messages_have_the_rfc_layout() {
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
        assert_eq!(
            (emit_selected_method(method::PASSWORD), emit_login_result(true), emit_login_result(false)),
            ([5, 2], [1, 0], [1, 1])
        );
    }

    #[test]
    fn datagram_has_the_rfc_layout() {
        let server = Target::Address("192.0.2.1:53".parse().unwrap());
        let bytes = [0, 0, 0, 1, 192, 0, 2, 1, 0, 53, 7, 8];
        assert_eq!(datagram(&bytes), Some((server.clone(), 10)));
        let mut emitted = Vec::new();
        emit_datagram(&server, &[7, 8], &mut emitted);
        assert_eq!(emitted, bytes);
        let fragment = [0, 0, 1, 1, 192, 0, 2, 1, 0, 53, 7, 8];
        for wrong in [&fragment[..], &bytes[..9], &[0, 0], &[0, 0, 0, 9, 1, 1, 1, 1, 0, 53]] {
            assert_eq!(datagram(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn frame_has_its_length_first() {
        let server = Target::Address("192.0.2.1:53".parse().unwrap());
        let bytes = [0, 9, 1, 192, 0, 2, 1, 0, 53, 7, 8, 0];
        assert_eq!(frame(&bytes), Ok(Some((server.clone(), 9..11))));
        assert_eq!(frame(&bytes[..10]), Ok(None));
        assert_eq!(frame(&[0, 3, 1, 192, 0]), Err(Malformed::Length));
        assert_eq!(frame(&[0, 1, 2]), Err(Malformed::AddressType(2)));
        let mut emitted = Vec::new();
        emit_frame(&server, &[7, 8], &mut emitted);
        assert_eq!(emitted, bytes[..11]);
        emit_frame(&server, &vec![7; 65_529], &mut emitted);
        assert_eq!(emitted, bytes[..11]);
        emit_frame(&server, &vec![7; 65_528], &mut emitted);
        assert_eq!(frame(&emitted[11..]), Ok(Some((server, 9..65_537))));
    }

    #[test]
    fn address_as_name_is_parsed_as_address() {
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
