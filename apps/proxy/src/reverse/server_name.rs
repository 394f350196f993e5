//! The server name in the first message of a TLS client (RFC 6066 §3). This message is not encrypted, so nothing is
//! decrypted.

use super::malformed::{Malformed, Parsed};

/// Type of a record with handshake messages (RFC 8446 §5.1).
pub const HANDSHAKE: u8 = 22;
/// Maximum length of a record without encryption (RFC 8446 §5.1).
const MAX_RECORD_BYTES: usize = 1 << 14;
/// Type of the message `ClientHello` (RFC 8446 §4).
const CLIENT_HELLO: u8 = 1;
/// Type of the extension `server_name`, and the only type of name in it, `host_name`.
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// Length of the headers of a record and of a handshake message.
const RECORD_HEADER_BYTES: usize = 5;
const MESSAGE_HEADER_BYTES: usize = 4;

/// Parses the beginning of a TLS stream; returns the requested host name and the length of the records that contain the
/// `ClientHello`, or `None` while it is incomplete. A `ClientHello` may use several records.
///
/// # Errors
/// If the bytes are not the beginning of a valid `ClientHello`.
pub fn server_name(bytes: &[u8]) -> Parsed<Option<String>> {
    let (mut message, mut rest) = (Vec::new(), bytes);
    loop {
        if let Some(body) = complete_message(&message)? {
            return Ok(Some((name_in_hello(body)?, bytes.len() - rest.len())));
        }
        let Some(fragment) = fragment(rest)? else { return Ok(None) };
        message.extend_from_slice(fragment);
        rest = &rest[RECORD_HEADER_BYTES + fragment.len()..];
    }
}

/// Returns the content of the first record, or `None` while the record is incomplete. Wrong bytes in its header are
/// reported as soon as they have arrived.
fn fragment(bytes: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    if bytes.first().is_some_and(|kind| *kind != HANDSHAKE) || bytes.get(1).is_some_and(|major| *major != 3) {
        return Err(Malformed("a record without a TLS handshake before the end of the ClientHello"));
    }
    let Some((header, rest)) = bytes.split_at_checked(RECORD_HEADER_BYTES) else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if !(1..=MAX_RECORD_BYTES).contains(&len) {
        return Err(Malformed("a TLS record of invalid length"));
    }
    Ok(rest.get(..len))
}

/// Returns the body of the first handshake message, or `None` while the message is incomplete.
fn complete_message(message: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Err(Malformed("a TLS handshake that does not begin with a ClientHello"));
    }
    let Some((header, rest)) = message.split_at_checked(MESSAGE_HEADER_BYTES) else { return Ok(None) };
    let len = u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
    Ok(rest.get(..len))
}

/// Parses the body of a `ClientHello` (RFC 8446 §4.1.2); returns the host name, or `None` if the body has none.
fn name_in_hello(body: &[u8]) -> Result<Option<String>, Malformed> {
    let mut hello = Fields(body);
    // Version (2 bytes) and random bytes (32).
    hello.take(34)?;
    let session = hello.vector(1)?;
    let (suites, compressions) = (hello.vector(2)?, hello.vector(1)?);
    if session.0.len() > 32 || suites.0.is_empty() || suites.0.len() % 2 == 1 || compressions.0.is_empty() {
        return Err(Malformed("a ClientHello with a field of invalid length"));
    }
    // Before TLS 1.3, a ClientHello may end here.
    if hello.0.is_empty() {
        return Ok(None);
    }
    let (mut extensions, mut found) = (hello.vector(2)?, None);
    hello.end()?;
    while !extensions.0.is_empty() {
        let (kind, content) = (extensions.number(2)?, extensions.vector(2)?);
        if kind == usize::from(SERVER_NAME) && found.replace(content).is_some() {
            return Err(Malformed("a ClientHello with two extensions server_name"));
        }
    }
    found.map_or(Ok(None), name_in_extension)
}

/// Parses the extension `server_name`; returns the host name. RFC 6066 permits one name of each type, and defines one
/// type.
fn name_in_extension(mut extension: Fields<'_>) -> Result<Option<String>, Malformed> {
    let mut names = extension.vector(2)?;
    extension.end()?;
    let mut host = None;
    while !names.0.is_empty() {
        let (kind, name) = (names.number(1)?, names.vector(2)?);
        if kind != usize::from(HOST_NAME) {
            continue;
        }
        let text = str::from_utf8(name.0).ok().filter(|text| is_name(text));
        if host.is_some() || text.is_none() {
            return Err(Malformed("a ClientHello with an invalid server name"));
        }
        host = text.map(str::to_owned);
    }
    Ok(host)
}

