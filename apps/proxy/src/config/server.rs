//! A server in the configuration file: an address or a name, with a port.

use crate::upstream::resolver::host_and_port;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddr};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A server behind a reverse proxy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Server {
    /// A fixed address.
    Address(SocketAddr),
    /// A host name and a port. The addresses of the host may change.
    Name(String, u16),
}

impl Server {
    /// Returns the address, or `None` if it must be looked up in DNS.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Name(name, port) if name == "localhost" => Some((Ipv4Addr::LOCALHOST, *port).into()),
            Self::Name(..) => None,
        }
    }
}

impl TryFrom<String> for Server {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        host_and_port(&text)
            .filter(|(host, port)| *port != 0 && is_host_name(host))
            .map(|(host, port)| Self::Name(host.to_owned(), port))
            .ok_or_else(|| {
                format!("\"{text}\" is not ADDRESS:PORT or NAME:PORT; write for example 192.0.2.1:443 or backend.internal:443")
            })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

/// A server in a list of servers: in the file a text, or a table `{ to, weight }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedServer {
    /// The server.
    pub server: Server,
    /// Share of the clients that this server gets, relative to the weights of the list; `None` if the file has no
    /// weight.
    pub weight: Option<u16>,
}

impl WeightedServer {
    /// Weight of a server for which the file has no weight.
    pub const DEFAULT_WEIGHT: u16 = 1;

    /// Returns the weight. A server of weight 0 gets clients only if no other server is healthy.
    pub fn weight(&self) -> u16 {
        self.weight.unwrap_or(Self::DEFAULT_WEIGHT)
    }
}

impl<'de> Deserialize<'de> for WeightedServer {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(TextOrTable)
    }
}

struct TextOrTable;

impl<'de> Visitor<'de> for TextOrTable {
    type Value = WeightedServer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a server, such as \"192.0.2.1:443\" or { to = \"192.0.2.1:443\", weight = 2 }")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<WeightedServer, E> {
        let server = Server::try_from(text.to_owned()).map_err(E::custom)?;
        Ok(WeightedServer { server, weight: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<WeightedServer, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            to: Server,
            weight: Option<u16>,
        }
        let Table { to: server, weight } = Table::deserialize(MapAccessDeserializer::new(table))?;
        Ok(WeightedServer { server, weight })
    }
}

/// True if a text is a valid host name. A text of digits and dots is refused, because it is a mistyped address.
pub fn is_host_name(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| b"0123456789.".contains(&byte));
    let has_name_letters = text.chars().all(|letter| letter.is_alphanumeric() || ".-_".contains(letter));
    !text.is_empty() && has_name_letters && !is_number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_address_or_name_with_port() {
        let server = |text: &str| Server::try_from(text.to_owned());
        assert_eq!(server("192.0.2.1:443"), Ok(Server::Address("192.0.2.1:443".parse().unwrap())));
        assert_eq!(server("[2001:db8::1]:443"), Ok(Server::Address("[2001:db8::1]:443".parse().unwrap())));
        assert_eq!(server("backend.internal:443"), Ok(Server::Name("backend.internal".to_owned(), 443)));
        assert_eq!(server("web_1:80").unwrap().to_string(), "web_1:80");
        for wrong in [
            "backend.internal",
            "backend.internal:0",
            ":443",
            "192.0.2.256:443",
            "a b:443",
            "2001:db8::1:443",
            "x:70000",
        ] {
            assert!(
                server(wrong).is_err_and(|error| error.contains("write for example 192.0.2.1:443")),
                "{wrong}"
            );
        }
    }
}
