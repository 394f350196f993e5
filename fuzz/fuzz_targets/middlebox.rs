//! Two ends of Multipath TCP behind a network that takes options out, changes them, cuts, drops, delays and resets.
#![no_main]

#[path = "../../crates/transport/tests/interference/mod.rs"]
mod interference;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    interference::program(data);
});
