//! Settings of reverse proxies.

use super::loops::Forwarder;
use super::place::Text;
use super::server::{WeightedServer, is_host_name};
use super::units::Seconds;
use crate::error::Error;
use crate::network::Network;
use crate::reverse::header::Version;
use core::net::SocketAddr;
use serde::Deserialize;
use std::collections::BTreeSet;
use toml::Spanned;

/// A reverse proxy: it accepts connections of clients and connects to its servers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reverse {
    /// Name in log lines.
    pub name: String,
    /// Listening addresses for clients, which use Multipath TCP or TCP.
    pub listen: Vec<SocketAddr>,
    /// Servers as addresses or names, for clients that request no host of `hosts`.
    #[serde(default)]
    pub to: Vec<Spanned<WeightedServer>>,
    /// Rule by which a server is chosen from a list of servers.
    #[serde(default)]
    pub balance: Balance,
    /// Servers for clients that request certain host names by TLS or HTTP.
    #[serde(default, rename = "host")]
    pub hosts: Vec<Host>,
    /// Version of the PROXY header, which contains the client's address; no header by default.
    pub proxy_protocol: Option<Version>,
    /// Networks of other proxies, whose connections begin with a PROXY header. A connection from another network is
    /// refused if it begins with one. If the list is empty, the proxy does not look for a PROXY header.
    #[serde(default)]
    pub accept_proxy: Vec<Network>,
    /// Interval between health checks of a server.
    #[serde(default = "health_interval")]
    pub health_interval: Seconds,
}

/// Servers for clients that request one of these names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Host names. `*.b.example` stands for all names that end in `.b.example`.
    pub names: Vec<Spanned<String>>,
    /// Servers as addresses or names.
    pub to: Vec<Spanned<WeightedServer>>,
}

/// Rule by which a server is chosen for a client. If this server does not answer, the remaining servers are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// The first server of the list that is healthy.
    #[default]
    First,
    /// Servers take turns, in proportion to their weights.
    RoundRobin,
    /// The server with the fewest open connections per unit of weight.
    LeastConnections,
    /// A hash of the client's address chooses the server, in proportion to the weights.
    Source,
}

/// Returns the default of `health_interval`.
pub const fn health_interval() -> Seconds {
    Seconds::of(5)
}

/// Collects the listening addresses and fixed server addresses of a reverse proxy.
pub fn reverse_forwarder(reverse: &Reverse) -> Forwarder {
    let of_hosts = reverse.hosts.iter().flat_map(|host| &host.to);
    let addresses = reverse
        .to
        .iter()
        .chain(of_hosts)
        .filter_map(|weighted| Some((weighted.as_ref().server.address()?, weighted.span())));
    Forwarder { name: reverse.name.clone(), listen: reverse.listen.clone(), to: addresses.collect() }
}

/// Checks a reverse proxy; `before` contains the reverse proxies above it in the file.
///
/// # Errors
/// The first invalid setting.
pub fn check_reverse(reverse: &Reverse, before: &[Reverse], text: &Text<'_>) -> Result<(), Error> {
    let name = &reverse.name;
    if reverse.listen.is_empty() {
        return Err(text.error(
            None,
            &format!("[[reverse]] {name} has no address to listen on; write listen = [\"0.0.0.0:443\"]"),
        ));
    }
    if reverse.to.is_empty() && reverse.hosts.is_empty() {
        return Err(
            text.error(None, &format!("[[reverse]] {name} has no server; write to = [\"192.0.2.1:443\"]"))
        );
    }
    for address in reverse.listen.iter().filter(|address| address.port() != 0) {
        if let Some(other) = before.iter().find(|other| other.listen.contains(address)) {
            let message = format!(
                "[[reverse]] {name} listens on {address}, which [[reverse]] {} already uses; change one of the addresses",
                other.name
            );
            return Err(text.error(None, &message));
        }
    }
    check_weights(&reverse.to, reverse.balance, text)?;
    check_hosts(reverse, text)
}