/// True if a text may be a host name in a `ClientHello`: printable ASCII, at most 255 bytes (RFC 1035 §2.3.4).
fn is_name(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The fields of a message that have not been read yet.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) =
            self.0.split_at_checked(len).ok_or(Malformed("a ClientHello with a field beyond its end"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a number of one or two bytes.
    fn number(&mut self, width: usize) -> Result<usize, Malformed> {
        Ok(self.take(width)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Reads a vector: its length, a number of `width` bytes, and its content.
    fn vector(&mut self, width: usize) -> Result<Self, Malformed> {
        let len = self.number(width)?;
        Ok(Self(self.take(len)?))
    }

    const fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed("a ClientHello with bytes after its last field"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a `ClientHello` with these extensions, in records of at most `record` bytes of content.
    fn hello(extensions: &[u8], record: usize) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        // No session, the suite TLS_AES_128_GCM_SHA256, no compression.
        body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        in_records(&body, record)
    }

    fn in_records(body: &[u8], record: usize) -> Vec<u8> {
        let message = [&[1, 0], &(body.len() as u16).to_be_bytes()[..], body].concat();
        let of_record =
            |content: &[u8]| [&[22, 3, 1], &(content.len() as u16).to_be_bytes()[..], content].concat();
        message.chunks(record).flat_map(of_record).collect()
    }

    /// Encodes the extension `server_name`; `kind` is the type of the name.
    fn extension(kind: u8, name: &[u8]) -> Vec<u8> {
        let len = name.len() as u16;
        let lengths = [0, len + 5, len + 3].map(u16::to_be_bytes).concat();
        [&lengths[..], &[kind], &len.to_be_bytes(), name].concat()
    }

    fn name_of(bytes: &[u8]) -> Result<Option<String>, Malformed> {
        server_name(bytes).map(|parsed| parsed.expect("the message is complete").0)
    }

    /// The bytes of a `ClientHello` for a.example, field by field (RFC 8446 §4.1.2, RFC 6066 §3).
    #[test]
    fn name_is_read_from_bytes_of_the_specification() {
        let mut bytes = vec![
            22, 3, 1, 0, 65, // record: handshake, TLS 1.0, 65 bytes
            1, 0, 0, 61, // ClientHello of 61 bytes
            3, 3, // TLS 1.2
        ];
        bytes.extend([0xaa; 32]);
        bytes.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
        // Extensions of 18 bytes: server_name of 14, a list of 12, a host_name of 9.
        bytes.extend([0, 18, 0, 0, 0, 14, 0, 12, 0, 0, 9]);
        bytes.extend(b"a.example");
        assert_eq!(server_name(&bytes), Ok(Some((Some("a.example".to_owned()), bytes.len()))));
    }

    #[test]
    fn name_in_several_records_is_read() {
        let padding = [&[0, 21, 0x20, 0][..], &[0; 0x2000]].concat();
        let extensions = [padding, extension(0, b"www.b.example")].concat();
        for record in [1, 3, 5, 100, 1 << 14] {
            let bytes = hello(&extensions, record);
            assert_eq!(server_name(&bytes), Ok(Some((Some("www.b.example".to_owned()), bytes.len()))));
            assert_eq!(server_name(&bytes[..bytes.len() - 1]), Ok(None));
            let more = [&bytes[..], b"\x14\x03\x03"].concat();
            assert_eq!(server_name(&more).expect("valid").expect("complete").1, bytes.len());
        }
    }

    #[test]
    fn client_hello_may_lack_a_server_name() {
        assert_eq!(name_of(&hello(&[], 100)), Ok(None));
        assert_eq!(name_of(&hello(&[0, 43, 0, 3, 2, 3, 4], 100)), Ok(None));
        // The extension has another type of name, or the ClientHello has no extensions.
        assert_eq!(name_of(&hello(&extension(1, b"a.example"), 100)), Ok(None));
        let old = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0, 47, 1, 0]].concat();
        assert_eq!(name_of(&in_records(&old, 100)), Ok(None));
    }

    #[test]
    fn invalid_hello_is_refused() {
        let name = extension(0, b"a.example");
        for (bytes, reason) in [
            (hello(&[&name[..], &name].concat(), 100), "two extensions server_name"),
            (hello(&extension(0, b""), 100), "invalid server name"),
            (hello(&extension(0, b"a b"), 100), "invalid server name"),
            (hello(&extension(0, b"a\0"), 100), "invalid server name"),
            (hello(&extension(0, &[b'a'; 256]), 600), "invalid server name"),
            (hello(&name[..8], 100), "a field beyond its end"),
            (hello(&[&name[..], &[0]].concat(), 100), "a field beyond its end"),
            (in_records(&[3, 3], 100), "a field beyond its end"),
            (in_records(&[&[3; 34][..], &[33], &[0; 33]].concat(), 100), "a field beyond its end"),
            (in_records(&[&[3; 34][..], &[0, 0, 1, 5, 1, 0]].concat(), 100), "invalid length"),
            (in_records(&[&[3; 34][..], &[0, 0, 2, 0, 5, 0]].concat(), 100), "invalid length"),
            (
                in_records(&[&[3; 34][..], &[0, 0, 2, 0, 5, 1, 0, 0, 0, 9]].concat(), 100),
                "after its last field",
            ),
            (vec![22, 3, 1, 0, 0], "a TLS record of invalid length"),
            (vec![22, 3, 1, 0x40, 1], "a TLS record of invalid length"),
            (vec![22, 2], "a record without a TLS handshake"),
            (vec![22, 3, 1, 0, 1, 2], "does not begin with a ClientHello"),
            (vec![22, 3, 1, 0, 1, 1, 21, 3, 1, 0, 2, 2, 40], "a record without a TLS handshake"),
        ] {
            let Err(Malformed(refused)) = server_name(&bytes) else { panic!("{reason}: {bytes:?}") };
            assert!(refused.contains(reason), "{refused}, expected {reason}");
        }
    }
}
