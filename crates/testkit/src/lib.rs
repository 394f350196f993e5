//! Fixtures that the tests of several crates share. Not published.

#![allow(missing_docs, reason = "fixtures of tests; the crate is not published")]

pub mod harness;
pub mod heard;
#[macro_use]
pub mod inert;
pub mod machine;
