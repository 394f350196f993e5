//! A link in memory between two hosts of this process.

use crate::device::{Device, Fill};
use crate::offload::{self, OffloadHeader, SCTP_CHECKSUM, Unfinished};
use crate::stack::Queue;
use crate::train::{Train, Uncut};
use anabranch_wire::{Body, Packet, sctp};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of packets, or of trains of segments, that wait for a host. Further ones are lost, as at a full queue.
const MAX_WAITING: usize = 1024;

/// Maximum number of packets that a host keeps before it passes them.
const MAX_TOGETHER: usize = 64;
/// Maximum number of bytes of used buffers that wait for the next packets of the other host: 64 of long packets, whose buffers
/// have grown to 128 KiB.
const MAX_SPARE_BYTES: usize = 8 << 20;

/// Buffers of packets that were received, for the packets that follow.
#[derive(Clone, Default)]
struct Spare(Arc<Mutex<SpareBuffers>>);

#[derive(Default)]
struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    /// Capacity of all.
    bytes: usize,
}

impl Spare {
    /// No call panics while it holds the lock, so the list is valid even after a panic elsewhere.
    fn lock(&self) -> MutexGuard<'_, SpareBuffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, used: &mut Vec<Vec<u8>>) {
        let mut spare = self.lock();
        for buffer in used.drain(..) {
            if spare.bytes + buffer.capacity() <= MAX_SPARE_BYTES {
                spare.bytes += buffer.capacity();
                spare.buffers.push(buffer);
            }
        }
    }

    fn take(&self) -> Vec<Vec<u8>> {
        core::mem::take(&mut *self.lock()).buffers
    }
}

/// One end of a link in memory. Consecutive segments of a TCP connection pass as one packet, as at a [`Tun`](crate::Tun)
/// interface.
pub struct Memory {
    incoming: Arc<Queue<Vec<u8>>>,
    received: VecDeque<Vec<u8>>,
    /// Buffers of received packets, which the other host gets back.
    used: Vec<Vec<u8>>,
    returned: Spare,
    train: Train,
    sender: Sender,
}

/// Packets of this host, which the other host gets together.
struct Sender {
    outgoing: Arc<Queue<Vec<u8>>>,
    packets: Vec<Vec<u8>>,
    /// An empty packet.
    buffer: Vec<u8>,
    spare: Vec<Vec<u8>>,
    returned: Spare,
}

impl Sender {
    /// Keeps a packet, and leaves an empty buffer for the next one.
    fn keep(&mut self, bytes: &mut Vec<u8>) {
        if self.spare.is_empty() {
            self.spare = self.returned.take();
        }
        self.packets.push(core::mem::replace(bytes, self.spare.pop().unwrap_or_default()));
        if self.packets.len() >= MAX_TOGETHER {
            self.pass();
        }
    }

    /// Keeps an SCTP packet without its checksum: nothing on the way can damage the packet.
    fn keep_unfinished(&mut self, packet: &Packet, body: &sctp::Packet, fill: Fill<'_>) {
        let start = (packet.wire_len() - body.wire_len()) as u16;
        let unfinished = Some(Unfinished { start, offset: SCTP_CHECKSUM });
        let version = if packet.source.is_ipv4() { 4 } else { 6 };
        self.buffer.clear();
        self.buffer.reserve(OffloadHeader::LEN + packet.wire_len() as usize);
        self.buffer.extend_from_slice(&OffloadHeader { unfinished, segments: None }.emit(version));
        packet.emit_unfinished(&mut self.buffer, fill);
        let mut bytes = core::mem::take(&mut self.buffer);
        self.keep(&mut bytes);
        self.buffer = bytes;
    }

    /// Passes the packets. If the other host is slow or gone, they are lost.
    fn pass(&mut self) {
        if !self.packets.is_empty() {
            self.outgoing.send_all(&mut self.packets);
        }
    }
}

impl Memory {
    /// The two ends of a link.
    ///
    /// # Errors
    /// If the process has no free descriptors.
    pub fn pair() -> io::Result<[Self; 2]> {
        let [one, two] = [Queue::with_limit(MAX_WAITING)?, Queue::with_limit(MAX_WAITING)?];
        let [from_one, from_two] = [Spare::default(), Spare::default()];
        let end = |(incoming, outgoing): (&Arc<_>, &Arc<_>), (received, sent): (&Spare, &Spare)| Self {
            incoming: Arc::clone(incoming),
            received: VecDeque::new(),
            used: Vec::new(),
            returned: received.clone(),
            train: Train::new(Uncut::Everywhere),
            sender: Sender {
                outgoing: Arc::clone(outgoing),
                packets: Vec::new(),
                buffer: Vec::new(),
                spare: Vec::new(),
                returned: sent.clone(),
            },
        };
        Ok([end((&one, &two), (&from_two, &from_one)), end((&two, &one), (&from_one, &from_two))])
    }
}

