//! Network control options in IP headers.
#![no_main]

#[path = "../../crates/wire/tests/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz_bodies::network_option(data);
});
