//! Source routes in IPv4 headers.
#![no_main]

#[path = "../../crates/wire/tests/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz_bodies::source_route(data);
});
