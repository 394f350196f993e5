//! The configuration file: TOML with one table for each service. An error message is one line with the file's name, the
//! line number and the remedy.

mod convert;
mod interface;
mod loops;
mod place;
mod reverse;
mod router;
mod server;
mod units;
mod uplinks;
mod users;
mod via;

use super::error::Error;
use super::network::Network;
use super::upstream::nat64::Nat64;
pub use convert::Convert;
use convert::check_convert;
use core::net::SocketAddr;
use loops::Forwarder;
pub use loops::reaches;
use place::Text;
pub use place::nearest;
pub use reverse::{Balance, Host, Reverse};
use reverse::{check_reverse, reverse_forwarder};
pub use router::{Bypass, ProxiedServers, Router};
use serde::Deserialize;
pub use server::{Server, WeightedServer};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use toml::Spanned;
pub use units::{Bytes, KeepAlive, Seconds};
pub use uplinks::{Budget, Period, Uplink, Uplinks, Usage};
use users::check_users;
pub use via::{Expected, Origin, ProbeTarget, Protocol, Udp, User, Via};
use via::{check_proxy, check_user};

/// Content of the configuration file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A SOCKS 5 proxy.
    pub socks: Option<Socks>,
    /// A converter (RFC 8803).
    pub convert: Option<Convert>,
    /// Reverse proxies: they accept Multipath TCP for servers that support only TCP.
    #[serde(default)]
    pub reverse: Vec<Reverse>,
    /// A router, which relays the connections of the hosts behind it through an upstream proxy.
    pub router: Option<Router>,
    /// Links of this machine to the Internet.
    #[serde(default)]
    pub uplink: Vec<Uplink>,
    /// Settings that all uplinks share.
    #[serde(default)]
    pub uplinks: Uplinks,
    /// Limits that keep one client from using up the proxy's resources.
    #[serde(default)]
    pub limits: Limits,
    /// The status page.
    pub watch: Option<Watch>,
}

/// The status page: an HTTP page with traffic and connections.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Watch {
    /// Listening address.
    pub listen: Spanned<SocketAddr>,
    /// True if other machines may read the page, which shows all clients and their targets.
    pub beyond_loopback: bool,
}

impl Default for Watch {
    fn default() -> Self {
        let listen = Spanned::new(0..0, SocketAddr::from(([127, 0, 0, 1], 9180)));
        Self { listen, beyond_loopback: false }
    }
}

/// A SOCKS 5 proxy. Clients request connections to servers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Socks {
    /// Listening addresses for clients, which use Multipath TCP or TCP.
    pub listen: Vec<Spanned<SocketAddr>>,
    /// Users. If the list is empty, all clients are admitted without a password.
    #[serde(rename = "user")]
    pub users: Vec<Spanned<User>>,
    /// True if the proxy connects to servers with Multipath TCP instead of TCP.
    pub multipath_upstream: bool,
    /// Private, loopback and other special networks in which clients may reach servers; without an entry they may not.
    pub allow: Vec<Network>,
    /// Networks of servers that clients may not reach.
    pub deny: Vec<Network>,
    /// True if the proxy relays UDP for its clients.
    pub udp: bool,
    /// Prefixes of NAT64 gateways. `allow` and `deny` apply to the IPv4 addresses of the servers behind them.
    pub nat64: Vec<Nat64>,
    /// Upstream proxy, which connects to the servers in place of this proxy.
    pub via: Option<Spanned<Via>>,
}

impl Default for Socks {
    fn default() -> Self {
        Self {
            listen: vec![Spanned::new(0..0, SocketAddr::from(([127, 0, 0, 1], 1080)))],
            users: Vec::new(),
            multipath_upstream: false,
            allow: Vec::new(),
            deny: Vec::new(),
            udp: true,
            nat64: Vec::new(),
            via: None,
        }
    }
}

/// Limits that keep one client from using up the proxy's resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Time for a client to complete its request.
    pub handshake_timeout: Seconds,
    /// Time for a server to accept a connection.
    pub connect_timeout: Seconds,
    /// Maximum number of open connections, unless the limit of file descriptors is lower. At the limit, a connection of the
    /// prefix with the most connections is evicted, or new connections wait.
    #[serde(deserialize_with = "at_least_one")]
    pub max_connections: usize,
    /// Maximum number of open connections of one source (an IPv4 address or an IPv6 /64); further ones are reset. A /56 may
    /// have twice this number, a /48 four times.
    #[serde(deserialize_with = "at_least_one")]
    pub max_per_source: usize,
    /// Time that open connections may still run after a request to stop.
    pub drain_timeout: Seconds,
    /// Idle time of a connection before a keep-alive probe.
    pub keep_alive: KeepAlive,
    /// A connection without data is reset after this time.
    pub idle_timeout: Seconds,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake_timeout: Seconds::of(10),
            connect_timeout: Seconds::of(10),
            max_connections: 20_000,
            max_per_source: 2_000,
            drain_timeout: Seconds::of(30),
            keep_alive: KeepAlive::default(),
            idle_timeout: Seconds::of(7200),
        }
    }
}

