//! Prints the plan as a shell script for manual installation.

use super::firewall::accepting_rule;
use super::names::{NamedAddresses, Names};
use super::rules::{Plan, TABLE, families, plan};
use crate::config::Router;
use crate::error::Error;
use std::fmt::Write;
use std::time::Duration;

/// Time to wait, after the addresses of the first family, for those of the second.
const SECOND_FAMILY_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the plan as a script for `sh`. Comments contain the commands that revert it. The addresses of names are
/// those at this time.
///
/// # Errors
///
/// If no thread can be started for the look-ups.
pub fn script(router: &Router) -> Result<String, Error> {
    let refused = |error| Error::Refused(format!("cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    let addresses = runtime.block_on(async {
        let mut names = Names::new(router);
        names.look_up().await;
        names.complete(SECOND_FAMILY_TIMEOUT).await
    });
    // Returns without waiting for threads that still wait for a name server.
    runtime.shutdown_background();
    Ok(text(router, &addresses))
}

fn text(router: &Router, addresses: &NamedAddresses) -> String {
    let Plan { nft, ip } = plan(router, &families(), addresses);
    let mut text = format!("nft -f - <<'END'\n{nft}END\n");
    for [add, _] in &ip {
        writeln!(text, "ip {add}").expect("writing to a String succeeds");
    }
    writeln!(
        text,
        "# a chain at the hook input that drops packets must accept these, for example:\n\
         # nft insert rule inet filter input {}",
        accepting_rule(*router.mark.as_ref())
    )
    .expect("writing to a String succeeds");
    writeln!(text, "# to revert these commands:\n# nft delete table inet {TABLE}")
        .expect("writing to a String succeeds");
    for [_, revert] in &ip {
        writeln!(text, "# ip {revert}").expect("writing to a String succeeds");
    }
    text
}
