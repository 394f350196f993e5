//! Facts about this machine, from files of the kernel and from the JSON of the program `ip`.

use crate::error::Error;
use core::net::{IpAddr, SocketAddr};
use serde_json::Value;
use std::process::Command;

/// Facts about this machine.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Whether new connections may have Multipath TCP; `None` if the kernel knows nothing of it.
    pub enabled: Option<bool>,
    /// Subflows are opened by a program and not by the kernel.
    pub userspace: bool,
    /// Uplink care runs here.
    pub cared: bool,
    /// Further subflows that a connection may have.
    pub subflows: Option<u32>,
    /// Endpoints of the path manager; `None` without root.
    pub endpoints: Option<Vec<Endpoint>>,
    /// Interfaces with an address in the world.
    pub uplinks: Vec<Uplink>,
    /// Interfaces with the address of one of these.
    pub shared: Vec<SharedAddress>,
}

/// An interface that has the same address as an uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedAddress {
    /// The interface.
    pub device: String,
    /// The uplink's interface.
    pub used: String,
    /// The address of both.
    pub address: IpAddr,
}

/// An address that the path manager knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// Subflows are opened from it.
    pub opens: bool,
    /// They carry data when all others are dead.
    pub backup: bool,
}

/// An address of the machine by which it may reach others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// The interface.
    pub device: String,
    /// Its address.
    pub address: IpAddr,
    /// The interface has a default route.
    pub leads_out: bool,
    /// Where that leads.
    pub gateway: Option<String>,
    /// The interface by which packets from this address leave for the proxy; `None` if none does.
    pub leaves_by: Option<String>,
}

/// Asks for all of it. Without a proxy, routes are to an address of the documentation that is everywhere behind the default
/// route. Interfaces of `inner` have hosts behind them and are no uplinks.
///
/// # Errors
/// If the program `ip` is missing.
pub fn collect(to: Option<SocketAddr>, inner: &[String]) -> Result<Facts, Error> {
    let to = to.map_or(IpAddr::from([192, 0, 2, 1]), |to| to.ip());
    let (uplinks, shared) = without_shared(uplinks(to, inner)?);
    Ok(Facts {
        enabled: sysctl("enabled").map(|value| value == "1"),
        userspace: sysctl("pm_type").is_some_and(|value| value == "1"),
        cared: crate::uplinks::runs(),
        subflows: ip(&["mptcp", "limits", "show"])?.as_deref().and_then(limit),
        endpoints: ip(&["-j", "mptcp", "endpoint", "show"])?.as_deref().map(endpoints),
        uplinks,
        shared,
    })
}

fn sysctl(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/net/mptcp/{name}")).ok().map(|value| value.trim().to_owned())
}

/// Output of `ip`; nothing if it fails.
fn ip(arguments: &[&str]) -> Result<Option<String>, Error> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| {
        Error::Refused(format!("the program ip (package iproute2) cannot be run: {error}"))
    })?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// `add_addr_accepted 0 subflows 2`
fn limit(text: &str) -> Option<u32> {
    let mut words = text.split_whitespace().skip_while(|&word| word != "subflows").skip(1);
    words.next()?.parse().ok()
}

fn endpoints(json: &str) -> Vec<Endpoint> {
    let flag = |value: &Value, name: &str| value[name] == true;
    let endpoint = |value: &Value| {
        let address = value["address"].as_str()?.parse().ok()?;
        let opens = flag(value, "subflow") || flag(value, "fullmesh");
        Some(Endpoint { address, opens, backup: flag(value, "backup") })
    };
    array(json).iter().filter_map(endpoint).collect()
}

fn uplinks(to: IpAddr, inner: &[String]) -> Result<Vec<Uplink>, Error> {
    let family = if to.is_ipv4() { "-4" } else { "-6" };
    let shown = ip(&["-j", "-d", family, "address", "show", "up", "scope", "global"])?.unwrap_or_default();
    let mut uplinks = Vec::new();
    for Interface { device, address, is_inner } in interfaces(&shown) {
        if inner.contains(&device) {
            continue;
        }
        let default = ip(&["-j", family, "route", "show", "table", "all", "default", "dev", &device])?;
        let default = array(default.as_deref().unwrap_or_default());
        if is_inner && default.is_empty() {
            continue;
        }
        let gateway = default.first().and_then(|route| text(route, "gateway"));
        let (to, from) = (to.to_string(), address.to_string());
        let route = ip(&["-j", "route", "get", &to, "from", &from])?;
        let leaves_by = route.as_deref().and_then(|json| text(array(json).first()?, "dev"));
        uplinks.push(Uplink { device, address, leads_out: !default.is_empty(), gateway, leaves_by });
    }
    Ok(uplinks)
}

