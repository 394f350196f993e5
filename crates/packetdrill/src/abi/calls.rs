//! Connections and their bytes.

use super::{Userdata, answer, memory};
use crate::{Errno, Machine, Shared};
use core::ffi::{c_int, c_void};
use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

pub extern "C" fn socket(_: Userdata, _: c_int, kind: c_int, protocol: c_int) -> c_int {
    answer(|shared| shared.call(|machine| machine.socket(kind, protocol)))
}

pub extern "C" fn bind(_: Userdata, fd: c_int, local: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller passes an address of this length.
    let local = unsafe { memory::address(local, len) };
    done(|shared| shared.call(|machine| machine.bind(fd, local?)))
}

pub extern "C" fn listen(_: Userdata, fd: c_int, backlog: c_int) -> c_int {
    done(|shared| shared.call(|machine| machine.listen(fd, backlog)))
}

pub extern "C" fn accept(_: Userdata, fd: c_int, remote: *mut sockaddr, len: *mut socklen_t) -> c_int {
    answer(|shared| {
        let (accepted, from) = shared.wait(fd, |machine| machine.accept(fd))?;
        // SAFETY: the caller passes the length of its buffer.
        unsafe { memory::write_address(from, remote, len) };
        Ok(accepted)
    })
}

pub extern "C" fn connect(_: Userdata, fd: c_int, remote: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller passes an address of this length.
    let remote = unsafe { memory::address(remote, len) };
    done(|shared| {
        match shared.call(|machine| machine.connect(fd, remote?)) {
            Err(libc::EINPROGRESS) if shared.call(|machine| machine.blocks(fd)) => {}
            result => return result,
        }
        shared.wait(fd, |machine| machine.connected(fd))
    })
}

pub extern "C" fn read(_: Userdata, fd: c_int, out: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: the caller passes a buffer of this length.
    unsafe { receive(fd, out, len, 0) }
}

pub extern "C" fn readv(_: Userdata, fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller passes that many buffers.
    unsafe { receive_parts(fd, parts, count as usize, 0) }
}

pub extern "C" fn recv(_: Userdata, fd: c_int, out: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller passes a buffer of this length.
    unsafe { receive(fd, out, len, flags) }
}

pub extern "C" fn recvfrom(
    _: Userdata,
    fd: c_int,
    out: *mut c_void,
    len: size_t,
    flags: c_int,
    _: *mut sockaddr,
    _: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the caller passes a buffer of this length.
    unsafe { receive(fd, out, len, flags) }
}

pub extern "C" fn recvmsg(_: Userdata, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller passes a message with its buffers.
    unsafe {
        (*message).msg_flags = 0;
        (*message).msg_controllen = 0;
        receive_parts(fd, (*message).msg_iov, (*message).msg_iovlen, flags)
    }
}

pub extern "C" fn write(_: Userdata, fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the caller passes bytes of this length.
    transmit(fd, unsafe { memory::bytes(from, len) }.map(<[u8]>::to_vec), 0)
}

pub extern "C" fn writev(_: Userdata, fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller passes that many parts.
    transmit(fd, unsafe { gather(parts, count as usize) }, 0)
}

pub extern "C" fn send(_: Userdata, fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller passes bytes of this length.
    transmit(fd, unsafe { memory::bytes(from, len) }.map(<[u8]>::to_vec), flags)
}

pub extern "C" fn sendto(
    _: Userdata,
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
    _: *const sockaddr,
    _: socklen_t,
) -> ssize_t {
    // SAFETY: the caller passes bytes of this length.
    transmit(fd, unsafe { memory::bytes(from, len) }.map(<[u8]>::to_vec), flags)
}

pub extern "C" fn sendmsg(_: Userdata, fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller passes a message with its parts.
    transmit(fd, unsafe { gather((*message).msg_iov, (*message).msg_iovlen) }, flags)
}

pub extern "C" fn close(_: Userdata, fd: c_int) -> c_int {
    done(|shared| shared.call(|machine| machine.close(fd)))
}

pub extern "C" fn shutdown(_: Userdata, fd: c_int, how: c_int) -> c_int {
    done(|shared| shared.call(|machine| machine.shutdown(fd, how)))
}

/// Makes a call without a value: 0, or −1 with `errno`.
fn done(call: impl FnOnce(&Shared) -> Result<(), Errno>) -> c_int {
    answer(|shared| call(shared).map(|()| 0))
}

/// Reads into one buffer.
///
/// # Safety
/// `len` bytes at `out` are writable.
// SAFETY: its callers are functions of the interface, which trust their caller in C.
unsafe fn receive(fd: c_int, out: *mut c_void, len: usize, flags: c_int) -> ssize_t {
    let part = iovec { iov_base: out, iov_len: len };
    // SAFETY: by the contract of this function.
    unsafe { receive_parts(fd, &raw const part, 1, flags) }
}

/// Reads into several buffers.
///
/// # Safety
/// There are `count` buffers at `parts`, and each is writable.
// SAFETY: its callers are functions of the interface, which trust their caller in C.
unsafe fn receive_parts(fd: c_int, parts: *const iovec, count: usize, flags: c_int) -> ssize_t {
    answer(|shared| {
        // SAFETY: by the contract of this function.
        let parts = if count == 0 { &[] } else { unsafe { core::slice::from_raw_parts(parts, count) } };
        let room = parts.iter().map(|part| part.iov_len).sum();
        let peeks = flags & libc::MSG_PEEK != 0;
        let read = |machine: &mut Machine| machine.read(fd, room, peeks);
        let bytes = if flags & libc::MSG_DONTWAIT != 0 { shared.call(read) } else { shared.wait(fd, read) }?;
        let mut rest = bytes.as_slice();
        for part in parts {
            let (here, after) = rest.split_at(part.iov_len.min(rest.len()));
            // SAFETY: by the contract of this function; `here` is at most as long as the part.
            unsafe { memory::copy(here, part.iov_base) };
            rest = after;
        }
        Ok(bytes.len() as ssize_t)
    })
}

/// The bytes of several parts of a message.
///
/// # Safety
/// There are `count` parts at `parts`, and each is readable.
// SAFETY: its callers are functions of the interface, which trust their caller in C.
unsafe fn gather(parts: *const iovec, count: usize) -> Result<Vec<u8>, Errno> {
    let mut out = Vec::new();
    for at in 0..count {
        // SAFETY: by the contract of this function.
        let part = unsafe { &*parts.add(at) };
        // SAFETY: by the contract of this function.
        out.extend_from_slice(unsafe { memory::bytes(part.iov_base, part.iov_len) }?);
    }
    Ok(out)
}

/// Writes bytes. A blocking call waits until all are accepted.
fn transmit(fd: c_int, bytes: Result<Vec<u8>, Errno>, flags: c_int) -> ssize_t {
    answer(|shared| {
        let bytes = bytes?;
        if flags & libc::MSG_DONTWAIT != 0 {
            return shared.call(|machine| machine.write(fd, &bytes)).map(|accepted| accepted as ssize_t);
        }
        let mut written = 0;
        let all = shared.wait(fd, |machine| {
            match machine.write(fd, &bytes[written..]) {
                Ok(accepted) => written += accepted,
                Err(libc::EAGAIN) if written > 0 && !machine.blocks(fd) => return Ok(()),
                Err(error) => return Err(error),
            }
            if written == bytes.len() || !machine.blocks(fd) { Ok(()) } else { Err(libc::EAGAIN) }
        });
        all.map(|()| written as ssize_t)
    })
}
