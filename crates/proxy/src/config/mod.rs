//! The proxy's file: TOML, one table for each thing that it does. A mistake is one sentence with file, line and remedy.

mod place;
mod seconds;

use super::error::Error;
use super::network::Network;
use core::net::SocketAddr;
use place::Text;
pub use seconds::Seconds;
use serde::Deserialize;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use toml::Spanned;

/// All that the file says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A SOCKS 5 proxy.
    pub socks: Option<Socks>,
    /// What keeps one client from being in the way of others.
    #[serde(default)]
    pub limits: Limits,
}

/// A SOCKS 5 proxy: clients name the server that they want.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Socks {
    /// Where clients come to, by Multipath TCP or TCP.
    pub listen: Vec<Spanned<SocketAddr>>,
    /// Who may use it; everybody, if nobody is named.
    #[serde(rename = "user")]
    pub users: Vec<Spanned<User>>,
    /// Whether it connects to servers by Multipath TCP, rather than by TCP.
    pub multipath_upstream: bool,
    /// Networks of servers that clients may reach although they are private, loopback or the like.
    pub allow: Vec<Network>,
    /// Networks of servers that clients may not reach.
    pub deny: Vec<Network>,
}

impl Default for Socks {
    fn default() -> Self {
        Self {
            listen: vec![Spanned::new(0..0, SocketAddr::from(([127, 0, 0, 1], 1080)))],
            users: Vec::new(),
            multipath_upstream: false,
            allow: Vec::new(),
            deny: Vec::new(),
        }
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

/// What keeps one client from being in the way of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// A client has said by then what it wants.
    pub handshake_timeout: Seconds,
    /// A server has answered by then.
    pub connect_timeout: Seconds,
    /// Connections at once, if the limit of descriptors is not lower; more wait.
    pub max_connections: usize,
    /// Connections that are open when the proxy is to end have this time left.
    pub drain_timeout: Seconds,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake_timeout: Seconds::of(10),
            connect_timeout: Seconds::of(10),
            max_connections: 20_000,
            drain_timeout: Seconds::of(30),
        }
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
            ErrorKind::NotFound => Error::Input(format!("{file}: there is no such file")),
            _ => Error::Input(format!("{file}: {error}")),
        })?;
        let config = Self::parse(&text, &file.to_string())?;
        let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
        if config.has_secrets() && mode & 0o007 != 0 {
            return Err(Error::Input(format!(
                "{file}: holds passwords and everybody on this machine may read it; use: chmod o= {file}"
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
        Ok(config)
    }

    fn has_secrets(&self) -> bool {
        self.socks.as_ref().is_some_and(|socks| !socks.users.is_empty())
    }
}

fn check_socks(socks: &Socks, text: &Text<'_>) -> Result<(), Error> {
    for user in &socks.users {
        let User { name, password } = user.as_ref();
        for (what, value) in [("name", name), ("password", password)] {
            // RFC 1929 §2.
            if !(1..=255).contains(&value.len()) {
                let said = format!("a {what} has 1 to 255 bytes, this one {}", value.len());
                return Err(text.mistake(Some(user.span()), &said));
            }
        }
        if let Some(twin) = socks.users.iter().find(|other| other.as_ref().name == *name)
            && twin.span() != user.span()
        {
            return Err(text.mistake(Some(user.span()), &format!("there is a user {name} already")));
        }
    }
    let open = socks.listen.iter().find(|address| !address.as_ref().ip().is_loopback());
    match open.filter(|_| socks.users.is_empty()) {
        Some(address) => Err(text.mistake(
            Some(address.span()),
            &format!(
                "at {} anybody could use this proxy; name who may in [[socks.user]], or listen on 127.0.0.1",
                address.as_ref()
            ),
        )),
        None if socks.listen.is_empty() => {
            Err(text.mistake(None, "[socks] listens nowhere; use: listen = [\"127.0.0.1:1080\"]"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
