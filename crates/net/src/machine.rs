//! The machine, for whoever reads its results.

use scenario::result::{HostFacts, LatenessResult};
use std::collections::BTreeMap;

/// What is known of the machine before a run.
#[derive(Clone, Debug)]
pub struct Machine {
    load: f64,
    /// Kernel parameters that were set for the run, by host.
    pub sysctls: BTreeMap<String, BTreeMap<String, String>>,
    /// Where the kernel does something else than the scenario says.
    pub differences: Vec<String>,
}

impl Machine {
    /// The machine as it is now.
    pub fn before(sysctls: BTreeMap<String, BTreeMap<String, String>>, differences: Vec<String>) -> Self {
        Self { load: load(), sysctls, differences }
    }

    /// The facts after the run.
    pub fn after(self, lateness: LatenessResult) -> HostFacts {
        let cpuinfo = read("/proc/cpuinfo");
        let models = cpuinfo.lines().filter(|line| line.starts_with("model name"));
        let model = models.clone().next().and_then(|line| line.split_once(':'));
        HostFacts {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: model.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
            load: [self.load, load()],
            sysctls: self.sysctls,
            differences: self.differences,
            lateness,
        }
    }
}

/// The mean load of the last minute.
fn load() -> f64 {
    read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default()
}

/// A file of the kernel; what it does not have is empty.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::Lateness;

    #[test]
    fn a_machine_has_a_kernel_and_processors() {
        let facts = Machine::before(BTreeMap::new(), Vec::new()).after(Lateness::default().result(0));
        assert!(facts.kernel.contains('.'), "{facts:?}");
        assert!(facts.cpus >= 1 && !facts.cpu.is_empty());
    }
}
