//! Requests to the kernel, and notifications from it, over `netlink(7)`.

use crate::log;
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLA_F_NESTED, NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR,
    NLM_F_REQUEST, NetlinkBuffer, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable, NlasIterator,
};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with,
};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Size of the receive buffer. The kernel puts as many messages into it as fit.
const MAX_MESSAGE_BYTES: usize = 1 << 15;

/// Maximum number of attempts to read a list. An attempt fails if the list changes while it is read.
const MAX_TRIES: u32 = 5;

/// A message: its type, a header whose length depends on the type, and attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    kind: u16,
    body: Vec<u8>,
}

impl Message {
    /// Creates a message without attributes.
    pub fn new(kind: u16, header: &[u8]) -> Self {
        Self { kind, body: header.to_vec() }
    }

    /// Appends an attribute.
    #[must_use]
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let attribute = DefaultNla::new(kind, value.to_vec());
        let begin = self.body.len();
        self.body.resize(begin + attribute.buffer_len(), 0);
        attribute.emit(&mut self.body[begin..]);
        self
    }

    /// Appends an attribute with a number in the machine's byte order.
    #[must_use]
    pub fn with_u32(self, kind: u16, value: u32) -> Self {
        self.with(kind, &value.to_ne_bytes())
    }

    /// Appends an attribute that contains attributes.
    #[must_use]
    pub fn with_nested(self, kind: u16, inside: &Self) -> Self {
        self.with(kind | NLA_F_NESTED, &inside.body)
    }

    /// Returns the header, which has this length.
    pub fn header<const N: usize>(&self) -> io::Result<[u8; N]> {
        self.body.first_chunk().copied().ok_or_else(short)
    }

    /// Parses the attributes after a header of this length. If several have the same type, the last one counts.
    pub fn attributes(&self, header: usize) -> io::Result<Attributes<'_>> {
        Attributes::parse(self.body.get(header..).ok_or_else(short)?)
    }
}

/// Creates the error for a message that is shorter than its header.
fn short() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message of the kernel is too short")
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.body);
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { kind: header.message_type, body: payload.to_vec() })
    }
}

/// The attributes of a message, by type.
#[derive(Clone, Debug, Default)]
pub struct Attributes<'a>(BTreeMap<u16, &'a [u8]>);

impl<'a> Attributes<'a> {
    /// Parses a sequence of attributes.
    ///
    /// # Errors
    /// If a length is invalid.
    pub fn parse(bytes: &'a [u8]) -> io::Result<Self> {
        let mut found = BTreeMap::new();
        for attribute in NlasIterator::new(bytes) {
            let attribute =
                attribute.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            let (kind, len) = (attribute.kind(), attribute.value_length());
            found.insert(kind, &attribute.into_inner()[NLA_HEADER_SIZE..][..len]);
        }
        Ok(Self(found))
    }

    /// Returns the bytes of an attribute.
    pub fn get(&self, kind: u16) -> Option<&'a [u8]> {
        self.0.get(&kind).copied()
    }

    /// Returns an attribute as a 32-bit number in the machine's byte order.
    pub fn u32(&self, kind: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(self.get(kind)?.try_into().ok()?))
    }

    /// Returns an attribute as an IP address. Its length determines the address family.
    pub fn ip(&self, kind: u16) -> Option<core::net::IpAddr> {
        let bytes = self.get(kind)?;
        let v4 = || <[u8; 4]>::try_from(bytes).ok().map(core::net::IpAddr::from);
        v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(core::net::IpAddr::from))
    }
}

/// A socket for requests to the kernel.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket for a netlink protocol.
    ///
    /// # Errors
    /// If the kernel does not support the protocol.
    pub fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { fd: socket, sequence: 0, buffer: vec![0; MAX_MESSAGE_BYTES] })
    }

    /// Sends a request and waits for its acknowledgement.
    ///
    /// # Errors
    /// If the kernel refuses the request.
    pub fn execute(&mut self, message: Message, flags: u16) -> io::Result<()> {
        self.request(message, NLM_F_ACK | flags).map(drop)
    }

    /// Sends a request that has one answer, and returns this answer.
    ///
    /// # Errors
    /// If the kernel refuses, or does not answer.
    pub fn one(&mut self, message: Message) -> io::Result<Message> {
        self.request(message, NLM_F_ACK)?.into_iter().next().ok_or_else(short)
    }

    /// Sends a request for a list, and returns all its elements.
    ///
    /// # Errors
    /// If the kernel refuses, or if the list changed during each attempt to read it.
    pub fn list(&mut self, message: &Message) -> io::Result<Vec<Message>> {
        for _ in 1..MAX_TRIES {
            match self.request(message.clone(), NLM_F_DUMP) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
        self.request(message.clone(), NLM_F_DUMP)
    }

    fn request(&mut self, message: Message, flags: u16) -> io::Result<Vec<Message>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut encoded = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        encoded.finalize();
        let mut bytes = vec![0; encoded.buffer_len()];
        encoded.serialize(&mut bytes);
        send(&self.fd, &bytes, SendFlags::empty())?;
        let (mut answers, mut is_consistent) = (Vec::new(), true);
        loop {
            let (len, _) = recv(&self.fd, self.buffer.as_mut_slice(), RecvFlags::empty())?;
            if extract_answers(&self.buffer[..len], self.sequence, &mut answers, &mut is_consistent)? {
                // The error makes the caller repeat the request.
                return if is_consistent { Ok(answers) } else { Err(io::ErrorKind::Interrupted.into()) };
            }
        }
    }
}

