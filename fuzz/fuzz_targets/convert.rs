//! A stream that begins as a message of the Convert Protocol does, or not: what parses is complete with its last byte, and means the
//! same when it is written again.
#![no_main]

#[path = "../../apps/proxy/tests/fuzz_bodies/convert.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::convert(data);
});
