//! Uplinks of a host with two links to a server. Rules, routes and endpoints follow carriers and addresses, and are
//! removed at the end. The links are veth pairs without rate limits.

use super::lan::succeed;
use super::program::{Config, EVENT_TIMEOUT, PROGRAM, Program};
use anabranch_net::Namespace;
use anabranch_testkit::namespace::{Named, Need, machine_has};
use rustix::process::Signal;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::time::Instant;

const NEEDS: [Need; 2] = [Need::Namespaces, Need::Mptcp];

/// Address and port of the server, which is reached over both links.
const SERVER: ([u8; 4], u16) = ([203, 0, 113, 9], 5000);

/// Configuration with both links as uplinks.
const BOTH_UPLINKS: &str = "[[uplink]]\ninterface = \"w0\"\n[[uplink]]\ninterface = \"w1\"\n";

struct Pair {
    near: Named,
    far: Named,
}

impl Pair {
    fn new(purpose: &str) -> Self {
        let name = |host: &str| format!("anabranch-{purpose}-{host}-{}", std::process::id());
        let pair = Self { near: Named::new(name("near")), far: Named::new(name("far")) };
        for host in [&pair.near, &pair.far] {
            ip(host, "link set lo up");
        }
        for link in 0..2 {
            ip(
                &pair.near,
                &format!("link add w{link} type veth peer name w{link} netns {}", pair.far.name()),
            );
            for (host, last) in [(&pair.near, 2), (&pair.far, 1)] {
                ip(host, &format!("address add 10.77.{link}.{last}/24 dev w{link}"));
                ip(host, &format!("link set w{link} up"));
            }
            pair.near(&format!("route add default via 10.77.{link}.1 dev w{link} metric 10{link}"));
        }
        ip(&pair.far, "address add 203.0.113.9/32 dev lo");
        ip(&pair.far, "mptcp limits set subflow 8");
        pair.near("mptcp limits set subflow 1");
        pair
    }

    /// Runs `ip` in the namespace of the near host.
    fn near(&self, arguments: &str) -> String {
        ip(&self.near, arguments)
    }

    /// Starts `anabranch-proxy uplinks` in the namespace of the near host.
    fn start_uplinks(&self, config: &str) -> Program {
        Program::start_silent_in(self.near.name(), "uplinks", config)
    }

    /// Returns everything that `uplinks` may change: rules, default routes, endpoints and limits.
    fn state(&self) -> String {
        [
            "-4 rule",
            "-6 rule",
            "-4 route show table all default",
            "-6 route show table all default",
            "mptcp endpoint",
            "mptcp limits",
        ]
        .map(|what| self.near(what))
        .concat()
    }

    /// Returns the endpoints without their identifiers.
    fn endpoints(&self) -> Vec<String> {
        let shown = self.near("mptcp endpoint");
        let mut found: Vec<_> = shown
            .lines()
            .map(|line| {
                let mut words: Vec<_> = line.split_whitespace().collect();
                let id = words.iter().position(|&word| word == "id").expect("the socket has an address");
                words.drain(id..id + 2);
                words.join(" ")
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// Waits until the endpoints are as expected; returns the elapsed time.
    fn await_endpoints(&self, expected: &[&str]) -> Duration {
        let begin = Instant::now();
        while self.endpoints() != expected {
            assert!(begin.elapsed() < EVENT_TIMEOUT, "{expected:?}: {}", self.state());
            std::thread::sleep(Duration::from_millis(10));
        }
        begin.elapsed()
    }

    /// Opens a Multipath TCP connection on which the server writes some bytes every 10 ms.
    fn transfer(&self) -> Transfer {
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP));
        let listen = || {
            let listener = socket()?;
            listener.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, SERVER.1)).into())?;
            listener.listen(1)?;
            Ok(listener)
        };
        let listener = namespace(&self.far).run(listen).expect("root may listen");
        std::thread::spawn(move || {
            let mut stream = listener.accept().expect("the connection is accepted").0;
            while stream.write_all(&[7; 5000]).is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let connect = || {
            let socket = socket()?;
            socket.connect(&SocketAddr::from(SERVER).into())?;
            Ok(socket)
        };
        Transfer::new(namespace(&self.near).run(connect).expect("the connection is accepted"))
    }

    /// Returns the local addresses of established subflows to the server.
    fn subflows(&self) -> Vec<String> {
        let table = || std::fs::read_to_string("/proc/thread-self/net/tcp");
        let table = namespace(&self.near).run(table).expect("procfs");
        let local = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            let (address, established) = (words[1].split(':').next()?, words[3] == "01");
            let octets = u32::from_str_radix(address, 16).ok()?.to_ne_bytes();
            established.then(|| Ipv4Addr::from(octets).to_string())
        };
        let mut found: Vec<_> = table.lines().skip(1).filter_map(local).collect();
        found.sort_unstable();
        found
    }

    fn await_subflows(&self, expected: &[&str]) -> Duration {
        let begin = Instant::now();
        while self.subflows() != expected {
            assert!(begin.elapsed() < EVENT_TIMEOUT, "{expected:?}: {:?} {}", self.subflows(), self.state());
            std::thread::sleep(Duration::from_millis(10));
        }
        begin.elapsed()
    }
}

