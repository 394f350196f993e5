//! Settings of uplinks.

use super::interface::is_interface;
use super::place::Text;
use super::units::{Bytes, Seconds};
use crate::error::Error;
use core::net::{IpAddr, SocketAddr};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// Tables of routes that the kernel has for itself (`RT_TABLE_DEFAULT`).
const FIRST_TABLE_OF_THE_KERNEL: u32 = 253;

/// Smallest `dead_after`. There are three probes in that time, and more frequent ones would be a burden.
const MIN_DEAD_AFTER: Duration = Duration::from_millis(300);

/// An interface by which this machine reaches the world.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// Its name.
    pub interface: Spanned<String>,
    /// Gateway of its default route; without it, the default route of the main table counts.
    pub gateway: Option<Spanned<IpAddr>>,
    /// When it is used.
    #[serde(rename = "use", default)]
    pub usage: Usage,
    /// How much it may carry before it is spared.
    pub budget: Option<Budget>,
}

/// Volume of an uplink in a period, received and sent together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// So much in each period.
    pub bytes: Bytes,
    /// The period after which the budget is full again.
    #[serde(default)]
    pub period: Period,
    /// The day of the month with which a month begins; the last, in a month that has fewer.
    pub first_day: Option<Spanned<i8>>,
    /// Use of the uplink when the budget is spent.
    #[serde(default = "standby")]
    pub then: Spanned<Usage>,
}

fn standby() -> Spanned<Usage> {
    Spanned::new(0..0, Usage::Standby)
}

/// Periods of a budget, which begin at midnight of this machine's time zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// Each day.
    Day,
    /// Each Monday.
    Week,
    /// A day of each month.
    #[default]
    Month,
}

impl Period {
    /// Its name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }
}

/// When an uplink is used, in order of preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Usage {
    /// Carries what there is to carry.
    #[default]
    Always,
    /// Has subflows, which carry nothing while others do.
    Backup,
    /// Has no subflows while another uplink is there.
    Standby,
}

/// Settings that all uplinks share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Uplinks {
    /// The first of the tables of routes, of which there are one more than uplinks.
    pub table: Spanned<u32>,
    /// The folder in which it is kept what uplinks with a budget have carried.
    pub state: PathBuf,
    /// Probe targets; without them, the other proxy of the file if it is given by address.
    pub probe: Option<Vec<Spanned<SocketAddr>>>,
    /// Time without an answer after which an uplink counts as dead.
    pub dead_after: Spanned<Seconds>,
}

impl Default for Uplinks {
    fn default() -> Self {
        Self {
            table: Spanned::new(0..0, 1100),
            state: PathBuf::from("/var/lib/anabranch-proxy"),
            probe: None,
            dead_after: Spanned::new(0..0, Seconds::of(1)),
        }
    }
}

pub(super) fn check_uplinks(all: &[Uplink], common: &Uplinks, text: &Text<'_>) -> Result<(), Error> {
    let mistake = |place, said: &str| Err(text.mistake(Some(place), said));
    for (number, uplink) in all.iter().enumerate() {
        let name = uplink.interface.as_ref();
        if !is_interface(name) {
            return mistake(uplink.interface.span(), &format!("\"{name}\" is not the name of an interface"));
        }
        if name == "lo" {
            return mistake(
                uplink.interface.span(),
                "lo cannot be an uplink: it leads to this machine alone",
            );
        }
        if all[..number].iter().any(|other| other.interface.as_ref() == name) {
            return mistake(uplink.interface.span(), &format!("the uplink {name} is given twice"));
        }
        if let Some(gateway) = &uplink.gateway
            && (gateway.as_ref().is_unspecified()
                || gateway.as_ref().is_loopback()
                || gateway.as_ref().is_multicast())
        {
            return mistake(gateway.span(), &format!("{} cannot be a gateway", gateway.as_ref()));
        }
        if let Some(budget) = &uplink.budget {
            check_budget(uplink, budget, text)?;
        }
    }
    if !all.is_empty() && all.iter().all(|uplink| uplink.usage == Usage::Standby) {
        return Err(text.mistake(
            None,
            "each [[uplink]] has use = \"standby\"; remove it from the one to be used first",
        ));
    }
    check_probes(common, text)?;
    let first = *common.table.as_ref();
    let last = u32::try_from(all.len()).ok().and_then(|more| first.checked_add(more));
    match last {
        Some(last)
            if first > 0
                && !(first..=last).contains(&FIRST_TABLE_OF_THE_KERNEL)
                && !(254..=255).contains(&first) =>
        {
            Ok(())
        }
        _ => mistake(
            common.table.span(),
            &format!("[uplinks] table = {first}: {} tables from there on are not to be had", all.len() + 1),
        ),
    }
}

fn check_probes(common: &Uplinks, text: &Text<'_>) -> Result<(), Error> {
    for target in common.probe.iter().flatten() {
        let ip = target.as_ref().ip();
        if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || target.as_ref().port() == 0 {
            let said = format!(
                "{} cannot be reached over an uplink; write an address with a port beyond it",
                target.as_ref()
            );
            return Err(text.mistake(Some(target.span()), &said));
        }
    }
    if common.dead_after.as_ref().duration() < MIN_DEAD_AFTER {
        let said = format!(
            "dead_after is at least {} ms: an answer takes its time, and may be lost",
            MIN_DEAD_AFTER.as_millis()
        );
        return Err(text.mistake(Some(common.dead_after.span()), &said));
    }
    Ok(())
}

fn check_budget(uplink: &Uplink, budget: &Budget, text: &Text<'_>) -> Result<(), Error> {
    if let Some(day) = &budget.first_day {
        if budget.period != Period::Month {
            let said =
                format!("first_day needs period = \"month\", but the period is a {}", budget.period.name());
            return Err(text.mistake(Some(day.span()), &said));
        }
        if !(1..=31).contains(day.as_ref()) {
            let said = format!("first_day must be from 1 to 31, but is {}", day.as_ref());
            return Err(text.mistake(Some(day.span()), &said));
        }
    }
    if *budget.then.as_ref() <= uplink.usage {
        let place = Some(budget.then.span()).filter(|span| !span.is_empty());
        let said = format!(
            "a budget of {} changes nothing: it is for that use already; see use and then",
            uplink.interface.as_ref()
        );
        return Err(text.mistake(place.or_else(|| Some(uplink.interface.span())), &said));
    }
    Ok(())
}
