//! The proxy's file: TOML, one table for each thing that it does. A mistake is one sentence with file, line and remedy.

mod convert;
mod interface;
mod loops;
mod place;
mod router;
mod server;
mod units;
mod uplinks;
mod users;
mod via;

use super::error::Error;
use super::nat64::Nat64;
use super::network::Network;
use super::reverse::header::Version;
pub use convert::Convert;
use convert::check_convert;
use core::net::SocketAddr;
use loops::Part;
pub use loops::reaches;
use place::Text;
pub use place::nearest;
pub use router::{Bypass, Router};
use serde::Deserialize;
pub use server::Server;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use toml::Spanned;
pub use units::{Bytes, KeepAlive, Seconds};
pub use uplinks::{Budget, Period, Uplink, Uplinks, Usage};
use users::check_users;
pub use via::{Expected, Origin, ProbeTarget, Protocol, User, Via};
use via::{check_proxy, check_user};

/// All that the file says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A SOCKS 5 proxy.
    pub socks: Option<Socks>,
    /// A converter.
    pub convert: Option<Convert>,
    /// Servers that clients reach by Multipath TCP, and that have TCP alone.
    #[serde(default)]
    pub reverse: Vec<Reverse>,
    /// A router, whose hosts' connections go by another proxy.
    pub router: Option<Router>,
    /// The links by which this machine reaches the world.
    #[serde(default)]
    pub uplink: Vec<Uplink>,
    /// Settings that all uplinks share.
    #[serde(default)]
    pub uplinks: Uplinks,
    /// Limits that protect clients from each other.
    #[serde(default)]
    pub limits: Limits,
    /// The status page.
    pub watch: Option<Watch>,
}

/// The status page: traffic and connections, by HTTP.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Watch {
    /// Where it listens.
    pub listen: Spanned<SocketAddr>,
    /// Whether other machines may read it. It shows all clients and their targets.
    pub beyond_loopback: bool,
}

impl Default for Watch {
    fn default() -> Self {
        let listen = Spanned::new(0..0, SocketAddr::from(([127, 0, 0, 1], 9180)));
        Self { listen, beyond_loopback: false }
    }
}

/// A SOCKS 5 proxy: clients name the server that they want.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Socks {
    /// Where clients come to, by Multipath TCP or TCP.
    pub listen: Vec<Spanned<SocketAddr>>,
    /// Users; without any, all clients are admitted.
    #[serde(rename = "user")]
    pub users: Vec<Spanned<User>>,
    /// Whether it connects to servers by Multipath TCP, rather than by TCP.
    pub multipath_upstream: bool,
    /// Networks of servers that clients may reach although they are private, loopback or the like.
    pub allow: Vec<Network>,
    /// Networks of servers that clients may not reach.
    pub deny: Vec<Network>,
    /// Prefixes of NAT64 gateways: servers behind them are judged by their IPv4 addresses.
    pub nat64: Vec<Nat64>,
    /// Another proxy, by which servers are reached.
    pub via: Option<Spanned<Via>>,
}

/// A reverse proxy: clients come to it, and it has servers behind it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reverse {
    /// Its name in the log.
    pub name: String,
    /// Where clients come to, by Multipath TCP or TCP.
    pub listen: Vec<SocketAddr>,
    /// The servers, by address or name; the first that answers is used.
    pub to: Vec<Spanned<Server>>,
    /// The header by which the server learns the client's address.
    pub proxy_protocol: Option<Version>,
    /// How often it is seen whether the servers are there.
    #[serde(default = "health_interval")]
    pub health_interval: Seconds,
}

const fn health_interval() -> Seconds {
    Seconds::of(5)
}

impl Default for Socks {
    fn default() -> Self {
        Self {
            listen: vec![Spanned::new(0..0, SocketAddr::from(([127, 0, 0, 1], 1080)))],
            users: Vec::new(),
            multipath_upstream: false,
            allow: Vec::new(),
            deny: Vec::new(),
            nat64: Vec::new(),
            via: None,
        }
    }
}