/// Checks the weights of a list of servers.
fn check_weights(
    servers: &[Spanned<WeightedServer>],
    balance: Balance,
    text: &Text<'_>,
) -> Result<(), Error> {
    let Some(first) = servers.first() else { return Ok(()) };
    if servers.iter().all(|server| server.as_ref().weight() == 0) {
        let message = "all servers of this list have weight 0; give one of them a weight from 1 to 65535";
        return Err(text.error(Some(first.span()), message));
    }
    match servers.iter().find(|server| server.as_ref().weight.is_some()) {
        Some(server) if balance == Balance::First => {
            let message = "weight has no effect with balance = \"first\"; remove it, or add balance = \"round-robin\", \"least-connections\" or \"source\"";
            Err(text.error(Some(server.span()), message))
        }
        _ => Ok(()),
    }
}

fn check_hosts(reverse: &Reverse, text: &Text<'_>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for host in &reverse.hosts {
        let Some(first) = host.names.first() else {
            let message = format!(
                "a [[reverse.host]] of {} has no name; write names = [\"www.example.org\"]",
                reverse.name
            );
            return Err(text.error(None, &message));
        };
        if host.to.is_empty() {
            let message =
                format!("the host {} has no server; write to = [\"192.0.2.1:443\"]", first.as_ref());
            return Err(text.error(Some(first.span()), &message));
        }
        check_weights(&host.to, reverse.balance, text)?;
        for name in &host.names {
            let refuse = |message: &str| Err(text.error(Some(name.span()), message));
            let name = name.as_ref();
            let plain = name.strip_prefix("*.").unwrap_or(name);
            if plain.contains('*') {
                return refuse(&format!(
                    "\"{name}\" has a * in the wrong place; write for example \"*.example.org\""
                ));
            }
            if !plain.is_ascii() {
                return refuse(&format!(
                    "\"{name}\" is not a host name in ASCII; write its form with \"xn--\", which clients send"
                ));
            }
            if !is_host_name(plain) || plain.starts_with('.') || plain.ends_with('.') {
                return refuse(&format!(
                    "\"{name}\" is not a host name; write for example \"www.example.org\" or \"*.example.org\""
                ));
            }
            if !seen.insert(name.to_ascii_lowercase()) {
                return refuse(&format!(
                    "the name {name} is given twice in [[reverse]] {}; remove one of the two",
                    reverse.name
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const HEAD: &str = "[[reverse]]\nname = \"web\"\nlisten = [\"127.0.0.1:0\"]\n";

    fn parse(text: &str) -> Result<Reverse, String> {
        let mut config =
            Config::parse(&format!("{HEAD}{text}"), "proxy.toml").map_err(|error| error.to_string())?;
        Ok(config.reverse.remove(0))
    }

    #[test]
    fn servers_are_texts_or_tables() {
        let reverse = parse(
            "to = [\"192.0.2.1:80\", { to = \"b.example:80\", weight = 0 }, { to = \"192.0.2.3:80\" }]\nbalance = \"source\"",
        )
        .expect("a valid table");
        assert_eq!(reverse.balance, Balance::Source);
        let weights: Vec<_> = reverse.to.iter().map(|server| server.as_ref().weight()).collect();
        assert_eq!(weights, [1, 0, 1]);
        assert_eq!(reverse.to[1].as_ref().server.to_string(), "b.example:80");
        for (value, balance) in [
            ("first", Balance::First),
            ("round-robin", Balance::RoundRobin),
            ("least-connections", Balance::LeastConnections),
        ] {
            let text = format!("to = [\"192.0.2.1:80\"]\nbalance = \"{value}\"");
            assert_eq!(parse(&text).expect("a valid table").balance, balance);
        }
        assert_eq!(parse("to = [\"192.0.2.1:80\"]").expect("a valid table").balance, Balance::First);
    }

    #[test]
    fn sources_of_proxy_headers_are_networks() {
        let parse = |networks: &str| parse(&format!("to = [\"192.0.2.1:80\"]\naccept_proxy = [{networks}]"));
        let reverse = parse("\"10.0.0.0/8\", \"2001:db8::1\"").expect("networks");
        assert_eq!(reverse.accept_proxy.len(), 2);
        let refused = parse("\"10.0.0.1/8\"").expect_err("an address inside a network");
        assert_eq!(
            refused,
            "proxy.toml:5: \"10.0.0.1/8\" is an address inside a network; write the network 10.0.0.0/8"
        );
    }

    #[test]
    fn hosts_need_no_other_servers() {
        let reverse =
            parse("[[reverse.host]]\nnames = [\"a.example\", \"*.b.example\"]\nto = [\"192.0.2.1:80\"]")
                .expect("a valid table");
        assert!(reverse.to.is_empty());
        assert_eq!(reverse.hosts[0].names[1].as_ref(), "*.b.example");
    }

    #[test]
    fn invalid_servers_and_hosts_are_refused() {
        let host = |names: &str| format!("[[reverse.host]]\nnames = [{names}]\nto = [\"192.0.2.1:80\"]");
        for (text, message) in [
            (
                "balance = \"round-robin\"\nto = [{ to = \"192.0.2.1:80\", weight = 0 }]".to_owned(),
                "proxy.toml:5: all servers of this list have weight 0; give one of them a weight from 1 to 65535",
            ),
            (
                "to = [\"192.0.2.1:80\",\n{ to = \"192.0.2.2:80\", weight = 2 }]".to_owned(),
                "proxy.toml:5: weight has no effect with balance = \"first\"; remove it",
            ),
            (
                "to = [\"192.0.2.1:80\"]\nbalance = \"robin\"".to_owned(),
                "proxy.toml:5: balance: unknown value \"robin\"; valid values: first, round-robin, least-connections, source",
            ),
            (
                "to = [\n{ to = \"192.0.2.1:80\", wieght = 2 }]".to_owned(),
                "proxy.toml:5: unknown key \"wieght\"; did you mean \"weight\"?",
            ),
            ("to = [{ weight = 2 }]".to_owned(), "proxy.toml:4: the key \"to\" is missing"),
            (
                "to = [{ to = \"192.0.2.1:80\", weight = 65536 }]".to_owned(),
                "proxy.toml:4: weight: expected a whole number up to 65535, but found the number 65536",
            ),
            (
                "to = [{ to = \"192.0.2.1:80\", weight = -1 }]".to_owned(),
                "proxy.toml:4: weight: expected a whole number up to 65535, but found the number -1",
            ),
            ("to = [80]".to_owned(), "proxy.toml:4: to: expected a server, such as \"192.0.2.1:443\""),
            ("to = [\"192.0.2.1\"]".to_owned(), "proxy.toml:4: \"192.0.2.1\" is not ADDRESS:PORT"),
            (host(""), "proxy.toml: a [[reverse.host]] of web has no name"),
            (host("\"*\""), "proxy.toml:5: \"*\" has a * in the wrong place"),
            (host("\"a.*.example\""), "proxy.toml:5: \"a.*.example\" has a * in the wrong place"),
            (host("\"bücher.example\""), "proxy.toml:5: \"bücher.example\" is not a host name in ASCII"),
            (host("\"a.example:443\""), "proxy.toml:5: \"a.example:443\" is not a host name"),
            (host("\"192.0.2.1\""), "proxy.toml:5: \"192.0.2.1\" is not a host name"),
            (host("\"*.\""), "proxy.toml:5: \"*.\" is not a host name"),
            (
                host("\"a.example\"") + "\n" + &host("\"A.example\""),
                "proxy.toml:8: the name A.example is given twice in [[reverse]] web; remove one of the two",
            ),
            (
                "[[reverse.host]]\nnames = [\"a.example\"]\nto = []".to_owned(),
                "proxy.toml:5: the host a.example has no server",
            ),
        ] {
            let refused = parse(&text).expect_err(&text);
            assert!(refused.starts_with(message) && !refused.contains('\n'), "{text}: {refused}");
        }
    }

    #[test]
    fn loop_through_a_host_is_refused() {
        let text = "[[reverse]]\nname = \"web\"\nlisten = [\"127.0.0.1:80\"]\n[[reverse.host]]\nnames = [\"a\"]\nto = [\"127.0.0.1:80\"]";
        let refused = Config::parse(text, "proxy.toml").expect_err("a loop").to_string();
        assert!(refused.starts_with("proxy.toml:6: web forwards to 127.0.0.1:80"), "{refused}");
    }
}
