//! Headers that contain the client's address: PROXY protocol versions 1 and 2 (`proxy-protocol.txt` of `HAProxy`, §2).

use super::malformed::{Malformed, Parsed};
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
/// Version 2 and command `LOCAL`: a connection that the proxy opens for itself, and no addresses (`AF_UNSPEC`).
const LOCAL: [u8; 2] = [0x20, 0];
/// Address family and transport: TCP over IPv4 and over IPv6.
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

/// First bytes of version 1 (§2.1).
const TEXT_START: [u8; 6] = *b"PROXY ";
/// Maximum length of a header of version 1 with its line end (§2.1).
const MAX_TEXT_BYTES: usize = 107;
/// Length of the fixed part of a version 2 header.
const BINARY_BYTES: usize = 16;
/// Maximum length of the rest of a version 2 header: addresses and extensions.
const MAX_REST_BYTES: usize = 4096;

/// Address of the client, and address of the proxy to which the client connected.
pub type Addresses = (SocketAddr, SocketAddr);

/// True if a stream with these first bytes begins with a PROXY header, valid or not; `None` if more bytes are needed.
pub fn begins(bytes: &[u8]) -> Option<bool> {
    let starts = [&TEXT_START[..], &SIGNATURE];
    if starts.iter().any(|start| bytes.starts_with(start)) {
        Some(true)
    } else if starts.iter().any(|start| start.starts_with(bytes)) {
        None
    } else {
        Some(false)
    }
}

/// Parses a header of either version at the beginning of a stream. The addresses are `None` if the other proxy opened
/// the connection for itself (`UNKNOWN`, `LOCAL`), and for families without IP addresses. Extensions of version 2 are
/// skipped.
///
/// # Errors
/// If the bytes are not a valid header.
pub fn parse(bytes: &[u8]) -> Parsed<Option<Addresses>> {
    match begins(bytes) {
        None => Ok(None),
        Some(false) => Err(Malformed("no PROXY header")),
        Some(true) if bytes.starts_with(&TEXT_START) => parse_text(bytes),
        Some(true) => parse_binary(bytes),
    }
}

fn parse_text(bytes: &[u8]) -> Parsed<Option<Addresses>> {
    let line = &bytes[..bytes.len().min(MAX_TEXT_BYTES)];
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        let is_full = line.len() == MAX_TEXT_BYTES;
        return if is_full { Err(Malformed("a PROXY line without an end")) } else { Ok(None) };
    };
    let wrong = Malformed("an invalid PROXY line");
    let line = str::from_utf8(&line[TEXT_START.len()..end]).map_err(|_| wrong)?;
    let fields: Vec<_> = line.split(' ').collect();
    let addresses = match fields.as_slice() {
        ["UNKNOWN", ..] => None,
        [family @ ("TCP4" | "TCP6"), client, proxy, from, to] => {
            let address = |ip: &str, port: &str| {
                let ip: IpAddr = ip.parse().ok().filter(|ip: &IpAddr| ip.is_ipv4() == (*family == "TCP4"))?;
                let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
                Some(SocketAddr::new(ip, port.parse().ok().filter(|_| is_number)?))
            };
            Some((address(client, from).ok_or(wrong)?, address(proxy, to).ok_or(wrong)?))
        }
        _ => return Err(wrong),
    };
    Ok(Some((addresses, end + 2)))
}

fn parse_binary(bytes: &[u8]) -> Parsed<Option<Addresses>> {
    let Some((fixed, rest)) = bytes.split_first_chunk::<BINARY_BYTES>() else { return Ok(None) };
    let (command, family) = (fixed[12], fixed[13]);
    let len = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if len > MAX_REST_BYTES {
        return Err(Malformed("a PROXY header of more than 4,096 bytes"));
    }
    let Some(rest) = rest.get(..len) else { return Ok(None) };
    let addresses = match (command, family) {
        // The addresses of LOCAL are skipped (§2.2).
        (0x20, _) => None,
        (RELAYED, TCP4) => Some(binary_addresses::<4>(rest)?),
        (RELAYED, TCP6) => Some(binary_addresses::<16>(rest)?),
        // Unspecified family, and UNIX streams.
        (RELAYED, 0x00 | 0x31) => None,
        _ => return Err(Malformed("a PROXY header of an unknown version, command or transport")),
    };
    Ok(Some((addresses, BINARY_BYTES + len)))
}