/// Sets interfaces apart that have the address of another one. The one by which packets leave counts as the uplink.
fn without_shared(all: Vec<Uplink>) -> (Vec<Uplink>, Vec<SharedAddress>) {
    let (mut uplinks, mut shared): (Vec<Uplink>, Vec<SharedAddress>) = (Vec::new(), Vec::new());
    for uplink in all {
        let Some(other) = uplinks.iter_mut().find(|other| other.address == uplink.address) else {
            uplinks.push(uplink);
            continue;
        };
        let unused = if uplink.leaves_by.as_ref() == Some(&uplink.device) {
            std::mem::replace(other, uplink)
        } else {
            uplink
        };
        shared.push(SharedAddress {
            device: unused.device,
            used: other.device.clone(),
            address: unused.address,
        });
    }
    (uplinks, shared)
}

struct Interface {
    device: String,
    address: IpAddr,
    /// It joins guests of this machine (docker0, virbr0) or hosts of its network, and is an uplink only with a default route.
    is_inner: bool,
}

/// Kinds of interfaces that have no link of their own.
const INNER: [&str; 3] = ["bridge", "vxlan", "dummy"];

fn interfaces(json: &str) -> Vec<Interface> {
    let of_device = |device: &Value| {
        let name = text(device, "ifname").unwrap_or_default();
        let is_inner = device["linkinfo"]["info_kind"].as_str().is_some_and(|kind| INNER.contains(&kind));
        let addresses = device["addr_info"].as_array().map(Vec::as_slice).unwrap_or_default();
        // An interface of IPv6 has several; those that change by the day are not to be written down anywhere.
        let mut lasting = addresses.iter().filter(|address| address["temporary"] != true);
        let address = lasting.find_map(|address| address["local"].as_str()?.parse().ok())?;
        Some(Interface { device: name, address, is_inner })
    };
    array(json).iter().filter_map(of_device).collect()
}

fn array(json: &str) -> Vec<Value> {
    serde_json::from_str(json).unwrap_or_default()
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_with_one_address_are_one_uplink() {
        let uplink = |device: &str, address: [u8; 4], leaves_by: &str| Uplink {
            device: device.to_owned(),
            address: IpAddr::from(address),
            leads_out: true,
            gateway: None,
            leaves_by: Some(leaves_by.to_owned()),
        };
        let all = vec![
            uplink("usb0", [192, 168, 8, 100], "usb1"),
            uplink("wlan0", [192, 168, 1, 2], "wlan0"),
            uplink("usb1", [192, 168, 8, 100], "usb1"),
        ];
        let (uplinks, shared) = without_shared(all);
        assert_eq!(uplinks.iter().map(|uplink| &uplink.device[..]).collect::<Vec<_>>(), ["usb1", "wlan0"]);
        assert_eq!((&shared[0].device[..], &shared[0].used[..], shared.len()), ("usb0", "usb1", 1));
    }

    /// As iproute2 6.1 prints them.
    #[test]
    fn output_of_ip_is_parsed() {
        assert_eq!(limit("add_addr_accepted 0 subflows 2 \n"), Some(2));
        assert_eq!(limit(""), None);
        let json = r#"[{"address":"10.0.0.1","id":1,"subflow":true},{"address":"fd00::1","id":2,"signal":true,"backup":true}]"#;
        let endpoints = endpoints(json);
        assert!(endpoints[0].opens && !endpoints[1].opens && endpoints[1].backup);
        let json = r#"[{},{"ifindex":2,"ifname":"wlan0","operstate":"UP","addr_info":[{"family":"inet","local":"192.168.1.5",
            "prefixlen":24,"scope":"global"},{"family":"inet","local":"192.168.1.6"}]},{"ifname":"wwan0","addr_info":[]},
            {"ifname":"docker0","linkinfo":{"info_kind":"bridge"},"addr_info":[{"local":"172.17.0.1"}]},
            {"ifname":"w1","linkinfo":{"info_kind":"veth"},"addr_info":[{"local":"10.0.0.1"}]}]"#;
        let found: Vec<_> = interfaces(json)
            .into_iter()
            .map(|found| (found.device, found.address.to_string(), found.is_inner))
            .collect();
        let expected =
            [("wlan0", "192.168.1.5", false), ("docker0", "172.17.0.1", true), ("w1", "10.0.0.1", false)];
        assert_eq!(
            found,
            expected.map(|(device, address, inner)| (device.to_owned(), address.to_owned(), inner))
        );
        assert!(interfaces("").is_empty());
    }
}
