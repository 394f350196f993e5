//! Look-ups with name servers that do not answer all queries.

use super::program::{Program, echo_on};
use super::socks::{answered_over, request_by_name};
use anabranch_net::Namespace;
use anabranch_testkit::namespace::{Named, Need, machine_has};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

/// Record types (RFC 1035 §3.2.2, RFC 3596 §2.1).
const A: u16 = 1;
const AAAA: u16 = 28;

/// A network namespace with a name server.
struct Network {
    named: Named,
}

impl Network {
    fn new(purpose: &str, answered: u16) -> Self {
        let named = Named::new(format!("anabranch-{purpose}-{}", std::process::id()));
        let folder = Self::folder(&named);
        std::fs::create_dir_all(&folder).expect("root may write in /etc");
        std::fs::write(format!("{folder}/resolv.conf"), "nameserver 127.0.0.1\n")
            .expect("root may write in /etc");
        let up = Command::new("ip").args(["-n", named.name(), "link", "set", "lo", "up"]).status();
        assert!(up.expect("the program can be run").success());
        let network = Self { named };
        let socket = network.enter(|| UdpSocket::bind("127.0.0.1:53"));
        std::thread::spawn(move || serve(&socket, answered));
        network
    }

    /// Returns the folder whose files `ip netns exec` mounts over those in `/etc`.
    fn folder(named: &Named) -> String {
        format!("/etc/netns/{}", named.name())
    }

    fn enter<T: Send + 'static>(&self, open: impl FnOnce() -> std::io::Result<T> + Send) -> T {
        let namespace = Namespace::open(format!("/run/netns/{}", self.named.name()).as_ref())
            .expect("the namespace exists");
        namespace.run(open).expect("the operation succeeds in the namespace")
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(Self::folder(&self.named)));
    }
}

/// Answers queries of one type with the loopback address, and does not answer others.
fn serve(socket: &UdpSocket, answered: u16) {
    let mut query = [0; 512];
    while let Ok((len, from)) = socket.recv_from(&mut query) {
        let name_end = 12 + query[12..len].iter().position(|&byte| byte == 0).expect("a name");
        let question = &query[12..name_end + 5];
        if u16::from_be_bytes([query[name_end + 1], query[name_end + 2]]) != answered {
            continue;
        }
        let address: IpAddr =
            if answered == A { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        let data = match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        let header = [&query[..2], &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]].concat();
        let record =
            [&[0xc0, 0x0c][..], &answered.to_be_bytes(), &[0, 1, 0, 0, 0, 5, 0, data.len() as u8], &data]
                .concat();
        drop(socket.send_to(&[&header, question, &record].concat(), from));
    }
}

#[test]
fn unanswered_family_does_not_hide_the_other() {
    if !machine_has(&[Need::Namespaces]) {
        return;
    }
    for (purpose, answered, target) in [("dns4", A, "127.0.0.1:7"), ("dns6", AAAA, "[::1]:7")] {
        let network = Network::new(purpose, answered);
        echo_on(network.enter(move || TcpListener::bind(target)));
        let config = "[socks]\nlisten = [\"127.0.0.1:1080\"]\nallow = [\"127.0.0.0/8\", \"::1\"]\n";
        // If the proxy waited for the other family, it would exceed this timeout.
        let limits = "[limits]\nconnect_timeout = \"4 s\"\n";
        let proxy = Program::start_in(network.named.name(), "socks", &format!("{config}{limits}"));
        let address: SocketAddr = proxy.address();
        let stream = network.enter(move || TcpStream::connect(address));
        assert_eq!(answered_over(stream, &request_by_name("slow.test", 7)).0, 0, "{purpose}");
    }
}
