//! Workloads of applications.

use crate::choices::{DISTRIBUTIONS, Protocols, pick};
use crate::error::{Fault, Origin};
use crate::model::{MessageSize, Workload};
use crate::values::{Checked, Value};
use anabranch_settings::policy::Reliability;

/// A workload from its checked table. `header` is the place of the flow's header, for errors about missing
/// keys.
pub(super) fn workload(
    entry: &Checked,
    owner: &str,
    protocol: Protocols,
    header: Origin,
) -> Result<Workload, Fault> {
    let values = entry.value.table();
    let sizes = |key| values.find(key).map(|entry| message_size(entry, key, owner)).transpose();
    let message = sizes("message")?;
    let sized = || message.expect("the table of keys has a default");
    let rate = values.find("rate").map(|entry| entry.value.rate());
    let workload = match values.kind() {
        "saturated" => Workload::Saturated { message },
        "file" => Workload::File { size: values.size("size"), message },
        "rate" => Workload::Rate { rate: rate.expect("required"), message: sized() },
        "on-off" => Workload::OnOff {
            on: values.time("on"),
            off: values.time("off"),
            exponential: pick(DISTRIBUTIONS, values.text("distribution")),
            rate,
            message: sized(),
        },
        "messages" => Workload::Messages {
            message: sized(),
            interval: values.time("interval"),
            exponential: pick(DISTRIBUTIONS, values.text("distribution")),
            count: values.find("count").map(|entry| entry.value.integer()),
            reliability: reliability(entry, owner, protocol)?,
        },
        "request-response" => Workload::RequestResponse {
            request: sizes("request")?.expect("the table of keys has a default"),
            response: sizes("response")?.expect("required"),
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

fn message_size(entry: &Checked, key: &str, owner: &str) -> Result<MessageSize, Fault> {
    let values = match &entry.value {
        Value::Size(bytes) => return Ok(MessageSize::Constant(*bytes)),
        Value::Table(values) => values,
        other => panic!("the table of keys declares another type than {other:?}"),
    };
    let [only] = values.entries.as_slice() else {
        let message = format!(
            "{key} of {owner} must have exactly one of uniform, exponential and pareto, but has {}",
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
