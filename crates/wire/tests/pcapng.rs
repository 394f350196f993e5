//! Captures block by block, parsed by an independent implementation of the format's description.

use anabranch_wire::pcapng::{Stamp, Writer};
use anabranch_wire::{Body, Ecn, Packet, Payload, udp};

/// A block: its type and its body.
struct Block<'a> {
    kind: u32,
    body: &'a [u8],
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes")).into()
}

fn blocks(mut bytes: &[u8]) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let len = u32_at(bytes, 4) as usize;
        assert_eq!(len % 4, 0);
        assert_eq!(u32_at(bytes, len - 4) as usize, len, "the length at both ends");
        blocks.push(Block { kind: u32_at(bytes, 0), body: &bytes[8..len - 4] });
        bytes = &bytes[len..];
    }
    blocks
}

/// Codes and values of an option list that ends with an end-of-options entry.
fn options(mut bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let mut options = Vec::new();
    loop {
        let (code, len) = (u16_at(bytes, 0), u16_at(bytes, 2));
        if code == 0 {
            assert_eq!((len, bytes.len()), (0, 4), "nothing behind the end");
            return options;
        }
        options.push((code, &bytes[4..4 + len]));
        bytes = &bytes[4 + len.next_multiple_of(4)..];
    }
}

fn packet(len: u32) -> Packet {
    Packet {
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        ecn: Ecn::NotEct,
        body: Body::Udp(udp::Datagram { source_port: 1, destination_port: 2, payload: Payload::new(0, len) }),
    }
}

#[test]
fn capture_has_the_defined_blocks() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let first = writer.add_interface("S0:eth0").unwrap();
    writer.packet(first.at(1), &packet(1)).unwrap();
    // Interfaces may be added later than packets.
    let second = writer.add_interface("R1:eth1").unwrap();
    let nanoseconds = 0x0000_0001_0000_0002;
    let comment = Some("dropped: queue full");
    writer.packet(Stamp { interface: second, nanoseconds, comment }, &packet(2)).unwrap();
    let bytes = writer.finish().unwrap();

    let blocks = blocks(&bytes);
    let kinds: Vec<u32> = blocks.iter().map(|block| block.kind).collect();
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 1, 6]);
    assert_eq!(
        blocks[0].body[..16],
        [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]
    );
    assert_eq!(options(&blocks[0].body[16..]), [(4, &b"anabranch"[..])]);

    for (block, name) in [(&blocks[1], "S0:eth0"), (&blocks[3], "R1:eth1")] {
        assert_eq!(u16_at(block.body, 0), 101, "raw IP");
        assert_eq!(u32_at(block.body, 4), 0, "no limit");
        assert_eq!(options(&block.body[8..]), [(2, name.as_bytes()), (9, &[9][..])]);
    }

    let body = blocks[4].body;
    let header: Vec<u32> = (0..5).map(|word| u32_at(body, word * 4)).collect();
    assert_eq!(header, [1, 1, 2, 30, 30], "interface, time high and low, captured, original length");
    let mut expected = Vec::new();
    packet(2).emit(&mut expected);
    assert_eq!(body[20..50], expected);
    assert_eq!(body[50..52], [0, 0], "padding");
    assert_eq!(options(&body[52..]), [(1, &b"dropped: queue full"[..])]);
    assert_eq!(blocks[2].body.len(), 20 + 32, "no options without a comment");
}

#[test]
fn snaplen_truncates_packets() {
    let mut writer = Writer::with_snaplen(Vec::new(), 64).unwrap();
    let interface = writer.add_interface("").unwrap();
    for len in [35, 36, 37, 1_000] {
        writer.packet(interface.at(0), &packet(len)).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let blocks = blocks(&bytes);
    assert_eq!(u32_at(blocks[1].body, 4), 64);
    let lengths: Vec<_> =
        blocks[2..].iter().map(|block| (u32_at(block.body, 12), u32_at(block.body, 16))).collect();
    assert_eq!(lengths, [(63, 63), (64, 64), (64, 65), (64, 1_028)]);
}

#[test]
fn failing_output_is_an_error() {
    #[derive(Debug)]
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert_eq!(Writer::new(Full).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
}

#[test]
#[should_panic(expected = "the interface belongs to this capture")]
fn interface_of_another_capture_panics() {
    let mut one = Writer::new(Vec::new()).unwrap();
    let interface = one.add_interface("one").unwrap();
    Writer::new(Vec::new()).unwrap().bytes(interface.at(0), &[]).unwrap();
}
