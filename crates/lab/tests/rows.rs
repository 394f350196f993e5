//! A row has the numbers of the sample at the same time, in the order that `docs/reference/lab-abi.md` gives.

use anabranch_lab::Lab;
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};
use serde_json::Value;

static SCENARIO: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '3 s'")
        .link(
            "wide",
            ["client", "server"],
            "rate = '8 Mbit/s', queue = { kind = 'fifo', limit = '10 packets' }",
        )
        .link("narrow", ["client", "server"], "rate = '2 Mbit/s'")
        .table("[[flow]]", "from = 'client', to = 'server', protocol = 'mptcp'")
        .flow("later", ["client", "server"], "protocol = 'tcp', start = '2 s'")
});

/// A number of JSON, NaN for null.
fn number(value: &Value) -> f64 {
    value.as_f64().or_else(|| value.as_bool().map(|is_true| f64::from(u8::from(is_true)))).unwrap_or(f64::NAN)
}

fn numbers(object: &Value, keys: &[&str]) -> Vec<f64> {
    keys.iter().map(|&key| number(&object[key])).collect()
}

fn expected(sample: &Value) -> Vec<f64> {
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let mut row = vec![number(&sample["now_ns"])];
    for flow in list(&sample["flows"]) {
        row.extend(numbers(&flow, &["delivered_bytes", "reordering_buffer_bytes"]));
        row.push(list(&flow["paths"]).len() as f64);
        for path in list(&flow["paths"]) {
            let keys = ["cwnd_bytes", "ssthresh_bytes", "srtt_s", "in_flight_bytes", "delivered_bytes"];
            row.extend(numbers(&path, &keys));
            row.extend(numbers(&path, &["retransmissions", "usable"]));
        }
    }
    for direction in list(&sample["links"]).iter().flat_map(|link| [&link["forward"], &link["reverse"]]) {
        row.extend(numbers(direction, &["queue_packets", "queue_bytes"]));
        row.push(direction["drops"].as_object().expect("a table").values().map(number).sum());
        row.push(number(&direction["sent_bytes"]));
    }
    row.insert(0, row.len() as f64 + 1.0);
    row
}

#[test]
fn row_has_the_numbers_of_the_sample() {
    let mut lab = Lab::default();
    let run = lab.open(&SCENARIO, None).expect("a valid scenario");
    for time_ns in [0.0, 1e7, 1e9, 2.5e9, 3e9] {
        lab.step_until(run, time_ns).expect("an open run");
        let row = lab.row(run).expect("an open run");
        let sample = serde_json::from_str(&lab.sample(run).expect("an open run")).expect("JSON");
        let bits = |row: Vec<f64>| row.into_iter().map(f64::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(row), bits(expected(&sample)), "at {time_ns} ns");
    }
    assert!(lab.row(run + 1).is_err());
}
