//! A capture file: reading it ends with a consistent report, or an error of one sentence.
#![no_main]

#[path = "../../crates/capture/tests/fuzz_bodies/capture.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::capture(data);
});
