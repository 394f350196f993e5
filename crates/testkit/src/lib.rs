//! Fixtures that the tests of several crates share. Not published.

#![allow(missing_docs, reason = "fixtures of tests; the crate is not published")]

pub mod application;
#[cfg(all(feature = "network", target_os = "linux"))]
pub mod bed;
pub mod contents;
pub mod end;
pub mod harness;
pub mod heard;
#[macro_use]
pub mod inert;
pub mod machine;
#[cfg(target_os = "linux")]
pub mod namespace;
pub mod paths;
#[cfg(target_os = "linux")]
pub mod peer;
pub mod scenario_text;
