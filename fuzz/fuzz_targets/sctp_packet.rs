//! SCTP packets, behind an IPv4 header that is always right.
#![no_main]

#[path = "../../crates/wire/tests/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz_bodies::sctp(data);
});
