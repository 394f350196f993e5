//! The plan as a script, for installing it by hand.

use super::firewall::accepting_rule;
use super::names::Names;
use super::rules::{Plan, TABLE, families, plan};
use crate::config::Router;
use crate::error::Error;
use core::net::IpAddr;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

/// Time for the second family of names after the first.
const SECOND_FAMILY_TIMEOUT: Duration = Duration::from_secs(2);

/// The plan as a script for `sh`, with the commands that undo it as comments. Names are looked up now.
///
/// # Errors
///
/// If the machine has no threads for the look-ups.
pub fn script(router: &Router) -> Result<String, Error> {
    let refused = |error| Error::Refused(format!("cannot begin: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    let addresses = runtime.block_on(async {
        let mut names = Names::new(router);
        names.look_up().await;
        names.complete(SECOND_FAMILY_TIMEOUT).await
    });
    // A thread that waits for a name server is not waited for.
    runtime.shutdown_background();
    Ok(text(router, &addresses))
}

fn text(router: &Router, addresses: &BTreeSet<IpAddr>) -> String {
    let Plan { nft, ip } = plan(router, &families(), addresses);
    let mut text = format!("nft -f - <<'END'\n{nft}END\n");
    for [add, _] in &ip {
        writeln!(text, "ip {add}").expect("a String takes all");
    }
    writeln!(
        text,
        "# a chain at the hook input that drops packets has to accept these, for example:\n\
         # nft insert rule inet filter input {}",
        accepting_rule(*router.mark.as_ref())
    )
    .expect("a String takes all");
    writeln!(text, "# to undo it:\n# nft delete table inet {TABLE}").expect("a String takes all");
    for [_, undo] in &ip {
        writeln!(text, "# ip {undo}").expect("a String takes all");
    }
    text
}
