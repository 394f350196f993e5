//! Checks a class of Python by the laws of congestion controls, and by the vectors of another control.

use super::class::Class;
use super::control::Control;
use super::fault;
use crate::errors::input_error_at;
use anabranch_base::time::Time;
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{
    CongestionControl, LossKind, PathSetup, PenaltyInSlowStart, Rules, conformance,
};
use pyo3::prelude::*;
use serde::Deserialize;
use std::sync::Arc;

/// Name of the class in messages.
const NAME: &str = "under-test";

/// Checks a class by random sequences of events, then by the text of a file of vectors. Returns the first violation as a
/// sentence.
#[pyfunction]
pub(crate) fn check_congestion(
    py: Python<'_>,
    algorithm: &Bound<'_, PyAny>,
    sequences: u32,
    vectors: Option<&str>,
    tolerance_bytes: u64,
) -> PyResult<Option<String>> {
    let class = Class::of_control(NAME, algorithm)?;
    drop(fault::take(py));
    let build = || -> Box<dyn CongestionControl> { Box::new(Control::new(Arc::clone(&class))) };
    let mut violation = conformance::check(&build, sequences).err().map(|violation| violation.to_string());
    if let (None, Some(text), false) = (&violation, vectors, fault::is_set()) {
        violation = replay(text, &mut *build(), tolerance_bytes)?;
    }
    fault::take(py).map_or(Ok(violation), Err)
}

/// An event of a file of vectors, and the windows after it.
#[derive(Deserialize)]
struct Line {
    now_ns: u64,
    after: Vec<PathWindow>,
    path: u8,
    #[serde(flatten)]
    event: Event,
}

#[derive(Deserialize)]
struct PathWindow {
    path: u8,
    cwnd: u64,
    ssthresh: Option<u64>,
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    AddPath { mss: u32, initial_window: u64, initial_ssthresh: Option<u64>, ssthresh_floor: u64 },
    RemovePath,
    Recovered,
    Idle,
    Penalise,
    SetUsable { usable: bool },
    Ack { acked: u64, rtt_ns: Option<u64>, srtt_ns: Option<u64>, cwnd_limited: bool },
    Loss { kind: Kind, in_flight: u64 },
    Timeout { repeated: bool, in_flight: u64 },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    FastRetransmit,
    Ecn,
}

impl Event {
    /// The same event as tests of laws report it.
    fn of_path(self, path: u8) -> conformance::Event {
        use conformance::Event as E;
        match self {
            Self::AddPath { mss, initial_window, initial_ssthresh, ssthresh_floor } => {
                let setup = PathSetup {
                    initial_window,
                    initial_ssthresh: initial_ssthresh.unwrap_or(u64::MAX),
                    floor: (ssthresh_floor / u64::from(mss.max(1))) as u32,
                    ..PathSetup::new(Rules::Tcp, mss)
                };
                E::Add(path, setup)
            }
            Self::RemovePath => E::Remove(path),
            Self::Recovered => E::Recovered(path),
            Self::Idle => E::Idle(path, 1),
            Self::Penalise => E::Penalise(path, PenaltyInSlowStart::Unbounded),
            Self::SetUsable { usable } => E::Usable(path, usable),
            Self::Ack { acked, rtt_ns: rtt, srtt_ns: srtt, cwnd_limited: limited } => {
                E::Ack { path, acked, rtt, srtt, limited }
            }
            Self::Loss { kind: Kind::FastRetransmit, in_flight } => {
                E::Loss(path, LossKind::FastRetransmit, in_flight)
            }
            Self::Loss { kind: Kind::Ecn, in_flight } => E::Loss(path, LossKind::Ecn, in_flight),
            Self::Timeout { repeated, in_flight } => E::Timeout(path, repeated, in_flight),
        }
    }
}

/// Applies the events of the vectors; returns the first line after which a window or threshold differs by more than the
/// tolerance.
fn replay(text: &str, control: &mut dyn CongestionControl, tolerance: u64) -> PyResult<Option<String>> {
    // The first line names the algorithm.
    for (n, line) in text.lines().enumerate().skip(1) {
        let wrong = |error| input_error_at(format!("line {} is no event: {error}", n + 1), None, None);
        let Line { now_ns, after, path, event } = serde_json::from_str(line).map_err(wrong)?;
        event.of_path(path).apply(control, &mut Time::from_nanos(now_ns));
        if fault::is_set() {
            break;
        }
        for expected in after {
            let path = PathId(expected.path);
            let values = [
                ("window", control.window(path), expected.cwnd),
                ("threshold", control.ssthresh(path), expected.ssthresh.unwrap_or(u64::MAX)),
            ];
            if let Some((name, is, was)) =
                values.into_iter().find(|(_, is, was)| is.abs_diff(*was) > tolerance)
            {
                let bytes =
                    |value: u64| if value == u64::MAX { "none".to_owned() } else { format!("{value} bytes") };
                return Ok(Some(format!(
                    "line {} of the vectors: the {name} of path {} must be {}, but is {}",
                    n + 1,
                    expected.path,
                    bytes(was),
                    bytes(is)
                )));
            }
        }
    }
    Ok(None)
}
