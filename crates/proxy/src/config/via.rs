//! Another proxy in the file, and who may use one.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use serde::Deserialize;

/// Another proxy of ours, reached by Multipath TCP.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Via {
    /// Its host and port.
    pub proxy: String,
    /// Who we are there. The password is proven and not shown.
    pub user: Option<User>,
    /// Addresses of ours to connect from; the next is tried while one keeps silent.
    #[serde(default)]
    pub from: Vec<IpAddr>,
}

impl Via {
    /// Its address, if no name server has to be asked for it.
    pub fn address(&self) -> Option<SocketAddr> {
        let local =
            || Some((Ipv4Addr::LOCALHOST, self.proxy.strip_prefix("localhost:")?.parse().ok()?).into());
        self.proxy.parse().ok().or_else(local)
    }
}

/// Somebody who may use the proxy.
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

/// What speaks against a name or password.
pub fn check_user(user: &User) -> Result<(), String> {
    for (what, value) in [("name", &user.name), ("password", &user.password)] {
        // RFC 1929 §2.
        if !(1..=255).contains(&value.len()) {
            return Err(format!("a {what} has 1 to 255 bytes, this one {}", value.len()));
        }
    }
    Ok(())
}

/// What speaks against the host and port of a proxy.
pub fn check_proxy(via: &Via) -> Result<(), String> {
    let port = via.proxy.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
    if port.is_none_or(|port| port.parse::<u16>().is_err()) {
        return Err(format!("\"{}\" is no host and port; write it as proxy.example.org:1080", via.proxy));
    }
    Ok(())
}
