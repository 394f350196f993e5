//! Workloads of applications.

use crate::choices::{DISTRIBUTIONS, LENGTHS, Lengths, Protocols, pick};
use crate::error::{Fault, Origin};
use crate::message_files;
use crate::model::{Arrivals, Bursts, Distribution, MessageSize, Workload};
use crate::trace::Source;
use crate::values::{Checked, Value, Values};
use anabranch_base::time::{Duration, Time};
use anabranch_settings::policy::Reliability;
use std::sync::Arc;

/// A workload from its checked table. `header` is the place of the flow's header, for errors about missing
/// keys.
pub(super) fn workload(
    entry: &Checked,
    owner: &str,
    protocol: Protocols,
    (header, source): (Origin, Source<'_>),
) -> Result<Workload, Fault> {
    let values = entry.value.table();
    let sizes = |key| values.find(key).map(|entry| message_size(entry, key, owner, source)).transpose();
    let message = sizes("message")?;
    let sized = || message.clone().expect("the table of keys has a default");
    let rate = values.find("rate").map(|entry| entry.value.rate());
    let workload = match values.kind() {
        "recorded" => Workload::Recorded(message_files::recording(values.get("file"), source)?),
        "saturated" => Workload::Saturated { message },
        "file" => Workload::File {
            size: sizes("size")?.expect("the table of keys requires a size"),
            message,
            arrivals: values
                .find("arrivals")
                .map(|entry| arrivals(entry.value.table(), owner))
                .transpose()?,
        },
        "rate" => Workload::Rate { rate: rate.expect("the table of keys requires a size"), message: sized() },
        "on-off" => Workload::OnOff { bursts: bursts(entry, owner, header)?, rate, message: sized() },
        "messages" => Workload::Messages {
            message: sized(),
            interval: values.time("interval"),
            exponential: pick(DISTRIBUTIONS, values.text("distribution")),
            count: values.find("count").map(|entry| entry.value.integer()),
            reliability: reliability(entry, owner, protocol)?,
        },
        "request-response" => Workload::RequestResponse {
            request: sizes("request")?.expect("the table of keys has a default"),
            response: sizes("response")?.expect("the table of keys requires a size"),
            think: values.time("think"),
            exponential: pick(DISTRIBUTIONS, values.text("distribution")),
            count: values.find("count").map(|entry| entry.value.integer()),
        },
        other => panic!("the table of keys has an unknown workload {other}"),
    };
    if protocol == Protocols::UDP
        && let Err(message) = without_feedback(&workload, owner)
    {
        let origin = if entry.origin == Origin::Nowhere { header } else { entry.origin };
        return Err(Fault::new(origin, message));
    }
    Ok(workload)
}

/// The minimum mean time between arrivals. With shorter times, a run would only count refused arrivals.
const MIN_INTERVAL: Duration = Duration::from_micros(10);

fn arrivals(values: &Values, owner: &str) -> Result<Arrivals, Fault> {
    let mean_interval = values.time("mean_interval");
    if mean_interval < MIN_INTERVAL {
        let origin = values.find("mean_interval").expect("the table of keys requires a size").origin;
        let message =
            format!("workload.arrivals.mean_interval of {owner} is below 10 us; write at least \"10 us\"");
        return Err(Fault::new(origin, message));
    }
    Ok(Arrivals {
        mean_interval,
        exponential: pick(DISTRIBUTIONS, values.text("distribution")),
        count: values.find("count").map(|entry| entry.value.integer()),
        max_open: values.integer("max_open") as u32,
    })
}

/// The shape of Pareto distributions of bursts without `shape`.
const DEFAULT_SHAPE: f64 = 1.5;

/// Maximum of `shape`: above it the distribution has a finite variance.
const MAX_SHAPE: f64 = 2.0;

/// Bursts by their mean lengths, or by their times.
fn bursts(entry: &Checked, owner: &str, header: Origin) -> Result<Bursts, Fault> {
    let values = entry.value.table();
    let given = |key: &&str| values.find(key).filter(|entry| entry.origin != Origin::Nowhere);
    if let Some(periods) = values.find("periods") {
        if let Some(other) = ["on", "off", "distribution", "shape"].iter().find_map(given) {
            let message =
                format!("the workload of {owner} has both periods and {}; keep one of them", other.key);
            return Err(Fault::new(other.origin, message));
        }
        return periods_of(periods, owner).map(Bursts::Periods);
    }
    let length = |key: &str, example: &str| {
        values.find(key).map(|entry| entry.value.time()).ok_or_else(|| {
            let origin = if entry.origin == Origin::Nowhere { header } else { entry.origin };
            let message =
                format!("workload of {owner} has no {key}; add {key} = \"{example}\", or periods = [[\"1 s\", \"5 s\"]]");
            Fault::new(origin, message)
        })
    };
    let (on, off) = (length("on", "2 s")?, length("off", "1 s")?);
    let distribution = match (pick(LENGTHS, values.text("distribution")), values.find("shape")) {
        (Lengths::Pareto, shape) => {
            let value = shape.map_or(DEFAULT_SHAPE, |shape| shape.value.number());
            if let Some(shape) = shape.filter(|_| value > MAX_SHAPE) {
                let message = format!(
                    "workload.shape of {owner} is {value}; write a number above 1 and at most {MAX_SHAPE}"
                );
                return Err(Fault::new(shape.origin, message));
            }
            Distribution::Pareto { shape: value }
        }
        (_, Some(shape)) => {
            let message =
                format!("the workload of {owner} has a shape; add distribution = \"pareto\", or remove it");
            return Err(Fault::new(shape.origin, message));
        }
        (Lengths::Constant, None) => Distribution::Constant,
        (Lengths::Exponential, None) => Distribution::Exponential,
    };
    Ok(Bursts::Drawn { on, off, distribution })
}

/// The times of bursts, which ascend.
fn periods_of(entry: &Checked, owner: &str) -> Result<Arc<[[Time; 2]]>, Fault> {
    let mut last = None;
    let mut all = Vec::new();
    for period in entry.value.list() {
        let [start, end] = [0, 1].map(|at| Time::ZERO + period.list()[at].time());
        if end <= start || last.is_some_and(|last| start < last) {
            let message = format!(
                "workload.periods of {owner} has a burst from {} s to {} s; write each with its end after its start, and \
                 after the one before",
                start.as_secs_f64(),
                end.as_secs_f64()
            );
            return Err(Fault::new(entry.origin, message));
        }
        last = Some(end);
        all.push([start, end]);
    }
    Ok(all.into())
}

/// Limits of the retransmission of each message.
fn reliability(entry: &Checked, owner: &str, protocol: Protocols) -> Result<Reliability, Fault> {
    let values = entry.value.table();
    let (lifetime, most) = (values.find("lifetime"), values.find("max_retransmissions"));
    let (limit, key, reliability) = match (lifetime, most) {
        (None, None) => return Ok(Reliability::Full),
        (Some(_), Some(most)) => {
            let message = format!(
                "the workload of {owner} has both lifetime and max_retransmissions; keep one of them"
            );
            return Err(Fault::new(most.origin, message));
        }
        (Some(limit), None) => (limit, "lifetime", Reliability::Lifetime(limit.value.time())),
        (None, Some(limit)) => {
            let most = limit.value.integer() as u8;
            (limit, "max_retransmissions", Reliability::Retransmissions(most))
        }
    };
    if Protocols::ANY_SCTP.contains(protocol) {
        return Ok(reliability);
    }
    let message = format!(
        "{owner} has messages with {key}, which only sctp and cmt-sctp support; remove it or use one of these protocols"
    );
    Err(Fault::new(limit.origin, message))
}

/// Checks the workload of a UDP flow: UDP gives no feedback about free space, so the workload needs a rate.
fn without_feedback(workload: &Workload, owner: &str) -> Result<(), String> {
    let problem = match workload {
        Workload::Saturated { .. } => "a saturated sender needs",
        Workload::File { .. } => "sending a file needs",
        Workload::OnOff { rate: None, .. } => "an on-off workload without a rate needs",
        Workload::RequestResponse { .. } => "the retransmission of lost requests and responses needs",
        _ => return Ok(()),
    };
    Err(format!(
        "{owner} is udp, but {problem} feedback that udp does not have; \
         add workload = {{ kind = \"rate\", rate = \"2 Mbit/s\" }} or another protocol"
    ))
}

fn message_size(entry: &Checked, key: &str, owner: &str, source: Source<'_>) -> Result<MessageSize, Fault> {
    let values = match &entry.value {
        Value::Size(bytes) => return Ok(MessageSize::Constant(*bytes)),
        Value::Table(values) => values,
        other => panic!("the table of keys declares another type than {other:?}"),
    };
    let [only] = values.entries.as_slice() else {
        let message = format!(
            "{key} of {owner} must have exactly one of uniform, exponential, pareto and file, but has {}",
            values.entries.len()
        );
        return Err(Fault::new(entry.origin, message));
    };
    let ordered = |low: u64, high: u64| {
        if low <= high {
            return Ok((low, high));
        }
        let message =
            format!("{key} of {owner} goes from {low} B down to {high} B; give the smaller size first");
        Err(Fault::new(only.origin, message))
    };
    match (only.key, &only.value) {
        ("file", _) => message_files::size_list(only, source).map(MessageSize::Listed),
        ("uniform", Value::List(ends)) => {
            let (low, high) = ordered(ends[0].size(), ends[1].size())?;
            Ok(MessageSize::Uniform { low, high })
        }
        ("exponential", mean) => Ok(MessageSize::Exponential { mean: mean.size() as f64 }),
        ("pareto", Value::Table(pareto)) => {
            let (min, max) = ordered(pareto.size("min"), pareto.size("max"))?;
            Ok(MessageSize::Pareto { min, shape: pareto.number("shape"), max })
        }
        (other, _) => panic!("the table of keys has an unknown distribution {other}"),
    }
}
