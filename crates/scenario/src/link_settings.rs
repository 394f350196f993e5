//! Settings `link.NAME.KEY=VALUE` that a testbed applies at the current time.

use super::build;
use super::canonical::{self, link_model_to_json};
use super::choices::{DIRECTIONS, word};
use super::document::{Data, Entry, Node, Table, read_value};
use super::error::{Fault, InputError, Origin, quoted};
use super::merge::inherit;
use super::model::{Directions, Event, Link, LinkModel, Scenario};
use super::overrides::descend;
use super::suggest::remedy;
use super::table::SET;
use super::written::Written;
use anabranch_base::time::Time;
use serde::Serialize;

/// The keys that a setting changes.
const KEYS: [&str; 7] = ["rate", "delay", "jitter", "loss", "queue", "state", "reorder"];

/// A value of a direction of a link that was set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetValue {
    /// The link.
    pub link: String,
    /// The direction: `forward` or `reverse`.
    pub direction: &'static str,
    /// The key.
    pub key: &'static str,
    /// The value before, in the notation of scenarios.
    pub old: serde_json::Value,
    /// The value afterwards.
    pub new: serde_json::Value,
}

/// Events at `at` that give links the values of `settings`, pairs of `link.NAME.KEY` and a value. The scenario's events
/// up to that time precede them. A table that is given in part is completed from the present one.
///
/// # Errors
///
/// The first error found, in one sentence with its remedy.
pub fn set_links(
    scenario: &Scenario,
    at: Time,
    settings: &[(String, String)],
    directions: Directions,
) -> Result<Vec<Event>, InputError> {
    events(scenario, at, settings, directions).map_err(|fault| InputError::without_place(fault.message))
}

fn events(
    scenario: &Scenario,
    at: Time,
    settings: &[(String, String)],
    directions: Directions,
) -> Result<Vec<Event>, Fault> {
    let mut sets: Vec<(usize, Table)> = Vec::new();
    for (index, (path, value)) in settings.iter().enumerate() {
        let origin = Origin::Set(index);
        let segments: Vec<&str> = path.split('.').map(str::trim).collect();
        let link = link_of(&segments, scenario, origin)?;
        let at = sets.iter().position(|(other, _)| *other == link).unwrap_or_else(|| {
            sets.push((link, Table::default()));
            sets.len() - 1
        });
        if settings[..index].iter().any(|(other, _)| other == path) {
            let message = format!("{} is set twice; keep one of both", quoted(path));
            return Err(Fault::new(origin, message));
        }
        descend(&mut sets[at].1, &SET, &segments[2..], value, origin)?;
    }
    let links = present_links(scenario, at);
    let mut events = Vec::new();
    for (link, set) in &sets {
        for directions in apart(&links[*link], set, directions) {
            let table = order(&links[*link], set, directions);
            let named = |fault: Fault| Fault { message: in_settings(&fault.message, &links[*link]), ..fault };
            events.extend(build::order(&table, scenario, at).map_err(named)?);
        }
    }
    Ok(events)
}

/// The links with their values at a time.
pub fn present_links(scenario: &Scenario, at: Time) -> Vec<Link> {
    scenario.links_after(scenario.events.partition_point(|event| event.at <= at))
}

/// Replaces the events up to a time by their effects on the links. Later settings and values stay the same,
/// and the events of a long-lived testbed do not accumulate.
pub fn settle(scenario: &mut Scenario, at: Time) {
    let passed = scenario.events.partition_point(|event| event.at <= at);
    scenario.links = scenario.links_after(passed);
    scenario.events.drain(..passed);
}

/// The values that events change, before and after.
pub fn set_values(before: &[Link], events: &[Event], after: &[Link]) -> Vec<SetValue> {
    let mut values: Vec<SetValue> = Vec::new();
    let of = |link: &Link, direction: usize| link_model_to_json([&link.forward, &link.reverse][direction]);
    for event in events.iter().filter_map(Event::of_link) {
        let (old, new) = (&before[event.link], &after[event.link]);
        for change in &event.changes {
            let (key, _) = canonical::change(change);
            for direction in 0..2 {
                let name = ["forward", "reverse"][direction];
                let is_known = values.iter().any(|v| (&v.link, v.direction, v.key) == (&old.name, name, key));
                if is_known || !event.directions.ends().contains(&direction) {
                    continue;
                }
                let [old_value, new_value] = [old, new].map(|link| of(link, direction)[key].clone());
                let link = old.name.clone();
                values.push(SetValue { link, direction: name, key, old: old_value, new: new_value });
            }
        }
    }
    values
}