impl Device for Memory {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.incoming.fd()
    }

    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<Packet>> {
        loop {
            if self.received.is_empty() {
                self.returned.add(&mut self.used);
                self.received.extend(self.incoming.take());
            }
            let Some(output) = self.received.pop_front() else { return Ok(None) };
            self.used.push(core::mem::replace(bytes, output));
            if let Some(Ok(packet)) = offload::parse_output(bytes) {
                return Ok(Some(packet));
            }
        }
    }

    fn send(&mut self, packet: &Packet, fill: Fill<'_>, _scratch: &mut Vec<u8>) -> io::Result<()> {
        let Self { train, sender, .. } = self;
        // A zero checksum is a property of the packet (RFC 9653), so it must arrive as one that is finished.
        if let Body::Sctp(body @ sctp::Packet { udp: None, zero_checksum: false, .. }) = &packet.body {
            train.flush(|bytes| {
                sender.keep(bytes);
                Ok(())
            })?;
            sender.keep_unfinished(packet, body, fill);
            return Ok(());
        }
        train.send(packet, fill, |bytes| {
            sender.keep(bytes);
            Ok(())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self { train, sender, .. } = self;
        train.flush(|bytes| {
            sender.keep(bytes);
            Ok(())
        })?;
        sender.pass();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_wire::seq::Serial;
    use anabranch_wire::{Buffer, Ecn, Payload, udp};
    use core::net::Ipv6Addr;

    fn datagram(number: u64) -> Packet {
        let payload = Payload::new(number, 8);
        let body = Body::Udp(udp::Datagram { payload, ..udp::Datagram::default() });
        Packet { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), ecn: Ecn::NotEct, body }
    }

    #[test]
    fn many_packets_pass_before_a_flush() {
        let [mut near, mut far] = Memory::pair().expect("descriptors");
        let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
        let mut receive = |numbers: &mut Vec<u64>| {
            while far.receive(&mut bytes).expect("no error").is_some() {
                let number = bytes.last_chunk().expect("eight bytes of payload");
                numbers.push(u64::from_be_bytes(*number));
            }
        };
        for number in 0..3_000_u64 {
            let mut fill = |_, out: &mut [u8]| out.copy_from_slice(&number.to_be_bytes());
            near.send(&datagram(number), &mut fill, &mut Vec::new()).expect("no error");
            if number % 500 == 0 {
                receive(&mut numbers);
            }
        }
        near.flush().expect("no error");
        receive(&mut numbers);
        assert_eq!(numbers, (0..3_000).collect::<Vec<_>>());
    }

    /// A packet with a DATA chunk of 8 bytes.
    fn message(version: u8, tsn: u32) -> Packet {
        let data = sctp::Data { tsn: Serial(tsn), payload: Payload::new(0, 8), ..sctp::Data::default() };
        let body = sctp::Packet {
            source_port: 1,
            destination_port: 2,
            verification_tag: 3,
            chunks: sctp::Chunk::Data(data).into(),
            udp: None,
            may_fragment: false,
            zero_checksum: tsn % 2 == 1,
        };
        let body = Body::Sctp(body);
        if version == 4 {
            Packet { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), ecn: Ecn::NotEct, body }
        } else {
            let address = |host| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host).into();
            Packet { source: address(1), destination: address(2), ecn: Ecn::NotEct, body }
        }
    }

    #[test]
    fn sctp_arrives_in_order_without_its_checksum() {
        let [mut near, mut far] = Memory::pair().expect("descriptors");
        let mut bytes = Vec::new();
        for version in [4, 6] {
            for tsn in 0..4_u8 {
                let mut fill = |_, out: &mut [u8]| out.fill(tsn);
                near.send(&message(version, tsn.into()), &mut fill, &mut Vec::new()).expect("no error");
                near.send(&datagram(tsn.into()), &mut fill, &mut Vec::new()).expect("no error");
            }
            near.flush().expect("no error");
            for tsn in 0..4_u8 {
                let mut packet = far.receive(&mut bytes).expect("no error").expect("a packet");
                let is_zero =
                    bytes[OffloadHeader::LEN + if version == 4 { 20 } else { 40 } + 8..][..4] == [0; 4];
                assert!(is_zero, "{version} {tsn}");
                packet.for_each_payload(|payload| {
                    assert_eq!(Buffer(&bytes).bytes(*payload), [tsn; 8]);
                    payload.offset = 0;
                });
                assert_eq!(packet, message(version, tsn.into()));
                let datagram = far.receive(&mut bytes).expect("no error").expect("a packet");
                assert!(matches!(datagram.body, Body::Udp(_)));
            }
        }
    }
}
