//! Errors of connecting as errors of the protocol (RFC 8803 §6.2.8), and these as replies to a client.

use super::ErrorCode;
use crate::socks::wire::Reply;
use core::net::IpAddr;
use std::fmt;
use std::io::{self, ErrorKind};

/// Seconds after which a client may come again when something was amiss for a moment.
const RESOURCE_TIMEOUT_S: u8 = 1;

/// Codes of "destination unreachable" (RFC 792), which stand in the value: of a network, a host, a port, an unknown network, and
/// an unknown host.
const NETWORK: u8 = 0;
const HOST: u8 = 1;
const PORT: u8 = 3;
const UNKNOWN_NETWORK: u8 = 6;

/// The error for a server that was not reached, with its value. The cause is not known: the kernel does not report whether a
/// router or a missing route was the reason, or whether no answer came. Two of the errors make clients pause; they are reserved
/// for faults of the converter, because otherwise one client's bad targets would make others pause.
pub fn of_connecting(error: &io::Error) -> (ErrorCode, u8) {
    let is_one_of = |codes: &[i32]| error.raw_os_error().is_some_and(|code| codes.contains(&code));
    match error.kind() {
        _ if is_one_of(&[libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM]) => {
            (ErrorCode::ResourceExceeded, RESOURCE_TIMEOUT_S)
        }
        _ if is_one_of(&[libc::ENETDOWN]) => (ErrorCode::NetworkFailure, RESOURCE_TIMEOUT_S),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => (ErrorCode::ConnectionReset, 0),
        // A rule of the firewall here.
        ErrorKind::PermissionDenied => (ErrorCode::NotAuthorized, 0),
        ErrorKind::NetworkUnreachable => (ErrorCode::DestinationUnreachable, NETWORK),
        // No address of ours, or none of that family, leads there.
        _ if is_one_of(&[libc::EADDRNOTAVAIL, libc::EAFNOSUPPORT]) => {
            (ErrorCode::DestinationUnreachable, NETWORK)
        }
        _ => (ErrorCode::DestinationUnreachable, HOST),
    }
}

/// The reply to a client that has asked for a server behind a converter.
pub fn reply(code: ErrorCode, value: &[u8], server: IpAddr) -> Reply {
    match (code, value.first().copied().unwrap_or_default()) {
        (ErrorCode::NotAuthorized, _) => Reply::Denied,
        (ErrorCode::MalformedMessage, _) if is_no_server(server) => Reply::Denied,
        (ErrorCode::ConnectionReset, _) | (ErrorCode::DestinationUnreachable, PORT) => Reply::Refused,
        (ErrorCode::DestinationUnreachable, NETWORK | UNKNOWN_NETWORK) => Reply::NetworkUnreachable,
        (ErrorCode::DestinationUnreachable, _) => Reply::HostUnreachable,
        _ => Reply::Failure,
    }
}

/// Whether an address may not be asked for (§6.2.5): multicast, broadcast and loopback.
pub const fn is_no_server(address: IpAddr) -> bool {
    let broadcast = if let IpAddr::V4(v4) = address { v4.is_broadcast() } else { false };
    broadcast || address.is_multicast() || address.is_loopback()
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnsupportedVersion => "another version is spoken there",
            Self::MalformedMessage => "the message is malformed, or for an address that is no server's",
            Self::UnsupportedMessage => "the message has something that it does not know",
            Self::MissingCookie => "a cookie is missing",
            Self::NotAuthorized => "not authorized",
            Self::UnsupportedTcpOption => "it cannot set a TCP option",
            Self::ResourceExceeded => "it has no room",
            Self::NetworkFailure => "its network is down",
            Self::ConnectionReset => "connection refused",
            Self::DestinationUnreachable => "not reached",
            Self::Other(code) => return write!(f, "error {code}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_errors_reach_the_client() {
        let server = "192.0.2.1".parse().unwrap();
        for (errno, code, value, expected) in [
            (libc::ECONNREFUSED, ErrorCode::ConnectionReset, 0, Reply::Refused),
            (libc::ENETUNREACH, ErrorCode::DestinationUnreachable, 0, Reply::NetworkUnreachable),
            (libc::EHOSTUNREACH, ErrorCode::DestinationUnreachable, 1, Reply::HostUnreachable),
            (libc::ETIMEDOUT, ErrorCode::DestinationUnreachable, 1, Reply::HostUnreachable),
            (libc::EPERM, ErrorCode::NotAuthorized, 0, Reply::Denied),
            (libc::EMFILE, ErrorCode::ResourceExceeded, 1, Reply::Failure),
            (libc::EADDRNOTAVAIL, ErrorCode::DestinationUnreachable, 0, Reply::NetworkUnreachable),
            (libc::EAFNOSUPPORT, ErrorCode::DestinationUnreachable, 0, Reply::NetworkUnreachable),
            (libc::EINVAL, ErrorCode::DestinationUnreachable, 1, Reply::HostUnreachable),
            (libc::ENETDOWN, ErrorCode::NetworkFailure, 1, Reply::Failure),
        ] {
            let said = of_connecting(&io::Error::from_raw_os_error(errno));
            assert_eq!(said, (code, value), "{errno}");
            // Zeros at the end of a value are not there when it is read.
            let read: Vec<u8> = Some(said.1).filter(|&value| value > 0).into_iter().collect();
            assert_eq!(reply(said.0, &read, server), expected, "{errno}");
        }
        assert_eq!(reply(ErrorCode::DestinationUnreachable, &[3], server), Reply::Refused);
        assert_eq!(reply(ErrorCode::MalformedMessage, &[], server), Reply::Failure);
        assert_eq!(reply(ErrorCode::MalformedMessage, &[], "127.0.0.1".parse().unwrap()), Reply::Denied);
    }

    #[test]
    fn addresses_that_are_no_servers() {
        for (address, is) in [
            ("127.8.0.1", true),
            ("::1", true),
            ("255.255.255.255", true),
            ("239.1.1.1", true),
            ("ff02::1", true),
            ("10.0.0.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_no_server(address.parse().unwrap()), is, "{address}");
        }
    }
}