/// Parses two addresses of `N` bytes each, and two ports.
fn binary_addresses<const N: usize>(bytes: &[u8]) -> Result<Addresses, Malformed>
where
    IpAddr: From<[u8; N]>,
{
    let short = Malformed("a PROXY header without addresses");
    let (client, rest) = bytes.split_first_chunk::<N>().ok_or(short)?;
    let (proxy, rest) = rest.split_first_chunk::<N>().ok_or(short)?;
    let (ports, _) = rest.split_first_chunk::<4>().ok_or(short)?;
    let address = |ip: [u8; N], port| SocketAddr::new(IpAddr::from(ip), u16::from_be_bytes(port));
    Ok((address(*client, [ports[0], ports[1]]), address(*proxy, [ports[2], ports[3]])))
}

/// Encodes the header for a client's connection to an address of the proxy. Both addresses must have the same family.
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

/// Encodes the header for a connection that the proxy opens for itself, such as a health check. The header contains no
/// client address.
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

    /// The expected bytes are the examples and layouts of the specification.
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

    #[test]
    fn written_headers_are_read() {
        for (client, proxy) in [
            ("192.168.0.1:56324", "192.168.0.11:443"),
            ("255.255.255.255:65535", "0.0.0.0:0"),
            ("[2001:db8::1]:1", "[2001:db8::2]:2"),
        ] {
            let (text, bytes) = headers(client, proxy);
            let addresses: Addresses = (client.parse().unwrap(), proxy.parse().unwrap());
            for header in [text.into_bytes(), bytes] {
                let len = header.len();
                let stream = [&header[..], b"GET /"].concat();
                assert_eq!(parse(&stream), Ok(Some((Some(addresses), len))));
                assert!((0..len).all(|short| parse(&stream[..short]) == Ok(None)));
            }
        }
        for version in [Version::V1, Version::V2] {
            let header = emit_local(version);
            assert_eq!(parse(&header), Ok(Some((None, header.len()))));
        }
    }

    /// §2.1: a receiver ignores the rest of the line after UNKNOWN. §2.2: extensions follow the addresses.
    #[test]
    fn rest_of_a_header_is_skipped() {
        let line = b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n";
        assert_eq!(parse(line), Ok(Some((None, line.len()))));
        let (_, mut bytes) = headers("192.0.2.1:1", "192.0.2.2:2");
        bytes.extend([4, 0, 1, 0]);
        bytes[15] += 4;
        assert!(
            parse(&bytes).is_ok_and(|parsed| parsed.is_some_and(|(found, len)| found.is_some() && len == 32))
        );
        bytes[13] = 0x31;
        assert_eq!(parse(&bytes), Ok(Some((None, 32))));
    }

    #[test]
    fn invalid_headers_are_refused() {
        for line in [
            "GET / HTTP/1.1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 +2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
            "PROXY TCP4 2001:db8::1 192.0.2.2 1 2\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY \r\n",
            &format!("PROXY {}\r\n", "a".repeat(100)),
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
        let (_, good) = headers("192.0.2.1:1", "192.0.2.2:2");
        for (at, byte) in [(12, 0x11), (12, 0x22), (13, 0x12), (13, 0x41), (15, 11), (14, 0x11)] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            assert!(parse(&bytes).is_err(), "byte {at} is {byte:#x}");
        }
        assert_eq!(
            [begins(b"PROXZ"), begins(b"PROX"), begins(b"PROXY x"), begins(b"")],
            [Some(false), None, Some(true), None]
        );
    }
}