/// Records the times at which data arrive.
pub struct Transfer {
    times: Receiver<Instant>,
    last: Instant,
}

impl Transfer {
    pub fn new(mut stream: impl Read + Send + 'static) -> Self {
        let (sender, times) = channel();
        std::thread::spawn(move || {
            let mut room = [0; 1 << 13];
            while stream.read(&mut room).is_ok_and(|len| len > 0) && sender.send(Instant::now()).is_ok() {}
        });
        Self { times, last: Instant::now() }
    }

    /// Returns the longest time without data since the last call.
    pub fn longest_gap(&mut self) -> Duration {
        let mut longest = Duration::ZERO;
        let until = Instant::now();
        while let Ok(at) = self.times.recv_timeout(EVENT_TIMEOUT) {
            longest = longest.max(at.saturating_duration_since(self.last));
            self.last = at;
            if at > until {
                return longest;
            }
        }
        panic!("nothing comes any more");
    }
}

fn namespace(host: &Named) -> Namespace {
    Namespace::open(host.path().as_ref()).expect("the namespace exists")
}

fn ip(host: &Named, arguments: &str) -> String {
    let mut ip = Command::new("ip");
    ip.args(["-n", host.name()]).args(arguments.split(' '));
    succeed(ip)
}

const W0: &str = "10.77.0.2 subflow dev w0";
const W1: &str = "10.77.1.2 subflow dev w1";

/// Maximum time for a change to take effect, with a reserve for a busy machine.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(2);

/// The link with the first subflow is lost and returns, then the second link. A link is lost by its carrier or by `ip
/// link set down`.
#[test]
fn lost_link_is_unused_until_it_returns() {
    if !machine_has(&NEEDS) {
        return;
    }
    let pair = Pair::new("uplinks-links");
    let _program = pair.start_uplinks(BOTH_UPLINKS);
    pair.await_endpoints(&[W0, W1]);
    let mut transfer = pair.transfer();
    pair.await_subflows(&["10.77.0.2", "10.77.1.2"]);
    transfer.longest_gap();
    for (host, link, left) in
        [(&pair.far, "w0", "10.77.1.2"), (&pair.near, "w1", "10.77.0.2"), (&pair.near, "w0", "10.77.1.2")]
    {
        ip(host, &format!("link set {link} down"));
        pair.await_subflows(&[left]);
        std::thread::sleep(Duration::from_secs(3));
        let gap = transfer.longest_gap();
        ip(host, &format!("link set {link} up"));
        let back = pair.await_subflows(&["10.77.0.2", "10.77.1.2"]);
        eprintln!("{link}: gap {} ms, back after {} ms", gap.as_millis(), back.as_millis());
        assert!(gap <= CHANGE_TIMEOUT && back <= CHANGE_TIMEOUT, "{link}: gap {gap:?}, back {back:?}");
        assert!(transfer.longest_gap() <= CHANGE_TIMEOUT);
    }
}

/// If the last link goes down, its endpoint stays, so that connections wait for the link as TCP connections do.
#[test]
fn connections_wait_for_the_last_link() {
    if !machine_has(&NEEDS) {
        return;
    }
    let pair = Pair::new("uplinks-last");
    let _program = pair.start_uplinks(BOTH_UPLINKS);
    pair.await_endpoints(&[W0, W1]);
    let mut transfer = pair.transfer();
    pair.await_subflows(&["10.77.0.2", "10.77.1.2"]);
    ip(&pair.far, "link set w0 down");
    pair.await_endpoints(&[W1]);
    ip(&pair.far, "link set w1 down");
    std::thread::sleep(CHANGE_TIMEOUT);
    assert_eq!((pair.endpoints(), pair.subflows()), (vec![W1.to_owned()], vec!["10.77.1.2".to_owned()]));
    ip(&pair.far, "link set w0 up");
    pair.await_subflows(&["10.77.0.2"]);
    transfer.longest_gap();
}