fn at_least_one<'de, D: serde::Deserializer<'de>>(source: D) -> Result<usize, D::Error> {
    match usize::deserialize(source)? {
        0 => Err(serde::de::Error::custom("must be at least 1, but is 0")),
        number => Ok(number),
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file does not exist, cannot be read, or is not a valid configuration.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::Input(format!("{file}: no such file")),
            ErrorKind::InvalidData => Error::Input(format!("{file}: not a text file in UTF-8")),
            _ => Error::Input(format!("{file}: {error}")),
        })?;
        let config = Self::parse(&text, &file.to_string())?;
        let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
        if config.has_secrets() && mode & 0o007 != 0 {
            return Err(Error::Input(format!(
                "{file}: contains passwords, but all users of this machine can read it; run: chmod o= {file}"
            )));
        }
        Ok(config)
    }

    /// Parses the text of a file; `file` is its name in messages.
    ///
    /// # Errors
    /// If the text is not a valid configuration.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let text = Text { text, file };
        let config: Self =
            toml::from_str(text.text).map_err(|error| text.error(error.span(), error.message()))?;
        if let Some(socks) = &config.socks {
            check_socks(socks, &text)?;
        }
        if let Some(convert) = &config.convert {
            check_convert(convert, &text)?;
        }
        for (number, reverse) in config.reverse.iter().enumerate() {
            check_reverse(reverse, &config.reverse[..number], &text)?;
        }
        if let Some(router) = &config.router {
            router::check_router(router, &text)?;
        }
        uplinks::check_uplinks(&config.uplink, &config.uplinks, &text)?;
        loops::refuse_loops(&config.forwarders(), &text)?;
        config.watch.as_ref().map_or(Ok(()), |watch| check_watch(watch, &text))?;
        Ok(config)
    }

    /// Returns the targets of the probes over each uplink.
    pub fn probe_targets(&self) -> Vec<ProbeTarget> {
        let via_of_router = self.router.as_ref().map(|router| router.via.as_ref());
        let via_of_socks = self.socks.as_ref().and_then(|socks| socks.via.as_ref()).map(Spanned::as_ref);
        let via = via_of_router.or(via_of_socks);
        let proxy_and_protocol = via.and_then(|via| Some((via.address()?, via.expected())));
        let named =
            self.uplinks.probe.as_ref().map(|named| named.iter().map(|target| *target.as_ref()).collect());
        let addresses: Vec<_> =
            named.unwrap_or_else(|| proxy_and_protocol.map(|(address, _)| address).into_iter().collect());
        let target = |address| {
            let expected =
                proxy_and_protocol.filter(|(proxy, _)| *proxy == address).map(|(_, expected)| expected);
            ProbeTarget { address, expected }
        };
        addresses.into_iter().map(target).collect()
    }

    /// Returns the proxies that listen and connect to fixed addresses.
    fn forwarders(&self) -> Vec<Forwarder> {
        let reverse = self.reverse.iter().map(reverse_forwarder);
        let socks = self.socks.iter().map(|socks| Forwarder {
            name: "socks".to_owned(),
            listen: socks.listen.iter().map(|address| *address.as_ref()).collect(),
            to: socks.via.iter().filter_map(|via| Some((via.as_ref().address()?, via.span()))).collect(),
        });
        reverse.chain(socks).collect()
    }

    fn has_secrets(&self) -> bool {
        let via = |via: &Spanned<Via>| via.as_ref().user.is_some();
        self.socks
            .as_ref()
            .is_some_and(|socks| !socks.users.is_empty() || socks.via.as_ref().is_some_and(via))
            || self.convert.as_ref().is_some_and(|convert| !convert.users.is_empty())
            || self.router.as_ref().is_some_and(|router| via(&router.via))
    }
}

fn check_socks(socks: &Socks, text: &Text<'_>) -> Result<(), Error> {
    check_users(&socks.users, text)?;
    if let Some(via) = &socks.via {
        check_via(via.as_ref(), socks).map_err(|message| text.error(Some(via.span()), &message))?;
    }
    let open = socks.listen.iter().find(|address| !address.as_ref().ip().is_loopback());
    match open.filter(|_| socks.users.is_empty()) {
        Some(address) => Err(text.error(
            Some(address.span()),
            &format!(
                "{} is open to everyone; add users in [[socks.user]], or listen on 127.0.0.1",
                address.as_ref()
            ),
        )),
        None if socks.listen.is_empty() => {
            Err(text.error(None, "[socks] has no address to listen on; write listen = [\"127.0.0.1:1080\"]"))
        }
        None => Ok(()),
    }
}

fn check_watch(watch: &Watch, text: &Text<'_>) -> Result<(), Error> {
    let address = watch.listen.as_ref();
    if address.ip().is_loopback() || watch.beyond_loopback {
        return Ok(());
    }
    let message = format!(
        "{address} lets other machines see all connections; listen on 127.0.0.1, or set beyond_loopback = true"
    );
    Err(text.error(Some(watch.listen.span()), &message))
}

fn check_via(via: &Via, socks: &Socks) -> Result<(), String> {
    check_proxy(via)?;
    if !(socks.allow.is_empty() && socks.deny.is_empty() && socks.nat64.is_empty())
        || socks.multipath_upstream
    {
        let message = "with via, the upstream proxy connects to the servers; move allow, deny, nat64 and multipath_upstream to its file";
        return Err(message.to_owned());
    }
    via.user.as_ref().map_or(Ok(()), check_user)
}

#[cfg(test)]
mod tests;
