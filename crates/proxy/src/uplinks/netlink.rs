//! Asking the kernel, and telling it, by `netlink(7)`.

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

/// Room for a part of an answer; the kernel takes as much as is offered, up to this.
const MAX_MESSAGE_BYTES: usize = 1 << 15;

/// Attempts to read a list that changes meanwhile.
const MAX_TRIES: u32 = 5;

/// A message: its type, a header of a length that goes with the type, and attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    kind: u16,
    body: Vec<u8>,
}

impl Message {
    /// With a header alone.
    pub fn new(kind: u16, header: &[u8]) -> Self {
        Self { kind, body: header.to_vec() }
    }

    /// With a further attribute.
    #[must_use]
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let attribute = DefaultNla::new(kind, value.to_vec());
        let begin = self.body.len();
        self.body.resize(begin + attribute.buffer_len(), 0);
        attribute.emit(&mut self.body[begin..]);
        self
    }

    /// With a further attribute that is a number in the machine's order.
    #[must_use]
    pub fn with_u32(self, kind: u16, value: u32) -> Self {
        self.with(kind, &value.to_ne_bytes())
    }

    /// With a further attribute that consists of attributes.
    #[must_use]
    pub fn with_nested(self, kind: u16, inside: &Self) -> Self {
        self.with(kind | NLA_F_NESTED, &inside.body)
    }

    /// The header of this length.
    pub fn header<const N: usize>(&self) -> io::Result<[u8; N]> {
        self.body.first_chunk().copied().ok_or_else(short)
    }

    /// The attributes behind a header of this length, of each kind the last.
    pub fn attributes(&self, header: usize) -> io::Result<Attributes<'_>> {
        Attributes::parse(self.body.get(header..).ok_or_else(short)?)
    }
}

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

/// Attributes by their kinds.
#[derive(Clone, Debug, Default)]
pub struct Attributes<'a>(BTreeMap<u16, &'a [u8]>);

impl<'a> Attributes<'a> {
    /// Reads attributes that follow one another.
    ///
    /// # Errors
    /// If lengths do not fit.
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

    /// The bytes of one.
    pub fn get(&self, kind: u16) -> Option<&'a [u8]> {
        self.0.get(&kind).copied()
    }

    /// One that is a number of four bytes in the machine's order.
    pub fn u32(&self, kind: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(self.get(kind)?.try_into().ok()?))
    }

    /// One that is an address, by its length.
    pub fn ip(&self, kind: u16) -> Option<core::net::IpAddr> {
        let bytes = self.get(kind)?;
        let v4 = || <[u8; 4]>::try_from(bytes).ok().map(core::net::IpAddr::from);
        v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(core::net::IpAddr::from))
    }
}

/// A socket by which the kernel is asked.
#[derive(Debug)]
pub struct Socket {
    asked: OwnedFd,
    sequence: u32,
    room: Vec<u8>,
}

impl Socket {
    /// For one of the kernel's protocols.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { asked: socket, sequence: 0, room: vec![0; MAX_MESSAGE_BYTES] })
    }

    /// Has the kernel do something.
    ///
    /// # Errors
    /// If it refuses.
    pub fn tell(&mut self, message: Message, flags: u16) -> io::Result<()> {
        self.ask(message, NLM_F_ACK | flags).map(drop)
    }

    /// The one answer to a question.
    ///
    /// # Errors
    /// If the kernel refuses, or does not answer.
    pub fn one(&mut self, message: Message) -> io::Result<Message> {
        self.ask(message, NLM_F_ACK)?.into_iter().next().ok_or_else(short)
    }

    /// All that there is of something.
    ///
    /// # Errors
    /// If the kernel refuses, or what there is changes all the time.
    pub fn list(&mut self, message: &Message) -> io::Result<Vec<Message>> {
        for _ in 1..MAX_TRIES {
            match self.ask(message.clone(), NLM_F_DUMP) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
        self.ask(message.clone(), NLM_F_DUMP)
    }

    fn ask(&mut self, message: Message, flags: u16) -> io::Result<Vec<Message>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        send(&self.asked, &bytes, SendFlags::empty())?;
        let (mut answers, mut whole) = (Vec::new(), true);
        loop {
            let (len, _) = recv(&self.asked, self.room.as_mut_slice(), RecvFlags::empty())?;
            if take(&self.room[..len], self.sequence, &mut answers, &mut whole)? {
                // The caller repeats the request.
                return if whole { Ok(answers) } else { Err(io::ErrorKind::Interrupted.into()) };
            }
        }
    }
}

/// Extracts the answers from received bytes; true after the last one.
fn take(mut bytes: &[u8], sequence: u32, answers: &mut Vec<Message>, whole: &mut bool) -> io::Result<bool> {
    let malformed = |error: DecodeError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
    while !bytes.is_empty() {
        let len = NetlinkBuffer::new_checked(&bytes).map_err(malformed)?.length() as usize;
        let message = NetlinkMessage::<Message>::deserialize(&bytes[..len]).map_err(malformed)?;
        // Lengths are rounded up to four bytes.
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        if message.header.sequence_number != sequence {
            continue;
        }
        *whole &= message.header.flags & NLM_F_DUMP_INTR == 0;
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

/// Notifications of changes. Their content is ignored, since the whole state is read after each: notifications that the kernel
/// had to drop (ENOBUFS) lose nothing.
#[derive(Debug)]
pub struct Changes(mpsc::Receiver<()>);

impl Changes {
    /// Of these multicast groups (bits) of a protocol, which is `rtnetlink(7)` if none is given.
    ///
    /// # Errors
    /// If the kernel refuses, or the machine has no thread for it.
    pub fn follow(protocol: Option<Protocol>, groups: u32) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        let (changed, changes) = mpsc::channel(1);
        std::thread::Builder::new().spawn(move || {
            // A change that has not been looked at yet stands for this one, too.
            while received(&socket) && !matches!(changed.try_send(()), Err(TrySendError::Closed(()))) {}
        })?;
        Ok(Self(changes))
    }

    /// Waits for a change; false if there will be none any more.
    pub async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

/// Waits for a notification, or for the report that some were dropped; false if no more will come.
fn received(socket: &OwnedFd) -> bool {
    let mut room = [0; 16];
    match recv(socket, &mut room, RecvFlags::TRUNC) {
        Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => true,
        Err(error) => {
            log::say(format_args!("no more changes are reported by the kernel: {error}"));
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
        // Length and kind, three bytes and one for the boundary; then the same with all that is inside.
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
    fn the_kernel_answers_and_refuses() {
        let mut socket = Socket::open(None).unwrap();
        // RTM_GETLINK: every namespace has a loopback interface. RTM_NEWADDR without an address is refused.
        let links = socket.list(&Message::new(18, &[0; 16])).unwrap();
        let names = links.iter().map(|link| link.attributes(16).unwrap().get(3).unwrap().to_vec());
        assert!(names.into_iter().any(|name| name == b"lo\0"));
        assert!(socket.tell(Message::new(20, &[0; 8]), 0).is_err());
    }
}
