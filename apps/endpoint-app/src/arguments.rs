//! Parses and checks the command line.

use crate::error::Error;
use anabranch_net::{Devices, Interface};
use anabranch_settings::protocols::{PROTOCOLS, Protocols};
use anabranch_settings::suggest::remedy;
use anabranch_settings::text::quoted;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;
use std::path::PathBuf;

/// The text of `--help`.
pub const USAGE: &str = "\
Multipath TCP and CMT-SCTP of user space on any network

anabranch-endpoint send FILE TARGET        Send a file
anabranch-endpoint receive PORT            Accept one connection and write its data
anabranch-endpoint connect TARGET          Connect the terminal to a peer
anabranch-endpoint listen PORT             Accept one connection for the terminal
anabranch-endpoint forward FROM TO         Relay connections: kernel TCP to this stack, or back
anabranch-endpoint http FOLDER PORT        Serve the files of a folder

TARGET is ADDRESS:PORT, or ADDRESS,ADDRESS:PORT for an SCTP peer with several addresses.
FROM is kernel:ADDRESS:PORT or stack:PORT, and TO is stack:TARGET or kernel:ADDRESS:PORT.

Network, at least one; repeat for several paths:
--tun NAME,ADDRESS/PREFIX,OWN[,backup]  Create a TUN interface: the kernel's address, and this stack's
--udp ADDRESS                           Carry SCTP in UDP from this address of the machine

Options:
--protocol NAME       tcp, mptcp, sctp or cmt-sctp; mptcp with --tun, cmt-sctp with --udp
--set KEY=VALUE       Set a key of the protocol, as of a flow in scenarios; repeatable
--udp-port PORT       UDP port of this stack (default 9899)
--peer-udp-port PORT  UDP port of a peer to connect to (default 9899)
--mtu BYTES           Largest IP packet (default 1500)
--output FILE         With receive: write to this file instead of the standard output
--pcap FILE           Write all packets to a capture
--record FILE         Write a recording for anabranch replay
--record-data         With --record: also write the transferred bytes
--json                Print events and counters as JSON lines
--quiet               Print no table and no progress

Exit status: 0 everything was delivered, 1 not everything, 2 a mistake in the arguments, 130 interrupted before
everything was delivered.
";

/// Names of all commands.
const COMMANDS: [&str; 6] = ["send", "receive", "connect", "listen", "forward", "http"];

/// Options with a value.
const VALUED: [&str; 10] = [
    "--tun",
    "--udp",
    "--protocol",
    "--set",
    "--udp-port",
    "--peer-udp-port",
    "--mtu",
    "--output",
    "--pcap",
    "--record",
];
/// Options without a value.
const FLAGS: [&str; 3] = ["--json", "--quiet", "--record-data"];

/// The other end of a connection: its addresses and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub addresses: Vec<IpAddr>,
    pub port: u16,
}

/// One side of a relay: a listening address, or a target to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The address of a TCP socket of the kernel.
    Kernel(SocketAddr),
    /// A port on which this stack listens.
    Listen(u16),
    /// A peer to which this stack connects.
    Connect(Target),
}

/// A command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Send { file: PathBuf, target: Target },
    Receive { port: u16, output: Option<PathBuf> },
    Connect { target: Target },
    Listen { port: u16 },
    Forward { from: Place, to: Place },
    Http { folder: PathBuf, port: u16 },
}

/// The parsed command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    pub command: Command,
    pub devices: Devices,
    pub peer_udp_port: u16,
    pub protocol: Protocols,
    pub settings: Vec<(String, String)>,
    /// The file of the recording.
    pub record: Option<PathBuf>,
    /// The recording has the transferred bytes.
    pub record_data: bool,
    pub json: bool,
    pub quiet: bool,
}

/// The words of the command line, separated into options and others.
struct Words {
    positional: Vec<String>,
    options: Vec<(&'static str, String)>,
    flags: Vec<&'static str>,
}

/// Returns the error for a wrong argument.
fn mistake<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Input(text.into()))
}

