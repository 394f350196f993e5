//! Hosts of the tests: over links in memory, or over UDP.

use anabranch_endpoint::Address;
use anabranch_host::{Backlog, Limits, Listening, Protocol};
use anabranch_net::{Clock, Memory, Network, Stack, Udp};
use anabranch_settings::sctp;
use anabranch_wire::sctp::encapsulation::Ports;
use core::future::Future;
use core::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;

/// Runs a test, at most for a minute.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async { timeout(Duration::from_secs(60), test).await.expect("the test ends") });
}

/// Address of a host on a link: `10.0.link.host`.
pub fn ip(link: u8, host: u8) -> IpAddr {
    [10, 0, link, host].into()
}

/// Two hosts with this number of links between them.
pub fn linked(links: u8) -> [Stack; 2] {
    networks(links).map(|network| Stack::start(network, Limits::default()).expect("a thread"))
}

/// The networks of two hosts with this number of links between them. The addresses of host 0 end in 1, those of host 1 in 2.
pub fn networks(links: u8) -> [Network; 2] {
    let mut networks = [(); 2].map(|()| Network::new(Clock::new()));
    for link in 0..links {
        let ends = Memory::pair().expect("descriptors");
        for (host, (network, end)) in (1..).zip(networks.iter_mut().zip(ends)) {
            network.add(end, &[Address::new(ip(link, host), 1500)]);
        }
    }
    networks
}

/// Two loopback addresses of a test's end.
pub fn loopback(test: u8, end: u8) -> [IpAddr; 2] {
    let ip = |n| IpAddr::V4(core::net::Ipv4Addr::new(127, 114, test, n));
    [ip(2 * end + 1), ip(2 * end + 2)]
}

/// A host over UDP with these addresses.
pub fn over_udp(addresses: &[IpAddr]) -> Stack {
    Stack::start(over_udp_network(addresses), Limits::default()).expect("a thread")
}

/// The network of a host over UDP with these addresses.
pub fn over_udp_network(addresses: &[IpAddr]) -> Network {
    let mut network = Network::new(Clock::new());
    for &ip in addresses {
        let udp = Udp::bind((ip, 9899).into()).expect("the port is free");
        network.add(udp, &[Address::new(ip, 1500)]);
    }
    network
}

/// CMT-SCTP over UDP.
pub fn cmt(change: impl FnOnce(&mut sctp::Config)) -> Protocol {
    let mut config = sctp::Config::for_cmt().encapsulation(Some(Ports::default()));
    change(&mut config);
    Protocol::Sctp(Box::new(config))
}

/// A listener on port 7.
pub fn listening(protocol: Protocol) -> Listening {
    Listening { protocol, port: 7, backlog: Backlog::default() }
}

/// Byte `at` of the data of these tests: no period of a power of two.
pub const fn pattern(at: usize) -> u8 {
    (at % 251) as u8 ^ (at / 251 % 253) as u8
}

/// The first bytes of the pattern.
pub fn data(len: usize) -> Vec<u8> {
    (0..len).map(pattern).collect()
}
