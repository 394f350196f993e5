//! The first bytes of a client, as a TLS ClientHello and as an HTTP request: a request is complete with its last byte, and no
//! input makes the parsers fail.
#![no_main]

#[path = "../../apps/proxy/tests/fuzz_bodies/requested_host.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::requested_host(data);
});
