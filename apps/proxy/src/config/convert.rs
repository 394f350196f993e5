//! Settings of a converter.

use super::place::Text;
use super::users::check_users;
use super::via::User;
use crate::error::Error;
use crate::nat64::Nat64;
use crate::network::Network;
use core::net::SocketAddr;
use serde::Deserialize;
use toml::Spanned;

/// A converter: clients name the address of the server that they want, by the 0-RTT TCP Convert Protocol (RFC 8803).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Convert {
    /// Where clients come to, by Multipath TCP or TCP.
    pub listen: Vec<Spanned<SocketAddr>>,
    /// Networks of clients; all, if there is none.
    pub clients: Vec<Spanned<Network>>,
    /// Users; without any, all clients of the networks in `clients` are admitted.
    #[serde(rename = "user")]
    pub users: Vec<Spanned<User>>,
    /// Whether a client without a password has to show a cookie that was sent to its address.
    pub cookies: bool,
    /// Whether it connects to servers by Multipath TCP, rather than by TCP.
    pub multipath_upstream: bool,
    /// Networks of servers that clients may reach although they are private, loopback or the like.
    pub allow: Vec<Network>,
    /// Networks of servers that clients may not reach.
    pub deny: Vec<Network>,
    /// Prefixes of NAT64 gateways: servers behind them are judged by their IPv4 addresses.
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

/// Refuses an open relay. A cookie proves the client's address alone, and any client can get one.
pub(super) fn check_convert(convert: &Convert, text: &Text<'_>) -> Result<(), Error> {
    check_users(&convert.users, text)?;
    if convert.listen.is_empty() {
        return Err(
            text.mistake(None, "[convert] has no address to listen on; write listen = [\"127.0.0.1:1082\"]")
        );
    }
    if let Some(all) = convert.clients.iter().find(|network| network.as_ref().is_all()) {
        let said = format!(
            "{} contains every address; name the networks of clients, or add a [[convert.user]]",
            all.as_ref()
        );
        return Err(text.mistake(Some(all.span()), &said));
    }
    if convert.cookies && !convert.users.is_empty() {
        let said = "a user shows that it has the password in its cookie: with [[convert.user]], cookies = true is too much";
        return Err(text.mistake(Some(convert.users[0].span()), said));
    }
    let open = convert.listen.iter().find(|address| !address.as_ref().ip().is_loopback());
    match open.filter(|_| convert.users.is_empty() && convert.clients.is_empty()) {
        Some(address) => {
            let said = format!(
                "{} is open to everyone; add networks in clients, add users in [[convert.user]], or listen on 127.0.0.1",
                address.as_ref()
            );
            Err(text.mistake(Some(address.span()), &said))
        }
        None => Ok(()),
    }
}
