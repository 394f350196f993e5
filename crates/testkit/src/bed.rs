//! Test bed: the hosts of a scenario, each in a network namespace, and the emulated network between them.

use crate::namespace::Named;
use anabranch_net::Namespace;
use anabranch_net::emulator::{Attachment, Emulator, Settings};
use anabranch_net::layout::{HostInterface, Layout};
use anabranch_netem::Interface;
use anabranch_scenario::Scenario;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

/// The namespaces of a scenario's hosts. Dropping this value removes them.
pub struct Hosts {
    pub layout: Layout,
    named: BTreeMap<String, Named>,
}

impl Hosts {
    /// Creates the hosts and the network of a scenario. The kernel's path manager gets every address: the sending host
    /// of the first flow opens subflows from its addresses, the other hosts announce theirs.
    pub fn new(purpose: &str, scenario: &Arc<Scenario>) -> (Self, Emulator) {
        let layout = Layout::new(scenario).expect("a network");
        let name = |host: &str| format!("anabranch-{purpose}-{host}-{}", std::process::id());
        let named = layout.hosts.iter().map(|host| (host.name.clone(), Named::new(name(&host.name))));
        let hosts = Self { named: named.collect(), layout };
        let attach = |(host, interface): (&str, &HostInterface)| Attachment {
            interface: Interface(interface.index),
            namespace: hosts.namespace(host),
            device: interface.device.clone(),
        };
        let layout = &hosts.layout;
        let interfaces = layout.hosts.iter().flat_map(|host| host.devices().map(|i| (host.name.as_str(), i)));
        let attachments = interfaces.map(attach).collect();
        let emulator = Emulator::open(Arc::clone(scenario), scenario.seed, attachments, Settings::default());
        let emulator = emulator.expect("TUN");
        hosts.configure(&scenario.flows[0].from);
        (hosts, emulator)
    }

    /// Returns the namespace of a host.
    pub fn namespace(&self, host: &str) -> Namespace {
        Namespace::open(self.named[host].path().as_ref()).expect("the namespace exists")
    }

    /// Returns the name of a host's namespace.
    pub fn name(&self, host: &str) -> &str {
        self.named[host].name()
    }

    /// Returns the namespaces of all hosts, by name of the host.
    pub fn namespaces(&self) -> BTreeMap<String, Namespace> {
        self.named.keys().map(|host| (host.clone(), self.namespace(host))).collect()
    }

    /// Runs `ip` on a host.
    pub fn ip(&self, host: &str, arguments: &str) {
        let mut ip = Command::new("ip");
        ip.args(["-n", self.name(host)]).args(arguments.split_whitespace());
        let output = ip.output().expect("ip can be run");
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Configures addresses and routes of the hosts, and adds every address to the path manager. The host `opener`
    /// opens subflows, the others announce their addresses.
    fn configure(&self, opener: &str) {
        for host in &self.layout.hosts {
            let ip = |arguments: &str| self.ip(&host.name, arguments);
            ip("link set lo up");
            ip("mptcp limits set subflow 4 add_addr_accepted 4");
            for (number, interface) in host.interfaces.iter().enumerate() {
                let (device, address, table) = (&interface.device, &interface.address, 100 + number);
                ip(&format!("address add {address}/32 dev {device}"));
                ip(&format!("link set {device} up"));
                ip(&format!("rule add from {address} lookup {table}"));
                // If this interface has no route to a destination, the kernel must not use the other interface instead.
                ip(&format!("route add unreachable default table {table}"));
                for route in &interface.routes {
                    let to = &route.to;
                    ip(&format!("route add {to}/32 dev {device} src {address} table {table}"));
                    if route.first {
                        ip(&format!("route add {to}/32 dev {device} src {address}"));
                    }
                }
                let role = if host.name == opener { "subflow" } else { "signal" };
                ip(&format!("mptcp endpoint add {address} {role}"));
            }
        }
    }
}
