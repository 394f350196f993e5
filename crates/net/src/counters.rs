//! The kernel's counters of a network namespace (`/proc/net/snmp`, `snmp6` and `netstat`), by the names of `nstat`.

use crate::namespace::Namespace;
use anabranch_base::time::Time;
use anabranch_scenario::result::{FlowResult, HostResult, Table};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Groups of counters in the results.
const COUNTER_GROUPS: [&str; 6] = ["Ip", "Ip6", "Tcp", "TcpExt", "IpExt", "MPTcpExt"];

/// Counters that contain a state or a setting of the kernel, and so can decrease.
const STATE_COUNTERS: [&str; 8] = [
    "IpForwarding",
    "IpDefaultTTL",
    "TcpRtoAlgorithm",
    "TcpRtoMin",
    "TcpRtoMax",
    "TcpMaxConn",
    "TcpCurrEstab",
    "MPTcpExtMPCurrEstab",
];

/// The counters of each host of a run, as they were at its beginning.
#[derive(Clone, Debug)]
pub struct Counters(Vec<(String, Namespace, BTreeMap<String, u64>)>);

impl Counters {
    /// The counters of hosts at the present time.
    ///
    /// # Errors
    /// If a namespace was removed.
    pub fn before(hosts: &BTreeMap<String, Namespace>) -> io::Result<Self> {
        let host = |(name, namespace): (&String, &Namespace)| {
            Ok((name.clone(), namespace.clone(), read_counters(namespace)?))
        };
        hosts.iter().map(host).collect::<io::Result<_>>().map(Self)
    }

    /// The counters of each host that changed since the start.
    ///
    /// # Errors
    /// If a namespace was removed.
    pub fn after(self) -> io::Result<Vec<HostResult>> {
        let host = |(name, namespace, before): (String, Namespace, BTreeMap<String, u64>)| {
            let counters = changed_counters(&before, read_counters(&namespace)?);
            Ok(HostResult { name, counters, utilisation: None, drops: None })
        };
        self.0.into_iter().map(host).collect()
    }
}

/// Writes the counters of the kernels into a folder: `counters.csv` of hosts, `subflows.csv` of paths.
///
/// # Errors
/// The file that cannot be written, and the reason.
pub fn write(folder: &Path, end: Time, hosts: &[HostResult], flows: &[FlowResult]) -> io::Result<()> {
    let time = format!("{:.9}", end.as_secs_f64());
    let of_hosts = hosts.iter().map(|host| (host.name.clone(), &host.counters));
    let paths = flows.iter().flat_map(|flow| flow.paths.iter().map(move |path| (flow, path)));
    let of_paths = paths.map(|(flow, path)| (format!("{},{}", flow.name, path.name), &path.kernel));
    table(folder, "counters.csv", "host,counter,count", (&time, of_hosts))
        .and_then(|()| table(folder, "subflows.csv", "flow,path,field,value", (&time, of_paths)))
        .map_err(|(path, error)| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn table<'a>(
    folder: &Path,
    name: &str,
    columns: &str,
    (time, rows): (&str, impl Iterator<Item = (String, &'a BTreeMap<String, u64>)>),
) -> Result<(), (PathBuf, io::Error)> {
    let mut table = Table::create(folder, name, columns)?;
    for (subject, values) in rows {
        for (name, value) in values {
            table.line(&format!("{time},{subject},{name},{value}"))?;
        }
    }
    table.finish()
}

/// The counters of a namespace.
fn read_counters(namespace: &Namespace) -> io::Result<BTreeMap<String, u64>> {
    // The threads of a process may be in different namespaces.
    let read = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
    namespace.run(|| {
        let mut found = parse_line_pairs(&read("snmp")?);
        found.extend(parse_line_pairs(&read("netstat")?));
        // A kernel without IPv6 has no such file.
        found.extend(parse_single_lines(&read("snmp6").unwrap_or_default()));
        Ok(found)
    })
}

/// The counters that changed: the increase, or the new value of a state.
fn changed_counters(
    before: &BTreeMap<String, u64>,
    read_counters: BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let changed = |(name, value): (String, u64)| {
        let earlier = before.get(&name).copied().unwrap_or_default();
        let count =
            if STATE_COUNTERS.contains(&name.as_str()) { value } else { value.saturating_sub(earlier) };
        (value != earlier).then_some((name, count))
    };
    read_counters.into_iter().filter_map(changed).collect()
}

/// Counters in pairs of lines, the first with names: `Tcp: ActiveOpens …` and `Tcp: 3 …`.
fn parse_line_pairs(text: &str) -> BTreeMap<String, u64> {
    let lines: Vec<_> = text.lines().filter_map(|line| line.split_once(':')).collect();
    let group = |pair: &[(&str, &str)]| {
        let [(group, names), (_, values)] = *pair else { return Vec::new() };
        let counters = names.split_whitespace().zip(values.split_whitespace());
        // `Tcp` contains a value of -1, which means no limit.
        let counter = |(name, value): (&str, &str)| Some((format!("{group}{name}"), value.parse().ok()?));
        if COUNTER_GROUPS.contains(&group) { counters.filter_map(counter).collect() } else { Vec::new() }
    };
    lines.chunks(2).flat_map(group).collect()
}

/// Counters with one line each: `Ip6InReceives 7`.
fn parse_single_lines(text: &str) -> BTreeMap<String, u64> {
    let counter = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        let value = value.trim().parse().ok()?;
        name.starts_with("Ip6").then(|| (name.to_owned(), value))
    };
    text.lines().filter_map(counter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_names_of_nstat() {
        let text = "Ip: Forwarding DefaultTTL InReceives\nIp: 1 64 7\nIcmp: InMsgs\nIcmp: 3\n\
                    Tcp: RtoAlgorithm MaxConn RetransSegs\nTcp: 1 -1 9\n";
        let expected =
            [("IpDefaultTTL", 64), ("IpForwarding", 1), ("IpInReceives", 7), ("TcpRetransSegs", 9)];
        let found = parse_line_pairs(text);
        assert!(expected.iter().all(|&(name, value)| found.get(name) == Some(&value)), "{found:?}");
        assert!(!found.contains_key("TcpMaxConn") && !found.contains_key("IcmpInMsgs"));
        assert_eq!(parse_single_lines("Ip6InReceives                   \t12\nIcmp6InMsgs \t2\n").len(), 1);
    }

    #[test]
    fn counters_are_differences_and_states_are_values() {
        let map = |list: &[(&str, u64)]| list.iter().map(|&(name, n)| (name.to_owned(), n)).collect();
        let before = map(&[("TcpCurrEstab", 3), ("TcpRetransSegs", 5), ("TcpInSegs", 9)]);
        let read_counters = map(&[("TcpCurrEstab", 1), ("TcpRetransSegs", 5), ("TcpInSegs", 20)]);
        assert_eq!(changed_counters(&before, read_counters), map(&[("TcpCurrEstab", 1), ("TcpInSegs", 11)]));
    }
}
