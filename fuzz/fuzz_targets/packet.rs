//! IP packets with TCP, UDP or SCTP: a parsed packet is written and read again without change.
#![no_main]

#[path = "../../crates/wire/tests/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz_bodies::packet(data);
});
