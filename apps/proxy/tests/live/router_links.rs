//! A router with two links of 20 and 10 Mbit/s, and a host behind it that supports only TCP.

use super::lan::succeed;
use super::links::{Bed, Counted, NEEDS, USER, count, kill};
use super::program::{EVENT_TIMEOUT, Program};
use anabranch_net::Namespace;
use anabranch_testkit::namespace::{Named, machine_has};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The host behind the router. The router runs in the namespace `client` of [`Bed`].
pub struct Host {
    named: Named,
}

impl Host {
    pub fn new(bed: &Bed, purpose: &str) -> Self {
        let host = Self { named: Named::new(format!("anabranch-behind-{purpose}-{}", std::process::id())) };
        let router = bed.hosts.name("client");
        for arguments in [
            format!("link add lan0 type veth peer name lan0 netns {router}"),
            "address add 192.168.7.2/24 dev lan0".to_owned(),
            "link set lan0 up".to_owned(),
            "route add default via 192.168.7.1".to_owned(),
        ] {
            let mut ip = Command::new("ip");
            ip.args(["-n", host.named.name()]).args(arguments.split(' '));
            succeed(ip);
        }
        bed.hosts.ip("client", "address add 192.168.7.1/24 dev lan0");
        bed.hosts.ip("client", "link set lan0 up");
        host
    }

    /// Returns the network namespace of the host.
    pub fn namespace(&self) -> Namespace {
        Namespace::open(format!("/run/netns/{}", self.named.name()).as_ref()).expect("the namespace exists")
    }

    /// Runs a program on the host.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut ip = Command::new("ip");
        ip.args(["netns", "exec", self.named.name()]).args(words);
        ip.stdin(Stdio::piped()).stdout(Stdio::piped());
        ip
    }
}

pub fn router(bed: &Bed, protocol: &str) -> Program {
    router_with(bed, &format!("protocol = \"{protocol}\""))
}

/// Starts a router with a further line in `[router.via]`.
pub fn router_with(bed: &Bed, line: &str) -> Program {
    let via = format!(
        "[router.via]\nproxy = \"{}:1080\"\n{line}\nuser = {USER}\nfrom = [\"wlan\", \"mobile\"]\n",
        bed.address("proxy", 0)
    );
    // By default, private networks are bypassed, but the servers of this test have private addresses.
    let config = format!("[router]\ninterfaces = [\"lan0\"]\nbypass = {{ networks = [] }}\n{via}");
    let router = bed.start("client", "router", &config);
    router.line("router: intercepting TCP connections");
    router
}

#[test]
fn host_behind_a_router_uses_both_links() {
    if !machine_has(&NEEDS) {
        return;
    }
    let bed = Bed::new("proxy-router", "");
    let _far = bed.far_proxy();
    let host = Host::new(&bed, "socks");
    let _router = router(&bed, "socks");
    let (url, uploads) = bed.serve();
    let rates = [
        ("curl, down", at_best(3, || curl_down(&host, &url))),
        ("curl, up", at_best(3, || curl_up(&host, &url, &uploads))),
    ];
    let with_iperf3 = Command::new("iperf3").arg("--version").output().is_ok().then(|| {
        [
            ("iperf3, up", at_best(2, || iperf3(&bed, &host, None))),
            ("iperf3, down", at_best(2, || iperf3(&bed, &host, Some("--reverse")))),
        ]
    });
    for (what, rate) in rates.into_iter().chain(with_iperf3.into_iter().flatten()) {
        eprintln!("{what}: {:.1} Mbit/s", rate / 1e6);
        assert!(rate > MIN_TWO_LINK_BPS, "{what}: {rate}");
    }
}

#[test]
fn host_uses_both_links_through_a_converter() {
    if !machine_has(&NEEDS) {
        return;
    }
    let bed = Bed::new("convert-router", "");
    let _far = bed.far_proxy_of("convert");
    let host = Host::new(&bed, "convert");
    let _router = router(&bed, "convert");
    let (url, uploads) = bed.serve();
    for (what, rate) in [
        ("down", at_best(3, || curl_down(&host, &url))),
        ("up", at_best(3, || curl_up(&host, &url, &uploads))),
    ] {
        eprintln!("by a converter, curl, {what}: {:.1} Mbit/s", rate / 1e6);
        assert!(rate > MIN_TWO_LINK_BPS, "{what}: {rate}");
    }
}

/// A rate that the faster link could not reach without the other, bits per second. Measured rates are in
/// docs/lab-notes/proxies.md.
const MIN_TWO_LINK_BPS: f64 = 20e6;

/// Repeats a measurement up to `most` times until it exceeds [`MIN_TWO_LINK_BPS`]; returns the highest result. Other
/// load on the machine can only lower a result.
fn at_best(most: usize, measure: impl Fn() -> f64) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..most {
        best = best.max(measure());
        if best > MIN_TWO_LINK_BPS {
            break;
        }
    }
    best
}

const CURL: [&str; 4] = ["curl", "-sS", "--max-time", "20"];

fn curl_down(host: &Host, url: &str) -> f64 {
    let mut curl = host.command(&[&CURL[..], &[url]].concat()).spawn().expect("curl can be run");
    let rate = count(curl.stdout.take().expect("the stream is a pipe")).expect("a pipe").bits_per_second;
    kill(curl);
    rate
}

fn curl_up(host: &Host, url: &str, uploads: &Receiver<Counted>) -> f64 {
    let put = [&CURL[..], &["--upload-file", "-", "-H", "Expect:", url]].concat();
    let mut curl = host.command(&put).spawn().expect("curl can be run");
    let mut input = curl.stdin.take().expect("the stream is a pipe");
    let send_endlessly = std::thread::spawn(move || while input.write_all(&[7; 1 << 14]).is_ok() {});
    let rate = uploads.recv_timeout(EVENT_TIMEOUT).expect("the peer reads").bits_per_second;
    kill(curl);
    send_endlessly.join().expect("the thread does not panic");
    rate
}

/// Measures the goodput at the receiver of iperf3 after the first two seconds; bits per second.
fn iperf3(bed: &Bed, host: &Host, option: Option<&str>) -> f64 {
    let mut server = Command::new("ip");
    server.args(["netns", "exec", bed.hosts.name("server"), "iperf3", "--server", "--one-off"]);
    let mut server = server.stdout(Stdio::null()).spawn().expect("iperf3 can be run");
    // Waits, because iperf3 does not report on a pipe that it listens.
    std::thread::sleep(Duration::from_secs(1));
    let address = bed.address("server", 0);
    let mut client = vec!["iperf3", "--client", address, "--time", "8", "--omit", "2", "--json"];
    client.extend(option);
    let printed = succeed(host.command(&client));
    server.wait().expect("the process is a child");
    let report: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    report["end"]["sum_received"]["bits_per_second"].as_f64().expect("a number")
}
