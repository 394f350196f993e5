//! A client's or a proxy's bytes of SOCKS 5: what parses is complete with its last byte, and written again as it was.
#![no_main]

#[path = "../../apps/proxy/tests/fuzz_bodies/socks.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::socks(data);
});
