//! The first bytes of a client, as a PROXY header, a TLS ClientHello and an HTTP request: a message is complete with its last
//! byte, and no input makes the parsers fail.
#![no_main]

#[path = "../../apps/proxy/tests/fuzz_bodies/first_bytes.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::first_bytes(data);
});
