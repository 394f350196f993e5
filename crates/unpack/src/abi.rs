//! The functions that the WebAssembly module exports, for `lab/src/core/unpack.ts`: the page writes the text to the address
//! of [`unpack_begin`], calls [`unpack_step`] until it returns no 0, and reads the bytes at [`unpack_output`].

#![expect(unsafe_code, reason = "exported functions have unmangled names")]

use crate::Unpacking;
use std::cell::Cell;

// Cells instead of `RefCell`, and no index that can be out of bounds: the text of panics would be most of the module.
thread_local! {
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static UNPACKING: Cell<Option<Unpacking>> = const { Cell::new(None) };
}

/// Reserves memory for a text, and returns its address.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn unpack_begin(len: usize) -> *mut u8 {
    UNPACKING.take();
    let mut text = vec![0; len];
    let address = text.as_mut_ptr();
    TEXT.set(text);
    address
}

/// Unpacks a part of the text: returns 1 if all is unpacked, 0 if more calls are needed, and −1 if the text is damaged.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn unpack_step() -> i32 {
    let begun = match UNPACKING.take() {
        Some(begun) => Ok(begun),
        None => Unpacking::new(&TEXT.take()),
    };
    match begun.and_then(|mut begun| begun.step().map(|done| (begun, done))) {
        Ok((begun, done)) => {
            UNPACKING.set(Some(begun));
            i32::from(done)
        }
        Err(_) => -1,
    }
}

/// Address of the unpacked data.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn unpack_output() -> *const u8 {
    with_output(<[u8]>::as_ptr)
}

/// Length in bytes of the unpacked data.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn unpack_output_len() -> usize {
    with_output(<[u8]>::len)
}

fn with_output<T>(read: impl FnOnce(&[u8]) -> T) -> T {
    let unpacking = UNPACKING.take();
    let value = read(unpacking.as_ref().map_or(&[], Unpacking::output));
    UNPACKING.set(unpacking);
    value
}
