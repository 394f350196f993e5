//! The functions that the WebAssembly module exports. `docs/reference/lab-abi.md` describes them for callers.
//!
//! Text goes in by address and length. Text and rows come out in one buffer, whose address and length [`lab_output`] and
//! [`lab_output_len`] return. A negative result −n means an error, whose JSON has n bytes.

#![expect(
    unsafe_code,
    reason = "exported functions have unmangled names, and text goes in by address and length"
)]

use crate::lab::{Lab, LabError};
use anabranch_sim::scenario;
use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static LAB: RefCell<Lab> = RefCell::default();
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reserves memory for a text of the caller.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_alloc(len: usize) -> *mut u8 {
    keep_panics();
    Box::into_raw(vec![0_u8; len].into_boxed_slice()).cast()
}

/// Releases memory of [`lab_alloc`].
///
/// # Safety
///
/// The address and the length are those of one call of [`lab_alloc`], and are not used any more.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lab_free(address: *mut u8, len: usize) {
    let text = core::ptr::slice_from_raw_parts_mut(address, len);
    // SAFETY: by the contract of this function, `lab_alloc` made a box of this address and length.
    drop(unsafe { Box::from_raw(text) });
}

/// Address of the text or row that the last call returned.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_output() -> *const u8 {
    OUTPUT.with_borrow(Vec::as_ptr)
}

/// Length in bytes of the text or row that the last call returned.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_output_len() -> usize {
    OUTPUT.with_borrow(Vec::len)
}

/// Checks a scenario: [`Lab::check`].
///
/// # Safety
///
/// `len` bytes at `address` are readable.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lab_check(address: *const u8, len: usize) -> i32 {
    // SAFETY: by the contract of this function.
    let text = unsafe { input(address, len) };
    answer(text.map(|text| Lab::check(&text)))
}

/// All keys of scenarios, for completion.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_keys() -> i32 {
    answer(Ok(scenario::keys_to_json().to_string()))
}

/// Opens a run: [`Lab::open`]. A negative seed is the scenario's own.
///
/// # Safety
///
/// `len` bytes at `address` are readable.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lab_open(address: *const u8, len: usize, seed: i64) -> i32 {
    // SAFETY: by the contract of this function.
    let text = unsafe { input(address, len) };
    opened(LAB.with_borrow_mut(|lab| lab.open(&text?, u64::try_from(seed).ok())))
}

/// Opens a run of a variant: [`Lab::open_variant`]. A negative seed is the scenario's own.
///
/// # Safety
///
/// `len` bytes at `address` are readable.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lab_open_variant(address: *const u8, len: usize, seed: i64) -> i32 {
    // SAFETY: by the contract of this function.
    let text = unsafe { input(address, len) };
    opened(LAB.with_borrow_mut(|lab| lab.open_variant(&text?, u64::try_from(seed).ok())))
}

/// The congestion controls that couple paths: [`Lab::coupled`].
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_coupled() -> i32 {
    answer(Ok(Lab::coupled()))
}

/// Steps a run: [`Lab::step_until`].
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_step_until(handle: u32, time_ns: f64) -> i32 {
    done(LAB.with_borrow_mut(|lab| lab.step_until(handle, time_ns)))
}

/// The present time: [`Lab::now_ns`]; −1 for an unknown run.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_now(handle: u32) -> f64 {
    LAB.with_borrow(|lab| lab.now_ns(handle)).unwrap_or(-1.0)
}

/// Number of processed events: [`Lab::events`]; −1 for an unknown run.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_events(handle: u32) -> f64 {
    LAB.with_borrow(|lab| lab.events(handle)).unwrap_or(-1.0)
}

/// The present values: [`Lab::sample`].
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_sample(handle: u32) -> i32 {
    answer(LAB.with_borrow_mut(|lab| lab.sample(handle)))
}

/// The present values as a row of numbers, each eight bytes, the lowest first: [`Lab::row`].
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_row(handle: u32) -> i32 {
    let bytes = |row: Vec<f64>| row.into_iter().flat_map(f64::to_le_bytes).collect::<Vec<_>>();
    answer(LAB.with_borrow_mut(|lab| lab.row(handle)).map(bytes))
}

/// Changes a link: [`Lab::order`].
///
/// # Safety
///
/// `len` bytes at `address` are readable.
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lab_order(handle: u32, address: *const u8, len: usize) -> i32 {
    // SAFETY: by the contract of this function.
    let text = unsafe { input(address, len) };
    done(LAB.with_borrow_mut(|lab| lab.order(handle, &text?)))
}

/// The network: [`Lab::network`].
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_network(handle: u32) -> i32 {
    answer(LAB.with_borrow_mut(|lab| lab.network(handle)))
}

/// The packets on all links: [`Lab::packets`].
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_packets(handle: u32) -> i32 {
    answer(LAB.with_borrow_mut(|lab| lab.packets(handle)))
}

/// The result: [`Lab::result`].
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_result(handle: u32) -> i32 {
    answer(LAB.with_borrow_mut(|lab| lab.result(handle)))
}

/// The digest: [`Lab::digest`].
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_digest(handle: u32) -> i32 {
    answer(LAB.with_borrow_mut(|lab| lab.digest(handle)))
}

/// The scenario with the caller's changes as events: [`Lab::scenario`].
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_scenario(handle: u32) -> i32 {
    answer(LAB.with_borrow(|lab| lab.scenario(handle)))
}

/// Ends a run: [`Lab::close`].
// SAFETY: the name is used once in the module.
#[unsafe(no_mangle)]
pub extern "C" fn lab_close(handle: u32) {
    LAB.with_borrow_mut(|lab| lab.close(handle));
}

/// Copies a text of the caller.
///
/// # Safety
///
/// `len` bytes at `address` are readable.
// SAFETY: only exported functions call it, whose contracts include this one.
unsafe fn input(address: *const u8, len: usize) -> Result<String, LabError> {
    // SAFETY: by the contract of this function.
    let bytes = unsafe { core::slice::from_raw_parts(address, len) };
    let not_text = |_| LabError::new("the text is not UTF-8".to_owned());
    String::from_utf8(bytes.to_vec()).map_err(not_text)
}

/// Keeps a text or a row for the caller; returns its length, negative for an error.
fn answer(result: Result<impl Into<Vec<u8>>, LabError>) -> i32 {
    result.map_or_else(|error| refuse(&error), |output| keep(output.into()))
}

/// Keeps an error for the caller; returns its length, negative.
fn refuse(error: &LabError) -> i32 {
    -keep(serde_json::to_vec(error).expect("the values have keys of text"))
}

/// The handle of a run, or a negative number as for [`answer`].
fn opened(result: Result<u32, LabError>) -> i32 {
    result.map_or_else(|error| refuse(&error), |handle| handle as i32)
}

/// The result of a function without a text: 0, or a negative number as for [`answer`].
fn done(result: Result<(), LabError>) -> i32 {
    result.map_or_else(|error| refuse(&error), |()| 0)
}

fn keep(bytes: Vec<u8>) -> i32 {
    let len = bytes.len();
    OUTPUT.set(bytes);
    i32::try_from(len).expect("a text has less than 2 GiB")
}

/// Writes the message of a panic to the output buffer: the module has no other output, and ends with a trap.
fn keep_panics() {
    static KEEP: Once = Once::new();
    KEEP.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            keep(panic.to_string().into_bytes());
        }));
    });
}
