//! Settings of uplinks.

use super::interface::is_interface_name;
use super::place::Text;
use super::units::{Bytes, Seconds};
use crate::error::Error;
use core::net::{IpAddr, SocketAddr};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// First of the routing tables reserved for the kernel (`RT_TABLE_DEFAULT`).
const FIRST_KERNEL_TABLE: u32 = 253;

/// Minimum of `dead_after`. Three probes are sent in `dead_after`; a shorter time would load the link with probes.
const MIN_DEAD_AFTER: Duration = Duration::from_millis(300);

/// An interface that connects this machine to the Internet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// Name of the interface.
    pub interface: Spanned<String>,
    /// Gateway of the uplink's default route; by default, the gateway of the main table's default route.
    pub gateway: Option<Spanned<IpAddr>>,
    /// Role of the uplink.
    #[serde(rename = "use", default)]
    pub usage: Usage,
    /// Data volume after which the uplink gets another role; `None` if the volume is unlimited.
    pub budget: Option<Budget>,
}

/// Data volume of an uplink per period: the sum of received and sent bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Bytes per period.
    pub bytes: Bytes,
    /// Length of a period. Each period starts with the full budget.
    #[serde(default)]
    pub period: Period,
    /// Day of the month on which a monthly period starts. In a month without that day, the period starts on the last
    /// day.
    pub first_day: Option<Spanned<i8>>,
    /// Role of the uplink after the budget is used up.
    #[serde(default = "standby")]
    pub then: Spanned<Usage>,
}

fn standby() -> Spanned<Usage> {
    Spanned::new(0..0, Usage::Standby)
}

/// Period of a budget. It starts at midnight in the time zone of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// Starts each day.
    Day,
    /// Starts each Monday.
    Week,
    /// Starts on the same day of each month.
    #[default]
    Month,
}

impl Period {
    /// Returns the period's name in the configuration file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }
}

/// Role of an uplink, in order of preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Usage {
    /// The uplink carries data.
    #[default]
    Always,
    /// Subflows over the uplink are backup subflows: they carry data only while no other subflow works.
    Backup,
    /// The uplink has no subflows while another uplink works.
    Standby,
}

/// Settings that all uplinks share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Uplinks {
    /// Number of the first routing table. The program uses one table for each uplink, and one more table.
    pub table: Spanned<u32>,
    /// Folder with the byte counts of uplinks that have a budget.
    pub state: PathBuf,
    /// Probe targets; by default, the upstream proxy of the file if it is given as an address.
    pub probe: Option<Vec<Spanned<SocketAddr>>>,
    /// An uplink is considered dead after this time without an answer to a probe.
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
    let error_at = |place, message: &str| Err(text.error(Some(place), message));
    for (number, uplink) in all.iter().enumerate() {
        let name = uplink.interface.as_ref();
        if !is_interface_name(name) {
            return error_at(
                uplink.interface.span(),
                &format!("\"{name}\" is not the name of an interface; write for example \"wan0\""),
            );
        }
        if name == "lo" {
            return error_at(
                uplink.interface.span(),
                "lo cannot be an uplink: the loopback interface reaches only this machine",
            );
        }
        if all[..number].iter().any(|other| other.interface.as_ref() == name) {
            return error_at(
                uplink.interface.span(),
                &format!("the uplink {name} is given twice; remove one of the two"),
            );
        }
        if let Some(gateway) = &uplink.gateway
            && (gateway.as_ref().is_unspecified()
                || gateway.as_ref().is_loopback()
                || gateway.as_ref().is_multicast())
        {
            return error_at(
                gateway.span(),
                &format!("{} cannot be a gateway; write the address of the next router", gateway.as_ref()),
            );
        }
        if let Some(budget) = &uplink.budget {
            check_budget(uplink, budget, text)?;
        }
    }
    if !all.is_empty() && all.iter().all(|uplink| uplink.usage == Usage::Standby) {
        return Err(text
            .error(None, "each [[uplink]] has use = \"standby\"; remove it from the one to be used first"));
    }
    check_probes(common, text)?;
    let first = *common.table.as_ref();
    let last = u32::try_from(all.len()).ok().and_then(|more| first.checked_add(more));
    match last {
        Some(last)
            if first > 0
                && !(first..=last).contains(&FIRST_KERNEL_TABLE)
                && !(254..=255).contains(&first) =>
        {
            Ok(())
        }
        _ => error_at(
            common.table.span(),
            &format!(
                "[uplinks] needs {} free routing tables from {first} on; choose another table",
                all.len() + 1
            ),
        ),
    }
}

fn check_probes(common: &Uplinks, text: &Text<'_>) -> Result<(), Error> {
    for target in common.probe.iter().flatten() {
        let ip = target.as_ref().ip();
        if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || target.as_ref().port() == 0 {
            let message = format!(
                "{} cannot be reached over an uplink; write the address and port of a remote host",
                target.as_ref()
            );
            return Err(text.error(Some(target.span()), &message));
        }
    }
    if common.dead_after.as_ref().duration() < MIN_DEAD_AFTER {
        let message = format!(
            "dead_after must be at least {} ms: a probe or its answer may be late or lost",
            MIN_DEAD_AFTER.as_millis()
        );
        return Err(text.error(Some(common.dead_after.span()), &message));
    }
    Ok(())
}

fn check_budget(uplink: &Uplink, budget: &Budget, text: &Text<'_>) -> Result<(), Error> {
    if let Some(day) = &budget.first_day {
        if budget.period != Period::Month {
            let message =
                format!("first_day needs period = \"month\", but the period is a {}", budget.period.name());
            return Err(text.error(Some(day.span()), &message));
        }
        if !(1..=31).contains(day.as_ref()) {
            let message = format!("first_day must be from 1 to 31, but is {}", day.as_ref());
            return Err(text.error(Some(day.span()), &message));
        }
    }
    if *budget.then.as_ref() <= uplink.usage {
        let place = Some(budget.then.span()).filter(|span| !span.is_empty());
        let message = format!(
            "the budget of {} has no effect: `then` is not below `use`; write for example then = \"standby\"",
            uplink.interface.as_ref()
        );
        return Err(text.error(place.or_else(|| Some(uplink.interface.span())), &message));
    }
    Ok(())
}
