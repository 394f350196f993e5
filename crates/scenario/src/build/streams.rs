//! Rules for several settings of SCTP streams and of the receiver's reneging.

use crate::document::Table;
use crate::error::{Fault, quoted};
use crate::values::Values;
use anabranch_settings::sctp::{Config, StreamPaths, StreamScheduler};
use anabranch_settings::setting::Setting;

/// Checks the settings of an association; `own` is the table of its flow, without defaults.
pub(super) fn check(config: &Config, values: &Values, own: &Table, owner: &str) -> Result<(), Fault> {
    for (key, numbers, scheduler) in [
        ("stream_priorities", &config.stream_priorities, StreamScheduler::Priority),
        ("stream_weights", &config.stream_weights, StreamScheduler::WeightedFair),
    ] {
        if numbers.is_empty() {
            continue;
        }
        let fault = |message: String| Fault::new(values.origin(key), message);
        if config.stream_scheduler != scheduler {
            // A flow that inherits the key from the defaults ignores it.
            if own.get(key).is_none() {
                continue;
            }
            let (wanted, present) = (word(scheduler), word(config.stream_scheduler));
            return Err(fault(format!(
                "{key} of {owner} needs stream_scheduler = {wanted}, which is {present}; set it, or remove {key}"
            )));
        }
        if numbers.len() != usize::from(config.streams) {
            return Err(fault(format!(
                "{key} of {owner} has {} values, but streams is {}; give one value for each stream",
                numbers.len(),
                config.streams
            )));
        }
    }
    if config.stream_paths == StreamPaths::Fixed && config.sends_copies() {
        let message = format!(
            "stream_paths of {owner} is \"fixed\", but its scheduler \"redundant\" sends all data on every path; change one \
             of the two"
        );
        return Err(Fault::new(values.origin("stream_paths"), message));
    }
    if config.renege > 0.0 && config.nr_sack {
        let message = format!(
            "renege of {owner} is {}, but nr_sack is true: a receiver never discards data after a non-renegable \
             acknowledgement; set nr_sack = false, or renege = 0",
            config.renege
        );
        return Err(Fault::new(values.origin("renege"), message));
    }
    Ok(())
}

/// The quoted name of a stream scheduler.
fn word(scheduler: StreamScheduler) -> String {
    scheduler.value().word().map(quoted).unwrap_or_default()
}
