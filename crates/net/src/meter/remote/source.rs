//! The client's addresses and ports.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The client's addresses and ports; the default leaves all to the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Source addresses, at most one of each version of IP: connections use that of the server's version.
    pub addresses: Vec<IpAddr>,
    /// Port of the first flow; the next flows have the next ports.
    pub first_port: Option<u16>,
    /// True for IPv6 only, false for IPv4 only.
    pub ipv6: Option<bool>,
}

/// The name of a version of IP.
pub const fn version(ipv6: bool) -> &'static str {
    if ipv6 { "IPv6" } else { "IPv4" }
}

impl Source {
    /// Checks the addresses and ports for a test of this number of flows with the server at `host`.
    ///
    /// # Errors
    ///
    /// If addresses and ports contradict each other, the server or the number of flows; the text is a sentence.
    pub fn check(&self, host: &str, flows: usize) -> Result<(), String> {
        for ipv6 in [false, true] {
            let mut of_version = self.addresses.iter().filter(|address| address.is_ipv6() == ipv6);
            if let (Some(first), Some(second)) = (of_version.next(), of_version.next()) {
                return Err(format!(
                    "{first} and {second} are both {}; give one source address, and add further ones for subflows by ip mptcp endpoint",
                    version(ipv6)
                ));
            }
        }
        let literal = host.split('%').next().unwrap_or(host).parse::<IpAddr>().ok();
        if let Some(ipv6) = self.ipv6 {
            let other = literal.iter().chain(&self.addresses).find(|address| address.is_ipv6() != ipv6);
            if let Some(other) = other {
                let option = if ipv6 { "-6" } else { "-4" };
                return Err(format!("{other} is no {} address; omit {option}", version(ipv6)));
            }
        }
        if let Some(server) = literal
            && !self.addresses.is_empty()
            && !self.addresses.iter().any(|address| address.is_ipv6() == server.is_ipv6())
        {
            return Err(format!(
                "no source address is {} like the server {server}; add one",
                version(server.is_ipv6())
            ));
        }
        match self.first_port {
            Some(port) if usize::from(port) + flows > 1 << 16 => {
                Err(format!("{flows} flows from port {port} on need ports above 65535; give a lower one"))
            }
            _ => Ok(()),
        }
    }

    /// True if a server at this address may be used.
    pub fn suits(&self, remote: SocketAddr) -> bool {
        let same = |address: &IpAddr| address.is_ipv6() == remote.is_ipv6();
        self.ipv6.is_none_or(|ipv6| ipv6 == remote.is_ipv6())
            && (self.addresses.is_empty() || self.addresses.iter().any(same))
    }

    /// The source address of the control connection to `remote`, if one is given.
    pub fn of_control(&self, remote: SocketAddr) -> Option<SocketAddr> {
        let same = self.addresses.iter().find(|address| address.is_ipv6() == remote.is_ipv6());
        same.map(|&address| SocketAddr::new(address, 0))
    }

    /// The source address and port of a flow to `remote`, if one of them is given.
    pub fn of_flow(&self, at: usize, remote: SocketAddr) -> Option<SocketAddr> {
        let address = self.of_control(remote);
        let Some(first) = self.first_port else { return address };
        let any: IpAddr =
            if remote.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        Some(SocketAddr::new(address.map_or(any, |address| address.ip()), first + at as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    fn source(addresses: &[IpAddr], first_port: Option<u16>, ipv6: Option<bool>) -> Source {
        Source { addresses: addresses.to_vec(), first_port, ipv6 }
    }

    #[test]
    fn address_has_the_version_of_the_server() {
        let both = source(&[V4, V6], Some(7000), None);
        assert_eq!(both.check("example.net", 4), Ok(()));
        let [old, new] = [V4, V6].map(|ip| SocketAddr::new(ip, 5210));
        assert_eq!(both.of_flow(2, new), Some(SocketAddr::new(V6, 7002)));
        assert_eq!(both.of_control(old), Some(SocketAddr::new(V4, 0)));
        assert!(!source(&[V6], None, None).suits(old));
        assert!(!source(&[], None, Some(false)).suits(new));
        assert_eq!(source(&[], None, None).of_flow(0, old), None);
    }

    #[test]
    fn contradictory_addresses_are_refused() {
        let refusal = |source: Source, host: &str| source.check(host, 4).expect_err("a contradiction");
        assert!(refusal(source(&[], None, Some(false)), "::1").contains("::1 is no IPv4 address"));
        assert!(refusal(source(&[], None, Some(false)), "fe80::1%eth0").contains("is no IPv4 address"));
        assert!(refusal(source(&[V4], None, Some(true)), "name").contains("127.0.0.1 is no IPv6 address"));
        assert!(refusal(source(&[V4, V4], None, None), "name").contains("are both IPv4"));
        assert!(refusal(source(&[V6], None, None), "127.0.0.1").contains("no source address is IPv4"));
        assert!(refusal(source(&[], Some(65_533), None), "name").contains("above 65535"));
        assert_eq!(source(&[], Some(65_532), None).check("name", 4), Ok(()));
    }
}
