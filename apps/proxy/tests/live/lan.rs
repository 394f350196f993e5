//! A host in a LAN, its router, and behind the router a proxy and servers that support only TCP. The networks have IPv4
//! and IPv6, and no rate limits.

use super::program::{Config, EVENT_TIMEOUT, PROGRAM, Program};
use anabranch_net::Namespace;
use anabranch_testkit::namespace::{Named, Need, set};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::time::Duration;
use tokio::time::Instant;

pub const NEEDS: [Need; 3] = [
    Need::Namespaces,
    Need::Mptcp,
    Need::Other(has_nft, "the program nft is missing; install the package nftables"),
];

fn has_nft() -> bool {
    Command::new("nft").arg("--version").output().is_ok()
}

/// Addresses of the LAN host, by family.
pub const HOST: [&str; 2] = ["192.168.7.2", "fd07::2"];
/// Addresses of a server, by family.
pub const SERVER: [&str; 2] = ["203.0.113.80", "2001:db8::80"];
/// Addresses of a server in a bypassed network.
pub const BYPASSED_SERVER: [&str; 2] = ["203.0.113.81", "2001:db8::81"];
/// Address of a server that is bypassed by its name.
pub const BYPASSED_BY_NAME: &str = "203.0.113.82";
/// Address and port of the far proxy on its link with the router.
pub const FAR_PROXY: &str = "198.18.0.2:1080";

/// Hosts, each with the `ip` commands that set up its namespace.
const HOSTS: [(&str, &str); 3] = [
    (
        "host",
        "address add 192.168.7.2/24 dev lan0; address add fd07::2/64 dev lan0 nodad; link set lan0 up; \
         route add default via 192.168.7.1; route add default via fd07::1",
    ),
    (
        "router",
        "address add 192.168.7.1/24 dev lan0; address add fd07::1/64 dev lan0 nodad; link set lan0 up; \
         address add 198.18.0.1/24 dev up0; address add fd18::1/64 dev up0 nodad; link set up0 up; \
         route add default via 198.18.0.2; route add default via fd18::2",
    ),
    (
        "far",
        "address add 198.18.0.2/24 dev up0; address add fd18::2/64 dev up0 nodad; link set up0 up; \
         route add default via 198.18.0.1; route add default via fd18::1; \
         address add 203.0.113.80/32 dev lo; address add 203.0.113.81/32 dev lo; address add 203.0.113.82/32 dev lo; \
         address add 2001:db8::80/128 dev lo nodad; address add 2001:db8::81/128 dev lo nodad",
    ),
];

/// The three network namespaces.
pub struct Lan {
    named: Vec<(&'static str, Named)>,
}

impl Lan {
    pub fn new(purpose: &str) -> Self {
        let name = |host: &str| format!("anabranch-{purpose}-{host}-{}", std::process::id());
        let named = HOSTS.iter().map(|&(host, _)| (host, Named::new(name(host)))).collect();
        let lan = Self { named };
        for (host, _) in HOSTS {
            // Without duplicate address detection, a link-local address can be used immediately.
            let no_detection = || {
                set("net.ipv6.conf.default.accept_dad", "0");
                Ok(())
            };
            lan.namespace(host).run(no_detection).expect("root may enter");
        }
        lan.ip("host", &format!("link add lan0 type veth peer name lan0 netns {}", lan.name("router")));
        lan.ip("far", &format!("link add up0 type veth peer name up0 netns {}", lan.name("router")));
        for (host, commands) in HOSTS {
            lan.ip(host, "link set lo up");
            for command in commands.split("; ") {
                lan.ip(host, command.trim());
            }
        }
        let forward = || {
            set("net.ipv4.ip_forward", "1");
            set("net.ipv6.conf.all.forwarding", "1");
            Ok(())
        };
        lan.namespace("router").run(forward).expect("root may enter");
        for (host, device) in [("host", "lan0"), ("router", "lan0"), ("router", "up0"), ("far", "up0")] {
            lan.await_link_local(host, device);
        }
        lan
    }

