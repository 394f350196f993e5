use super::*;

/// Asserts that a message with this TLV is parsed from and encoded to these bytes.
fn assert_codec(tlv: Tlv, bytes: &[u8]) {
    let message = [&[1, 1 + (bytes.len() / WORD) as u8, 0x22, 0x63], bytes].concat();
    assert_eq!(parse(&message), Ok(Some((vec![tlv.clone()], message.len()))));
    assert_eq!(emit(&[tlv]), Some(message));
}

fn option(kind: u8, value: &[u8]) -> TcpOption {
    TcpOption { kind, value: value.to_vec() }
}

/// The expected bytes are laid out as in the figures of RFC 8803 §6.2.
#[test]
fn tlvs_have_the_rfc_layout() {
    assert_codec(Tlv::Info, &[1, 1, 0, 0]);
    let v4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
    let server = "192.0.2.1:443".parse().unwrap();
    assert_codec(Tlv::Connect { server, options: Vec::new() }, &[&[10, 5, 1, 0xbb], &v4[..]].concat());
    let v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let server = "[2001:db8::1]:80".parse().unwrap();
    // MP_CAPABLE of Multipath TCP as in a SYN, and SACK permitted.
    let options = vec![option(30, &[1, 1]), option(4, &[])];
    let bytes = [&[10, 7, 0, 80], &v6[..], &[30, 4, 1, 1, 4, 2, 0, 0]].concat();
    assert_codec(Tlv::Connect { server, options }, &bytes);
    // Zeros at the end of a timestamp are part of the value and not padding.
    let options = vec![option(1, &[]), option(8, &[0, 0, 0, 7, 0, 0, 0, 0])];
    assert_codec(Tlv::ExtendedTcpHeader(options), &[20, 4, 0, 0, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 0]);
    assert_codec(Tlv::SupportedTcpExtensions(vec![30, 34]), &[21, 2, 0, 0, 30, 34, 0, 0]);
    assert_codec(Tlv::Cookie(vec![1, 2, 3, 4, 5, 6, 7, 0]), &[22, 3, 0, 0, 1, 2, 3, 4, 5, 6, 7, 0]);
    assert_codec(Tlv::Error(ErrorCode::UnsupportedVersion, vec![1]), &[30, 1, 0, 1]);
    assert_codec(Tlv::Error(ErrorCode::MissingCookie, Vec::new()), &[30, 1, 3, 0]);
    assert_codec(Tlv::Error(ErrorCode::UnsupportedTcpOption, vec![34, 69]), &[30, 2, 33, 34, 69, 0, 0, 0]);
    assert_codec(Tlv::Error(ErrorCode::Other(200), vec![7]), &[30, 1, 200, 7]);
    assert_codec(Tlv::Other(192, vec![1, 2]), &[192, 1, 1, 2]);
}

/// Messages from libconvert (Tessares, commit of 2022-01-11): a request for a server on loopback, without and with a cookie.
#[test]
fn libconvert_messages_are_parsed() {
    let server = "127.0.0.1:39001".parse().unwrap();
    let connect = Tlv::Connect { server, options: Vec::new() };
    let bytes = [
        0x01, 0x06, 0x22, 0x63, 0x0a, 0x05, 0x98, 0x59, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x7f, 0, 0,
        0x01,
    ];
    assert_eq!(parse(&bytes), Ok(Some((vec![connect.clone()], 24))));
    assert_eq!(emit(std::slice::from_ref(&connect)), Some(bytes.to_vec()));
    let cookie =
        [0x42, 0xb0, 0x24, 0x48, 0xd9, 0x7a, 0xa4, 0xe4, 0x93, 0x72, 0x9a, 0x73, 0x4d, 0x28, 0xe3, 0xba];
    let with_cookie = [&[0x01, 0x0b], &bytes[2..], &[0x16, 0x05, 0, 0], &cookie].concat();
    let both = vec![connect, Tlv::Cookie(cookie.to_vec())];
    assert_eq!(parse(&with_cookie), Ok(Some((both.clone(), 44))));
    assert_eq!(emit(&both), Some(with_cookie));
}

/// Codes of the registry "Convert Errors".
#[test]
fn error_codes_match_registry() {
    for code in 0..=255 {
        let error = ErrorCode::from_code(code);
        assert_eq!(error.code(), code);
        let listed = [0, 1, 2, 3, 32, 33, 64, 65, 96, 97].contains(&code);
        assert_eq!(matches!(error, ErrorCode::Other(_)), !listed, "{code}");
    }
}

#[test]
fn data_after_message_is_not_parsed() {
    let tlvs = vec![Tlv::Error(ErrorCode::MissingCookie, Vec::new()), Tlv::Cookie(vec![9; 8])];
    let mut bytes = emit(&tlvs).unwrap();
    let len = bytes.len();
    assert_eq!(bytes[1], 5);
    bytes.extend_from_slice(b"GET / HTTP/1.1");
    assert_eq!(parse(&bytes), Ok(Some((tlvs, len))));
    assert!((0..len).all(|short| parse(&bytes[..short]) == Ok(None)));
    assert_eq!(parse(&[1, 1, 0x22, 0x63]), Ok(Some((Vec::new(), 4))));
}

#[test]
fn malformed_message_is_reported_early() {
    for (bytes, malformed) in [
        (&b"GET / HTTP/1.1"[..], Malformed::Version(b'G')),
        (&[0], Malformed::Version(0)),
        (&[1, 0], Malformed::Length),
        (&[1, 9, 0x23], Malformed::Magic),
        (&[1, 9, 0x22, 0x64], Malformed::Magic),
        // TLVs of length zero, longer than the message, or with a wrong length for their type.
        (&[1, 2, 0x22, 0x63, 22, 0, 0, 0], Malformed::Length),
        (&[1, 2, 0x22, 0x63, 22, 2, 0, 0], Malformed::Length),
        (&[1, 2, 0x22, 0x63, 10, 1, 0, 80], Malformed::Length),
        (&[1, 3, 0x22, 0x63, 1, 2, 0, 0, 0, 0, 0, 0], Malformed::Length),
        // Options longer than the TLV, or shorter than an option header.
        (&[1, 3, 0x22, 0x63, 20, 2, 0, 0, 8, 10, 0, 0], Malformed::Length),
        (&[1, 3, 0x22, 0x63, 20, 2, 0, 0, 4, 1, 0, 0], Malformed::Length),
        (&[1, 3, 0x22, 0x63, 20, 2, 0, 0, 1, 1, 1, 4], Malformed::Length),
        (&[1, 3, 0x22, 0x63, 1, 1, 0, 0, 1, 1, 0, 0], Malformed::DuplicateTlv(1)),
    ] {
        assert_eq!(parse(bytes), Err(malformed), "{bytes:?}");
    }
}

#[test]
fn too_long_message_is_not_emitted() {
    assert_eq!(emit(&[Tlv::Cookie(vec![0; 253 * WORD])]).map(|bytes| bytes.len()), Some(255 * WORD));
    assert_eq!(emit(&[Tlv::Cookie(vec![0; 254 * WORD])]), None);
    assert_eq!(emit(&[Tlv::Cookie(vec![0; 255 * WORD])]), None);
    assert_eq!(emit(&[Tlv::Cookie(vec![0; 128 * WORD]), Tlv::Other(200, vec![0; 2 + 126 * WORD])]), None);
}
