//! Upstream proxies, and users of a proxy.

use super::interface::is_interface_name;
use super::units::KeepAlive;
use crate::upstream::resolver::host_and_port;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use serde::Deserialize;

/// An upstream Anabranch proxy, reached with Multipath TCP.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Via {
    /// Host and port of the upstream proxy.
    pub proxy: String,
    /// Protocol of the upstream proxy.
    #[serde(default)]
    pub protocol: Protocol,
    /// User at the upstream proxy. The password itself is never sent, only a proof of it.
    pub user: Option<User>,
    /// Interfaces or local addresses to connect from, in order of preference. While a connection from one of them has
    /// no answer, the next one is tried.
    #[serde(default)]
    pub from: Vec<Origin>,
    /// Idle time of a connection to the upstream proxy before a keep-alive probe.
    pub keep_alive: Option<KeepAlive>,
    /// How UDP datagrams get to the upstream proxy. Without it, a router does not intercept UDP, and a SOCKS proxy sends
    /// datagrams in the stream.
    pub udp: Option<Udp>,
}

/// How UDP datagrams get to an upstream proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Udp {
    /// In a stream of Multipath TCP.
    Stream,
    /// Over UDP on the link of each address in `from`.
    Paths,
}

/// An interface or a local address to connect from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Origin {
    /// A local address.
    Address(IpAddr),
    /// The addresses that an interface has when the connection is opened.
    Interface(String),
}

impl TryFrom<String> for Origin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.parse() {
            Ok(address) => Ok(Self::Address(address)),
            Err(_) if is_interface_name(&text) && !looks_like_an_address(&text) => Ok(Self::Interface(text)),
            Err(_) => Err(format!(
                "\"{text}\" is neither an IP address nor the name of an interface; write for example 192.0.2.1 or \"wlan0\""
            )),
        }
    }
}

/// Protocol of an upstream proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// SOCKS 5.
    #[default]
    Socks,
    /// The 0-RTT TCP Convert Protocol (RFC 8803).
    Convert,
}

/// Properties of the upstream proxy that a valid answer must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The protocol.
    pub protocol: Protocol,
    /// True if this program logs in at the upstream proxy, so the proxy must offer logins with password proofs.
    pub has_user: bool,
}

/// The target of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTarget {
    /// Address and port.
    pub address: SocketAddr,
    /// Properties of the Anabranch proxy at this address; if `None`, any answer is valid.
    pub expected: Option<Expected>,
}

impl From<SocketAddr> for ProbeTarget {
    fn from(address: SocketAddr) -> Self {
        Self { address, expected: None }
    }
}

impl Via {
    /// Returns the properties that the first answer of the proxy must have.
    pub fn expected(&self) -> Expected {
        Expected { protocol: self.protocol, has_user: self.user.is_some() }
    }

    /// Returns the proxy's address, or `None` if it must be looked up in DNS.
    pub fn address(&self) -> Option<SocketAddr> {
        let local =
            || Some((Ipv4Addr::LOCALHOST, self.proxy.strip_prefix("localhost:")?.parse().ok()?).into());
        self.proxy.parse().ok().or_else(local)
    }
}

/// True if a text is probably a mistyped address, although the kernel would permit it as the name of an interface.
fn looks_like_an_address(text: &str) -> bool {
    text.contains(':') || text.bytes().all(|byte| b"0123456789.".contains(&byte))
}

/// A user of the proxy.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Name of the user.
    pub name: String,
    /// Password of the user.
    pub password: String,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Refuses a name or password whose length SOCKS 5 cannot encode.
pub fn check_user(user: &User) -> Result<(), String> {
    for (field, value) in [("name", &user.name), ("password", &user.password)] {
        // RFC 1929 §2.
        if !(1..=255).contains(&value.len()) {
            return Err(format!("a {field} must have 1 to 255 bytes, but this one has {}", value.len()));
        }
    }
    Ok(())
}

/// Refuses a text that is not a host and port.
pub fn check_proxy(via: &Via) -> Result<(), String> {
    if host_and_port(&via.proxy).is_none() {
        return Err(format!("\"{}\" is not HOST:PORT; write for example proxy.example.org:1080", via.proxy));
    }
    if via.udp.is_some() && via.protocol == Protocol::Convert {
        return Err(
            "a converter (RFC 8803) does not relay UDP; remove udp, or write protocol = \"socks\"".to_owned()
        );
    }
    if via.udp == Some(Udp::Paths) && (via.from.is_empty() || via.user.is_none()) {
        return Err("udp = \"paths\" needs from, the interfaces or addresses of the links, and user, which authenticates the datagrams; or write udp = \"stream\"".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_addresses_or_interfaces() {
        let origin = |text: &str| Origin::try_from(text.to_owned());
        assert_eq!(origin("192.168.1.5"), Ok(Origin::Address(IpAddr::from([192, 168, 1, 5]))));
        assert_eq!(origin("2001:db8::5"), Ok(Origin::Address("2001:db8::5".parse().unwrap())));
        assert_eq!(origin("eth0.100"), Ok(Origin::Interface("eth0.100".to_owned())));
        for mistyped in ["192.168.1.256", "2001:db8::5g", "wlan 0", ""] {
            assert!(
                origin(mistyped).is_err_and(|message| message.contains("neither an IP address")),
                "{mistyped}"
            );
        }
    }
}
