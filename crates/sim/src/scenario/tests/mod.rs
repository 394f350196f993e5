//! Tests of the whole parser.

use super::*;

#[test]
fn dump() {
    parse(include_str!("design.toml"), "design.toml", &[]).unwrap();
}
#[test]
#[ignore]
fn page() {
    println!("{}", reference());
}
