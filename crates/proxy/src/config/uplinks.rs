//! What the file says of uplinks.

use super::place::Text;
use super::router::is_interface;
use crate::error::Error;
use core::net::IpAddr;
use serde::Deserialize;
use toml::Spanned;

/// Tables of routes that the kernel has for itself (`RT_TABLE_DEFAULT`).
const FIRST_TABLE_OF_THE_KERNEL: u32 = 253;

/// An interface by which this machine reaches the world.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// Its name.
    pub interface: Spanned<String>,
    /// Where its default route leads, if the kernel is not told by others.
    pub gateway: Option<Spanned<IpAddr>>,
    /// What it is for.
    #[serde(rename = "use", default)]
    pub usage: Usage,
}

/// What an uplink is for; those that come later are for when there is none of the earlier.
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

/// What is common to all uplinks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Uplinks {
    /// The first of the tables of routes, of which there are one more than uplinks.
    pub table: Spanned<u32>,
}

impl Default for Uplinks {
    fn default() -> Self {
        Self { table: Spanned::new(0..0, 1100) }
    }
}

pub(super) fn check_uplinks(all: &[Uplink], common: &Uplinks, text: &Text<'_>) -> Result<(), Error> {
    let mistake = |place, said: &str| Err(text.mistake(Some(place), said));
    for (number, uplink) in all.iter().enumerate() {
        let name = uplink.interface.as_ref();
        if !is_interface(name) {
            return mistake(uplink.interface.span(), &format!("\"{name}\" is no name of an interface"));
        }
        if name == "lo" {
            return mistake(uplink.interface.span(), "lo leads nowhere but to this machine");
        }
        if all[..number].iter().any(|other| other.interface.as_ref() == name) {
            return mistake(uplink.interface.span(), &format!("there is an uplink {name} already"));
        }
        if let Some(gateway) = &uplink.gateway
            && (gateway.as_ref().is_unspecified()
                || gateway.as_ref().is_loopback()
                || gateway.as_ref().is_multicast())
        {
            return mistake(gateway.span(), &format!("{} is no gateway", gateway.as_ref()));
        }
    }
    if !all.is_empty() && all.iter().all(|uplink| uplink.usage == Usage::Standby) {
        return Err(text.mistake(
            None,
            "each [[uplink]] is for use = \"standby\"; leave that out where it is to be used first",
        ));
    }
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
