//! Options of sockets.

use super::{Userdata, answer, memory};
use core::ffi::{c_int, c_long, c_ulong, c_void};
use libc::{linger, socklen_t};

/// `SIOCINQ` and `SIOCOUTQ` of Linux.
const UNREAD: c_ulong = libc::FIONREAD;
const UNACKNOWLEDGED: c_ulong = libc::TIOCOUTQ;

pub extern "C" fn fcntl(_: Userdata, fd: c_int, command: c_int, value: c_long) -> c_int {
    answer(|shared| {
        shared.call(|machine| match command {
            libc::F_GETFL => {
                let waits = machine.blocks(fd);
                Ok(libc::O_RDWR | if waits { 0 } else { libc::O_NONBLOCK })
            }
            libc::F_SETFL => machine.set_nonblocking(fd, value as c_int & libc::O_NONBLOCK != 0).map(|()| 0),
            _ => Err(libc::EINVAL),
        })
    })
}

pub extern "C" fn ioctl(_: Userdata, fd: c_int, request: c_ulong, out: *mut c_int) -> c_int {
    answer(|shared| {
        let value = shared.call(|machine| match request {
            UNREAD => machine.readable(fd),
            UNACKNOWLEDGED => machine.unacknowledged(fd),
            _ => Err(libc::EINVAL),
        })?;
        // SAFETY: both requests have an address for a number.
        unsafe { out.write(value as c_int) };
        Ok(0)
    })
}

pub extern "C" fn setsockopt(
    _: Userdata,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    answer(|shared| {
        // SAFETY: the caller passes a value of this length.
        let bytes = unsafe { memory::bytes(value, len as usize) }?;
        if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) && bytes.len() == size_of::<linger>() {
            // SAFETY: the length is that of the structure, which may lie at any address.
            let linger = unsafe { value.cast::<linger>().read_unaligned() };
            shared.call(|machine| machine.set_linger(fd, linger.l_onoff != 0, linger.l_linger))?;
            return Ok(0);
        }
        let number = bytes.try_into().map(i32::from_ne_bytes).map_err(|_| libc::EINVAL)?;
        shared.call(|machine| machine.set_option(fd, (level, name), number)).map(|()| 0)
    })
}

pub extern "C" fn getsockopt(
    _: Userdata,
    fd: c_int,
    level: c_int,
    name: c_int,
    out: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    answer(|shared| {
        let value = shared.call(|machine| machine.option(fd, (level, name)))?;
        // SAFETY: the caller passes the length of its buffer.
        unsafe {
            let kept = value.len().min(*len as usize);
            memory::copy(&value[..kept], out);
            *len = kept as socklen_t;
        }
        Ok(0)
    })
}

/// `getsockopt` of the C library, for a process into which this library is preloaded: packetdrill reads
/// values for its assertions by `getsockopt`, and not by the interface. Descriptors of other files go to the
/// kernel.
///
/// # Safety
/// As the function of the C library.
// SAFETY: the name replaces that of the C library, with the same contract.
#[cfg(not(test))]
#[unsafe(export_name = "getsockopt")]
pub unsafe extern "C" fn preloaded(
    fd: c_int,
    level: c_int,
    name: c_int,
    out: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if super::machine().is_some_and(|shared| shared.call(|machine| machine.has_socket(fd))) {
        return getsockopt(core::ptr::null_mut(), fd, level, name, out, len);
    }
    // SAFETY: by the contract of this function.
    unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, out, len) as c_int }
}
