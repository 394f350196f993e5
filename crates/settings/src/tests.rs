//! Tests of all rows.

use super::key::Key;
use super::protocol::{Protocol, keys};
use super::protocols::{PROTOCOLS, Protocols};
use super::row::Table;
use super::setting::Value;
use super::{mptcp, sctp, tcp};
use anabranch_base::time::Duration;
use std::path::Path;

/// Every protocol with settings, with its defaults.
fn protocols() -> impl Iterator<Item = Protocol> {
    let kinds = PROTOCOLS.iter().map(|entry| entry.value).filter(|kind| *kind != Protocols::UDP);
    kinds.map(Protocol::new)
}

/// The value of a field that was set to a sample.
fn meant(key: &Key, sample: &Value, default: &Value, after: &Value) -> Value {
    let stands_for_another = *sample == Value::Flag(true) && after != sample;
    if !stands_for_another {
        return sample.clone();
    }
    key.on.map_or_else(|| default.clone(), |value| value())
}

#[test]
fn defaults_can_be_set() {
    for protocol in protocols() {
        for (key, default) in protocol.entries() {
            let mut set = protocol.clone();
            set.put(key.name, default).unwrap();
            assert_eq!(set, protocol, "{}", key.name);
        }
    }
}

#[test]
fn sample_changes_its_key_only() {
    for protocol in protocols() {
        for (key, default) in protocol.entries() {
            let samples = key.takes.samples();
            assert!(samples.iter().any(|sample| *sample != default), "{} cannot be varied", key.name);
            for sample in samples {
                let mut set = protocol.clone();
                set.put(key.name, sample.clone()).unwrap();
                for ((other, before), (_, after)) in protocol.entries().into_iter().zip(set.entries()) {
                    let expected =
                        if other.name == key.name { meant(key, &sample, &default, &after) } else { before };
                    assert_eq!(after, expected, "{} after {} = {sample:?}", other.name, key.name);
                }
            }
        }
    }
}

#[test]
fn texts_are_read_as_in_scenarios() {
    let mut config = tcp::Config::default();
    for (name, text) in [
        ("congestion", "new-reno"),
        ("delayed_ack", "false"),
        ("keepalive", "true"),
        ("abc_limit", "2"),
        ("send_buffer", "64 KiB"),
        ("receive_buffer", "auto"),
        ("rto_min", "0.3 s"),
    ] {
        config.set(name, text).unwrap();
    }
    assert_eq!((config.congestion.entry.name, config.delayed_ack, config.abc_limit), ("reno", None, Some(2)));
    assert_eq!(config.keepalive.map(Duration::as_millis), Some(7_200_000));
    assert_eq!((config.send_buffer, config.send_autotuning), (65_536, false));
    assert_eq!((config.receive_buffer, config.receive_autotuning), (tcp::MAX_AUTO_BYTES, true));
    assert_eq!(config.rto.min.as_millis(), 300);
    let mut config = mptcp::Config::default();
    config.set("abc_limit", "2").unwrap();
    config.set("paths", "ndiffports:3").unwrap();
    assert_eq!((config.tcp.abc_limit, config.path_manager.to_string()), (Some(2), "ndiffports:3".into()));
    let mut config = sctp::Config::for_cmt();
    config.set("chunk_rescheduling", "true").unwrap();
    assert!((config.rescheduling.threshold - 0.5).abs() < f64::EPSILON);
}

#[test]
fn wrong_texts_are_refused_with_a_remedy() {
    let mut config = sctp::Config::default();
    for (name, text, problem) in [
        ("abc_limt", "2", "there is no setting \"abc_limt\"; did you mean \"abc_limit\"?"),
        ("abc_limit", "0", "abc_limit is \"0\"; write true or false, or a whole number from 1 to 1000"),
        ("nagle", "yes", "nagle is \"yes\"; write true or false"),
        (
            "rto_min",
            "3",
            "rto_min is wrong: \"3\" has no unit; write for example \"3 ms\" or \"3 s\" (units: ns, us, µs, ms, s, min, h)",
        ),
        ("rto_min", "0 s", "rto_min is \"0 s\"; write a time above 0 such as \"20 ms\""),
        ("congestion", "cubik", "congestion is \"cubik\"; did you mean \"cubic\"?"),
        ("send_buffer", "auto", "send_buffer has a value that this protocol does not support"),
    ] {
        assert_eq!(config.set(name, text).unwrap_err(), problem);
    }
    assert_eq!(config, sctp::Config::default());
}

#[test]
fn binder_is_refused_outside_of_scenarios() {
    let mut config = mptcp::Config::default();
    assert_eq!(
        config.set("paths", "binder").unwrap_err(),
        "paths is \"binder\", which only scenarios can use: a host needs gateways"
    );
}

#[test]
fn keys_of_one_protocol_have_different_names() {
    for protocol in protocols() {
        let mut names: Vec<_> = protocol.entries().iter().map(|(key, _)| key.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{}", protocol.name());
    }
    let all = keys();
    for (index, key) in all.iter().enumerate() {
        for other in &all[..index] {
            let both = key.protocols.and(other.protocols);
            assert!(key.name != other.name || both == Protocols::default(), "{} is declared twice", key.name);
        }
    }
}

/// A field that no protocol reads would be a setting without effect.
#[test]
fn protocols_read_every_field() {
    let ignored = |fields: &[&'static str], folder: &str| -> Vec<&'static str> {
        let mut text = String::new();
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder), &mut text);
        let is_read = |field: &str| {
            let name = format!(".{field}");
            let uses = text.match_indices(&name);
            uses.map(|(at, name)| text[at + name.len()..].chars().next())
                .any(|next| !next.is_some_and(|next| next.is_alphanumeric() || next == '_' || next == '('))
        };
        fields.iter().copied().filter(|field| !is_read(field)).collect()
    };
    assert_eq!(ignored(tcp::Config::FIELDS, "tcp/src/tcp"), [""; 0]);
    assert_eq!(ignored(mptcp::Config::FIELDS, "tcp/src/mptcp"), [""; 0]);
    assert_eq!(ignored(sctp::Config::FIELDS, "sctp/src"), [""; 0]);
}

/// Appends the source files below a folder, without tests.
fn collect(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("tests") || name.ends_with("_tests.rs") {
            continue;
        }
        if path.is_dir() {
            collect(&path, text);
        } else {
            text.push_str(&std::fs::read_to_string(&path).expect("a source file"));
        }
    }
}
