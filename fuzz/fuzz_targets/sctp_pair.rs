//! An SCTP or CMT-SCTP pair under adversarial packets, dead paths, time steps and applications.
#![no_main]

#[path = "../../crates/host/tests/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz_bodies::sctp::sctp_pair(data);
});
