//! Sources and destinations of packets.

use anabranch_wire::{Packet, Payload};
use std::io;
use std::os::fd::BorrowedFd;

/// A connection of this machine to a network. None of the calls blocks.
pub trait Device {
    /// The file descriptor that becomes readable when a packet has arrived.
    fn fd(&self) -> BorrowedFd<'_>;

    /// The next received packet; `bytes`, whose contents are replaced, gets its payload. Incomplete or
    /// incorrect packets, and those for other destinations, are skipped.
    ///
    /// # Errors
    ///
    /// If the device fails or was removed.
    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<Packet>>;

    /// Sends a packet with payload bytes from `fill`. `bytes` is a scratch buffer. If the machine has no
    /// buffer for the packet, it is lost, as on any network.
    ///
    /// # Errors
    ///
    /// If the device fails or was removed.
    fn send(&mut self, packet: &Packet, fill: Fill<'_>, bytes: &mut Vec<u8>) -> io::Result<()>;
}

/// Writes the bytes of a payload into the given slice.
pub type Fill<'a> = &'a mut dyn FnMut(Payload, &mut [u8]);

/// The result of a non-blocking system call; `None` if the packet was lost, for lack of buffers or because
/// the network is unreachable at the moment, which the protocols' timers handle.
pub(crate) fn unless_lost<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind as Kind;
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) => match error.kind() {
            Kind::WouldBlock
            | Kind::Interrupted
            | Kind::ConnectionRefused
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::HostUnreachable
            | Kind::PermissionDenied => Ok(None),
            _ if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::NOBUFS) => Ok(None),
            _ => Err(error),
        },
    }
}
