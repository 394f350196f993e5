//! A stream that may begin like a message of the Convert Protocol: a parsed message is complete with its last
//! byte, and keeps its meaning when it is written again.
#![no_main]

#[path = "../../apps/proxy/tests/fuzz_bodies/convert.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::convert(data);
});
