//! Prints the plan as a shell script for manual installation.

use super::budget::{Budgets, today};
use super::netlink::Socket;
use super::parts::FIRST_ID;
use super::plan::{Plan, Remembered, plan, remember};
use super::view::View;
use crate::config::{Uplink, Uplinks};
use crate::error::Error;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Returns the current plan as a script for `sh`. Comments contain the commands that revert it.
///
/// # Errors
///
/// If the kernel's answer is unexpected, or the volumes of uplinks cannot be read.
pub fn script(uplinks: &[Uplink], common: &Uplinks) -> Result<String, Error> {
    let refused =
        |error: std::io::Error| Error::Refused(format!("unexpected answer from the kernel: {error}"));
    let view = Socket::open(None).and_then(|mut routes| View::of_routes(&mut routes)).map_err(refused)?;
    let mut remembered = Remembered::new();
    remember(&mut remembered, &view, &view);
    let mut budgets = Budgets::read(uplinks, common)?;
    budgets.count(uplinks, &view.links, today());
    let spent: Vec<_> = uplinks.iter().filter_map(|uplink| budgets.describe(uplink)).collect();
    let uplinks: Vec<_> = uplinks.iter().map(|uplink| (uplink, budgets.usage(uplink))).collect();
    Ok(text(&spent, &plan(&uplinks, *common.table.as_ref(), &view, &remembered, &BTreeSet::new()), &view))
}

fn text(spent: &[String], plan: &Plan, view: &View) -> String {
    let mut text = String::new();
    let mut line = |line: &str| writeln!(text, "{line}").expect("writing to a String succeeds");
    for sentence in spent {
        line(&format!("# {sentence}"));
    }
    for ((name, address), state) in &plan.states {
        let address = address.map_or_else(String::new, |address| format!(" {address}"));
        line(&format!("# {name}{address}: {state}"));
    }
    let (parts, names) = (&plan.parts, |link: u32| view.name(link));
    parts.routes.iter().for_each(|route| line(&route.command("add", &names)));
    parts.rules.iter().for_each(|rule| line(&rule.command("add")));
    line(&format!("ip mptcp limits set subflow {}", parts.endpoints.len().max(2)));
    for (endpoint, id) in parts.endpoints.iter().zip(FIRST_ID..) {
        line(&endpoint.command(id, &names));
    }
    line("# to revert these commands:");
    for (_, id) in parts.endpoints.iter().zip(FIRST_ID..) {
        line(&format!("# ip mptcp endpoint del id {id}"));
    }
    parts.rules.iter().for_each(|rule| line(&format!("# {}", rule.command("del"))));
    parts.routes.iter().for_each(|route| line(&format!("# {}", route.command("del", &names))));
    text
}
