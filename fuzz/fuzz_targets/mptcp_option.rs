//! One Multipath TCP option, from its subtype on.
#![no_main]

#[path = "../../crates/wire/tests/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz_bodies::mptcp_option(data);
});
