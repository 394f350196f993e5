//! Bytes of a SOCKS 5 client or proxy: a parsed message is complete with its last byte, and written again
//! without change.
#![no_main]

#[path = "../../apps/proxy/tests/fuzz_bodies/socks.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::socks(data);
});
