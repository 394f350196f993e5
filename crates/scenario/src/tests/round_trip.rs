//! Scenarios written out and read again.

use super::super::{Scenario, parse, parse_with, to_json, to_toml};
use super::{everything, files};
use crate::model::Protocol;
use anabranch_settings::protocols::PROTOCOLS;
use proptest::prelude::*;

fn read_again(scenario: &Scenario) -> Scenario {
    let text = to_toml(scenario);
    let again = parse_with(&text, "again.toml", &[], &files);
    again.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn canonical_form_round_trips() {
    for text in [include_str!("design.toml"), include_str!("base.toml")] {
        let scenario = parse(text, "s.toml", &[]).unwrap();
        assert_eq!(read_again(&scenario), scenario);
    }
    let scenario = everything();
    assert_eq!(read_again(&scenario), scenario);
}

#[test]
fn json_equals_toml() {
    let json = to_json(&everything());
    assert_eq!(json["duration"], "90 s");
    assert_eq!(json["link"][0]["reverse"]["queue"]["kind"], "fifo");
    assert_eq!(json["link"][1]["rate"]["trace"], "lte.mahi");
    assert_eq!(json["flow"][2]["initial_path"], "A-R-2");
    assert_eq!(json["flow"][1]["backup"][0], "A-R-2");
    assert_eq!(json["flow"][6]["through"], "P");
    assert_eq!(
        (&json["flow"][0]["stack"], &json["flow"][1]["stack"]["to"]),
        (&"user".into(), &"kernel".into())
    );
    assert_eq!(json["event"][0]["set"]["loss"]["model"], "none");
}

/// A scenario with one flow of these settings.
fn with_settings(protocol: Protocol) -> Scenario {
    let mut scenario = parse(include_str!("design.toml"), "s.toml", &[]).unwrap();
    scenario.flows.truncate(1);
    scenario.flows[0].protocol = protocol;
    scenario
}

/// The settings without those that exclude a value of this key.
fn prepared(mut protocol: Protocol, key: &str) -> Protocol {
    let others: &[(&str, &str)] = match key {
        "ssthresh_floor" => &[("congestion", "reno")],
        "stream_priorities" => &[("stream_scheduler", "priority")],
        "stream_weights" => &[("stream_scheduler", "weighted-fair")],
        "renege" => &[("nr_sack", "false")],
        "information" => &[("network_control", "1 s")],
        "rto_max" => &[("rto_initial", "10 ms"), ("rto_min", "10 ms")],
        _ => &[],
    };
    for (other, text) in others {
        protocol.set(other, text).unwrap();
    }
    protocol
}

#[test]
fn every_setting_round_trips() {
    for entry in PROTOCOLS {
        for (key, _) in Protocol::new(entry.value).entries() {
            let base = prepared(Protocol::new(entry.value), key.name);
            for sample in key.takes.samples() {
                let mut protocol = base.clone();
                protocol.put(key.name, sample.clone()).unwrap();
                let is_changed = protocol != base;
                let scenario = with_settings(protocol);
                assert_eq!(read_again(&scenario), scenario, "{} = {sample:?}", key.name);
                let differs = to_toml(&scenario) != to_toml(&with_settings(base.clone()));
                assert_eq!(differs, is_changed, "{} = {sample:?}", key.name);
            }
        }
    }
}

proptest! {
    #[test]
    fn numbers_round_trip(
        duration in 1u64..1_000_000_000_000,
        rate in 1u64..1_000_000_000_000,
        packets in 2u64..10_000,
        shares in (0.0f64..0.5, 0.5f64..1.0),
        loss in 0.0f64..=1.0,
        title in "[^\\pC\\p{Zl}\\p{Zp}]{0,20}",
    ) {
        let sets = [
            ("duration", format!("{duration} ns")),
            ("warmup", "0 s".into()),
            ("event.0.at", "0 s".into()),
            ("link.wifi.rate", format!("{rate} bit/s")),
            ("link.core.queue.limit", format!("{packets} packets")),
            ("link.core.queue.min", format!("{:?}", shares.0)),
            ("link.core.queue.max", format!("{:?}", shares.1)),
            ("link.cellular.loss.rate", format!("{loss:?}")),
        ];
        let sets: Vec<_> = sets.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let mut scenario = parse(include_str!("base.toml"), "s.toml", &sets).unwrap();
        scenario.title = title;
        prop_assert_eq!(read_again(&scenario), scenario);
    }
}