impl Words {
    /// Separates the arguments into options and other words.
    fn split(arguments: &[String]) -> Result<Self, Error> {
        let (mut positional, mut options, mut flags) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            if !word.starts_with("--") {
                positional.push(word.clone());
                continue;
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            if let Some(flag) = FLAGS.into_iter().find(|flag| *flag == name) {
                if value.is_some() {
                    return mistake(format!("{flag} takes no value"));
                }
                flags.push(flag);
            } else if let Some(option) = VALUED.into_iter().find(|option| *option == name) {
                match value.or_else(|| rest.next().cloned()) {
                    Some(value) => options.push((option, value)),
                    None => return mistake(format!("{option} needs a value; see anabranch-endpoint --help")),
                }
            } else {
                let all: Vec<_> = VALUED.into_iter().chain(FLAGS).collect();
                return mistake(format!(
                    "unknown option {}; {}",
                    quoted(name),
                    remedy(name, &all, "options")
                ));
            }
        }
        Ok(Self { positional, options, flags })
    }

    /// Returns all values of an option that may be repeated.
    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.options.iter().filter(move |(option, _)| *option == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of an option that may be given once.
    fn one(&self, name: &str) -> Result<Option<&str>, Error> {
        let mut values = self.all(name);
        let first = values.next();
        if values.next().is_some() {
            return mistake(format!("{name} was given twice"));
        }
        Ok(first)
    }

    /// Returns the number that an option gives, at least `least`. The option may be given once.
    fn number(&self, name: &str, default: u16, least: u16) -> Result<u16, Error> {
        let Some(text) = self.one(name)? else { return Ok(default) };
        match text.parse() {
            Ok(number) if number >= least => Ok(number),
            _ => mistake(format!("{name} is {}; write a whole number from {least} to 65535", quoted(text))),
        }
    }
}

impl Arguments {
    /// Parses and checks the arguments.
    ///
    /// # Errors
    ///
    /// One sentence about the first wrong argument, with the remedy.
    pub fn read(arguments: &[String]) -> Result<Self, Error> {
        let words = Words::split(arguments)?;
        let command = command(&words)?;
        let tuns = words.all("--tun").map(tun).collect::<Result<Vec<_>, _>>()?;
        let udp = words.all("--udp").map(|text| address("--udp", text)).collect::<Result<Vec<_>, _>>()?;
        let protocol = protocol(words.one("--protocol")?, (!tuns.is_empty(), !udp.is_empty()))?;
        let setting = |text: &str| match text.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => {
                mistake(format!("--set is {}; write KEY=VALUE, for example congestion=cubic", quoted(text)))
            }
        };
        let read = Self {
            command,
            peer_udp_port: words.number("--peer-udp-port", Devices::UDP_PORT, 1)?,
            settings: words.all("--set").map(setting).collect::<Result<_, _>>()?,
            record: words.one("--record")?.map(PathBuf::from),
            record_data: words.flags.contains(&"--record-data"),
            json: words.flags.contains(&"--json"),
            quiet: words.flags.contains(&"--quiet"),
            devices: Devices {
                tuns,
                udp,
                udp_port: words.number("--udp-port", Devices::UDP_PORT, 1)?,
                mtu: words.number("--mtu", Devices::MTU, Devices::MIN_MTU)?,
                pcap: words.one("--pcap")?.map(PathBuf::from),
            },
            protocol,
        };
        read.check()?;
        read.check_addresses()?;
        read.check_ports(&words)?;
        Ok(read)
    }

    /// Checks that each path has one specific address of this host, and that no two paths have the same address.
    fn check_addresses(&self) -> Result<(), Error> {
        let tuns = self.devices.tuns.iter().map(|tun| ("--tun", tun.own));
        let all: Vec<_> = tuns.chain(self.devices.udp.iter().map(|&ip| ("--udp", ip))).collect();
        for (at, &(option, ip)) in all.iter().enumerate() {
            if ip.is_unspecified() || ip.is_multicast() || ip.to_canonical() != ip {
                return mistake(format!(
                    "{option} has {ip}; write an address of one interface, IPv4 as 192.0.2.1"
                ));
            }
            if all[..at].iter().any(|&(_, other)| other == ip) {
                return mistake(format!("{option} has {ip} twice; each path needs a separate address"));
            }
        }
        if let Some(tun) = self.devices.tuns.iter().find(|tun| tun.kernel.1 == 0) {
            return mistake(format!(
                "--tun {} has a prefix of 0 bits, which would take all packets of the machine; write at least 1",
                tun.name
            ));
        }
        Ok(())
    }

