//! Description of the machine for the results.

use anabranch_scenario::result::{HostFacts, LatenessResult};
use std::collections::BTreeMap;

/// State of the machine before a run.
#[derive(Clone, Debug)]
pub struct Machine {
    load: f64,
    time: ProcessorTime,
    /// Kernel parameters set for the run, by host.
    pub sysctls: BTreeMap<String, BTreeMap<String, String>>,
    /// Differences between the kernel and the scenario.
    pub differences: Vec<String>,
}

impl Machine {
    /// The present state of the machine.
    pub fn before(sysctls: BTreeMap<String, BTreeMap<String, String>>, differences: Vec<String>) -> Self {
        Self { load: load(), time: ProcessorTime::now(), sysctls, differences }
    }

    /// Description of the machine and its load during the run.
    pub fn after(self, lateness: LatenessResult) -> HostFacts {
        let cpuinfo = read("/proc/cpuinfo");
        let models = cpuinfo.lines().filter(|line| line.starts_with("model name"));
        let model = models.clone().next().and_then(|line| line.split_once(':'));
        HostFacts {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: model.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
            load: [self.load, load()],
            stolen: ProcessorTime::now().stolen_since(&self.time),
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

/// Accumulated times of all processors since the machine started, in ticks (`/proc/stat`, its first line).
#[derive(Clone, Copy, Debug, Default)]
struct ProcessorTime {
    all: u64,
    stolen: u64,
}

impl ProcessorTime {
    /// The column of the time taken by a hypervisor. The following columns, of guests, are contained in
    /// earlier ones.
    const STOLEN_COLUMN: usize = 7;

    fn now() -> Self {
        Self::parse(&read("/proc/stat"))
    }

    fn parse(text: &str) -> Self {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().map_while(|column| column.parse().ok()).collect();
        Self {
            all: ticks.iter().take(Self::STOLEN_COLUMN + 1).sum(),
            stolen: ticks.get(Self::STOLEN_COLUMN).copied().unwrap_or_default(),
        }
    }

    /// The stolen share of the time since an earlier reading.
    fn stolen_since(&self, earlier: &Self) -> f64 {
        match self.all.saturating_sub(earlier.all) {
            0 => 0.0,
            passed => self.stolen.saturating_sub(earlier.stolen) as f64 / passed as f64,
        }
    }
}

/// Content of a file of the kernel; empty if the kernel has no such file.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::Lateness;

    #[test]
    fn machine_has_a_kernel_and_processors() {
        let facts = Machine::before(BTreeMap::new(), Vec::new()).after(Lateness::default().result(0));
        assert!(facts.kernel.contains('.'), "{facts:?}");
        assert!(facts.cpus >= 1 && !facts.cpu.is_empty());
    }

    #[test]
    fn stolen_time_is_a_share_of_elapsed_time() {
        // user nice system idle iowait irq softirq steal guest guest_nice: user includes guest.
        let before = ProcessorTime::parse("cpu  100 0 50 800 5 0 5 40 30 0\ncpu0 1 2 3\n");
        let after = ProcessorTime::parse("cpu  150 0 70 810 5 0 5 60 70 0\n");
        assert_eq!((before.all, before.stolen), (1000, 40));
        // 100 ticks passed, 20 of them stolen.
        assert!((after.stolen_since(&before) - 0.2).abs() < 1e-9);
        assert!(before.stolen_since(&before) == 0.0 && ProcessorTime::parse("").all == 0);
    }
}
