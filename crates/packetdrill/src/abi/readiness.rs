//! Waiting for several descriptors. `poll` is part of the machine; `epoll`, pipes and `splice` are the kernel's.

use super::{Userdata, answer};
use crate::{Errno, Machine};
use core::ffi::{c_int, c_uint};
use libc::{epoll_event, loff_t, nfds_t, pollfd, size_t};

pub extern "C" fn poll(_: Userdata, fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    answer(|shared| {
        // SAFETY: the caller passes that many entries.
        let fds = if count == 0 {
            &mut [][..]
        } else {
            unsafe { core::slice::from_raw_parts_mut(fds, count as usize) }
        };
        let first = fds.first().map_or(-1, |first| first.fd);
        let look = |machine: &mut Machine| match ready(machine, fds) {
            0 if timeout != 0 => Err(libc::EAGAIN),
            ready => Ok(ready),
        };
        if timeout == 0 { shared.call(look) } else { shared.wait(first, look) }
    })
}

/// Fills in the events of each descriptor; returns the number of those with any.
fn ready(machine: &mut Machine, fds: &mut [pollfd]) -> c_int {
    let mut ready = 0;
    for entry in fds {
        let always = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        entry.revents = machine.events(entry.fd) & (entry.events | always);
        ready += c_int::from(entry.revents != 0);
    }
    ready
}

pub extern "C" fn epoll_create(_: Userdata, _: c_int) -> c_int {
    unsupported()
}

pub extern "C" fn epoll_ctl(_: Userdata, _: c_int, _: c_int, _: c_int, _: *mut epoll_event) -> c_int {
    unsupported()
}

pub extern "C" fn epoll_wait(_: Userdata, _: c_int, _: *mut epoll_event, _: c_int, _: c_int) -> c_int {
    unsupported()
}

pub extern "C" fn pipe(_: Userdata, _: *mut c_int) -> c_int {
    unsupported()
}

pub extern "C" fn splice(
    _: Userdata,
    _: c_int,
    _: *mut loff_t,
    _: c_int,
    _: *mut loff_t,
    _: size_t,
    _: c_uint,
) -> c_int {
    unsupported()
}

/// The answer of a call that belongs to the kernel.
fn unsupported() -> c_int {
    answer(|_| Err::<c_int, Errno>(libc::ENOSYS))
}