/// Extracts the answers to a request from received bytes; returns true if the last answer was among them.
fn extract_answers(
    mut bytes: &[u8],
    sequence: u32,
    answers: &mut Vec<Message>,
    is_consistent: &mut bool,
) -> io::Result<bool> {
    let malformed = |error: DecodeError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
    while !bytes.is_empty() {
        let len = NetlinkBuffer::new_checked(&bytes).map_err(malformed)?.length() as usize;
        let message = NetlinkMessage::<Message>::deserialize(&bytes[..len]).map_err(malformed)?;
        // Lengths are rounded up to four bytes.
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        if message.header.sequence_number != sequence {
            continue;
        }
        *is_consistent &= message.header.flags & NLM_F_DUMP_INTR == 0;
        match message.payload {
            NetlinkPayload::InnerMessage(answer) => answers.push(answer),
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => {
                return error.code.map_or(Ok(true), |_| Err(error.to_io()));
            }
            _ => {}
        }
    }
    Ok(false)
}

/// Notifications of changes in the kernel. Their content is ignored, because the receiver reads the whole state after
/// each. So nothing is lost if the kernel drops some of them (ENOBUFS).
#[derive(Debug)]
pub struct Changes(mpsc::Receiver<()>);

impl Changes {
    /// Subscribes to the multicast groups of a protocol that are set as bits in `groups`. The default protocol is
    /// `rtnetlink(7)`.
    ///
    /// # Errors
    /// If the kernel refuses, or no thread can be started.
    pub fn follow(protocol: Option<Protocol>, groups: u32) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        let (changed, changes) = mpsc::channel(1);
        std::thread::Builder::new().spawn(move || {
            // If an earlier notification has not been read yet, this one needs no entry: the receiver will read the
            // whole state.
            while wait_for_notification(&socket)
                && !matches!(changed.try_send(()), Err(TrySendError::Closed(())))
            {}
        })?;
        Ok(Self(changes))
    }

    /// Waits for a change; returns false if no more changes will be reported.
    pub async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

/// Waits for a notification, or for the report that the kernel dropped some; returns false after any other error.
fn wait_for_notification(socket: &OwnedFd) -> bool {
    let mut buffer = [0; 16];
    match recv(socket, &mut buffer, RecvFlags::TRUNC) {
        Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => true,
        Err(error) => {
            log::log_line(format_args!("the kernel reports no more changes: {error}"));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nested() {
        let inside = Message::new(0, &[]).with(2, &[7]).with_u32(3, 1 << 31);
        let message = Message::new(16, &[1, 2, 3, 4]).with(1, b"abc").with_nested(5, &inside);
        assert_eq!(message.header().unwrap(), [1, 2, 3, 4]);
        // An attribute consists of its length, its type, and here three bytes and one byte of padding.
        assert_eq!(message.body[4..12], [7, 0, 1, 0, b'a', b'b', b'c', 0].map(u8::from));
        let outside = message.attributes(4).unwrap();
        assert_eq!(outside.get(1), Some(b"abc".as_slice()));
        let inside = Attributes::parse(outside.get(5).unwrap()).unwrap();
        assert_eq!(
            (inside.get(2), inside.u32(3), inside.u32(2)),
            (Some([7].as_slice()), Some(1 << 31), None)
        );
        assert!(message.header::<64>().is_err() && Attributes::parse(&[9, 0, 1, 0]).is_err());
    }

    #[test]
    fn kernel_answers_and_refuses_requests() {
        let mut socket = Socket::open(None).unwrap();
        // RTM_GETLINK succeeds: every namespace has a loopback interface. RTM_NEWADDR without an address is refused.
        let links = socket.list(&Message::new(18, &[0; 16])).unwrap();
        let names = links.iter().map(|link| link.attributes(16).unwrap().get(3).unwrap().to_vec());
        assert!(names.into_iter().any(|name| name == b"lo\0"));
        assert!(socket.execute(Message::new(20, &[0; 8]), 0).is_err());
    }
}