/// The host gets another address on a link, as from DHCP.
#[test]
fn changed_address_replaces_the_endpoint() {
    if !machine_has(&NEEDS) {
        return;
    }
    let pair = Pair::new("uplinks-address");
    let _program = pair.start_uplinks(BOTH_UPLINKS);
    pair.await_endpoints(&[W0, W1]);
    let mut transfer = pair.transfer();
    pair.await_subflows(&["10.77.0.2", "10.77.1.2"]);
    pair.near("address del 10.77.0.2/24 dev w0");
    pair.near("address add 10.77.0.3/24 dev w0");
    pair.near("route add default via 10.77.0.1 dev w0 metric 100");
    pair.await_endpoints(&["10.77.0.3 subflow dev w0", W1]);
    pair.await_subflows(&["10.77.0.3", "10.77.1.2"]);
    assert!(transfer.longest_gap() <= CHANGE_TIMEOUT);
    let state = pair.state();
    assert!(!state.contains("10.77.0.2 ") && state.contains("from 10.77.0.3 lookup 1101"), "{state}");
    // Packets from each address are routed over its link, although another default route has a lower metric.
    for (from, device) in [("10.77.0.3", "w0"), ("10.77.1.2", "w1")] {
        assert!(pair.near(&format!("route get 203.0.113.9 from {from}")).contains(&format!("dev {device}")));
    }
}

/// If the program was killed, the next start creates no duplicates. If it was stopped, nothing of it remains.
#[test]
fn restart_leaves_no_duplicates_or_remains() {
    if !machine_has(&NEEDS) {
        return;
    }
    let pair = Pair::new("uplinks-end");
    // Rules and endpoints that other programs have added must stay.
    pair.near("rule add from 10.9.9.9 lookup 77 priority 601");
    pair.near("mptcp endpoint add 10.9.9.9 signal");
    let before = pair.state();
    let mut program = pair.start_uplinks(BOTH_UPLINKS);
    let all = ["10.77.0.2 subflow dev w0", "10.77.1.2 subflow dev w1", "10.9.9.9 signal"];
    pair.await_endpoints(&all);
    assert!(pair.state().contains("subflows 2"));
    let mut transfer = pair.transfer();
    pair.await_subflows(&["10.77.0.2", "10.77.1.2"]);
    let installed = pair.state();
    program.signal(Signal::KILL);
    program.wait();
    assert_eq!(pair.state(), installed);
    // A new process takes over all rules, routes and endpoints; connections are not interrupted.
    let mut program = pair.start_uplinks(BOTH_UPLINKS);
    program.line("w1 10.77.1.2: used, via 10.77.1.1");
    assert_eq!(pair.state(), installed);
    assert!(transfer.longest_gap() <= CHANGE_TIMEOUT);
    let mut second = pair.start_uplinks(BOTH_UPLINKS);
    second.line("another anabranch-proxy uplinks already runs in this network namespace");
    assert_eq!(second.wait().code(), Some(1));
    program.signal(Signal::KILL);
    program.wait();
    // A start with another file removes the rules, routes and endpoints of uplinks that are not in the new
    // file.
    let mut program = pair.start_uplinks("[[uplink]]\ninterface = \"w1\"\n");
    pair.await_endpoints(&all[1..]);
    assert!(!pair.state().contains("from 10.77.0.2"));
    // SIGHUP has the effect of SIGTERM.
    program.signal(Signal::HUP);
    assert!(program.wait().success());
    assert_eq!(pair.state(), before);
}

/// Backup links have subflows; standby links have no subflows while another link works.
#[test]
fn use_of_uplinks_is_respected() {
    if !machine_has(&NEEDS) {
        return;
    }
    let pair = Pair::new("uplinks-use");
    let mut program = pair
        .start_uplinks("[[uplink]]\ninterface = \"w0\"\n[[uplink]]\ninterface = \"w1\"\nuse = \"backup\"\n");
    let backup = "10.77.1.2 subflow backup dev w1";
    pair.await_endpoints(&[W0, backup]);
    program.signal(Signal::TERM);
    assert!(program.wait().success());
    let program = pair
        .start_uplinks("[[uplink]]\ninterface = \"w0\"\n[[uplink]]\ninterface = \"w1\"\nuse = \"standby\"\n");
    pair.await_endpoints(&[W0]);
    program.line("w1 10.77.1.2: standby: another uplink is in use");
    let mut transfer = pair.transfer();
    ip(&pair.far, "link set w0 down");
    pair.await_subflows(&["10.77.1.2"]);
    ip(&pair.far, "link set w0 up");
    pair.await_subflows(&["10.77.0.2"]);
    assert!(transfer.longest_gap() <= CHANGE_TIMEOUT && pair.endpoints() == [W0]);
}

