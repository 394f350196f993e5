//! A network namespace of a test's own.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::time::Duration;

/// A namespace, which is removed whatever happens.
pub struct Named {
    name: String,
    capture: Option<Child>,
}

impl Named {
    /// Makes it.
    pub fn new(name: String) -> Self {
        ip(&format!("netns add {name}"));
        Self { name, capture: None }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that keeps it.
    pub fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// Puts the calling thread into it.
    fn enter(&mut self) {
        let namespace = File::open(self.path()).expect("it was made");
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root may enter");
        ip("link set lo up");
        if let Ok(folder) = std::env::var("ANABRANCH_CAPTURE") {
            let file = format!("{folder}/{}.pcap", self.name);
            let tcpdump =
                Command::new("tcpdump").args(["-U", "-i", "any", "-B", "65536", "-w", &file]).spawn();
            self.capture = Some(tcpdump.expect("tcpdump can be run"));
            // It says nothing when it has begun.
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
            eprintln!("namespace {} is still there", self.name);
        }
    }
}

/// Runs `body` in a thread whose network namespace is a new one with nothing but a loopback interface. Threads and
/// processes that it starts are in there too. The namespace is gone afterwards, also if `body` panics. With
/// `ANABRANCH_CAPTURE` in the environment, tcpdump leaves what passed there in that folder.
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

/// Runs `ip` with these arguments in the namespace of the calling thread, and returns what it says.
pub fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip can be run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "ip {arguments}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sets a kernel parameter of the namespace of the calling thread.
pub fn set(parameter: &str, value: &str) {
    let path = format!("/proc/sys/{}", parameter.replace('.', "/"));
    std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// A counter of the namespace of the calling thread, such as `MPTcpExt` and `MPJoinSynRx`.
pub fn counter(group: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").expect("procfs");
    let mut lines = text.lines().filter(|line| line.starts_with(&format!("{group}:")));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let found = names.split(' ').zip(values.split(' ')).find(|(found, _)| *found == name);
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or_else(|| panic!("no counter {group} {name}"))
}

/// What a test of real transfers may need of the machine.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// Namespaces: root and the program `ip`.
    Namespaces,
    /// `/dev/net/tun`.
    Tun,
    /// Multipath TCP in the kernel.
    Mptcp,
    /// Something else: whether it is there, and what is said if not.
    Other(fn() -> bool, &'static str),
}

impl Need {
    /// Why it is not there, if it is not.
    fn missing(self) -> Option<&'static str> {
        let (there, what) = match self {
            Self::Namespaces => {
                if Command::new("ip").arg("-V").output().is_err() {
                    return Some("the program ip (package iproute2) is missing");
                }
                (rustix::process::geteuid().is_root(), "only root may make network namespaces")
            }
            Self::Tun => (std::path::Path::new("/dev/net/tun").exists(), "there is no /dev/net/tun"),
            Self::Mptcp => (
                std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|value| value.trim() == "1"),
                "the kernel has no Multipath TCP (net.mptcp.enabled)",
            ),
            Self::Other(there, what) => (there(), what),
        };
        (!there).then_some(what)
    }
}

/// False, with the reason on standard error, if the machine lacks something that a test needs.
pub fn machine_has(needs: &[Need]) -> bool {
    let missing = needs.iter().find_map(|need| need.missing());
    if let Some(reason) = missing {
        eprintln!("skipped: {reason}");
    }
    missing.is_none()
}
