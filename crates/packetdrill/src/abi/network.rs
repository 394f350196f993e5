//! The network and the clock.

use super::{Userdata, answer, machine, memory};
use anabranch_base::time::Duration;
use core::ffi::{c_int, c_longlong, c_uint, c_void};
use libc::{size_t, timeval};

/// Ends the use of the table. The machine remains, since its sockets' descriptors belong to the process.
pub extern "C" fn free(_: Userdata) {}

/// Hands a packet to the stack.
pub extern "C" fn netdev_send(_: Userdata, packet: *const c_void, len: size_t) -> c_int {
    answer(|shared| {
        // SAFETY: the caller passes a packet of this length.
        let packet = unsafe { memory::bytes(packet, len) }?;
        shared.call(|machine| machine.receive(packet));
        Ok(0)
    })
}

/// Takes the next packet of the stack. If none can follow, the process ends, because the caller would wait without end.
pub extern "C" fn netdev_receive(
    _: Userdata,
    out: *mut c_void,
    len: *mut size_t,
    micros: *mut c_longlong,
) -> c_int {
    answer(|shared| {
        let Some((packet, sent)) = shared.next_packet() else {
            eprintln!("no packet follows: the stack has no timer");
            std::process::exit(1);
        };
        // SAFETY: the caller passes the length of its buffer, and addresses for the length of the packet and its time.
        unsafe {
            let kept = packet.len().min(*len);
            memory::copy(&packet[..kept], out);
            *len = kept;
            *micros = (sent.as_nanos() / 1_000) as c_longlong;
        }
        Ok(0)
    })
}

/// Lets time pass.
pub extern "C" fn usleep(_: Userdata, micros: c_uint) -> c_int {
    answer(|shared| {
        shared.sleep(Duration::from_micros(u64::from(micros)));
        Ok(0)
    })
}

/// Reads the clock.
pub extern "C" fn gettimeofday(_: Userdata, out: *mut timeval, _: *mut c_void) -> c_int {
    let Some(shared) = machine() else { return -1 };
    let micros = shared.read_clock().as_nanos() / 1_000;
    let time = timeval { tv_sec: (micros / 1_000_000) as i64, tv_usec: (micros % 1_000_000) as i64 };
    // SAFETY: the caller passes an address for the time.
    unsafe { out.write(time) };
    0
}
