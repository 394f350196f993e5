//! A hostile recording: reading it ends with an outcome, or with an error of one sentence.
#![no_main]

#[path = "../../crates/replay/tests/fuzz_bodies/recording.rs"]
mod body;
#[path = "../../crates/replay/tests/recorded/hosts.rs"]
#[allow(dead_code, reason = "the tests use all of it")]
mod hosts;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::recording(data);
});
