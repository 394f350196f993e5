//! A TCP or Multipath TCP pair under adversarial packets, time steps and applications.
#![no_main]

#[path = "../../crates/host/tests/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz_bodies::tcp_pair(data);
});
