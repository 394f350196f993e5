//! A proxy that reaches itself would connect to itself until no descriptor is left.

use super::place::Text;
use crate::error::Error;
use crate::local_address::is_own;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

/// Something that listens, and connects to fixed addresses.
pub struct Part {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    /// Addresses that it connects to, each with its place in the file.
    pub to: Vec<(SocketAddr, Range<usize>)>,
}

/// Refuses a file in which what comes to one of its listeners comes to it again, through others or at once.
///
/// # Errors
/// Which one it is.
pub fn refuse(parts: &[Part], text: &Text<'_>) -> Result<(), Error> {
    for (number, Part { name, .. }) in parts.iter().enumerate() {
        if let Some((step, place)) = way_back(parts, number) {
            let said = format!(
                "{name} leads to {step}, where {name} listens itself: a loop; change one of the addresses"
            );
            return Err(text.mistake(Some(place), &said));
        }
    }
    Ok(())
}

/// The last step of a way from a part to itself, and where the file says the first one.
fn way_back(parts: &[Part], first: usize) -> Option<(SocketAddr, Range<usize>)> {
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

/// Whether a connection to `to` reaches a listener at `listen`. The unspecified address is this machine's.
pub fn reaches(to: SocketAddr, listen: SocketAddr) -> bool {
    let here = |ip: IpAddr| ip.is_unspecified() || ip.is_loopback() || is_own(ip);
    let (ip, ours) = (to.ip().to_canonical(), listen.ip());
    // Port 0 stands for a port that the kernel chooses, so no connection can be meant for it.
    to.port() == listen.port()
        && to.port() != 0
        && ip.is_ipv4() == ours.is_ipv4()
        && (ip == ours || ours.is_unspecified() && here(ip) || ip.is_unspecified() && ours.is_loopback())
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
            let said = parse(&reverse("web", listen, to)).expect_err(to);
            assert!(
                said.starts_with("proxy.toml:4: web leads to ")
                    && said.ends_with("a loop; change one of the addresses"),
                "{said}"
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
    fn ways_back_through_others_are_refused() {
        let both = reverse("a", "127.0.0.1:1", "127.0.0.1:2") + &reverse("b", "127.0.0.1:2", "127.0.0.1:1");
        assert!(parse(&both).unwrap_err().starts_with("proxy.toml:4: a leads to 127.0.0.1:1"));
        let chain = reverse("a", "127.0.0.1:1", "127.0.0.1:2") + &reverse("b", "127.0.0.1:2", "192.0.2.1:1");
        parse(&chain).expect("it ends");
        for via in ["127.0.0.1:1080", "localhost:1080"] {
            let said = parse(&format!("[socks]\nvia = {{ proxy = \"{via}\" }}")).unwrap_err();
            assert!(said.starts_with("proxy.toml:2: socks leads to 127.0.0.1:1080"), "{said}");
        }
        parse("[socks]\nvia = { proxy = \"proxy.example.org:1080\" }").expect("it is another machine");
        let front = reverse("front", "127.0.0.1:1", "127.0.0.1:1080");
        parse(&(front.clone() + "[socks]")).expect("a proxy before the proxy");
        assert!(parse(&(front + "[socks.via]\nproxy = \"127.0.0.1:1\"")).is_err());
    }
}
