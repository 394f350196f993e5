//! A host with listeners and connections of every protocol under arbitrary packets.
#![no_main]

#[path = "../../crates/host/tests/hosts/mod.rs"]
mod hosts;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hosts::program::host(data);
});