    /// Checks that the options for UDP ports have an effect with the other arguments.
    fn check_ports(&self, words: &Words) -> Result<(), Error> {
        let is_given = |name: &str| words.all(name).next().is_some();
        let connects = matches!(
            self.command,
            Command::Send { .. } | Command::Connect { .. } | Command::Forward { to: Place::Connect(_), .. }
        );
        for name in ["--udp-port", "--peer-udp-port"] {
            if is_given(name) && self.devices.udp.is_empty() {
                return mistake(format!("{name} needs --udp; remove it"));
            }
        }
        if is_given("--peer-udp-port") && !connects {
            return mistake(
                "--peer-udp-port is for a command that connects; a listener replies to the peer's port",
            );
        }
        Ok(())
    }

    /// Checks arguments that depend on each other.
    fn check(&self) -> Result<(), Error> {
        if self.record_data && self.record.is_none() {
            return mistake("--record-data needs --record FILE");
        }
        let multihomed = Protocols::ANY_SCTP.contains(self.protocol);
        let target = match &self.command {
            Command::Send { target, .. }
            | Command::Connect { target }
            | Command::Forward { to: Place::Connect(target), .. } => Some(target),
            _ => None,
        };
        if let Some(target) = target.filter(|target| target.addresses.len() > 1 && !multihomed) {
            let first = target.addresses[0];
            return mistake(format!(
                "a target of {} has one address, since its peer announces the others; write {}",
                self.protocol.names().concat(),
                SocketAddr::new(first, target.port)
            ));
        }
        let to_terminal = match &self.command {
            Command::Receive { output, .. } => output.is_none(),
            Command::Connect { .. } | Command::Listen { .. } => true,
            _ => false,
        };
        if self.json && to_terminal {
            let remedy = match self.command {
                Command::Receive { .. } => "add --output FILE",
                _ => "use send or receive",
            };
            return mistake(format!(
                "--json and the received data would share the standard output; {remedy}"
            ));
        }
        Ok(())
    }
}

/// Selects the protocol, which must suit the kind of network.
fn protocol(name: Option<&str>, network: (bool, bool)) -> Result<Protocols, Error> {
    let usual = match network {
        (false, false) => {
            return mistake("no network is given; add --tun or --udp (see anabranch-endpoint --help)");
        }
        (true, true) => return mistake("--tun and --udp exclude each other; omit one of them"),
        (true, false) => Protocols::MPTCP,
        (false, true) => Protocols::CMT_SCTP,
    };
    let Some(name) = name else { return Ok(usual) };
    let known = PROTOCOLS.iter().filter(|entry| entry.value != Protocols::UDP);
    let Some(entry) = known.clone().find(|entry| entry.name == name) else {
        let names: Vec<_> = known.map(|entry| entry.name).collect();
        return mistake(format!("--protocol is {}; {}", quoted(name), remedy(name, &names, "protocols")));
    };
    if network.1 && !Protocols::ANY_SCTP.contains(entry.value) {
        return mistake(format!("--udp carries SCTP only; use --tun for {name}"));
    }
    Ok(entry.value)
}