/// Limits that protect clients from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// A client has said by then what it wants.
    pub handshake_timeout: Seconds,
    /// A server has answered by then.
    pub connect_timeout: Seconds,
    /// Connections at once, if the limit of descriptors is not lower. Then one of the site with the most makes room, or more
    /// wait.
    #[serde(deserialize_with = "at_least_one")]
    pub max_connections: usize,
    /// Connections at once of one source, an IPv4 address or a /64 of IPv6; more are reset. A /56 may have twice as many, a /48
    /// four times.
    #[serde(deserialize_with = "at_least_one")]
    pub max_per_source: usize,
    /// Connections that are open when the proxy is to end have this time left.
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
    /// If there is none, it cannot be read, or has a mistake.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::Input(format!("{file}: no such file")),
            ErrorKind::InvalidData => Error::Input(format!("{file}: not a text in UTF-8")),
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

    /// Reads the text of a file that is called `file` in messages.
    ///
    /// # Errors
    /// If it has a mistake.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let text = Text { text, file };
        let config: Self =
            toml::from_str(text.text).map_err(|error| text.mistake(error.span(), error.message()))?;
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
        loops::refuse(&config.parts(), &text)?;
        config.watch.as_ref().map_or(Ok(()), |watch| check_watch(watch, &text))?;
        Ok(config)
    }

    /// Targets of the probes over each uplink.
    pub fn probed(&self) -> Vec<ProbeTarget> {
        let of_router = self.router.as_ref().map(|router| router.via.as_ref());
        let of_socks = self.socks.as_ref().and_then(|socks| socks.via.as_ref()).map(Spanned::as_ref);
        let via = of_router.or(of_socks);
        let of_via = via.and_then(|via| Some((via.address()?, via.expected())));
        let named =
            self.uplinks.probe.as_ref().map(|named| named.iter().map(|target| *target.as_ref()).collect());
        let addresses: Vec<_> =
            named.unwrap_or_else(|| of_via.map(|(address, _)| address).into_iter().collect());
        let target = |address| {
            let expected = of_via.filter(|(proxy, _)| *proxy == address).map(|(_, expected)| expected);
            ProbeTarget { address, expected }
        };
        addresses.into_iter().map(target).collect()
    }

    /// Listeners, with the fixed addresses that they connect to.
    fn parts(&self) -> Vec<Part> {
        let reverse = self.reverse.iter().map(|reverse| Part {
            name: reverse.name.clone(),
            listen: reverse.listen.clone(),
            to: reverse
                .to
                .iter()
                .filter_map(|server| Some((server.as_ref().address()?, server.span())))
                .collect(),
        });
        let socks = self.socks.iter().map(|socks| Part {
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
        check_via(via.as_ref(), socks).map_err(|said| text.mistake(Some(via.span()), &said))?;
    }
    let open = socks.listen.iter().find(|address| !address.as_ref().ip().is_loopback());
    match open.filter(|_| socks.users.is_empty()) {
        Some(address) => Err(text.mistake(
            Some(address.span()),
            &format!(
                "{} is open to everyone; add users in [[socks.user]], or listen on 127.0.0.1",
                address.as_ref()
            ),
        )),
        None if socks.listen.is_empty() => {
            Err(text
                .mistake(None, "[socks] has no address to listen on; write listen = [\"127.0.0.1:1080\"]"))
        }
        None => Ok(()),
    }
}

fn check_reverse(reverse: &Reverse, before: &[Reverse], text: &Text<'_>) -> Result<(), Error> {
    let name = &reverse.name;
    if reverse.listen.is_empty() {
        return Err(text.mistake(
            None,
            &format!("[[reverse]] {name} has no address to listen on; write listen = [\"0.0.0.0:443\"]"),
        ));
    }
    if reverse.to.is_empty() {
        return Err(
            text.mistake(None, &format!("[[reverse]] {name} has no server; write to = [\"192.0.2.1:443\"]"))
        );
    }
    for address in reverse.listen.iter().filter(|address| address.port() != 0) {
        if let Some(other) = before.iter().find(|other| other.listen.contains(address)) {
            let said = format!(
                "[[reverse]] {name} listens on {address}, as [[reverse]] {} does already",
                other.name
            );
            return Err(text.mistake(None, &said));
        }
    }
    Ok(())
}

fn check_watch(watch: &Watch, text: &Text<'_>) -> Result<(), Error> {
    let address = watch.listen.as_ref();
    if address.ip().is_loopback() || watch.beyond_loopback {
        return Ok(());
    }
    let said = format!(
        "{address} shows other machines all connections; listen on 127.0.0.1, or set beyond_loopback = true"
    );
    Err(text.mistake(Some(watch.listen.span()), &said))
}

fn check_via(via: &Via, socks: &Socks) -> Result<(), String> {
    check_proxy(via)?;
    if !(socks.allow.is_empty() && socks.deny.is_empty() && socks.nat64.is_empty())
        || socks.multipath_upstream
    {
        let said = "with via the other proxy connects to servers: move allow, deny, nat64 and multipath_upstream to its file";
        return Err(said.to_owned());
    }
    via.user.as_ref().map_or(Ok(()), check_user)
}

#[cfg(test)]
mod tests;