/// A link whose budget is used up is standby until the next period. A restart does not change that.
#[test]
fn uplink_with_used_up_budget_is_standby() {
    if !machine_has(&NEEDS) {
        return;
    }
    let pair = Pair::new("uplinks-budget");
    let state = std::env::temp_dir().join(format!("anabranch-uplinks-budget-{}", std::process::id()));
    let config = format!(
        "[[uplink]]\ninterface = \"w0\"\nbudget = {{ bytes = \"500 kB\" }}\n[[uplink]]\ninterface = \"w1\"\n\
         [uplinks]\nstate = \"{}\"\n",
        state.display()
    );
    let mut program = pair.start_uplinks(&config);
    program.line("w0: 0 B of 500.00 kB a month since ");
    pair.await_endpoints(&[W0, W1]);
    let mut transfer = pair.transfer();
    program.line("; used up");
    program.line("w0 10.77.0.2: standby: another uplink is in use");
    pair.await_endpoints(&[W1]);
    pair.await_subflows(&["10.77.1.2"]);
    assert!(transfer.longest_gap() <= CHANGE_TIMEOUT);
    // The link with the used-up budget carries the data when the other link is lost.
    ip(&pair.far, "link set w1 down");
    pair.await_subflows(&["10.77.0.2"]);
    ip(&pair.far, "link set w1 up");
    pair.await_subflows(&["10.77.1.2"]);
    program.signal(Signal::KILL);
    program.wait();
    let mut program = pair.start_uplinks(&config);
    program.line("; used up");
    program.signal(Signal::TERM);
    program.wait();
    let file = state.join("uplinks.json");
    let kept = std::fs::read_to_string(&file).expect("the program writes the file");
    let place = kept.find("\"since\":\"20").expect("a day") + "\"since\":\"".len();
    std::fs::write(&file, format!("{}2020{}", &kept[..place], &kept[place + 4..]))
        .expect("the test may write the file");
    let program = pair.start_uplinks(&config);
    program.line("kB a month since ");
    pair.await_endpoints(&[W0, W1]);
    drop(program);
    std::fs::remove_dir_all(state).expect("the folder can be removed");
}

/// The printed script installs the same rules, routes and endpoints.
#[test]
fn uplinks_prints_installed_rules() {
    if !machine_has(&NEEDS) {
        return;
    }
    let pair = Pair::new("uplinks-print");
    pair.near("mptcp limits set subflow 2");
    let before = pair.state();
    let run = |words: &[&str]| {
        let mut ip = Command::new("ip");
        ip.args(["netns", "exec", pair.near.name()]).args(words);
        succeed(ip)
    };
    let config = Config::new(BOTH_UPLINKS);
    let arguments = config.arguments("uplinks");
    let mut words = vec![PROGRAM];
    words.extend(arguments.iter().map(String::as_str));
    words.push("--print");
    let script = run(&words);
    run(&["sh", "-ec", &script]);
    let by_hand = pair.state();
    let undo: Vec<_> = script.lines().filter_map(|line| line.strip_prefix("# ip ")).collect();
    for arguments in undo {
        pair.near(arguments);
    }
    assert_eq!(pair.state(), before);
    let _program = pair.start_uplinks(BOTH_UPLINKS);
    pair.await_endpoints(&[W0, W1]);
    assert_eq!(pair.state(), by_hand);
}

/// An interface appears later than the program and is renamed. A link-local IPv6 address is not used.
#[test]
fn late_interface_is_used() {
    if !machine_has(&NEEDS) {
        return;
    }
    let pair = Pair::new("uplinks-late");
    let program = pair.start_uplinks(&format!("{BOTH_UPLINKS}[[uplink]]\ninterface = \"late\"\n"));
    program.line("late: waiting for the interface, which does not exist");
    pair.await_endpoints(&[W0, W1]);
    pair.near("link add late type veth peer name beyond");
    pair.near("link set beyond up");
    pair.near("link set late up");
    pair.near("address add 192.0.2.7/32 dev late");
    program.line("late 192.0.2.7: not used: no default route");
    pair.near("route add default via 192.0.2.254 dev late onlink metric 300");
    pair.await_endpoints(&[W0, W1, "192.0.2.7 subflow dev late"]);
    assert!(pair.near("route get 203.0.113.9 from 192.0.2.7").contains("via 192.0.2.254 dev late"));
    pair.near("link set late down");
    pair.near("link set late name other");
    pair.near("link set other up");
    program.line("late: waiting for the interface, which does not exist");
    pair.await_endpoints(&[W0, W1]);
    assert!(!pair.state().contains("192.0.2.7"));
    pair.near("address add 2001:db8::2/64 dev w0 nodad");
    pair.near("-6 route add default via fe80::99 dev w0");
    let v6 = "2001:db8::2 subflow dev w0";
    pair.await_endpoints(&[W0, W1, v6]);
    // The program does not restore a route that another program removes while the link is up.
    pair.near("-6 route del default via fe80::99 dev w0");
    pair.await_endpoints(&[W0, W1]);
    // The program restores its rules, routes and endpoints.
    pair.near("rule del priority 601 from 10.77.1.2");
    pair.near("mptcp endpoint flush");
    pair.await_endpoints(&[W0, W1]);
    assert!(pair.state().contains("from 10.77.1.2 lookup 1102"));
}