fn command(words: &Words) -> Result<Command, Error> {
    let (name, rest) = match words.positional.split_first() {
        Some((name, rest)) => (name.as_str(), rest),
        None => return mistake("no command is given; see anabranch-endpoint --help"),
    };
    let (needs, example) = match name {
        "send" => (2, "send FILE ADDRESS:PORT"),
        "receive" => (1, "receive PORT"),
        "connect" => (1, "connect ADDRESS:PORT"),
        "listen" => (1, "listen PORT"),
        "forward" => (2, "forward kernel:127.0.0.1:8080 stack:ADDRESS:PORT"),
        "http" => (2, "http FOLDER PORT"),
        _ => {
            return mistake(format!(
                "unknown command {}; {}",
                quoted(name),
                remedy(name, &COMMANDS, "commands")
            ));
        }
    };
    if rest.len() != needs {
        return mistake(format!("{name} takes {needs} arguments, but has {}; write {example}", rest.len()));
    }
    let output = words.one("--output")?.map(PathBuf::from);
    if output.is_some() && name != "receive" {
        return mistake(format!("--output belongs to receive, not to {name}; remove it"));
    }
    Ok(match name {
        "send" => Command::Send { file: PathBuf::from(&rest[0]), target: target(&rest[1])? },
        "receive" => Command::Receive { port: port(&rest[0])?, output },
        "connect" => Command::Connect { target: target(&rest[0])? },
        "listen" => Command::Listen { port: port(&rest[0])? },
        "forward" => forward(&rest[0], &rest[1])?,
        _ => Command::Http { folder: PathBuf::from(&rest[0]), port: port(&rest[1])? },
    })
}

fn forward(from: &str, to: &str) -> Result<Command, Error> {
    let kernel = |text: &str| match text.parse() {
        Ok(address) => Ok(Place::Kernel(address)),
        Err(_) => mistake(format!(
            "{} is not an address with a port; write for example 127.0.0.1:8080",
            quoted(text)
        )),
    };
    let (from, to) = match (from.split_once(':'), to.split_once(':')) {
        (Some(("kernel", from)), Some(("stack", to))) => (kernel(from)?, Place::Connect(target(to)?)),
        (Some(("stack", from)), Some(("kernel", to))) => (Place::Listen(port(from)?), kernel(to)?),
        _ => {
            return mistake(
                "forward takes kernel:ADDRESS:PORT stack:ADDRESS:PORT, or stack:PORT kernel:ADDRESS:PORT",
            );
        }
    };
    Ok(Command::Forward { from, to })
}

fn port(text: &str) -> Result<u16, Error> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => mistake(format!("{} is not a port; write a whole number from 1 to 65535", quoted(text))),
    }
}

fn address(option: &str, text: &str) -> Result<IpAddr, Error> {
    IpAddr::from_str(text)
        .or_else(|_| mistake(format!("{option} has {}; write an IPv4 or IPv6 address", quoted(text))))
}

/// Parses `ADDRESS[,ADDRESS…]:PORT`.
fn target(text: &str) -> Result<Target, Error> {
    let wrong = || {
        Error::Input(format!(
            "{} is not a target; write for example 192.0.2.1:80 or [2001:db8::1]:80",
            quoted(text)
        ))
    };
    let (addresses, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let addresses: Option<Vec<IpAddr>> = addresses.split(',').map(bracketed).collect();
    Ok(Target { addresses: addresses.ok_or_else(wrong)?, port: self::port(port)? })
}

/// Parses an IPv4 address, or an IPv6 address in brackets.
fn bracketed(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => text.parse().ok().map(IpAddr::V4),
    }
}

