//! Finds out why connections use only one link, and suggests a remedy.

mod facts;
mod judge;
mod probe;

use super::config::Via;
use super::error::Error;
use super::upstream::resolver::{addresses_blocking, host_and_port};
use core::net::SocketAddr;
pub use judge::Finding;
pub(crate) use judge::{bad_finding, good_finding};
use std::time::Duration;

/// Examines this machine as a client of `proxy`, and test connections to this proxy. If `proxy` is `None`, only the
/// machine is examined. `via` contains the settings for the proxy, if the configuration file has them. Interfaces in
/// `inner` belong to the LAN and are not uplinks.
///
/// # Errors
/// If the proxy's name has no address, or the program `ip` is missing.
pub fn check(proxy: Option<&str>, via: Option<&Via>, inner: &[String]) -> Result<Vec<Finding>, Error> {
    let to = proxy.map(resolve).transpose()?;
    let facts = facts::collect(to, inner)?;
    let attempt = match to {
        // While Multipath TCP is switched off in the kernel, a test connection would only show this fault again.
        Some(to) if facts.enabled == Some(true) => {
            Some(probe::attempt(to, via.map(Via::expected), &facts.uplinks)?)
        }
        _ => None,
    };
    Ok(judge::judge(&facts, attempt.as_ref()))
}

fn resolve(proxy: &str) -> Result<SocketAddr, Error> {
    let no_port =
        || Error::Input(format!("\"{proxy}\" is not HOST:PORT; write for example proxy.example.org:1080"));
    let (host, port) = host_and_port(proxy).ok_or_else(no_port)?;
    let addresses = addresses_blocking(host, port, Duration::ZERO);
    let addresses = addresses.map_err(|error| Error::Input(format!("{proxy}: {error}")))?;
    addresses.first().copied().ok_or_else(|| Error::Input(format!("{proxy}: no address")))
}
