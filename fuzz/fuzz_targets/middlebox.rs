//! Two ends of Multipath TCP behind a network that removes or changes options, and splits, drops, delays and
//! resets.
#![no_main]

#[path = "../../crates/host/tests/interference/mod.rs"]
mod interference;

/// A few programs continue for hundreds of thousands of packets. Together they would take two thirds of the
/// time for hardly any new behaviour; the property test of the same programs runs them to their ends.
const MAX_PACKETS: u64 = 800;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    interference::beginning(data, MAX_PACKETS);
});
