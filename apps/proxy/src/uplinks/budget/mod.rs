//! Data volumes of uplinks with a budget. They are stored in a file, so they survive restarts of the process and of the
//! machine.
//!
//! The kernel's byte counter of an interface starts at zero when the interface is created. So the file contains for
//! each uplink the sum, the last value of the counter, and the number of the interface to which this value belongs; and
//! the boot during which the counters were read.

use super::routing::Link;
use crate::config::{Budget, Bytes, Period, Uplink, Uplinks, Usage};
use crate::error::Error;
use crate::log;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// Minimum interval between writes of the file, to spare the flash memory of a router. After a power failure, the
/// volume of at most one interval is missing.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);

const FILE: &str = "uplinks.json";

/// A clock that shows an earlier date is wrong.
const EARLIEST_DATE: Date = Date::constant(2026, 1, 1);

/// A stored period that starts more than this number of days in the future was started by a wrong clock. The number
/// exceeds the length of any period.
const MAX_CLOCK_ERROR_DAYS: i64 = 62;

/// Data volume of an uplink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Volume {
    /// First day of the period.
    since: Date,
    /// Bytes received and sent in the period, as far as this program has counted them.
    bytes: u64,
    /// Number of the interface to which `counter` belongs.
    link: u32,
    /// Last value of the counter.
    counter: u64,
}

impl Volume {
    /// Adds the increase of the interface's counter since the last call; `since` is the first day of the current
    /// period.
    fn count(&mut self, since: Date, link: &Link) {
        // A clock that goes back starts no period: many routers start in 1970 and get the time from the network later.
        // A period far in the future, which a wrong clock started, is replaced; otherwise the next period would start
        // years later.
        if since > self.since {
            (self.since, self.bytes) = (since, 0);
        } else if since >= EARLIEST_DATE && days_before(self.since, MAX_CLOCK_ERROR_DAYS) > since {
            self.since = since;
        }
        // The counter starts at zero for a new interface, and some drivers reset it.
        let before = if link.index == self.link && link.carried >= self.counter { self.counter } else { 0 };
        self.bytes = self.bytes.saturating_add(link.carried - before);
        (self.link, self.counter) = (link.index, link.carried);
    }
}

/// Content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct StoredVolumes {
    /// Identifier of the boot during which the counters were read.
    boot: String,
    /// Volumes by the interface's name.
    uplinks: BTreeMap<String, Volume>,
}

/// The budgets of all uplinks.
#[derive(Debug)]
pub struct Budgets {
    file: PathBuf,
    stored: StoredVolumes,
    written: Option<(Instant, StoredVolumes)>,
    /// True after the first call of [`Self::count`]. For an interface that appears later, all bytes of its counter
    /// count.
    seen: bool,
    spent: BTreeMap<String, bool>,
    failed: bool,
}

impl Budgets {
    /// Reads the stored volumes.
    ///
    /// # Errors
    ///
    /// If the file exists but cannot be read: starting from zero would lose the volumes.
    pub fn read(uplinks: &[Uplink], common: &Uplinks) -> Result<Self, Error> {
        let file = common.state.join(FILE);
        let has_budgets = uplinks.iter().any(|uplink| uplink.budget.is_some());
        let mut stored = match std::fs::read(&file) {
            _ if !has_budgets => Ok(StoredVolumes::default()),
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(StoredVolumes::default()),
            Err(error) => Err(error),
        }
        .map_err(|error| {
            Error::Refused(format!(
                "cannot read the byte counts of uplinks from {}: {error}; remove the file to count from zero",
                file.display()
            ))
        })?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        if stored.boot != boot.trim() {
            boot.trim().clone_into(&mut stored.boot);
            // After a reboot, all bytes of a counter count. No interface has the number 0, so each one is treated as
            // new.
            stored.uplinks.values_mut().for_each(|volume| volume.link = 0);
        }
        Ok(Self { file, stored, written: None, seen: false, spent: BTreeMap::new(), failed: false })
    }

    /// Adds the bytes that the interfaces have carried until `today`.
    pub fn count(&mut self, uplinks: &[Uplink], links: &[Link], today: Date) {
        for uplink in uplinks {
            let (name, Some(budget)) = (uplink.interface.as_ref(), &uplink.budget) else { continue };
            let Some(link) = links.iter().find(|link| link.name == *name) else { continue };
            let since = period_start(budget, today);
            // Bytes that an interface carried before the first count belong to an unknown period, so they do not count.
            // An interface that appears later is new, and its counter started at zero.
            let counter = if self.seen { 0 } else { link.carried };
            let initial = Volume { since, bytes: 0, link: link.index, counter };
            let volume = self.stored.uplinks.entry(name.clone()).or_insert(initial);
            volume.count(since, link);
        }
        self.seen = true;
    }

