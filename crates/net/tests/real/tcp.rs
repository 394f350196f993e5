//! TCP of this stack and of Linux, over TUN.

use super::kernel;
use super::ours::{self, BYTES, Role};
use anabranch_host::Protocol;
use anabranch_net::Network;
use anabranch_tcp::tcp::Config;
use anabranch_testkit::application::Load;
use anabranch_testkit::namespace::{Need, ip, machine_has, set, within};

const NEEDS: [Need; 2] = [Need::Namespaces, Need::Tun];

const LOAD: Load = Load::Stream { bytes: BYTES };

/// Creates one interface, and waits until the kernel has completed duplicate address detection for its IPv6
/// address.
fn network(ipv6: bool) -> Network {
    for scope in ["all", "default"] {
        set(&format!("net.ipv6.conf.{scope}.accept_dad"), "0");
    }
    let network = ours::network(ipv6, 1);
    while !ip("-6 address show tentative").is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    network
}

fn connects(ipv6: bool) {
    let network = network(ipv6);
    let machine = ours::address(ipv6, 0, 1);
    let peer = kernel::listen(false, (machine, 5001).into(), BYTES);
    let side = ours::start(network, Protocol::Tcp(Config::default()), LOAD, Role::Connect(machine, 5001));
    side.finish().check(&peer.join().expect("the peer is done"));
}

fn accepts(ipv6: bool) {
    let network = network(ipv6);
    let side = ours::start(network, Protocol::Tcp(Config::default()), LOAD, Role::Accept(5001));
    let peer = kernel::connect(false, (ours::address(ipv6, 0, 2), 5001).into(), BYTES);
    side.finish().check(&peer.join().expect("the peer is done"));
}

#[test]
fn tcp_connects_to_linux() {
    if machine_has(&NEEDS) {
        within("tcp-connects", || connects(false));
    }
}

#[test]
fn tcp_accepts_from_linux() {
    if machine_has(&NEEDS) {
        within("tcp-accepts", || accepts(false));
    }
}

#[test]
fn tcp_connects_to_linux_over_ipv6() {
    if machine_has(&NEEDS) {
        within("tcp6-connects", || connects(true));
    }
}

#[test]
fn tcp_accepts_from_linux_over_ipv6() {
    if machine_has(&NEEDS) {
        within("tcp6-accepts", || accepts(true));
    }
}
