//! Network namespaces for tests.

use crate::machine::skip;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::time::Duration;

/// A network namespace. Dropping this value removes the namespace, even after a panic.
pub struct Named {
    name: String,
    capture: Option<Child>,
}

impl Named {
    /// Creates the namespace.
    pub fn new(name: String) -> Self {
        ip(&format!("netns add {name}"));
        Self { name, capture: None }
    }

    /// Returns the name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the file that identifies the namespace.
    pub fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// Moves the calling thread into the namespace.
    fn enter(&mut self) {
        let namespace = File::open(self.path()).expect("the namespace exists");
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root may enter");
        ip("link set lo up");
        if let Ok(folder) = std::env::var("ANABRANCH_CAPTURE") {
            let file = format!("{folder}/{}.pcap", self.name);
            let tcpdump =
                Command::new("tcpdump").args(["-U", "-i", "any", "-B", "65536", "-w", &file]).spawn();
            self.capture = Some(tcpdump.expect("tcpdump can be run"));
            // tcpdump does not report when it has started to capture.
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if let Some(mut capture) = self.capture.take() {
            std::thread::sleep(Duration::from_millis(500));
            drop(capture.kill().and_then(|()| capture.wait()));
        }
        let removed = Command::new("ip").args(["netns", "del", &self.name]).status();
        if !removed.is_ok_and(|status| status.success()) {
            eprintln!("namespace {} was not removed", self.name);
        }
    }
}

/// Runs `body` in a thread with a new network namespace that has only a loopback interface. Threads and processes that
/// `body` starts inherit the namespace. The namespace is removed afterwards, even if `body` panics. If the environment
/// variable `ANABRANCH_CAPTURE` is set, tcpdump writes the packets of the namespace into that folder.
pub fn within(purpose: &str, body: impl FnOnce() + Send + 'static) {
    let name = format!("anabranch-{purpose}-{}", std::process::id());
    let done = std::thread::spawn(move || {
        let mut named = Named::new(name);
        named.enter();
        body();
    })
    .join();
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `ip` with these arguments in the namespace of the calling thread, and returns its output.
pub fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip can be run");
    let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "ip {arguments}: {output_text}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sets a kernel parameter of the namespace of the calling thread.
pub fn set(parameter: &str, value: &str) {
    let path = format!("/proc/sys/{}", parameter.replace('.', "/"));
    std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Returns a counter of the calling thread's namespace, for example of group `MPTcpExt` and name `MPJoinSynRx`.
pub fn counter(group: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").expect("procfs");
    let mut lines = text.lines().filter(|line| line.starts_with(&format!("{group}:")));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let found = names.split(' ').zip(values.split(' ')).find(|(found, _)| *found == name);
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or_else(|| panic!("no counter {group} {name}"))
}

/// A requirement of a test that transfers data over a real network.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// Namespaces: root and the program `ip`.
    Namespaces,
    /// `/dev/net/tun`.
    Tun,
    /// Multipath TCP in the kernel.
    Mptcp,
    /// Another requirement: a function that returns true if it is met, and the message if it is not.
    Other(fn() -> bool, &'static str),
}

impl Need {
    /// Returns the message about the requirement if it is not met.
    fn missing(self) -> Option<&'static str> {
        let (is_met, problem) = match self {
            Self::Namespaces => {
                if Command::new("ip").arg("-V").output().is_err() {
                    return Some("the program ip (package iproute2) is missing");
                }
                (rustix::process::geteuid().is_root(), "only root may create network namespaces")
            }
            Self::Tun => (std::path::Path::new("/dev/net/tun").exists(), "there is no /dev/net/tun"),
            Self::Mptcp => (
                std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|value| value.trim() == "1"),
                "the kernel has no Multipath TCP (net.mptcp.enabled)",
            ),
            Self::Other(is_met, problem) => (is_met(), problem),
        };
        (!is_met).then_some(problem)
    }
}

/// True if the machine meets all requirements of a test. If not, the test is recorded as skipped.
pub fn machine_has(needs: &[Need]) -> bool {
    let missing = needs.iter().find_map(|need| need.missing());
    if let Some(reason) = missing {
        skip(reason);
    }
    missing.is_none()
}