    /// Returns the current role of an uplink.
    pub fn usage(&self, uplink: &Uplink) -> Usage {
        match &uplink.budget {
            Some(budget) if self.is_spent(uplink, budget) => *budget.then.as_ref(),
            _ => uplink.usage,
        }
    }

    fn is_spent(&self, uplink: &Uplink, budget: &Budget) -> bool {
        self.carried(uplink) >= budget.bytes.number()
    }

    fn carried(&self, uplink: &Uplink) -> u64 {
        self.stored.uplinks.get(uplink.interface.as_ref()).map_or(0, |volume| volume.bytes)
    }

    /// Describes the used part of an uplink's budget; `None` if it has no budget.
    pub fn describe(&self, uplink: &Uplink) -> Option<String> {
        let budget = uplink.budget.as_ref()?;
        let name = uplink.interface.as_ref();
        let carried = Bytes::of(self.carried(uplink));
        let since = self.stored.uplinks.get(name).map(|volume| format!(" since {}", volume.since));
        let since = since.unwrap_or_default();
        let state = if self.is_spent(uplink, budget) { "; used up" } else { "" };
        let period = budget.period.name();
        Some(format!("{name}: {carried} of {} a {period}{since}{state}", budget.bytes))
    }

    /// Logs budgets whose state has changed to used up or available.
    pub fn log_changes(&mut self, uplinks: &[Uplink]) {
        for uplink in uplinks {
            let (name, Some(budget)) = (uplink.interface.as_ref(), &uplink.budget) else { continue };
            let spent = self.is_spent(uplink, budget);
            if self.spent.insert(name.clone(), spent) != Some(spent) {
                log::log_line(format_args!(
                    "uplinks: {}",
                    self.describe(uplink).expect("the uplink has a budget")
                ));
            }
        }
    }

    /// Writes changed volumes to the file, at most once in [`WRITE_INTERVAL`] unless `at_once` is true.
    pub fn store(&mut self, at_once: bool) {
        let due = |(at, _): &(Instant, StoredVolumes)| at_once || at.elapsed() >= WRITE_INTERVAL;
        let is_stored =
            !self.failed && self.written.as_ref().is_some_and(|(_, stored)| *stored == self.stored);
        if self.stored.uplinks.is_empty() || is_stored || !self.written.as_ref().is_none_or(due) {
            return;
        }
        let failed = self.write().err();
        if let Some(error) = failed.as_ref().filter(|_| !self.failed) {
            let file = self.file.display();
            log::log_line(format_args!(
                "uplinks: cannot write {file}: {error}; the byte counts of uplinks would be lost at a restart"
            ));
        }
        self.failed = failed.is_some();
        self.written = Some((Instant::now(), self.stored.clone()));
    }

    /// Writes the volumes to a new file, which replaces the old one atomically.
    fn write(&self) -> io::Result<()> {
        let folder = self.file.parent().expect("a file is in a folder");
        std::fs::create_dir_all(folder)?;
        let new = self.file.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(&self.stored)?)?;
        std::fs::File::open(&new)?.sync_all()?;
        std::fs::rename(new, &self.file)
    }
}

/// Returns the first day of the period that contains `today`.
fn period_start(budget: &Budget, today: Date) -> Date {
    match budget.period {
        Period::Day => today,
        Period::Week => {
            let since_monday = i64::from(today.weekday().to_monday_zero_offset());
            days_before(today, since_monday)
        }
        Period::Month => {
            let first = budget.first_day.as_ref().map_or(1, |day| *day.as_ref());
            let in_month = |day: Date| {
                let day_of_month = first.min(day.days_in_month());
                day.with().day(day_of_month).build().expect("the month has this day")
            };
            let this = in_month(today);
            if this <= today { this } else { in_month(days_before(today.first_of_month(), 1)) }
        }
    }
}

fn days_before(day: Date, days: i64) -> Date {
    day.saturating_sub(jiff::Span::new().days(days))
}

/// Returns the current date in the time zone of this machine.
pub fn today() -> Date {
    jiff::ZonedDateTime::now().date()
}

#[cfg(test)]
mod tests;
