//! A transfer of real bytes with random sizes, settings and faults, over TCP, Multipath TCP or SCTP.
#![no_main]

#[path = "../../crates/host/tests/transfer/mod.rs"]
mod transfer;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transfer::program(data);
});
