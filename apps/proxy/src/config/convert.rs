//! Settings of a converter.

use super::place::Text;
use super::users::check_users;
use super::via::User;
use crate::error::Error;
use crate::network::Network;
use crate::upstream::nat64::Nat64;
use core::net::SocketAddr;
use serde::Deserialize;
use toml::Spanned;

/// A converter. Clients request a connection to a server with the 0-RTT TCP Convert Protocol (RFC 8803).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Convert {
    /// Listening addresses for clients, which use Multipath TCP or TCP.
    pub listen: Vec<Spanned<SocketAddr>>,
    /// Networks whose clients are admitted; if the list is empty, all networks.
    pub clients: Vec<Spanned<Network>>,
    /// Users. If the list is empty, all clients of the networks in `clients` are admitted without a password.
    #[serde(rename = "user")]
    pub users: Vec<Spanned<User>>,
    /// True if a client without a password must present a cookie that was sent to its address.
    pub cookies: bool,
    /// True if the converter connects to servers with Multipath TCP instead of TCP.
    pub multipath_upstream: bool,
    /// Private, loopback and other special networks in which clients may reach servers; without an entry they may not.
    pub allow: Vec<Network>,
    /// Networks of servers that clients may not reach.
    pub deny: Vec<Network>,
    /// Prefixes of NAT64 gateways. `allow` and `deny` apply to the IPv4 addresses of the servers behind them.
    pub nat64: Vec<Nat64>,
}

impl Default for Convert {
    fn default() -> Self {
        Self {
            listen: vec![Spanned::new(0..0, SocketAddr::from(([127, 0, 0, 1], 1082)))],
            clients: Vec::new(),
            users: Vec::new(),
            cookies: false,
            multipath_upstream: false,
            allow: Vec::new(),
            deny: Vec::new(),
            nat64: Vec::new(),
        }
    }
}

/// Refuses settings with which every client may use the converter. Cookies do not prevent that: a cookie proves only
/// the client's address, and every client can get one.
pub(super) fn check_convert(convert: &Convert, text: &Text<'_>) -> Result<(), Error> {
    check_users(&convert.users, text)?;
    if convert.listen.is_empty() {
        return Err(
            text.error(None, "[convert] has no address to listen on; write listen = [\"127.0.0.1:1082\"]")
        );
    }
    if let Some(all) = convert.clients.iter().find(|network| network.as_ref().is_all()) {
        let message = format!(
            "{} contains every address; name the networks of clients, or add a [[convert.user]]",
            all.as_ref()
        );
        return Err(text.error(Some(all.span()), &message));
    }
    if convert.cookies && !convert.users.is_empty() {
        let message = "[[convert.user]] and cookies = true exclude each other: a user's cookie contains the proof of the password; remove cookies";
        return Err(text.error(Some(convert.users[0].span()), message));
    }
    let open = convert.listen.iter().find(|address| !address.as_ref().ip().is_loopback());
    match open.filter(|_| convert.users.is_empty() && convert.clients.is_empty()) {
        Some(address) => {
            let message = format!(
                "{} is open to everyone; add networks to clients, add users in [[convert.user]], or listen on 127.0.0.1",
                address.as_ref()
            );
            Err(text.error(Some(address.span()), &message))
        }
        None => Ok(()),
    }
}
