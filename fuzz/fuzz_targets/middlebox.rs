//! Two ends of Multipath TCP behind a network that takes options out, changes them, cuts, drops, delays and resets.
#![no_main]

#[path = "../../crates/host/tests/interference/mod.rs"]
mod interference;

/// A few programs go on for hundreds of thousands of packets. All of them together would take two thirds of the time, and what they
/// do is what they did before; the property test of the same programs sees them to their ends.
const PACKETS: u64 = 800;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    interference::beginning(data, PACKETS);
});
