//! Sources and destinations of packets.

use anabranch_wire::{Packet, Payload};
use core::net::IpAddr;
use std::io;
use std::os::fd::BorrowedFd;

/// The part of the machine that a device depends on: while it is down, the device carries no packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// The device depends on nothing: it is always up.
    Nothing,
    /// The interface with this index.
    Interface(u32),
    /// An address of the machine, and the interface that has it.
    Address(IpAddr),
}

/// A connection of this machine to a network. None of the calls blocks.
pub trait Device: Send {
    /// The name in captures, for example of the interface.
    fn name(&self) -> String {
        "device".to_owned()
    }

    /// The part of the machine that the device depends on.
    fn attachment(&self) -> Attachment {
        Attachment::Nothing
    }

    /// The address of this machine's kernel at the device. Packets to it stay on the machine.
    fn kernel_address(&self) -> Option<IpAddr> {
        None
    }

    /// Tells the device the [addresses of the kernel](Self::kernel_address) at all devices of the host, whenever a device is
    /// added.
    fn set_kernel_addresses(&mut self, addresses: &[IpAddr]) {
        let _ = addresses;
    }

    /// The file descriptor that becomes readable when a packet has arrived.
    fn fd(&self) -> BorrowedFd<'_>;

    /// The next received packet; `bytes`, whose contents are replaced, gets its payload. Incomplete or
    /// incorrect packets, and those for other destinations, are skipped.
    ///
    /// # Errors
    ///
    /// If the device fails or was removed.
    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<Packet>>;

    /// Sends a packet with payload bytes from `fill`, or keeps it until the next [`flush`](Self::flush). `bytes` is a scratch
    /// buffer. If the machine has no buffer for the packet, or the interface is down, it is lost, as on any network.
    ///
    /// # Errors
    ///
    /// If the device fails or was removed.
    fn send(&mut self, packet: &Packet, fill: Fill<'_>, bytes: &mut Vec<u8>) -> io::Result<()>;

    /// Sends the packets that [`send`](Self::send) has kept. A device around another one passes the call on.
    ///
    /// # Errors
    ///
    /// If the device fails or was removed.
    fn flush(&mut self) -> io::Result<()>;
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
            _ => match rustix::io::Errno::from_io_error(&error) {
                // A TUN interface that is down returns EIO.
                Some(rustix::io::Errno::NOBUFS | rustix::io::Errno::NOMEM | rustix::io::Errno::IO) => {
                    Ok(None)
                }
                _ => Err(error),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn lack_of_buffers_is_a_loss() {
        let result = |errno: Errno| unless_lost::<()>(Err(errno.into())).map_err(|_| errno);
        for lost in [Errno::NOBUFS, Errno::NOMEM, Errno::AGAIN, Errno::IO, Errno::PERM, Errno::HOSTUNREACH] {
            assert_eq!(result(lost), Ok(None), "{lost}");
        }
        // A deleted interface, and a closed descriptor.
        for failed in [Errno::BADFD, Errno::BADF] {
            assert_eq!(result(failed), Err(failed));
        }
    }
}
