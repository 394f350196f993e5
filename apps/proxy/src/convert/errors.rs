//! Converts connection errors to errors of the Convert protocol (RFC 8803 §6.2.8), and errors of the protocol to SOCKS
//! replies.

use super::ErrorCode;
use crate::socks::wire::Reply;
use core::net::IpAddr;
use std::fmt;
use std::io::{self, ErrorKind};

/// Seconds after which a client may retry after a temporary lack of resources.
const RESOURCE_TIMEOUT_S: u8 = 1;

/// Codes of the ICMP message "destination unreachable" (RFC 792). The value of the protocol's error contains one of
/// them.
const NETWORK: u8 = 0;
const HOST: u8 = 1;
const PORT: u8 = 3;
const UNKNOWN_NETWORK: u8 = 6;

/// Converts the error of a connection to a server to an error code and its value. The value is approximate: the kernel
/// does not report whether a router or a missing route was the cause, or whether there was no answer.
/// `ResourceExceeded` and `NetworkFailure` make clients pause, so they are used only for faults of the converter;
/// otherwise the unreachable targets of one client would make others pause.
pub fn from_connect_error(error: &io::Error) -> (ErrorCode, u8) {
    let is_one_of = |codes: &[i32]| error.raw_os_error().is_some_and(|code| codes.contains(&code));
    match error.kind() {
        _ if is_one_of(&[libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM]) => {
            (ErrorCode::ResourceExceeded, RESOURCE_TIMEOUT_S)
        }
        _ if is_one_of(&[libc::ENETDOWN]) => (ErrorCode::NetworkFailure, RESOURCE_TIMEOUT_S),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => (ErrorCode::ConnectionReset, 0),
        // A firewall rule on this machine refused the connection.
        ErrorKind::PermissionDenied => (ErrorCode::NotAuthorized, 0),
        ErrorKind::NetworkUnreachable => (ErrorCode::DestinationUnreachable, NETWORK),
        // This machine has no address of the server's address family, or none with a route to the server.
        _ if is_one_of(&[libc::EADDRNOTAVAIL, libc::EAFNOSUPPORT]) => {
            (ErrorCode::DestinationUnreachable, NETWORK)
        }
        _ => (ErrorCode::DestinationUnreachable, HOST),
    }
}

/// Converts an error of the upstream converter to a SOCKS reply.
pub fn reply(code: ErrorCode, value: &[u8], server: IpAddr) -> Reply {
    match (code, value.first().copied().unwrap_or_default()) {
        (ErrorCode::NotAuthorized, _) => Reply::Denied,
        (ErrorCode::MalformedMessage, _) if is_forbidden_server(server) => Reply::Denied,
        (ErrorCode::ConnectionReset, _) | (ErrorCode::DestinationUnreachable, PORT) => Reply::Refused,
        (ErrorCode::DestinationUnreachable, NETWORK | UNKNOWN_NETWORK) => Reply::NetworkUnreachable,
        (ErrorCode::DestinationUnreachable, _) => Reply::HostUnreachable,
        _ => Reply::Failure,
    }
}

/// True for addresses that a client must not request (§6.2.5): multicast, broadcast and loopback.
pub const fn is_forbidden_server(address: IpAddr) -> bool {
    let broadcast = if let IpAddr::V4(v4) = address { v4.is_broadcast() } else { false };
    broadcast || address.is_multicast() || address.is_loopback()
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnsupportedVersion => "the converter uses another protocol version",
            Self::MalformedMessage => {
                "the message is malformed, or names an address that is not allowed as a server"
            }
            Self::UnsupportedMessage => "the message contains an unknown element",
            Self::MissingCookie => "a cookie is missing",
            Self::NotAuthorized => "not authorized",
            Self::UnsupportedTcpOption => "the converter cannot set a requested TCP option",
            Self::ResourceExceeded => "the converter has no resources left",
            Self::NetworkFailure => "the converter's network is down",
            Self::ConnectionReset => "connection refused",
            Self::DestinationUnreachable => "destination unreachable",
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
            let converted = from_connect_error(&io::Error::from_raw_os_error(errno));
            assert_eq!(converted, (code, value), "{errno}");
            // The parser removes zeros at the end of a value.
            let read: Vec<u8> = Some(converted.1).filter(|&value| value > 0).into_iter().collect();
            assert_eq!(reply(converted.0, &read, server), expected, "{errno}");
        }
        assert_eq!(reply(ErrorCode::DestinationUnreachable, &[3], server), Reply::Refused);
        assert_eq!(reply(ErrorCode::MalformedMessage, &[], server), Reply::Failure);
        assert_eq!(reply(ErrorCode::MalformedMessage, &[], "127.0.0.1".parse().unwrap()), Reply::Denied);
    }

    #[test]
    fn special_addresses_are_forbidden_servers() {
        for (address, forbidden) in [
            ("127.8.0.1", true),
            ("::1", true),
            ("255.255.255.255", true),
            ("239.1.1.1", true),
            ("ff02::1", true),
            ("10.0.0.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_forbidden_server(address.parse().unwrap()), forbidden, "{address}");
        }
    }
}
