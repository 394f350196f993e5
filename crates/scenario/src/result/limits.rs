//! Times by cause in results.

use std::collections::BTreeMap;

/// Times by the cause that limited sending, seconds; null if unknown.
pub type Times = BTreeMap<String, Option<f64>>;

/// The causes of `blocked_s`, each with its parts in `limited_s`.
const BLOCKED_CAUSES: [(&str, &[&str]); 5] = [
    ("congestion-window", &["congestion-avoidance", "slow-start", "recovery", "timeout"]),
    ("pacing", &["pacing"]),
    ("receive-window", &["receive-window"]),
    ("scheduler", &["scheduler"]),
    ("send-buffer", &["send-buffer"]),
];

/// Times for which a sender had data, or would have had it with a larger send buffer, and did not send it: sums of its
/// times by cause. A sum with an unknown part is left out.
pub fn blocked(limited: &Times) -> BTreeMap<String, f64> {
    let sum =
        |parts: &[&str]| parts.iter().map(|&part| limited.get(part).copied().flatten()).sum::<Option<f64>>();
    BLOCKED_CAUSES.iter().filter_map(|&(cause, parts)| Some((cause.to_owned(), sum(parts)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_times_are_sums_of_known_parts() {
        let time = |cause: &str, time| (cause.to_owned(), time);
        let mut limited: Times = [
            time("congestion-avoidance", Some(1.0)),
            time("slow-start", Some(2.0)),
            time("recovery", Some(4.0)),
            time("timeout", Some(8.0)),
            time("receive-window", Some(16.0)),
            time("send-buffer", None),
            time("application", Some(32.0)),
        ]
        .into();
        let sums = |limited: &Times| blocked(limited).into_iter().collect::<Vec<_>>();
        let [cwnd, rwnd] = ["congestion-window", "receive-window"].map(str::to_owned);
        assert_eq!(sums(&limited), [(cwnd, 15.0), (rwnd.clone(), 16.0)]);
        limited.insert("recovery".to_owned(), None);
        assert_eq!(sums(&limited), [(rwnd, 16.0)]);
    }
}
