//! Settings of a router.

use super::interface::is_interface;
use super::place::Text;
use super::via::{Via, check_proxy, check_user};
use crate::error::Error;
use crate::network::Network;
use serde::Deserialize;
use toml::Spanned;

/// Tables of routes that the kernel has for itself (`RT_TABLE_UNSPEC`, `RT_TABLE_DEFAULT` to `RT_TABLE_LOCAL`).
const TABLES_OF_THE_KERNEL: [u32; 4] = [0, 253, 254, 255];

/// A router: carries the TCP connections of the hosts behind it by another proxy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// The interfaces behind which the hosts are.
    pub interfaces: Spanned<Vec<String>>,
    /// The proxy by which servers are reached.
    pub via: Spanned<Via>,
    /// The port of loopback addresses where the kernel hands connections over.
    #[serde(default = "port")]
    pub port: u16,
    /// The bits of the mark of packets that are handed over.
    #[serde(default = "mark")]
    pub mark: Spanned<u32>,
    /// The table of routes for them.
    #[serde(default = "table")]
    pub table: Spanned<u32>,
    /// Whether the router installs and removes rules and routes; otherwise the user does.
    #[serde(default = "install")]
    pub install: bool,
    /// Connections that pass the router by.
    #[serde(default)]
    pub bypass: Bypass,
}

const fn port() -> u16 {
    1081
}

fn mark() -> Spanned<u32> {
    Spanned::new(0..0, 1 << 27)
}

fn table() -> Spanned<u32> {
    Spanned::new(0..0, 1081)
}

const fn install() -> bool {
    true
}

/// Connections that pass the router by.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bypass {
    /// Networks of servers.
    pub networks: Vec<Network>,
    /// Ports of servers.
    pub ports: Vec<u16>,
    /// Names of servers: the addresses that they have in the router's resolver.
    pub names: Vec<Spanned<String>>,
}

impl Default for Bypass {
    /// Networks that are not behind any uplink.
    fn default() -> Self {
        let private = [
            "10.0.0.0/8",
            "100.64.0.0/10",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "fc00::/7",
            "fe80::/10",
        ];
        let networks = private.map(|network| network.parse().expect("a network"));
        Self { networks: networks.to_vec(), ports: Vec::new(), names: Vec::new() }
    }
}

pub(super) fn check_router(router: &Router, text: &Text<'_>) -> Result<(), Error> {
    let mistake = |place, said: &str| Err(text.mistake(Some(place), said));
    let interfaces = &router.interfaces;
    if interfaces.as_ref().is_empty() {
        return mistake(
            interfaces.span(),
            "interfaces is empty; add the interfaces of the LAN, such as \"lan0\"",
        );
    }
    // They become a part of the rules' text.
    if let Some(name) = interfaces.as_ref().iter().find(|name| !is_interface(name)) {
        return mistake(interfaces.span(), &format!("\"{name}\" is not the name of an interface"));
    }
    if *router.mark.as_ref() == 0 {
        return mistake(router.mark.span(), "mark must have at least one bit, such as 0x8000000");
    }
    if TABLES_OF_THE_KERNEL.contains(router.table.as_ref()) {
        return mistake(
            router.table.span(),
            &format!("table {} belongs to the kernel; write another, such as 1081", router.table.as_ref()),
        );
    }
    if router.port == 0 {
        return Err(text.mistake(None, "[router] port must not be 0; write one that is free, such as 1081"));
    }
    if let Some(name) = router.bypass.names.iter().find(|name| !is_name(name.as_ref())) {
        return mistake(name.span(), &format!("\"{}\" is not the name of a host", name.as_ref()));
    }
    let via = router.via.as_ref();
    check_proxy(via)
        .and_then(|()| via.user.as_ref().map_or(Ok(()), check_user))
        .map_err(|said| text.mistake(Some(router.via.span()), &said))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || ".-_".contains(letter))
}