/// The message about an order, reworded for settings of the link.
fn in_settings(message: &str, link: &Link) -> String {
    let message = message.replace(" of the order", "");
    let path = format!("link.{}.", link.name);
    if message.contains("set.") {
        message.replacen("set.", &path, 1)
    } else {
        format!("link.{}: {message}", link.name)
    }
}

/// Index of the link that the path of a setting names.
fn link_of(segments: &[&str], scenario: &Scenario, origin: Origin) -> Result<usize, Fault> {
    let fault = |message| Err(Fault::new(origin, message));
    let [first, name, key, ..] = segments else {
        let path = quoted(&segments.join("."));
        let message = format!("{path} is not the key of a link; write link.NAME.KEY=VALUE");
        return fault(message);
    };
    if *first != "link" {
        let message = format!(
            "{} is not the key of a link, and only links can be changed; write link.NAME.KEY=VALUE",
            quoted(&segments.join("."))
        );
        return fault(message);
    }
    let Some(link) = scenario.links.iter().position(|link| link.name == *name) else {
        let names: Vec<_> = scenario.links.iter().map(|link| link.name.as_str()).collect();
        return fault(format!("there is no link {}; {}", quoted(name), remedy(name, &names, "links")));
    };
    if !KEYS.contains(key) {
        let remedy = remedy(key, &KEYS, "keys that can be set");
        return fault(format!("{} cannot be set; {remedy}", quoted(&segments.join("."))));
    }
    Ok(link)
}

/// The directions of separate orders: both at once, unless the directions have different tables to complete.
fn apart(link: &Link, set: &Table, directions: Directions) -> Vec<Directions> {
    let differs =
        |key: &str| set.get(key).is_some() && present(&link.forward, key) != present(&link.reverse, key);
    if directions == Directions::Both && ["loss", "reorder"].iter().any(|key| differs(key)) {
        vec![Directions::Forward, Directions::Reverse]
    } else {
        vec![directions]
    }
}