fn tun(text: &str) -> Result<Interface, Error> {
    let read = || {
        let mut parts = text.split(',');
        let read = Interface::parse(parts.next()?, parts.next()?, parts.next()?)?;
        match (parts.next(), parts.next()) {
            (None, _) => Some(read),
            (Some("backup"), None) => Some(Interface { backup: true, ..read }),
            _ => None,
        }
    };
    read().ok_or_else(|| {
        Error::Input(format!(
            "--tun is {}; write NAME,ADDRESS/PREFIX,OWN, for example tun0,10.0.1.1/24,10.0.1.2",
            quoted(text)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Arguments, String> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Arguments::read(&words).map_err(|error| {
            assert_eq!(error.status(), 2);
            error.to_string()
        })
    }

    #[test]
    fn arguments_are_read() {
        let text = "send file 10.0.1.1:7 --tun tun0,10.0.1.1/24,10.0.1.2 --tun=tun1,10.0.2.1/24,10.0.2.2,backup \
                    --set congestion=olia --json";
        let read = read(text).expect("valid");
        let target = Target { addresses: vec![[10, 0, 1, 1].into()], port: 7 };
        assert_eq!(read.command, Command::Send { file: "file".into(), target });
        assert_eq!(
            (read.protocol, read.json, read.quiet, read.devices.mtu),
            (Protocols::MPTCP, true, false, 1500)
        );
        assert_eq!(read.settings, [("congestion".to_owned(), "olia".to_owned())]);
        let second = &read.devices.tuns[1];
        assert_eq!(
            (second.kernel, second.own, second.backup),
            (([10, 0, 2, 1].into(), 24), [10, 0, 2, 2].into(), true)
        );
    }

    #[test]
    fn associations_have_targets_with_several_addresses() {
        let read = read("connect 127.0.0.1,[::1]:9 --udp 127.0.0.2 --peer-udp-port 9900").expect("valid");
        let addresses = vec![[127, 0, 0, 1].into(), IpAddr::V6(core::net::Ipv6Addr::LOCALHOST)];
        assert_eq!(read.command, Command::Connect { target: Target { addresses, port: 9 } });
        assert_eq!((read.protocol, read.peer_udp_port), (Protocols::CMT_SCTP, 9900));
    }

    #[test]
    fn mistakes_are_one_sentence_with_a_remedy() {
        let tun = "--tun t,10.0.1.1/24,10.0.1.2";
        for (text, expected) in [
            (format!("sedn f 10.0.1.1:7 {tun}"), "unknown command \"sedn\"; did you mean \"send\"?"),
            ("sedn f 10.0.1.1:7".to_owned(), "unknown command \"sedn\"; did you mean \"send\"?"),
            (
                "listen 7".to_owned(),
                "no network is given; add --tun or --udp (see anabranch-endpoint --help)",
            ),
            (format!("listen 0 {tun}"), "\"0\" is not a port; write a whole number from 1 to 65535"),
            (format!("listen 7 {tun} --jsn"), "unknown option \"--jsn\"; did you mean \"--json\"?"),
            (format!("listen {tun}"), "listen takes 1 arguments, but has 0; write listen PORT"),
            (
                format!("connect 10.0.1.1,10.0.2.1:7 {tun}"),
                "a target of mptcp has one address, since its peer announces the others; write 10.0.1.1:7",
            ),
            (
                "listen 7 --udp 127.0.0.1 --protocol tcp".to_owned(),
                "--udp carries SCTP only; use --tun for tcp",
            ),
            (
                format!("receive 7 {tun} --json"),
                "--json and the received data would share the standard output; add --output FILE",
            ),
            (
                format!("listen 7 {tun} --mtu 100"),
                "--mtu is \"100\"; write a whole number from 1280 to 65535",
            ),
            (
                "listen 7 --tun t,10.0.1.1/24".to_owned(),
                "--tun is \"t,10.0.1.1/24\"; write NAME,ADDRESS/PREFIX,OWN, for example tun0,10.0.1.1/24,10.0.1.2",
            ),
            (format!("listen 7 {tun} --udp-port 5"), "--udp-port needs --udp; remove it"),
            (
                "listen 7 --udp 127.0.0.1 --peer-udp-port 5".to_owned(),
                "--peer-udp-port is for a command that connects; a listener replies to the peer's port",
            ),
            (
                "listen 7 --udp 0.0.0.0".to_owned(),
                "--udp has 0.0.0.0; write an address of one interface, IPv4 as 192.0.2.1",
            ),
            (
                "listen 7 --udp ::ffff:127.0.0.1".to_owned(),
                "--udp has ::ffff:127.0.0.1; write an address of one interface, IPv4 as 192.0.2.1",
            ),
            (
                "listen 7 --udp 127.0.0.1 --udp 127.0.0.1".to_owned(),
                "--udp has 127.0.0.1 twice; each path needs a separate address",
            ),
            (
                "listen 7 --tun t,10.0.1.1/0,10.0.1.2".to_owned(),
                "--tun t has a prefix of 0 bits, which would take all packets of the machine; write at least 1",
            ),
            (
                format!("forward stack:7 stack:10.0.1.1:8 {tun}"),
                "forward takes kernel:ADDRESS:PORT stack:ADDRESS:PORT, or stack:PORT kernel:ADDRESS:PORT",
            ),
        ] {
            assert_eq!(read(&text).expect_err("a mistake"), expected);
        }
    }
}
