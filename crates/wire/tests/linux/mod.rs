//! Packets that Linux sent, from `vectors/wire/linux.hex`.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this module")]

/// Packets that Linux sent, in hexadecimal.
const VECTORS: &str = include_str!("../../../../vectors/wire/linux.hex");

/// Name and bytes of each packet, from the IP header on.
pub fn packets() -> Vec<(&'static str, Vec<u8>)> {
    VECTORS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, hex) = line.split_once(' ').expect("a name and bytes");
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two hexadecimal digits");
            (name, (0..hex.len()).step_by(2).map(byte).collect())
        })
        .collect()
}

/// The bytes of one packet.
pub fn packet(name: &str) -> Vec<u8> {
    let found = packets().into_iter().find(|(other, _)| *other == name);
    found.unwrap_or_else(|| panic!("no vector {name}")).1
}
