//! Another proxy, and users of a proxy.

use super::interface::is_interface;
use super::units::KeepAlive;
use crate::resolver::host_and_port;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use serde::Deserialize;

/// Another proxy of ours, reached by Multipath TCP.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Via {
    /// Its host and port.
    pub proxy: String,
    /// Its protocol.
    #[serde(default)]
    pub protocol: Protocol,
    /// Our user there. The password is proven and never sent.
    pub user: Option<User>,
    /// Interfaces or addresses to connect from; the next one is tried while one keeps silent.
    #[serde(default)]
    pub from: Vec<Origin>,
    /// Idle time of a connection to it before a keep-alive probe.
    pub keep_alive: Option<KeepAlive>,
}

/// An interface or a local address to connect from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Origin {
    /// An address of ours.
    Address(IpAddr),
    /// The addresses that an interface has just then.
    Interface(String),
}

impl TryFrom<String> for Origin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.parse() {
            Ok(address) => Ok(Self::Address(address)),
            Err(_) if is_interface(&text) && !looks_like_an_address(&text) => Ok(Self::Interface(text)),
            Err(_) => Err(format!("\"{text}\" is neither an address nor the name of an interface")),
        }
    }
}

/// Protocol of another proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// SOCKS 5.
    #[default]
    Socks,
    /// The 0-RTT TCP Convert Protocol (RFC 8803).
    Convert,
}

/// Settings of a proxy that is to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The protocol.
    pub protocol: Protocol,
    /// Whether it has a user for us, and so has to accept our proof of a password.
    pub has_user: bool,
}

/// The target of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTarget {
    /// Its address.
    pub address: SocketAddr,
    /// The proxy of ours that answers there; any answer will do without one.
    pub expected: Option<Expected>,
}

impl From<SocketAddr> for ProbeTarget {
    fn from(address: SocketAddr) -> Self {
        Self { address, expected: None }
    }
}

impl Via {
    /// The first answer that it has to give.
    pub fn expected(&self) -> Expected {
        Expected { protocol: self.protocol, has_user: self.user.is_some() }
    }

    /// Its address, if no name server has to be asked for it.
    pub fn address(&self) -> Option<SocketAddr> {
        let local =
            || Some((Ipv4Addr::LOCALHOST, self.proxy.strip_prefix("localhost:")?.parse().ok()?).into());
        self.proxy.parse().ok().or_else(local)
    }
}

/// Such names of interfaces there may be, but who writes this means something else.
fn looks_like_an_address(text: &str) -> bool {
    text.contains(':') || text.bytes().all(|byte| b"0123456789.".contains(&byte))
}

/// A user of the proxy.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Name.
    pub name: String,
    /// Password.
    pub password: String,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Refuses a name or password that SOCKS 5 cannot carry.
pub fn check_user(user: &User) -> Result<(), String> {
    for (what, value) in [("name", &user.name), ("password", &user.password)] {
        // RFC 1929 §2.
        if !(1..=255).contains(&value.len()) {
            return Err(format!("a {what} has 1 to 255 bytes, this one {}", value.len()));
        }
    }
    Ok(())
}

/// Refuses a text that is not a host and port.
pub fn check_proxy(via: &Via) -> Result<(), String> {
    if host_and_port(&via.proxy).is_none() {
        return Err(format!("\"{}\" is no host and port; write it as proxy.example.org:1080", via.proxy));
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
            assert!(origin(mistyped).is_err_and(|said| said.contains("neither an address")), "{mistyped}");
        }
    }
}
