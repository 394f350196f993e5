//! Packets that other implementations sent, from `vectors/wire`.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this module")]

/// Packets that Linux sent, in hexadecimal.
const LINUX: &str = include_str!("../../../../vectors/wire/linux.hex");

/// Packets that usrsctp sent, in hexadecimal.
const USRSCTP: &str = include_str!("../../../../vectors/wire/sctp-usrsctp.hex");

/// Name and bytes of each packet that Linux sent, from the IP header on.
pub fn linux() -> Vec<(&'static str, Vec<u8>)> {
    read(LINUX)
}

/// The bytes of one packet that Linux sent.
pub fn linux_packet(name: &str) -> Vec<u8> {
    let found = linux().into_iter().find(|(other, _)| *other == name);
    found.unwrap_or_else(|| panic!("no vector {name}")).1
}

/// Name and bytes of each packet that usrsctp sent, from the IP header on.
pub fn usrsctp() -> Vec<(&'static str, Vec<u8>)> {
    read(USRSCTP)
}

fn read(text: &'static str) -> Vec<(&'static str, Vec<u8>)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, hex) = line.split_once(' ').expect("a name and bytes");
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two hexadecimal digits");
            (name, (0..hex.len()).step_by(2).map(byte).collect())
        })
        .collect()
}
