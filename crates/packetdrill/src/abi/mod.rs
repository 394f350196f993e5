//! The interface of C: a table of functions that packetdrill calls with `--so_filename`.
//!
//! The declarations state the meaning of the interface: each function has the arguments of the system call of its name after
//! a pointer that belongs to the library, returns what the call returns, and sets `errno`. Three functions are the network
//! and the clock: one hands a packet to the stack, one takes the next packet of the stack with its time, and two read the
//! clock and let time pass.

#![expect(unsafe_code, reason = "the interface passes addresses of the caller's memory")]

mod calls;
mod memory;
mod network;
mod options;
mod readiness;
mod table;
#[cfg(test)]
mod tests;

pub use table::{Interface, packetdrill_interface_init};

use crate::{Errno, Shared};
use core::ffi::c_void;
use std::sync::OnceLock;

/// The machine of this process.
static MACHINE: OnceLock<Shared> = OnceLock::new();

/// The machine behind the pointer of the interface. There is one, since a process runs one script at a time.
fn machine() -> Option<&'static Shared> {
    MACHINE.get()
}

/// Makes a call of the machine; stores its error in `errno`, and returns −1 for it.
fn answer<T: From<i8>>(call: impl FnOnce(&Shared) -> Result<T, Errno>) -> T {
    match machine().ok_or(libc::EBADF).and_then(call) {
        Ok(value) => value,
        Err(error) => {
            // SAFETY: the address of this thread's `errno` is always valid.
            unsafe { *libc::__errno_location() = error };
            T::from(-1)
        }
    }
}

/// The first argument of each function, which this library does not need.
type Userdata = *mut c_void;