/// The present value of a table; `None` if there is none.
fn present(model: &LinkModel, key: &str) -> Option<Written> {
    canonical::model(model).into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// The order that sets values of a link.
fn order(link: &Link, set: &Table, directions: Directions) -> Table {
    let entry = |key: &str, data: Data| {
        let node = Node { origin: Origin::Nowhere, data };
        Entry { key: key.to_owned(), origin: Origin::Nowhere, node }
    };
    let model = if directions == Directions::Reverse { &link.reverse } else { &link.forward };
    let given = ["loss", "reorder"].into_iter().filter(|key| set.get(key).is_some());
    let present = given.filter_map(|key| {
        let value = read_value(&present(model, key)?.toml(), Origin::Nowhere)?;
        Some(entry(key, value.data))
    });
    let set = inherit(set.clone(), &Table { entries: present.collect() }, &SET, None);
    Table {
        entries: vec![
            entry("link", Data::Text(link.name.clone())),
            entry("direction", Data::Text(word(DIRECTIONS, &directions).to_owned())),
            entry("set", Data::Table(set)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        duration = "10 s"
        [[link]]
        name = "wlan"
        between = ["A", "R"]
        rate = "20 Mbit/s"
        loss = { model = "bernoulli", rate = 0.1 }
        reverse = { loss = { model = "bernoulli", rate = 0.2 } }
        queue = { kind = "red", limit = "100 packets" }
        [[link]]
        name = "wire"
        between = ["R", "B"]
        rate = "100 Mbit/s"
        [[flow]]
        from = "A"
        to = "B"
        protocol = "tcp"
        [[event]]
        at = "2 s"
        link = "wlan"
        set = { rate = "10 Mbit/s" }
    "#;

    fn set(at_s: u64, settings: &[&str], directions: Directions) -> Result<Vec<SetValue>, String> {
        let mut scenario = crate::parse(TEXT, "test.toml", &[]).expect("a scenario");
        let at = Time::from_nanos(at_s * 1_000_000_000);
        let settings: Vec<_> = settings
            .iter()
            .map(|setting| setting.split_once('=').expect("a value"))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let before = present_links(&scenario, at);
        let events = set_links(&scenario, at, &settings, directions).map_err(|error| error.to_string())?;
        let place = scenario.events.partition_point(|event| event.at <= at);
        scenario.events.splice(place..place, events.iter().cloned());
        Ok(set_values(&before, &events, &present_links(&scenario, at)))
    }

    fn shown(values: &[SetValue]) -> Vec<String> {
        values.iter().map(|v| format!("{} {} {}: {} {}", v.link, v.direction, v.key, v.old, v.new)).collect()
    }

    #[test]
    fn old_values_follow_the_events() {
        for (at_s, old) in [(1, "20"), (3, "10")] {
            let values = set(at_s, &["link.wlan.rate=5 Mbit/s"], Directions::Forward).expect("valid");
            assert_eq!(shown(&values), [format!("wlan forward rate: \"{old} Mbit/s\" \"5 Mbit/s\"")]);
        }
    }

    #[test]
    fn parts_of_tables_complete_the_present_ones() {
        let settings =
            ["link.wlan.queue.limit=30 packets", "link.wlan.loss.rate=0.5", "link.wire.state=down"];
        let values = set(0, &settings, Directions::Both).expect("valid");
        let keys: Vec<_> = values.iter().map(|v| (v.link.as_str(), v.direction, v.key)).collect();
        let [forward, reverse] = ["forward", "reverse"];
        assert_eq!(
            keys,
            [
                ("wlan", forward, "loss"),
                ("wlan", forward, "queue"),
                ("wlan", reverse, "loss"),
                ("wlan", reverse, "queue"),
                ("wire", forward, "state"),
                ("wire", reverse, "state"),
            ]
        );
        assert_eq!((&values[1].new["kind"], &values[1].new["limit"]), (&"red".into(), &"30 packets".into()));
        assert_eq!(values[1].new["max"], "27 packets", "thresholds are shares of the limit");
        assert_eq!((&values[2].old["rate"], &values[2].new["rate"]), (&0.2.into(), &0.5.into()));
    }

    #[test]
    fn settled_scenario_has_the_same_values() {
        let whole = crate::parse(TEXT, "test.toml", &[]).expect("a scenario");
        let mut scenarios = [whole.clone(), whole];
        for (second, (key, value)) in [
            ("queue.limit", "30 packets"),
            ("rate", "5 Mbit/s"),
            ("loss.rate", "0.5"),
            ("queue.max_p", "0.2"),
            ("queue.kind", "fifo"),
            ("reorder.rate", "0.1"),
            ("queue.limit", "20 packets"),
            ("state", "down"),
        ]
        .into_iter()
        .enumerate()
        {
            let at = Time::from_nanos(second as u64 * 1_000_000_000);
            let mut settings = vec![(format!("link.wlan.{key}"), value.to_owned())];
            if key == "reorder.rate" {
                settings.push(("link.wlan.reorder.delay".to_owned(), "1 ms".to_owned()));
            }
            let [one, other] = scenarios.each_mut().map(|scenario| {
                let before = present_links(scenario, at);
                let events = set_links(scenario, at, &settings, Directions::Both).expect("valid");
                let place = scenario.events.partition_point(|event| event.at <= at);
                scenario.events.splice(place..place, events.iter().cloned());
                set_values(&before, &events, &present_links(scenario, at))
            });
            assert_eq!(one, other, "{key}");
            settle(&mut scenarios[1], at);
        }
        assert!(scenarios[0].events.len() > 8);
        assert_eq!(scenarios[1].events, []);
    }

    #[test]
    fn reordering_is_switched_on_and_off() {
        let on = ["link.wire.reorder.rate=0.1", "link.wire.reorder.delay=2 ms"];
        let values = set(0, &on, Directions::Forward).expect("valid");
        assert_eq!((values[0].old.is_null(), &values[0].new["delay"]), (true, &"2 ms".into()));
    }

    #[test]
    fn invalid_settings_are_refused() {
        for (setting, parts) in [
            ("rate=5 Mbit/s", ["\"rate\" is not the key of a link", "link.NAME.KEY=VALUE"]),
            ("flow.A-B.start=5 s", ["only links can be changed", "link.NAME.KEY=VALUE"]),
            ("link.wlam.rate=5 Mbit/s", ["there is no link \"wlam\"", "did you mean \"wlan\""]),
            (
                "link.wlan.mtu=500",
                ["\"link.wlan.mtu\" cannot be set", "rate, delay, jitter, loss, queue, state"],
            ),
            ("link.wlan.address=new", ["\"link.wlan.address\" cannot be set", "reorder"]),
            ("link.wlan.rate=fast", ["rate", "fast"]),
            ("link.wlan.rate=5", ["link.wlan", "has no unit"]),
            ("link.wlan.loss.rate=2", ["link.wlan.loss.rate is 2", "from 0 to 1"]),
            ("link.wlan.queue.kind=fast", ["queue", "fifo"]),
            ("link.wlan.state=off", ["state", "down"]),
        ] {
            let error = set(0, &[setting], Directions::Both).expect_err(setting);
            assert!(parts.iter().all(|part| error.contains(part)), "{setting}: {error}");
        }
        let twice = ["link.wlan.rate=5 Mbit/s", "link.wlan.rate=6 Mbit/s"];
        assert!(
            set(0, &twice, Directions::Both).expect_err("the rate is set twice").contains("is set twice")
        );
    }
}
