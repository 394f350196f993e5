//! Protocols as fields: the name, and the keys that do not have their defaults.

use super::fields::{Fields, Malformed, Put as _};
use anabranch_host::Protocol;
use anabranch_settings::protocol::Protocol as Settings;
use anabranch_settings::protocols::PROTOCOLS;
use anabranch_settings::words::find;
use anabranch_wire::sctp::encapsulation::Ports;

/// Appends a protocol with its settings. False if keys cannot express them, as with an algorithm that is not in the tables;
/// then nothing is appended.
pub fn put(protocol: &Protocol, out: &mut Vec<u8>) -> bool {
    let settings = settings_of(protocol);
    let defaults = Settings::new(settings.kind());
    let entries: Vec<_> = settings
        .entries()
        .into_iter()
        .filter(|(key, value)| defaults.get(key.name).as_ref() != Some(value))
        .map(|(key, value)| (key.name, value.text()))
        .collect();
    let start = out.len();
    out.put_bytes(settings.name().as_bytes());
    out.put_list(entries.iter(), |(name, text), out| {
        out.put_bytes(name.as_bytes());
        out.put_bytes(text.as_bytes());
    });
    let ports = ports_of(&settings);
    out.put_flag(ports.is_some());
    for port in ports.iter().flat_map(|ports| [ports.source, ports.destination]) {
        out.put_number(port.into());
    }
    let is_whole = read(&mut Fields(&out[start..])).is_ok_and(|read| settings_of(&read) == settings);
    if !is_whole {
        out.truncate(start);
    }
    is_whole
}

/// The next protocol.
pub fn read(fields: &mut Fields<'_>) -> Result<Protocol, Malformed> {
    let name = fields.text()?;
    let mut settings = Settings::new(find(PROTOCOLS, name).ok_or(Malformed)?);
    for (name, text) in fields.list(|fields| Ok((fields.text()?, fields.text()?)))? {
        settings.set(name, text).map_err(|_| Malformed)?;
    }
    if fields.flag()? {
        let ports = Ports { source: fields.small()?, destination: fields.small()? };
        let Settings::Sctp(config) = &mut settings else { return Err(Malformed) };
        config.encapsulation = Some(ports);
    }
    Ok(settings.into())
}

fn settings_of(protocol: &Protocol) -> Settings {
    match protocol {
        Protocol::Tcp(config) => Settings::Tcp(config.clone()),
        Protocol::Mptcp(config) => Settings::Mptcp(config.clone()),
        Protocol::Sctp(config) => Settings::Sctp(config.clone()),
        Protocol::Udp => Settings::Udp,
    }
}

/// The ports of SCTP in UDP: their key states only that there are some.
fn ports_of(settings: &Settings) -> Option<Ports> {
    match settings {
        Settings::Sctp(config) => config.encapsulation,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_settings::protocols::Protocols;

    fn again(protocol: &Protocol) -> Option<Settings> {
        let mut out = Vec::new();
        put(protocol, &mut out)
            .then(|| settings_of(&read(&mut Fields(&out)).expect("the settings have just been written")))
    }

    #[test]
    fn every_key_is_read_back() {
        for kind in [Protocols::TCP, Protocols::MPTCP, Protocols::SCTP, Protocols::CMT_SCTP, Protocols::UDP] {
            let plain = Settings::new(kind);
            assert_eq!(again(&plain.clone().into()), Some(plain.clone()), "{}", plain.name());
            for (key, value) in plain.entries() {
                // Another value for each key; keys to which none of these values fits are left out.
                let texts = ["true", "false", "7", "0.25", "70 ms", "70 kB", "1,2"];
                for text in texts {
                    let mut other = plain.clone();
                    if other.set(key.name, text).is_ok() && other.get(key.name) != Some(value.clone()) {
                        assert_eq!(again(&other.clone().into()), Some(other), "{} = {text}", key.name);
                    }
                }
            }
        }
    }

    #[test]
    fn ports_of_udp_are_kept_and_other_fields_refused() {
        let mut config = anabranch_sctp::Config::for_cmt();
        config.encapsulation = Some(Ports { source: 1, destination: 2 });
        let protocol = Protocol::Sctp(Box::new(config));
        assert_eq!(again(&protocol), Some(settings_of(&protocol)));
        let mut config = anabranch_tcp::mptcp::Config::default();
        config.unroutable.push(([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
        assert_eq!(again(&Protocol::Mptcp(config)), None);
    }

    #[test]
    fn unknown_protocol_and_key_are_malformed() {
        for (name, key) in [("tpc", "sack"), ("tcp", "sock")] {
            let mut out = Vec::new();
            out.put_bytes(name.as_bytes());
            out.put_number(1);
            for text in [key, "true"] {
                out.put_bytes(text.as_bytes());
            }
            out.put_flag(false);
            assert!(read(&mut Fields(&out)).is_err(), "{name} {key}");
        }
    }
}
