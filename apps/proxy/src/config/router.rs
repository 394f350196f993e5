//! Settings of a router.

use super::interface::is_interface_name;
use super::place::Text;
use super::via::{Via, check_proxy, check_user};
use crate::error::Error;
use crate::network::Network;
use serde::Deserialize;
use toml::Spanned;

/// Routing tables reserved for the kernel (`RT_TABLE_UNSPEC`, and `RT_TABLE_DEFAULT` to `RT_TABLE_LOCAL`).
const KERNEL_TABLES: [u32; 4] = [0, 253, 254, 255];

/// A router, which relays the TCP connections of the hosts behind it through an upstream proxy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Interfaces of the LAN to which the hosts are attached.
    pub interfaces: Spanned<Vec<String>>,
    /// Upstream proxy, which connects to the servers.
    pub via: Spanned<Via>,
    /// Port of the loopback addresses on which the router accepts the intercepted connections.
    #[serde(default = "default_port")]
    pub port: u16,
    /// Bits of the firewall mark (fwmark) of packets of intercepted connections.
    #[serde(default = "default_mark")]
    pub mark: Spanned<u32>,
    /// Routing table for the marked packets.
    #[serde(default = "default_table")]
    pub table: Spanned<u32>,
    /// True if the program installs and removes rules and routes; otherwise the user does.
    #[serde(default = "default_install")]
    pub install: bool,
    /// Connections that the router forwards directly, without the upstream proxy.
    #[serde(default)]
    pub bypass: Bypass,
    /// The only servers to which connections go through the upstream proxy; without it, all but those of `bypass`.
    pub only: Option<Spanned<ProxiedServers>>,
}

/// The only servers to which connections go through the upstream proxy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProxiedServers {
    /// Networks of the servers.
    pub networks: Vec<Spanned<Network>>,
    /// Names of the servers. The router's resolver supplies their addresses.
    pub names: Vec<Spanned<String>>,
}

const fn default_port() -> u16 {
    1081
}

fn default_mark() -> Spanned<u32> {
    Spanned::new(0..0, 1 << 27)
}

fn default_table() -> Spanned<u32> {
    Spanned::new(0..0, 1081)
}

const fn default_install() -> bool {
    true
}

/// Connections that the router forwards directly, without the upstream proxy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bypass {
    /// Networks whose servers the hosts reach without the upstream proxy.
    pub networks: Vec<Network>,
    /// Ports of servers that the hosts reach without the upstream proxy.
    pub ports: Vec<u16>,
    /// Names of servers that the hosts reach without the upstream proxy. The router's resolver supplies their
    /// addresses.
    pub names: Vec<Spanned<String>>,
}

impl Default for Bypass {
    /// Exempts private and link-local networks, which an upstream proxy on the Internet cannot reach.
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
    let error_at = |place, message: &str| Err(text.error(Some(place), message));
    let interfaces = &router.interfaces;
    if interfaces.as_ref().is_empty() {
        return error_at(
            interfaces.span(),
            "interfaces is empty; add the interfaces of the LAN, such as \"lan0\"",
        );
    }
    // The names are copied into the firewall rules, so other characters could change the rules.
    if let Some(name) = interfaces.as_ref().iter().find(|name| !is_interface_name(name)) {
        return error_at(
            interfaces.span(),
            &format!("\"{name}\" is not the name of an interface; write for example \"lan0\""),
        );
    }
    if *router.mark.as_ref() == 0 {
        return error_at(router.mark.span(), "mark must have at least one bit, such as 0x8000000");
    }
    if KERNEL_TABLES.contains(router.table.as_ref()) {
        return error_at(
            router.table.span(),
            &format!(
                "table {} belongs to the kernel; write another number, such as 1081",
                router.table.as_ref()
            ),
        );
    }
    if router.port == 0 {
        return Err(text.error(None, "[router] port must not be 0; write a free port, such as 1081"));
    }
    let only_names = router.only.iter().flat_map(|only| &only.as_ref().names);
    if let Some(name) = router.bypass.names.iter().chain(only_names).find(|name| !is_host_name(name.as_ref()))
    {
        return error_at(
            name.span(),
            &format!("\"{}\" is not a host name; write for example \"intranet.example.org\"", name.as_ref()),
        );
    }
    router.only.as_ref().map_or(Ok(()), |only| check_only(only, &router.bypass, text))?;
    let via = router.via.as_ref();
    check_proxy(via)
        .and_then(|()| via.user.as_ref().map_or(Ok(()), check_user))
        .map_err(|message| text.error(Some(router.via.span()), &message))
}

/// Refuses an empty table, and servers that are in `bypass` as well.
fn check_only(only: &Spanned<ProxiedServers>, bypass: &Bypass, text: &Text<'_>) -> Result<(), Error> {
    let ProxiedServers { networks, names } = only.as_ref();
    if networks.is_empty() && names.is_empty() {
        let message = "[router.only] is empty, so nothing would go through the proxy; add networks or names";
        return Err(text.error(Some(only.span()), message));
    }
    for network in networks {
        let contains = |outer: &&Network| {
            outer.bits() <= network.as_ref().bits() && outer.contains(network.as_ref().address())
        };
        if let Some(outer) = bypass.networks.iter().find(contains) {
            let message = format!(
                "{} is in [router.only], but {outer} in [router.bypass] contains it; remove one of the two; without networks in [router.bypass], private networks are bypassed",
                network.as_ref()
            );
            return Err(text.error(Some(network.span()), &message));
        }
    }
    let is_bypassed = |name: &&Spanned<String>| {
        bypass.names.iter().any(|other| other.as_ref().eq_ignore_ascii_case(name.as_ref()))
    };
    match names.iter().find(is_bypassed) {
        Some(name) => Err(text.error(
            Some(name.span()),
            &format!("{} is in [router.only] and in [router.bypass]; remove one of the two", name.as_ref()),
        )),
        None => Ok(()),
    }
}

fn is_host_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || ".-_".contains(letter))
}
