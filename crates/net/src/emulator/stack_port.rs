//! The attachment of Anabranch's own stacks to the emulated network, within the process.
//!
//! The kernel and the own stack of a host share the addresses of the host. A packet goes to the own stack if it
//! belongs to one of the stack's flows: no two flows have the same port at their listening ends.

use super::packet::RawPacket;
use crate::device::{Attachment, Device, Fill};
use crate::stack::Queue;
use anabranch_netem::Interface;
use anabranch_wire::Packet;
use anabranch_wire::ip::protocol;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of packets that wait for either side: the usual queue of an interface.
const MAX_WAITING_PACKETS: usize = 1000;

/// The end of a flow that a stack has at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEnd {
    /// Port of the flow's listening end.
    pub port: u16,
    /// True if the stack listens, false if it connects.
    pub listens: bool,
}

/// The receivers of a packet at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// The kernel of the host.
    Kernel,
    /// The flow's own stack in user space.
    Stack,
    /// Both stacks get ICMP errors, because an error may quote a packet of either.
    Both,
}

/// Packets between the emulator and a stack.
struct Wire {
    to_stack: Arc<Queue<Vec<u8>>>,
    to_network: Arc<Queue<Vec<u8>>>,
    /// Packets that were lost because the other side was too slow.
    lost: AtomicU64,
}

/// The emulator's side of the attachment of a stack.
pub struct StackPort {
    wire: Arc<Wire>,
    ends: Vec<FlowEnd>,
}

/// The stack's side: a network device.
pub struct StackDevice {
    wire: Arc<Wire>,
    interface: Interface,
    /// Index of the interface in the namespace of the host. The device is down while this interface is.
    index: u32,
    received: VecDeque<Vec<u8>>,
}

impl StackPort {
    /// The attachment of the stack with these ends to an interface, which has this index in the namespace of its host.
    ///
    /// # Errors
    /// If the process has no free descriptor.
    pub fn new(interface: Interface, index: u32, ends: Vec<FlowEnd>) -> io::Result<(Self, StackDevice)> {
        let wire = Arc::new(Wire {
            to_stack: Queue::with_limit(MAX_WAITING_PACKETS)?,
            to_network: Queue::with_limit(MAX_WAITING_PACKETS)?,
            lost: AtomicU64::new(0),
        });
        let device = StackDevice { wire: Arc::clone(&wire), interface, index, received: VecDeque::new() };
        Ok((Self { wire, ends }, device))
    }

    /// Readable while the stack has sent packets.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wire.to_network.fd()
    }

    /// The receivers of a packet.
    pub fn receiver(&self, packet: &RawPacket) -> Receiver {
        if matches!(packet.protocol(), protocol::ICMP | protocol::ICMPV6) {
            return Receiver::Both;
        }
        let ports = packet.ports().filter(|_| packet.protocol() == protocol::TCP);
        let Some([source, destination]) = ports.map(|ports| [(ports >> 16) as u16, ports as u16]) else {
            return Receiver::Kernel;
        };
        let is_end = |end: &FlowEnd| end.port == if end.listens { destination } else { source };
        if self.ends.iter().any(is_end) { Receiver::Stack } else { Receiver::Kernel }
    }

    /// Passes a packet to the stack.
    pub fn deliver(&self, packet: &RawPacket) {
        let mut bytes = packet.bytes().to_vec();
        packet.finish_checksum(&mut bytes);
        self.wire.pass(&self.wire.to_stack, bytes);
    }

    /// Takes the packets that the stack has sent.
    pub fn take(&self) -> Vec<Vec<u8>> {
        self.wire.to_network.take()
    }

    /// Packets that were lost between both sides.
    pub fn lost(&self) -> u64 {
        self.wire.lost.load(Ordering::Relaxed)
    }
}

impl Wire {
    fn pass(&self, queue: &Queue<Vec<u8>>, packet: Vec<u8>) {
        if queue.send(packet).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl StackDevice {
    /// The interface of the emulated network.
    pub const fn interface(&self) -> Interface {
        self.interface
    }
}

impl Device for StackDevice {
    fn attachment(&self) -> Attachment {
        Attachment::Interface(self.index)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.wire.to_stack.fd()
    }

    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<Packet>> {
        if self.received.is_empty() {
            self.received.extend(self.wire.to_stack.take());
        }
        while let Some(packet) = self.received.pop_front() {
            *bytes = packet;
            if let Ok(packet) = Packet::parse(bytes) {
                return Ok(Some(packet));
            }
        }
        Ok(None)
    }

    fn send(&mut self, packet: &Packet, fill: Fill<'_>, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.clear();
        packet.emit_with(bytes, fill);
        self.wire.pass(&self.wire.to_network, bytes.clone());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_wire::{Body, Ecn, tcp, udp};

    fn packet(body: Body) -> RawPacket {
        let packet = Packet {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            ecn: Ecn::NotEct,
            body,
        };
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        RawPacket::new(bytes).expect("an IP packet")
    }

    fn segment(source_port: u16, destination_port: u16) -> RawPacket {
        packet(Body::Tcp(tcp::Segment { source_port, destination_port, ..tcp::Segment::default() }))
    }

    #[test]
    fn packets_go_to_the_stack_of_their_flow() {
        let ends = vec![FlowEnd { port: 5001, listens: true }, FlowEnd { port: 5002, listens: false }];
        let (port, mut device) = StackPort::new(Interface(3), 7, ends).expect("descriptors");
        for (ports, expected) in [
            ([50_000, 5001], Receiver::Stack),
            ([5002, 50_000], Receiver::Stack),
            // The other end of each flow is elsewhere.
            ([5001, 50_000], Receiver::Kernel),
            ([50_000, 5002], Receiver::Kernel),
            ([50_000, 5003], Receiver::Kernel),
        ] {
            assert_eq!(port.receiver(&segment(ports[0], ports[1])), expected, "{ports:?}");
        }
        let datagram = udp::Datagram { source_port: 1, destination_port: 5001, ..udp::Datagram::default() };
        assert_eq!(port.receiver(&packet(Body::Udp(datagram))), Receiver::Kernel);

        let mut bytes = Vec::new();
        assert_eq!(device.receive(&mut bytes).expect("no error"), None);
        port.deliver(&segment(50_000, 5001));
        let received = device.receive(&mut bytes).expect("no error").expect("a packet");
        device.send(&received, &mut |_, _| {}, &mut bytes).expect("no error");
        assert_eq!(port.take(), [segment(50_000, 5001).bytes()]);
    }

    #[test]
    fn slow_stack_loses_packets() {
        let (port, _device) = StackPort::new(Interface(0), 1, Vec::new()).expect("descriptors");
        for _ in 0..MAX_WAITING_PACKETS + 2 {
            port.deliver(&segment(1, 2));
        }
        assert_eq!(port.lost(), 2);
    }
}
