//! Runs the bodies of the fuzz targets on many inputs, with any toolchain.
#![cfg(target_os = "linux")]

mod fuzz_bodies;

use anabranch_base::rng::Rng;
use anabranch_proxy::convert::{self, ErrorCode, TcpOption, Tlv};
use anabranch_proxy::reverse::header::{self, Version};
use anabranch_proxy::reverse::{http_host::http_host, server_name::server_name};
use anabranch_proxy::socks::wire::{self, Target};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

fn targets() -> impl Strategy<Value = Target> {
    prop_oneof![
        (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| Target::Address(SocketAddr::new(ip, port))),
        ("[a-z0-9.-]{1,255}", any::<u16>())
            .prop_filter("a name that is an address is parsed as an address", |(name, _)| name
                .parse::<IpAddr>()
                .is_err())
            .prop_map(|(name, port)| Target::Name(name, port)),
    ]
}

/// Generates SOCKS messages and bytes after them.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let message = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(any::<u8>(), 0..255).prop_map(|methods| [
            &[5, methods.len() as u8],
            &methods[..]
        ]
        .concat()),
        (prop::collection::vec(any::<u8>(), 0..255), prop::collection::vec(any::<u8>(), 0..255)).prop_map(
            |(name, password)| {
                [&[1, name.len() as u8], &name[..], &[password.len() as u8], &password[..]].concat()
            }
        ),
        (any::<u8>(), targets()).prop_map(|(command, target)| {
            let mut bytes = Vec::new();
            wire::emit_request(command, &target, &mut bytes);
            bytes
        }),
    ];
    let change = prop::option::of((any::<prop::sample::Index>(), any::<u8>()));
    (message, prop::collection::vec(any::<u8>(), 0..600), change).prop_map(|(message, more, change)| {
        let mut bytes = [message, more].concat();
        if let Some((at, byte)) = change.filter(|_| !bytes.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

fn options() -> impl Strategy<Value = Vec<TcpOption>> {
    let option = prop_oneof![
        Just(TcpOption { kind: 1, value: Vec::new() }),
        (2u8.., prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(kind, value)| TcpOption { kind, value }),
    ];
    prop::collection::vec(option, 0..5)
}

/// Generates bytes that do not end in a zero, which would be taken for padding.
fn unpadded() -> impl Strategy<Value = Vec<u8>> {
    let ends_in_zero = |bytes: &Vec<u8>| bytes.last() == Some(&0);
    prop::collection::vec(any::<u8>(), 0..20)
        .prop_filter("zeros are padding", move |bytes| !ends_in_zero(bytes))
}

/// Generates TLVs, each type at most once.
fn tlvs() -> impl Strategy<Value = Vec<Tlv>> {
    let words =
        |most: usize| prop::collection::vec(any::<[u8; 4]>(), 0..most).prop_map(|words| words.concat());
    let tlv = prop_oneof![
        Just(Tlv::Info),
        (any::<IpAddr>(), any::<u16>(), options()).prop_map(|(ip, port, options)| Tlv::Connect {
            server: SocketAddr::new(ip.to_canonical(), port),
            options
        }),
        options().prop_map(Tlv::ExtendedTcpHeader),
        unpadded().prop_map(Tlv::SupportedTcpExtensions),
        words(20).prop_map(Tlv::Cookie),
        (any::<u8>(), unpadded()).prop_map(|(code, value)| Tlv::Error(ErrorCode::from_code(code), value)),
        (128u8.., any::<[u8; 2]>(), words(10))
            .prop_map(|(kind, first, words)| Tlv::Other(kind, [&first[..], &words].concat())),
    ];
    prop::collection::vec(tlv, 0..6).prop_map(|mut tlvs| {
        tlvs.sort_by_key(Tlv::kind);
        tlvs.dedup_by_key(|tlv| tlv.kind());
        tlvs
    })
}

/// Generates a Convert message, possibly with one changed byte, and bytes after it.
fn convert_streams() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (tlvs(), changes, prop::collection::vec(any::<u8>(), 0..1100)).prop_map(|(tlvs, changes, more)| {
        let mut bytes = convert::emit(&tlvs).expect("the message is short");
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        [bytes, more].concat()
    })
}

/// Generates a `ClientHello` with extensions, possibly a server name, in records of random length.
fn hellos() -> impl Strategy<Value = Vec<u8>> {
    let bytes = |most: usize| prop::collection::vec(any::<u8>(), 0..most);
    let name = "[a-zA-Z0-9.-]{0,60}".prop_map(|name| {
        let len = name.len() as u16;
        [&(len + 3).to_be_bytes()[..], &[0], &len.to_be_bytes(), name.as_bytes()].concat()
    });
    let extension = prop_oneof![(Just(0), name), (any::<u16>(), bytes(40))];
    let extensions = prop::collection::vec(extension, 0..5);
    (bytes(33), prop::collection::vec(any::<u16>(), 0..5), extensions, 1..600_usize).prop_map(
        |(session, suites, extensions, record)| {
            let suites: Vec<_> = suites.into_iter().flat_map(u16::to_be_bytes).collect();
            let extensions: Vec<_> = extensions
                .into_iter()
                .flat_map(|(kind, content)| {
                    [&kind.to_be_bytes()[..], &(content.len() as u16).to_be_bytes(), &content].concat()
                })
                .collect();
            let lengths = [suites.len(), extensions.len()].map(|len| (len as u16).to_be_bytes());
            let body = [
                &[3; 34][..],
                &[session.len() as u8],
                &session[..],
                &lengths[0],
                &suites,
                &[1, 0],
                &lengths[1],
                &extensions,
            ]
            .concat();
            let message = [&[1, 0], &(body.len() as u16).to_be_bytes()[..], &body].concat();
            let in_record =
                |content: &[u8]| [&[22, 3, 1], &(content.len() as u16).to_be_bytes()[..], content].concat();
            message.chunks(record).flat_map(in_record).collect()
        },
    )
}

/// Generates HTTP heads and the beginnings of other streams.
fn heads() -> impl Strategy<Value = Vec<u8>> {
    let field = ("(host|Host|accept|[a-z-]{1,9})", "[ -~]{0,30}");
    let fields = prop::collection::vec(field, 0..6);
    let line = prop_oneof![Just("GET / HTTP/1.1".to_owned()), "[ -~]{0,30}"];
    (line, fields).prop_map(|(line, fields)| {
        let lines: Vec<_> = fields.into_iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{line}\r\n{}\r\n", lines.concat()).into_bytes()
    })
}

/// Generates PROXY headers of both versions.
fn proxy_headers() -> impl Strategy<Value = Vec<u8>> {
    let addresses = prop_oneof![
        (any::<[Ipv4Addr; 2]>()).prop_map(|ips| ips.map(IpAddr::V4)),
        (any::<[Ipv6Addr; 2]>()).prop_map(|ips| ips.map(IpAddr::V6)),
    ];
    let version = prop_oneof![Just(Version::V1), Just(Version::V2)];
    (version, addresses, any::<[u16; 2]>()).prop_map(|(version, [client, proxy], ports)| {
        header::emit(version, (client, ports[0]).into(), (proxy, ports[1]).into())
    })
}

/// Generates first bytes with a few changed bytes, and bytes after them.
fn first_bytes() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let more = prop::collection::vec(any::<u8>(), 0..30);
    (prop_oneof![hellos(), heads(), proxy_headers()], changes, more).prop_map(|(mut bytes, changes, more)| {
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        [bytes, more].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_input_is_safe_for_the_socks_parser(bytes in streams()) {
        fuzz_bodies::socks::socks(&bytes);
    }

    #[test]
    fn written_request_is_read(target in targets(), more: Vec<u8>) {
        let mut bytes = Vec::new();
        wire::emit_request(1, &target, &mut bytes);
        let len = bytes.len();
        bytes.extend(more);
        prop_assert_eq!(wire::request(&bytes), Ok(Some(((wire::Command::Connect, target), len))));
    }

    #[test]
    fn any_input_is_safe_for_the_convert_parser(bytes in convert_streams()) {
        fuzz_bodies::convert::convert(&bytes);
    }

    #[test]
    fn written_convert_message_is_read(tlvs in tlvs(), more: Vec<u8>) {
        let mut bytes = convert::emit(&tlvs).expect("the message is short");
        let len = bytes.len();
        bytes.extend(more);
        prop_assert_eq!(convert::parse(&bytes), Ok(Some((tlvs, len))));
    }

    #[test]
    fn any_first_bytes_are_safe_for_the_proxy(bytes in first_bytes()) {
        fuzz_bodies::first_bytes::first_bytes(&bytes);
    }

    #[test]
    fn requested_host_is_read(name in "[a-z0-9]{1,20}\\.example", record in 1..400_usize) {
        let host = http_host(format!("GET / HTTP/1.1\r\nHost: {name}:80\r\n\r\n").as_bytes());
        prop_assert_eq!(host.expect("valid").expect("complete").0, Some(name.clone()));
        let len = name.len() as u16;
        let lengths = [len + 9, 0, len + 5, len + 3].map(u16::to_be_bytes).concat();
        let extensions = [&lengths[..], &[0], &len.to_be_bytes(), name.as_bytes()].concat();
        let body = [&[3; 34], &[0, 0, 2, 19, 1, 1, 0][..], &extensions].concat();
        let message = [&[1, 0], &(body.len() as u16).to_be_bytes()[..], &body].concat();
        let bytes: Vec<u8> = message
            .chunks(record)
            .flat_map(|content| [&[22, 3, 1], &(content.len() as u16).to_be_bytes()[..], content].concat())
            .collect();
        let found = server_name(&bytes).expect("valid").expect("complete");
        prop_assert_eq!(found, (Some(name), bytes.len()));
    }
}

/// Number of generated messages that [`mutate_first_bytes`] changes.
const SAMPLES: u64 = 2_000;

/// Changes, removes or inserts up to three bytes of generated messages, and parses them. Returns the number of complete
/// PROXY headers, TLS requests and HTTP heads among them.
fn mutate_first_bytes(count: u64) -> [u64; 3] {
    let mut runner = TestRunner::deterministic();
    let mut sample = || first_bytes().new_tree(&mut runner).expect("the strategy rejects nothing").current();
    let samples: Vec<_> = (0..SAMPLES).map(|_| sample()).collect();
    let mut rng = Rng::new(1);
    let mut complete = [0; 3];
    for _ in 0..count {
        let mut bytes = samples[rng.below(SAMPLES) as usize].clone();
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len() as u64 + 1) as usize;
            let byte = rng.next_u32() as u8;
            match rng.below(4) {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 if rng.chance(0.2) => bytes.truncate(at),
                _ if at < bytes.len() => bytes[at] = byte,
                _ => bytes.push(byte),
            }
        }
        fuzz_bodies::first_bytes::first_bytes(&bytes);
        let found = [
            matches!(header::parse(&bytes), Ok(Some((Some(_), _)))),
            matches!(server_name(&bytes), Ok(Some((Some(_), _)))),
            matches!(http_host(&bytes), Ok(Some((Some(_), _)))),
        ];
        for (complete, found) in complete.iter_mut().zip(found) {
            *complete += u64::from(found);
        }
    }
    complete
}

#[test]
fn mutated_first_bytes_are_safe_for_the_proxy() {
    let complete = mutate_first_bytes(5_000);
    assert!(complete.iter().all(|&complete| complete > 20), "{complete:?}");
}

#[test]
#[ignore = "ten million messages take minutes with optimization"]
fn ten_million_first_bytes_are_safe_for_the_proxy() {
    let [proxy, tls, http] = mutate_first_bytes(10_000_000);
    eprintln!("complete with a name or address: PROXY {proxy}, ClientHello {tls}, HTTP {http}");
}
