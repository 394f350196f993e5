//! Replay of recordings.

use crate::errors;
use crate::run::json;
use anabranch_replay::{Difference, Outcome, Place};
use pyo3::prelude::*;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

/// Repeats a recording in the protocol cores and compares the packets. Returns the outcome as JSON.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a path of Python is converted to an owned one")]
pub(crate) fn replay(py: Python<'_>, file: PathBuf) -> PyResult<String> {
    let refused = |sentence: String| {
        errors::input_error_at(errors::without_number(sentence), Some(file.display().to_string()), None)
    };
    let outcome = py.detach(|| {
        let opened = File::open(&file).map_err(|error| format!("cannot be read: {error}"))?;
        anabranch_replay::replay(BufReader::new(opened)).map_err(|error| error.to_string())
    });
    json(&document(&outcome.map_err(refused)?))
}

fn document(outcome: &Outcome) -> serde_json::Value {
    serde_json::json!({
        "equal": outcome.difference.is_none(),
        "recorded": outcome.subject,
        "version": outcome.version,
        "data": outcome.has_data,
        "sent_packets": outcome.counts.sent,
        "arrived_packets": outcome.counts.arrivals,
        "calls": outcome.counts.calls,
        "duration_s": outcome.duration.as_secs_f64(),
        "difference": outcome.difference.as_ref().map(difference),
    })
}

fn difference(difference: &Difference) -> serde_json::Value {
    let (packet, call, field) = match &difference.place {
        Place::Packet { number } => (Some(number), None, None),
        Place::Field { number, name } => (Some(number), None, Some(name.as_str())),
        Place::Call { number, name } => (None, Some(number), Some(*name)),
        Place::Panic { packets } => (Some(packets), None, Some("panic")),
    };
    serde_json::json!({
        "time_s": difference.at.as_secs_f64(),
        "packet": packet,
        "call": call,
        "field": field,
        "recorded": difference.recorded,
        "replayed": difference.replayed,
        "sentence": difference.to_string(),
    })
}