    /// Waits until the interface has a link-local address, which the kernel assigns some time after the carrier is up.
    fn await_link_local(&self, host: &str, device: &str) {
        let begin = Instant::now();
        let local = format!("-6 route show table local dev {device}");
        while !self.ip(host, &local).contains("local fe80:") {
            assert!(begin.elapsed() < EVENT_TIMEOUT, "{host} has no link-local address on {device}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn name(&self, host: &str) -> &str {
        self.named.iter().find(|(name, _)| *name == host).expect("a host").1.name()
    }

    pub fn namespace(&self, host: &str) -> Namespace {
        Namespace::open(format!("/run/netns/{}", self.name(host)).as_ref()).expect("the namespace exists")
    }

    /// Runs `ip` on a host.
    pub fn ip(&self, host: &str, arguments: &str) -> String {
        let mut ip = Command::new("ip");
        ip.args(["-n", self.name(host)]).args(arguments.split(' '));
        succeed(ip)
    }

    /// Runs a program on a host.
    pub fn run(&self, host: &str, words: &[&str]) -> Output {
        let mut ip = Command::new("ip");
        ip.args(["netns", "exec", self.name(host)]).args(words);
        ip.output().expect("the program can be run")
    }

    /// Starts the proxy behind the router, with SOCKS.
    pub fn proxy(&self) -> Program {
        self.proxy_of("socks")
    }

    /// Starts the proxy behind the router, with this command of the program.
    pub fn proxy_of(&self, command: &str) -> Program {
        let user = format!("[[{command}.user]]\nname = \"alice\"\npassword = \"a long password\"\n");
        let config =
            format!("[{command}]\nlisten = [\"0.0.0.0:1080\"]\nallow = [\"0.0.0.0/0\", \"::/0\"]\n{user}");
        Program::start_in(self.name("far"), command, &config)
    }

    /// Starts the router and waits until it intercepts connections.
    pub fn router(&self, bypass: &str) -> Program {
        self.router_of(&config(bypass))
    }

    /// Starts a router with this configuration and waits until it intercepts connections.
    pub fn router_of(&self, config: &str) -> Program {
        let router = Program::start_in(self.name("router"), "router", config);
        router.line("router: intercepting TCP connections from lan0");
        router
    }

    /// Runs the router's command, which must fail, after the words `before`; returns exit status and standard error.
    pub fn config_error(&self, before: &[&str], config: &str) -> (Option<i32>, String) {
        let config = Config::new(config);
        let arguments = config.arguments("router");
        let mut words = before.to_vec();
        words.push(PROGRAM);
        words.extend(arguments.iter().map(String::as_str));
        let output = self.run("router", &words);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Lists all rules and routes of the router.
    pub fn state(&self) -> String {
        let nft = self.run("router", &["nft", "list", "ruleset"]);
        let mut state = String::from_utf8_lossy(&nft.stdout).into_owned();
        for what in ["-4 rule", "-6 rule", "-4 route show table all", "-6 route show table all"] {
            state += &self.ip("router", what);
        }
        state
    }

    /// Starts a server on the far host. It sends the client's address in a line and then runs `serve`.
    pub fn server(&self, address: &str, serve: impl Fn(TcpStream) + Clone + Send + 'static) {
        let bind = || TcpListener::bind(address);
        let listener = self.namespace("far").run(bind).expect("a free port");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), serve) = (stream, serve.clone()) else { return };
                limit(&stream);
                std::thread::spawn(move || {
                    let peer = stream.peer_addr().map(|peer| peer.ip().to_string());
                    // The connection ends when the client disconnects.
                    if peer.and_then(|peer| writeln!(stream, "{peer}")).is_ok() {
                        serve(stream);
                    }
                });
            }
        });
    }

    /// Connects from a host.
    pub fn connect(&self, from: &str, to: SocketAddr) -> io::Result<TcpStream> {
        let stream = self.namespace(from).run(|| TcpStream::connect_timeout(&to, EVENT_TIMEOUT))?;
        limit(&stream);
        Ok(stream)
    }
}

fn limit(stream: &TcpStream) {
    stream.set_read_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
    stream.set_write_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
}

/// Returns the router's configuration.
pub fn config(bypass: &str) -> String {
    let user = "{ name = \"alice\", password = \"a long password\" }";
    let via = format!("via = {{ proxy = \"{FAR_PROXY}\", user = {user} }}");
    format!(
        "[router]\ninterfaces = [\"lan0\"]\n{via}\n[router.bypass]\n{bypass}\n[limits]\ndrain_timeout = \"2 s\"\n"
    )
}

/// Runs a program that must succeed; returns its output.
pub fn succeed(mut command: Command) -> String {
    let output = command.output().expect("the program can be run");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {message}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
