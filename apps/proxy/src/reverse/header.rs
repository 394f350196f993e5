//! Headers that contain the client's address: PROXY protocol versions 1 and 2 (`proxy-protocol.txt` of `HAProxy`, §2).

use core::net::{IpAddr, SocketAddr};
use serde::Deserialize;

/// Version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// Version 1: a line of text.
    V1,
    /// Version 2: binary.
    V2,
}

/// First bytes of version 2 (§2.2).
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2 and command `PROXY`: a relayed connection.
const RELAYED: u8 = 0x21;
/// Version 2 and command `LOCAL`: a connection of the proxy itself, without addresses (`AF_UNSPEC`).
const LOCAL: [u8; 2] = [0x20, 0];
/// Address family and transport: TCP over IPv4 and over IPv6.
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

/// Encodes the header for a connection of a client to an address of the proxy; both addresses have the same family.
pub fn emit(version: Version, client: SocketAddr, proxy: SocketAddr) -> Vec<u8> {
    match version {
        Version::V1 => {
            let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (client.ip(), proxy.ip());
            format!("PROXY {family} {from} {to} {} {}\r\n", client.port(), proxy.port()).into_bytes()
        }
        Version::V2 => {
            let mut bytes = SIGNATURE.to_vec();
            let mut addresses = octets(client.ip());
            addresses.extend(octets(proxy.ip()));
            addresses.extend(client.port().to_be_bytes());
            addresses.extend(proxy.port().to_be_bytes());
            bytes.extend([RELAYED, if client.is_ipv4() { TCP4 } else { TCP6 }]);
            bytes.extend((addresses.len() as u16).to_be_bytes());
            bytes.extend(addresses);
            bytes
        }
    }
}

/// Encodes the header for a connection of the proxy itself, such as a health check. It contains no client address.
pub fn emit_local(version: Version) -> Vec<u8> {
    match version {
        Version::V1 => b"PROXY UNKNOWN\r\n".to_vec(),
        Version::V2 => [&SIGNATURE[..], &LOCAL, &[0, 0]].concat(),
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(client: &str, proxy: &str) -> (String, Vec<u8>) {
        let [client, proxy] = [client, proxy].map(|address| address.parse().expect("an address"));
        let text = String::from_utf8(emit(Version::V1, client, proxy)).expect("text");
        (text, emit(Version::V2, client, proxy))
    }

    #[test]
    fn health_checks_have_headers_without_addresses() {
        assert_eq!(emit_local(Version::V1), b"PROXY UNKNOWN\r\n");
        assert_eq!(emit_local(Version::V2), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    }

    /// Examples and layouts of the specification.
    #[test]
    fn headers_match_the_specification() {
        let (text, bytes) = headers("192.168.0.1:56324", "192.168.0.11:443");
        assert_eq!(text, "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n");
        let signature = [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a];
        assert_eq!(bytes[..16], [&signature[..], &[0x21, 0x11, 0, 12]].concat());
        assert_eq!(bytes[16..], [192, 168, 0, 1, 192, 168, 0, 11, 0xdc, 0x04, 1, 0xbb]);
        let (text, bytes) = headers("[2001:db8::1]:1", "[2001:db8::2]:2");
        assert_eq!(text, "PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n");
        assert_eq!((bytes[12..16].to_vec(), bytes.len()), (vec![0x21, 0x21, 0, 36], 52));
        assert_eq!((bytes[31], bytes[47], &bytes[48..]), (1, 2, &[0, 1, 0, 2][..]));
        // §2.1: the maximum length of a version 1 line is 107 bytes.
        let long = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
        assert!(headers(long, long).0.len() <= 107);
    }
}
