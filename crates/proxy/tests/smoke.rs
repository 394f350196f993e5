//! The bodies of the fuzz targets on many inputs, on any toolchain.
#![cfg(target_os = "linux")]

mod fuzz_bodies;

use proptest::prelude::*;
use proxy::socks::wire::{self, Target};
use std::net::{IpAddr, SocketAddr};

fn targets() -> impl Strategy<Value = Target> {
    prop_oneof![
        (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| Target::Address(SocketAddr::new(ip, port))),
        ("[a-z0-9.-]{1,255}", any::<u16>())
            .prop_filter("an address is none", |(name, _)| name.parse::<IpAddr>().is_err())
            .prop_map(|(name, port)| Target::Name(name, port)),
    ]
}

/// Messages and what may follow them.
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn messages_of_socks_survive_anything(bytes in streams()) {
        fuzz_bodies::socks(&bytes);
    }

    #[test]
    fn what_is_written_is_read(target in targets(), more: Vec<u8>) {
        let mut bytes = Vec::new();
        wire::emit_request(1, &target, &mut bytes);
        let len = bytes.len();
        bytes.extend(more);
        prop_assert_eq!(wire::request(&bytes), Ok(Some(((wire::Command::Connect, target), len))));
    }
}
