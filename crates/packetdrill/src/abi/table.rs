//! The table of functions.

use super::{MACHINE, Userdata, calls, network, options, readiness};
use crate::{Settings, Shared};
use core::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use core::ptr;
use libc::{
    epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval,
};

/// The functions, in the order of the interface. Most have the name of their system call; the module's page
/// describes the others. Like system calls, they trust the addresses that the caller passes. Only C code can
/// access the fields.
#[repr(C)]
#[derive(Debug)]
pub struct Interface {
    pub(super) userdata: Userdata,
    pub(super) free: extern "C" fn(Userdata),
    pub(super) socket: extern "C" fn(Userdata, c_int, c_int, c_int) -> c_int,
    pub(super) bind: extern "C" fn(Userdata, c_int, *const sockaddr, socklen_t) -> c_int,
    pub(super) listen: extern "C" fn(Userdata, c_int, c_int) -> c_int,
    pub(super) accept: extern "C" fn(Userdata, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    pub(super) connect: extern "C" fn(Userdata, c_int, *const sockaddr, socklen_t) -> c_int,
    pub(super) read: extern "C" fn(Userdata, c_int, *mut c_void, size_t) -> ssize_t,
    pub(super) readv: extern "C" fn(Userdata, c_int, *const iovec, c_int) -> ssize_t,
    pub(super) recv: extern "C" fn(Userdata, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    pub(super) recvfrom:
        extern "C" fn(Userdata, c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
    pub(super) recvmsg: extern "C" fn(Userdata, c_int, *mut msghdr, c_int) -> ssize_t,
    pub(super) write: extern "C" fn(Userdata, c_int, *const c_void, size_t) -> ssize_t,
    pub(super) writev: extern "C" fn(Userdata, c_int, *const iovec, c_int) -> ssize_t,
    pub(super) send: extern "C" fn(Userdata, c_int, *const c_void, size_t, c_int) -> ssize_t,
    pub(super) sendto:
        extern "C" fn(Userdata, c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t,
    pub(super) sendmsg: extern "C" fn(Userdata, c_int, *const msghdr, c_int) -> ssize_t,
    /// Variadic for the caller; the third argument is a number.
    pub(super) fcntl: extern "C" fn(Userdata, c_int, c_int, c_long) -> c_int,
    /// Variadic for the caller; the third argument is an address.
    pub(super) ioctl: extern "C" fn(Userdata, c_int, c_ulong, *mut c_int) -> c_int,
    pub(super) close: extern "C" fn(Userdata, c_int) -> c_int,
    pub(super) shutdown: extern "C" fn(Userdata, c_int, c_int) -> c_int,
    pub(super) getsockopt: extern "C" fn(Userdata, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    pub(super) setsockopt: extern "C" fn(Userdata, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    pub(super) poll: extern "C" fn(Userdata, *mut pollfd, nfds_t, c_int) -> c_int,
    pub(super) netdev_send: extern "C" fn(Userdata, *const c_void, size_t) -> c_int,
    pub(super) netdev_receive: extern "C" fn(Userdata, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    pub(super) usleep: extern "C" fn(Userdata, c_uint) -> c_int,
    pub(super) gettimeofday: extern "C" fn(Userdata, *mut timeval, *mut c_void) -> c_int,
    pub(super) epoll_create: extern "C" fn(Userdata, c_int) -> c_int,
    pub(super) epoll_ctl: extern "C" fn(Userdata, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    pub(super) epoll_wait: extern "C" fn(Userdata, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pub(super) pipe: extern "C" fn(Userdata, *mut c_int) -> c_int,
    pub(super) splice:
        extern "C" fn(Userdata, c_int, *mut loff_t, c_int, *mut loff_t, size_t, c_uint) -> c_int,
}

/// Fills the table of the caller. `flags` are those of [`Settings`]; without any, packetdrill's own addresses are used.
///
/// # Safety
/// `flags` is null or ends with a zero byte, and `interface` is writable.
// SAFETY: the name is used once in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, interface: *mut Interface) {
    // SAFETY: by the contract of this function.
    let flags = if flags.is_null() { c"" } else { unsafe { CStr::from_ptr(flags) } };
    let settings = match flags.to_str() {
        Ok("") => Ok(Settings::default()),
        Ok(text) => text.parse(),
        Err(_) => Err("the flags are not UTF-8".to_owned()),
    };
    match settings {
        Ok(settings) => drop(MACHINE.set(Shared::new(settings))),
        Err(error) => {
            eprintln!("--so_flags: {error}");
            std::process::exit(2);
        }
    }
    // SAFETY: by the contract of this function.
    unsafe { ptr::write(interface, TABLE) };
}

/// The functions of this library.
pub(super) const TABLE: Interface = Interface {
    userdata: ptr::null_mut(),
    free: network::free,
    socket: calls::socket,
    bind: calls::bind,
    listen: calls::listen,
    accept: calls::accept,
    connect: calls::connect,
    read: calls::read,
    readv: calls::readv,
    recv: calls::recv,
    recvfrom: calls::recvfrom,
    recvmsg: calls::recvmsg,
    write: calls::write,
    writev: calls::writev,
    send: calls::send,
    sendto: calls::sendto,
    sendmsg: calls::sendmsg,
    fcntl: options::fcntl,
    ioctl: options::ioctl,
    close: calls::close,
    shutdown: calls::shutdown,
    getsockopt: options::getsockopt,
    setsockopt: options::setsockopt,
    poll: readiness::poll,
    netdev_send: network::netdev_send,
    netdev_receive: network::netdev_receive,
    usleep: network::usleep,
    gettimeofday: network::gettimeofday,
    epoll_create: readiness::epoll_create,
    epoll_ctl: readiness::epoll_ctl,
    epoll_wait: readiness::epoll_wait,
    pipe: readiness::pipe,
    splice: readiness::splice,
};
