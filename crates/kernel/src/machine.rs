//! Checks the requirements for loading congestion controls on a machine.

use crate::{Error, pins};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// The first Linux version in which links of congestion controls can be pinned and replaced.
const MIN_KERNEL_VERSION: (u32, u32) = (6, 4);

/// One requirement, and whether the machine meets it.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Description of the requirement.
    pub what: &'static str,
    /// True if the requirement is met.
    pub there: bool,
    /// The detected state of the machine.
    pub detail: String,
    /// The remedy, if the requirement is not met.
    pub remedy: &'static str,
}

/// Checks all requirements for loading congestion controls.
pub fn examine() -> Vec<Finding> {
    let mut findings = kernel_requirements();
    findings.push(persistence());
    findings
}

/// Checks whether loaded congestion controls persist, which requires a mounted BPF file system.
fn persistence() -> Finding {
    Finding {
        what: "persistent BPF file system",
        there: pins::lasts(),
        detail: pins::BPFFS.to_owned(),
        remedy: "a control loaded here would disappear with this private mount namespace (ip netns exec \
                 creates one); load it outside, which loads it for all network namespaces",
    }
}

/// Checks the requirements for running BPF programs of this project in the kernel.
fn kernel_requirements() -> Vec<Finding> {
    let release = read("/proc/sys/kernel/osrelease");
    let root = rustix::process::geteuid().is_root() && may_load();
    vec![
        Finding {
            what: "Linux 6.4",
            there: version(&release).is_some_and(|version| version >= MIN_KERNEL_VERSION),
            detail: release,
            remedy: "use Linux 6.4 or newer",
        },
        Finding {
            what: "kernel types (BTF)",
            there: Path::new("/sys/kernel/btf/vmlinux").exists(),
            detail: "/sys/kernel/btf/vmlinux".to_owned(),
            remedy: "use a kernel that was built with CONFIG_DEBUG_INFO_BTF",
        },
        Finding {
            what: "Multipath TCP",
            there: Path::new("/proc/sys/net/mptcp/enabled").exists(),
            detail: format!("net.mptcp.enabled = {}", read("/proc/sys/net/mptcp/enabled")),
            remedy: "use a kernel that was built with CONFIG_MPTCP",
        },
        Finding {
            what: "right to load BPF",
            there: root,
            detail: if root { "root" } else { "not root, or without its capabilities" }.to_owned(),
            remedy: "run this as root; a container also needs CAP_NET_ADMIN and CAP_BPF, which docker run --privileged gives",
        },
    ]
}

/// True if the caller has `CAP_NET_ADMIN`, and also `CAP_BPF` or `CAP_SYS_ADMIN`. In a container, root may lack them.
fn may_load() -> bool {
    /// `CAP_NET_ADMIN`.
    const NET_ADMIN: u64 = 1 << 12;
    /// `CAP_SYS_ADMIN`.
    const SYS_ADMIN: u64 = 1 << 21;
    /// `CAP_BPF`.
    const BPF: u64 = 1 << 39;
    let status = read("/proc/self/status");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    effective & NET_ADMIN != 0 && effective & (BPF | SYS_ADMIN) != 0
}

/// Checks that the machine can run BPF programs of this project in the kernel.
///
/// # Errors
///
/// The first missing requirement, with its remedy.
pub fn check() -> Result<(), Error> {
    refuse(kernel_requirements())
}

/// Checks that the machine can run BPF programs of this project, and that loaded congestion controls persist.
///
/// # Errors
///
/// The first missing requirement, with its remedy.
pub fn check_for_loading() -> Result<(), Error> {
    refuse(examine())
}

fn refuse(findings: Vec<Finding>) -> Result<(), Error> {
    match findings.into_iter().find(|finding| !finding.there) {
        Some(finding) => {
            Err(Error::Machine(format!("no {} here ({}); {}", finding.what, finding.detail, finding.remedy)))
        }
        None => Ok(()),
    }
}

/// Lists the congestion controls that are registered in the kernel.
pub fn registered() -> Vec<String> {
    read("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

/// File with the default congestion control of the caller's network namespace.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// True if a congestion control is the default in the caller's network namespace.
pub fn is_default(name: &str) -> bool {
    read(DEFAULT) == name
}

/// Makes the operations that are now registered under a name the default in the caller's network namespace.
///
/// # Errors
///
/// If the kernel refuses.
pub fn make_default(name: &str) -> std::io::Result<()> {
    fs::write(DEFAULT, name)
}

/// True if a congestion control with this name is registered in the kernel.
pub fn knows(name: &str) -> bool {
    registered().iter().any(|other| other == name)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
        assert_eq!(version("6.4-rc1"), Some((6, 4)));
        assert_eq!(version("generic"), None);
        assert!(version("6.10.1") > version("6.4.0"));
    }
}
