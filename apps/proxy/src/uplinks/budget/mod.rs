//! Volumes of uplinks with a budget in their period, kept over restarts of the process and of the machine.
//!
//! The kernel's counter of an interface starts when the interface is created. So the last value of the counter is kept with the
//! sum, together with the boot and the interface that it belongs to.

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

/// Interval of writing, which spares the flash memory of a router. A loss of power loses the volume of one interval.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);

const FILE: &str = "uplinks.json";

/// No clock that is right says a day before this program was written.
const WRITTEN: Date = Date::constant(2026, 1, 1);

/// Days that a clock may be ahead by mistake of a hand, rather than of a battery: more than a period.
const FAR: i64 = 62;

/// Volume of an uplink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Account {
    /// The first day of the period.
    since: Date,
    /// Received and sent since then, of which is known.
    bytes: u64,
    /// The interface whose counter was seen last.
    link: u32,
    /// Last value of the counter.
    counter: u64,
}

impl Account {
    /// Adds the progress of the counter; `since` is the first day of the present period.
    fn count(&mut self, since: Date, link: &Link) {
        // A clock that goes back starts no period: many routers begin in 1970 until they have the time from the network. A
        // period that a clock far in the future has begun is replaced; otherwise the next one would be years away.
        if since > self.since {
            (self.since, self.bytes) = (since, 0);
        } else if since >= WRITTEN && days_before(self.since, FAR) > since {
            self.since = since;
        }
        // The counter of another interface starts from zero, and some drivers reset theirs.
        let before = if link.index == self.link && link.carried >= self.counter { self.counter } else { 0 };
        self.bytes = self.bytes.saturating_add(link.carried - before);
        (self.link, self.counter) = (link.index, link.carried);
    }
}

/// All that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Book {
    /// The boot whose counters were seen.
    boot: String,
    /// By the interface's name.
    uplinks: BTreeMap<String, Account>,
}

/// The budgets of all uplinks.
#[derive(Debug)]
pub struct Budgets {
    file: PathBuf,
    book: Book,
    written: Option<(Instant, Book)>,
    /// Whether interfaces have been looked at: one that comes later counts from its making.
    seen: bool,
    spent: BTreeMap<String, bool>,
    failed: bool,
}

impl Budgets {
    /// Reads the volumes that were kept.
    ///
    /// # Errors
    ///
    /// If there is a file that cannot be read: the volumes would be lost.
    pub fn read(uplinks: &[Uplink], common: &Uplinks) -> Result<Self, Error> {
        let file = common.state.join(FILE);
        let has_budgets = uplinks.iter().any(|uplink| uplink.budget.is_some());
        let mut book = match std::fs::read(&file) {
            _ if !has_budgets => Ok(Book::default()),
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Book::default()),
            Err(error) => Err(error),
        }
        .map_err(|error| {
            Error::Refused(format!(
                "cannot read the byte counts of uplinks from {}: {error}; remove the file to count from zero",
                file.display()
            ))
        })?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        if book.boot != boot.trim() {
            boot.trim().clone_into(&mut book.boot);
            // No interface has the number 0: all that the counters say came since.
            book.uplinks.values_mut().for_each(|account| account.link = 0);
        }
        Ok(Self { file, book, written: None, seen: false, spent: BTreeMap::new(), failed: false })
    }

    /// Adds the volumes that interfaces have carried by `today`.
    pub fn count(&mut self, uplinks: &[Uplink], links: &[Link], today: Date) {
        for uplink in uplinks {
            let (name, Some(budget)) = (uplink.interface.as_ref(), &uplink.budget) else { continue };
            let Some(link) = links.iter().find(|link| link.name == *name) else { continue };
            let since = begin(budget, today);
            // The volume before the first count is unknown; a new interface starts from zero.
            let counter = if self.seen { 0 } else { link.carried };
            let begun = Account { since, bytes: 0, link: link.index, counter };
            let account = self.book.uplinks.entry(name.clone()).or_insert(begun);
            account.count(since, link);
        }
        self.seen = true;
    }

    /// Present use of an uplink.
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
        self.book.uplinks.get(uplink.interface.as_ref()).map_or(0, |account| account.bytes)
    }

    /// The spent part of an uplink's budget, as a sentence.
    pub fn sentence(&self, uplink: &Uplink) -> Option<String> {
        let budget = uplink.budget.as_ref()?;
        let name = uplink.interface.as_ref();
        let carried = Bytes::of(self.carried(uplink));
        let since = self.book.uplinks.get(name).map(|account| format!(" since {}", account.since));
        let since = since.unwrap_or_default();
        let state = if self.is_spent(uplink, budget) { "; it is spent" } else { "" };
        let period = budget.period.name();
        Some(format!("{name}: {carried} of {} a {period}{since}{state}", budget.bytes))
    }

    /// Logs budgets that are newly spent or full again.
    pub fn say(&mut self, uplinks: &[Uplink]) {
        for uplink in uplinks {
            let (name, Some(budget)) = (uplink.interface.as_ref(), &uplink.budget) else { continue };
            let spent = self.is_spent(uplink, budget);
            if self.spent.insert(name.clone(), spent) != Some(spent) {
                log::say(format_args!("uplinks: {}", self.sentence(uplink).expect("it has a budget")));
            }
        }
    }

    /// Writes what is known, if that is not what was written and the last time is a while ago, or `at_once`.
    pub fn keep(&mut self, at_once: bool) {
        let due = |(at, _): &(Instant, Book)| at_once || at.elapsed() >= WRITE_INTERVAL;
        let known = !self.failed && self.written.as_ref().is_some_and(|(_, book)| *book == self.book);
        if self.book.uplinks.is_empty() || known || !self.written.as_ref().is_none_or(due) {
            return;
        }
        let failed = self.write().err();
        if let Some(error) = failed.as_ref().filter(|_| !self.failed) {
            let file = self.file.display();
            log::say(format_args!("uplinks: {file}: {error}; the volumes of uplinks are lost at a restart"));
        }
        self.failed = failed.is_some();
        self.written = Some((Instant::now(), self.book.clone()));
    }

    /// There is the old file or the new one, whole, at any time.
    fn write(&self) -> io::Result<()> {
        let folder = self.file.parent().expect("a file is in a folder");
        std::fs::create_dir_all(folder)?;
        let new = self.file.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(&self.book)?)?;
        std::fs::File::open(&new)?.sync_all()?;
        std::fs::rename(new, &self.file)
    }
}

/// The first day of the period in which a day is.
fn begin(budget: &Budget, today: Date) -> Date {
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

/// The day by this machine's clock and time zone.
pub fn today() -> Date {
    jiff::ZonedDateTime::now().date()
}

#[cfg(test)]
mod tests;
