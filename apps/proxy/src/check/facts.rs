//! Facts about this machine, from files of the kernel and from the JSON of the program `ip`.

use crate::error::Error;
use core::net::{IpAddr, SocketAddr};
use serde_json::Value;
use std::process::Command;

/// Facts about this machine.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// True if Multipath TCP is enabled; `None` if the kernel does not support it.
    pub enabled: Option<bool>,
    /// True if `net.mptcp.pm_type` leaves subflows to a path manager in user space, so the kernel opens none.
    pub userspace: bool,
    /// True if `anabranch-proxy uplinks` runs on this machine.
    pub uplinks_program_runs: bool,
    /// Maximum number of subflows that a connection may have in addition to its first one.
    pub subflows: Option<u32>,
    /// Endpoints of the path manager; `None` if the process is not root.
    pub endpoints: Option<Vec<Endpoint>>,
    /// Interfaces over which this machine may reach the Internet, at most one for each address.
    pub uplinks: Vec<Uplink>,
    /// Interfaces that have the same address as one of the uplinks.
    pub shared: Vec<SharedAddress>,
}

/// An interface that has the same address as an uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedAddress {
    /// The interface.
    pub device: String,
    /// The interface of the uplink that has the same address.
    pub used: String,
    /// The shared address.
    pub address: IpAddr,
}

/// An endpoint of the path manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// True if the kernel opens subflows from this address.
    pub opens: bool,
    /// True if subflows from this address carry data only while no other subflow works.
    pub backup: bool,
}

/// An address from which this machine may connect to the Internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// The interface.
    pub device: String,
    /// Address of the interface.
    pub address: IpAddr,
    /// True if the interface has a default route.
    pub has_default_route: bool,
    /// Gateway of the default route.
    pub gateway: Option<String>,
    /// The interface that the kernel's routing selects for packets from this address to the proxy; `None` if there is
    /// no route.
    pub egress_interface: Option<String>,
}

/// Collects all facts. The routes examined are those to the proxy `to`; if `to` is `None`, those to a documentation
/// address, which follow the default route. Interfaces in `inner` belong to the LAN and are not uplinks.
///
/// # Errors
/// If the program `ip` is missing.
pub fn collect(to: Option<SocketAddr>, inner: &[String]) -> Result<Facts, Error> {
    let to = to.map_or(IpAddr::from([192, 0, 2, 1]), |to| to.ip());
    let (uplinks, shared) = without_shared(uplinks(to, inner)?);
    Ok(Facts {
        enabled: sysctl("enabled").map(|value| value == "1"),
        userspace: sysctl("pm_type").is_some_and(|value| value == "1"),
        uplinks_program_runs: crate::uplinks::runs(),
        subflows: ip(&["mptcp", "limits", "show"])?.as_deref().and_then(limit),
        endpoints: ip(&["-j", "mptcp", "endpoint", "show"])?.as_deref().map(endpoints),
        uplinks,
        shared,
    })
}

fn sysctl(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/net/mptcp/{name}")).ok().map(|value| value.trim().to_owned())
}

/// Runs the program `ip` and returns its output; `None` if `ip` reports an error.
fn ip(arguments: &[&str]) -> Result<Option<String>, Error> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| {
        Error::Refused(format!("cannot run the program ip: {error}; install the package iproute2"))
    })?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Parses the limit of further subflows in the output of `ip mptcp limits`: `add_addr_accepted 0 subflows 2`.
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
        let egress_interface = route.as_deref().and_then(|json| text(array(json).first()?, "dev"));
        uplinks.push(Uplink {
            device,
            address,
            has_default_route: !default.is_empty(),
            gateway,
            egress_interface,
        });
    }
    Ok(uplinks)
}

/// Separates interfaces that have the same address: the one that the routing selects stays an uplink, the others are
/// returned as shared addresses.
fn without_shared(all: Vec<Uplink>) -> (Vec<Uplink>, Vec<SharedAddress>) {
    let (mut uplinks, mut shared): (Vec<Uplink>, Vec<SharedAddress>) = (Vec::new(), Vec::new());
    for uplink in all {
        let Some(other) = uplinks.iter_mut().find(|other| other.address == uplink.address) else {
            uplinks.push(uplink);
            continue;
        };
        let unused = if uplink.egress_interface.as_ref() == Some(&uplink.device) {
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
    /// True for an interface that connects guests of this machine (docker0, virbr0). It is an uplink only with a
    /// default route.
    is_inner: bool,
}

/// Types of interfaces without a physical link.
const INNER: [&str; 3] = ["bridge", "vxlan", "dummy"];

fn interfaces(json: &str) -> Vec<Interface> {
    let of_device = |device: &Value| {
        let name = text(device, "ifname").unwrap_or_default();
        let is_inner = device["linkinfo"]["info_kind"].as_str().is_some_and(|kind| INNER.contains(&kind));
        let addresses = device["addr_info"].as_array().map(Vec::as_slice).unwrap_or_default();
        // An interface may have several IPv6 addresses. Temporary ones change daily, so they are unsuitable for a
        // configuration.
        let mut lasting = addresses.iter().filter(|address| address["temporary"] != true);
        let address = lasting.find_map(|address| address["local"].as_str()?.parse().ok())?;
        Some(Interface { device: name, address, is_inner })
    };
    array(json).iter().filter_map(of_device).collect()
}

/// Returns the elements of a JSON array; empty for other JSON.
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
        let uplink = |device: &str, address: [u8; 4], egress_interface: &str| Uplink {
            device: device.to_owned(),
            address: IpAddr::from(address),
            has_default_route: true,
            gateway: None,
            egress_interface: Some(egress_interface.to_owned()),
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

    /// The parsed texts are output of iproute2 6.1.
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
