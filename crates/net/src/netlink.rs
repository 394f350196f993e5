//! Lists of the kernel over netlink sockets (`netlink(7)`), and their attributes.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use std::io;
use std::os::fd::OwnedFd;

/// Types of the last message of a list (`NLMSG_DONE`) and of an error (`NLMSG_ERROR`).
const DONE_MESSAGE: u16 = 3;
const ERROR_MESSAGE: u16 = 2;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP_REQUEST: u16 = 0x301;
/// Flag of a list that changed while the kernel wrote it (`NLM_F_DUMP_INTR`).
const CHANGED_FLAG: u16 = 0x10;
/// Length of `struct nlmsghdr`, and of the head of an attribute (`struct nlattr`).
const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEAD_BYTES: usize = 4;
/// Size of the buffer for a reply. The kernel writes at most this many bytes at once.
const REPLY_BUFFER_BYTES: usize = 1 << 15;
/// Limit of reads of a list that changes meanwhile.
const MAX_READS: u32 = 10;

/// A socket for requests of lists, of the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Lists {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Lists {
    /// Opens a socket of a netlink protocol; `None` is `NETLINK_ROUTE`.
    ///
    /// # Errors
    /// If the kernel lacks the protocol.
    pub fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { socket, buffer: vec![0; REPLY_BUFFER_BYTES] })
    }

    /// The items that `item` decodes from the bodies of the messages of type `reply` in the answer to `request`.
    ///
    /// A list that changes while the kernel writes it is read again. After ten attempts the last one counts: the kernel
    /// notifies of changes.
    ///
    /// # Errors
    /// If the kernel refuses the request.
    pub fn read<T>(
        &mut self,
        (request, body): (u16, &[u8]),
        reply: u16,
        item: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        let message = encode(request, body);
        let mut items = Vec::new();
        for _ in 0..MAX_READS {
            items.clear();
            send(&self.socket, &message, SendFlags::empty())?;
            let mut part = Part { ended: false, changed: false };
            while !part.ended {
                let (received, _) = recv(&self.socket, self.buffer.as_mut_slice(), RecvFlags::empty())?;
                let each = |body: &[u8]| items.extend(item(body));
                part.decode(&self.buffer[..received], reply, each)?;
            }
            if !part.changed {
                break;
            }
        }
        Ok(items)
    }
}

fn encode(request: u16, body: &[u8]) -> Vec<u8> {
    let mut message = vec![0; HEADER_BYTES];
    message[..4].copy_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&request.to_ne_bytes());
    message[6..8].copy_from_slice(&DUMP_REQUEST.to_ne_bytes());
    message.extend_from_slice(body);
    message
}

/// A list, as far as it was received.
struct Part {
    ended: bool,
    changed: bool,
}

impl Part {
    /// Decodes the messages of one datagram.
    fn decode(&mut self, mut bytes: &[u8], reply: u16, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        while let Some(len) = word(bytes, 0).map(|len| len as usize)
            && (HEADER_BYTES..=bytes.len()).contains(&len)
        {
            let body = &bytes[HEADER_BYTES..len];
            self.changed |= half(bytes, 6).is_some_and(|flags| flags & CHANGED_FLAG != 0);
            match half(bytes, 4) {
                Some(DONE_MESSAGE) => self.ended = true,
                Some(ERROR_MESSAGE) => {
                    let code = word(body, 0).map_or(0, u32::cast_signed);
                    return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
                }
                Some(found) if found == reply => each(body),
                _ => {}
            }
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(())
    }
}

/// The attributes of a message, with their types.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let (len, kind) = (usize::from(half(bytes, 0)?), half(bytes, 2)?);
        let value = bytes.get(ATTRIBUTE_HEAD_BYTES..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// 32 bits at an offset, in the machine's order.
pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

/// 16 bits at an offset, in the machine's order.
pub fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with a type and flags.
    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = encode(kind, body);
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn list_ends_with_its_last_message() {
        let mut part = Part { ended: false, changed: false };
        let mut bodies = Vec::new();
        let first = [message(16, 2, b"abcde"), message(99, 2, b"other"), message(16, 2, b"f")].concat();
        part.decode(&first, 16, |body| bodies.push(body.to_vec())).expect("no error");
        assert_eq!((bodies.as_slice(), part.ended), (&[b"abcde".to_vec(), b"f".to_vec()][..], false));
        part.decode(&message(DONE_MESSAGE, 2, &[0; 4]), 16, |_| panic!("no item")).expect("no error");
        assert!(part.ended && !part.changed);
    }

    #[test]
    fn change_during_a_list_is_seen() {
        let mut part = Part { ended: false, changed: false };
        part.decode(&message(16, 2 | CHANGED_FLAG, b"a"), 16, |_| {}).expect("no error");
        part.decode(&message(DONE_MESSAGE, 2, &[0; 4]), 16, |_| {}).expect("no error");
        assert!(part.ended && part.changed);
    }

    #[test]
    fn error_of_the_kernel_is_returned() {
        let mut part = Part { ended: false, changed: false };
        // EOPNOTSUPP.
        let refused = part.decode(&message(ERROR_MESSAGE, 0, &(-95_i32).to_ne_bytes()), 16, |_| {});
        assert_eq!(refused.expect_err("an error").raw_os_error(), Some(95));
    }

    #[test]
    fn truncated_attributes_end_the_list() {
        let bytes = [5, 0, 1, 0, 7, 0, 0, 0, 9, 0, 2, 0, 1];
        let bytes: Vec<u8> = if cfg!(target_endian = "little") { bytes.into() } else { return };
        assert_eq!(attributes(&bytes).collect::<Vec<_>>(), [(1, &[7_u8][..])]);
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
    }
}
