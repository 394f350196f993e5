//! Settings of a machine: its addresses, and values of the kernel's `net.ipv4` that scripts set.

use anabranch_base::time::Duration;
use anabranch_endpoint::Address;
use anabranch_multipath::congestion;
use anabranch_settings::policy::Recovery;
use anabranch_settings::tcp;
use core::net::IpAddr;
use core::str::FromStr;

/// Addresses that packetdrill gives the machine unless its caller names others.
const DEFAULT_FLAGS: &str = "192.168.0.1,fd3d:fa7b:d17d::1";

/// Settings of a machine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The machine's addresses.
    pub addresses: Vec<Address>,
    /// Folder with the kernel's settings of TCP, one file each. A script sets them before it opens a socket.
    pub sysctls: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        DEFAULT_FLAGS.parse().expect("the flags are valid")
    }
}

impl FromStr for Settings {
    type Err = String;

    /// Reads `ADDRESS[,ADDRESS...][,mtu=BYTES][,sysctls=FOLDER]`.
    fn from_str(flags: &str) -> Result<Self, String> {
        let mut settings = Self { addresses: Vec::new(), sysctls: None };
        let (mut mtu, mut ips) = (1500, Vec::<IpAddr>::new());
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            match flag.split_once('=') {
                Some(("mtu", value)) => {
                    mtu = value.parse().map_err(|_| format!("mtu={value} is not a number of bytes"))?;
                }
                Some(("sysctls", folder)) => settings.sysctls = Some(folder.to_owned()),
                Some((name, _)) => {
                    return Err(format!("unknown flag \"{name}\"; flags are mtu and sysctls"));
                }
                None => ips.push(flag.parse().map_err(|_| format!("\"{flag}\" is not an IP address"))?),
            }
        }
        settings.addresses = ips.into_iter().map(|ip| Address::new(ip, mtu)).collect();
        if settings.addresses.is_empty() { Err("the flags name no address".to_owned()) } else { Ok(settings) }
    }
}

impl Settings {
    /// The settings of a new socket: Linux's defaults, changed as the kernel's settings of this moment say.
    pub(crate) fn of_socket(&self) -> tcp::Config {
        let mut config = tcp::Config::default()
            .congestion(congestion::Choice::find("cubic").expect("the name is in the table"))
            // Linux acknowledges the first segments of a connection at once.
            .delayed_ack(None)
            .nagle(true)
            .whole_packets(true)
            .receive_buffer(6 << 20)
            .receive_autotuning(true);
        let mut with = |name: &str, set: &mut dyn FnMut(&mut tcp::Config, &[u64])| {
            let Some(values) = self.sysctl(name) else { return };
            set(&mut config, &values);
        };
        with("tcp_timestamps", &mut |config, values| config.timestamps = values[0] != 0);
        with("tcp_sack", &mut |config, values| config.sack = values[0] != 0);
        with("tcp_syn_retries", &mut |config, values| config.syn_retries = values[0] as u32);
        with("tcp_retries2", &mut |config, values| config.retries = values[0] as u32);
        with("tcp_rmem", &mut |config, values| config.receive_buffer = values[values.len() - 1]);
        with("tcp_rto_min_us", &mut |config, values| config.rto.min = Duration::from_micros(values[0]));
        with("tcp_recovery", &mut |config, values| {
            config.recovery = if values[0] & 1 == 0 { Recovery::Prr } else { Recovery::Rack };
        });
        config
    }

    /// True if a connection that this machine opens (`opens`) or accepts uses ECN (`tcp_ecn`).
    pub(crate) fn uses_ecn(&self, opens: bool) -> bool {
        self.sysctl("tcp_ecn").is_some_and(|values| values[0] == 1 || (values[0] == 2 && !opens))
    }

    /// Minimum length of a run of segments that is handed to a device at once (`tcp_min_tso_segs`).
    pub(crate) fn min_run(&self) -> u64 {
        self.sysctl("tcp_min_tso_segs").map_or(2, |values| values[0])
    }

    /// The numbers of a setting of the kernel.
    fn sysctl(&self, name: &str) -> Option<Vec<u64>> {
        let text = std::fs::read_to_string(format!("{}/{name}", self.sysctls.as_ref()?)).ok()?;
        let values: Vec<_> = text.split_whitespace().filter_map(|value| value.parse().ok()).collect();
        (!values.is_empty()).then_some(values)
    }
}
