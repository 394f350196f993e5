//! What is installed, for people who do it by hand.

use super::names;
use super::rules::{Plan, TABLE, families, plan};
use crate::config::Router;
use std::fmt::Write;

/// What is installed as a script for `sh`, for people who do it by hand, with what undoes it as comments. Resolver are resolved
/// now.
pub fn script(router: &Router) -> String {
    let Plan { nft, ip } = plan(router, &families(), &names::addresses(router).0);
    let mut text = format!("nft -f - <<'END'\n{nft}END\n");
    for [add, _] in &ip {
        writeln!(text, "ip {add}").expect("a String takes all");
    }
    writeln!(text, "# to undo it:\n# nft delete table inet {TABLE}").expect("a String takes all");
    for [_, undo] in &ip {
        writeln!(text, "# ip {undo}").expect("a String takes all");
    }
    text
}
