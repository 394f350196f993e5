//! Detection of loops: a proxy that connects to its own listener would use up all file descriptors.

use super::place::Text;
use crate::error::Error;
use crate::local_address::is_local;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

/// A proxy in the configuration file that listens and connects to fixed addresses.
pub struct Forwarder {
    /// Name for messages.
    pub name: String,
    /// The proxy's name in messages.
    pub listen: Vec<SocketAddr>,
    /// Addresses to which this proxy connects, each with its position in the file.
    pub to: Vec<(SocketAddr, Range<usize>)>,
}

/// Refuses a file in which a connection to a listener is forwarded to the same listener, directly or through others.
///
/// # Errors
/// The first loop, with its position in the file.
pub fn refuse_loops(parts: &[Forwarder], text: &Text<'_>) -> Result<(), Error> {
    for (number, Forwarder { name, .. }) in parts.iter().enumerate() {
        if let Some((step, place)) = find_loop(parts, number) {
            let message = format!(
                "{name} forwards to {step}, where {name} itself listens: a loop; change one of the addresses"
            );
            return Err(text.error(Some(place), &message));
        }
    }
    Ok(())
}

/// Searches for a loop that starts at the proxy `first`; returns the last address of the loop, and the position of its
/// first address in the file.
fn find_loop(parts: &[Forwarder], first: usize) -> Option<(SocketAddr, Range<usize>)> {
    let mut seen = vec![false; parts.len()];
    let mut open: Vec<(SocketAddr, Range<usize>)> = parts[first].to.clone();
    while let Some((to, place)) = open.pop() {
        for (number, part) in parts.iter().enumerate() {
            if !part.listen.iter().any(|listen| reaches(to, *listen)) {
                continue;
            }
            if number == first {
                return Some((to, place));
            }
            if !std::mem::replace(&mut seen[number], true) {
                open.extend(part.to.iter().map(|(to, _)| (*to, place.clone())));
            }
        }
    }
    None
}

/// True if a connection to `to` reaches a listener bound to `listen`. The unspecified address stands for this machine.
pub fn reaches(to: SocketAddr, listen: SocketAddr) -> bool {
    let is_this_machine = |ip: IpAddr| ip.is_unspecified() || ip.is_loopback() || is_local(ip);
    let (ip, bound) = (to.ip().to_canonical(), listen.ip());
    // With port 0, the kernel chooses a free port, so no configured address can refer to that listener.
    to.port() == listen.port()
        && to.port() != 0
        && ip.is_ipv4() == bound.is_ipv4()
        && (ip == bound
            || bound.is_unspecified() && is_this_machine(ip)
            || ip.is_unspecified() && bound.is_loopback())
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "proxy.toml").map_err(|error| error.to_string())
    }

    fn reverse(name: &str, listen: &str, to: &str) -> String {
        format!("[[reverse]]\nname = \"{name}\"\nlisten = [\"{listen}\"]\nto = [\"{to}\"]\n")
    }

    #[test]
    fn loop_to_itself_is_refused() {
        for (listen, to) in [
            ("192.0.2.1:443", "192.0.2.1:443"),
            ("0.0.0.0:443", "127.0.0.1:443"),
            ("0.0.0.0:443", "127.9.9.9:443"),
            ("[::]:443", "[::1]:443"),
            ("127.0.0.1:443", "0.0.0.0:443"),
            ("0.0.0.0:443", "[::ffff:127.0.0.1]:443"),
        ] {
            let message = parse(&reverse("web", listen, to)).expect_err(to);
            assert!(
                message.starts_with("proxy.toml:4: web forwards to ")
                    && message.ends_with("a loop; change one of the addresses"),
                "{message}"
            );
        }
        for (listen, to) in [
            ("192.0.2.1:443", "192.0.2.2:443"),
            ("0.0.0.0:443", "127.0.0.1:8443"),
            ("0.0.0.0:443", "203.0.113.77:443"),
            ("127.0.0.1:443", "127.0.0.2:443"),
            ("[::]:443", "127.0.0.1:443"),
        ] {
            parse(&reverse("web", listen, to)).expect(to);
        }
    }

    #[test]
    fn loop_through_other_proxies_is_refused() {
        let both = reverse("a", "127.0.0.1:1", "127.0.0.1:2") + &reverse("b", "127.0.0.1:2", "127.0.0.1:1");
        assert!(parse(&both).unwrap_err().starts_with("proxy.toml:4: a forwards to 127.0.0.1:1"));
        let chain = reverse("a", "127.0.0.1:1", "127.0.0.1:2") + &reverse("b", "127.0.0.1:2", "192.0.2.1:1");
        parse(&chain).expect("a chain without a loop");
        for via in ["127.0.0.1:1080", "localhost:1080"] {
            let message = parse(&format!("[socks]\nvia = {{ proxy = \"{via}\" }}")).unwrap_err();
            assert!(message.starts_with("proxy.toml:2: socks forwards to 127.0.0.1:1080"), "{message}");
        }
        parse("[socks]\nvia = { proxy = \"proxy.example.org:1080\" }").expect("the proxy is another machine");
        let front = reverse("front", "127.0.0.1:1", "127.0.0.1:1080");
        parse(&(front.clone() + "[socks]")).expect("a proxy before the proxy");
        assert!(parse(&(front + "[socks.via]\nproxy = \"127.0.0.1:1\"")).is_err());
    }
}
