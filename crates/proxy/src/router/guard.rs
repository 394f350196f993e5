//! Keeps rules, routes and the table of nftables in place while the router runs.
//!
//! Without rule or route, marked packets are forwarded with the mark, and their connections hang; the same holds if a firewall drops
//! them. So the table of nftables, which marks packets, is there only while the rest is: otherwise connections pass the router by.

use super::commands::{ip, nft};
use super::firewall::{Dropping, dropping};
use super::install::{has_table, list_table, missing, ruleset};
use super::rules::{Family, Plan, TABLE, families, plan, removal};
use crate::config::Router;
use crate::error::Error;
use crate::log;
use core::net::IpAddr;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// More repairs than this within this time are a dispute with another program.
const MAX_FIXES: usize = 20;
const FIX_WINDOW: Duration = Duration::from_secs(10);

/// State of rules, routes and nftables.
#[derive(Debug)]
pub struct Guard {
    router: Router,
    names: BTreeSet<IpAddr>,
    /// The table of nftables as `nft` lists it, for these families and names.
    listed: Option<(Vec<Family>, String)>,
    /// Whether the table is there, and so marks packets.
    is_marking: bool,
    /// Why connections pass the router by, or hang where others install the rules.
    trouble: Option<String>,
    /// A firewall that is suspected.
    suspected: Option<Dropping>,
    fixes: VecDeque<Instant>,
    has_ended: bool,
}

impl Guard {
    /// For a router with these addresses of names in `bypass`; if it installs at all, it has just installed.
    pub fn new(router: Router, names: BTreeSet<IpAddr>) -> Self {
        let listed = router.install.then(list_table).and_then(Result::ok);
        let is_marking = router.install;
        Self {
            router,
            names,
            listed: listed.map(|listed| (families(), listed)),
            is_marking,
            trouble: None,
            suspected: None,
            fixes: VecDeque::new(),
            has_ended: false,
        }
    }

    /// Keeps the table from being installed again.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Renews the addresses of names.
    pub fn renew(&mut self, names: BTreeSet<IpAddr>) -> Result<(), Error> {
        let text = super::rules::renewal(&names);
        self.names = names;
        self.listed = None;
        if self.is_marking && self.router.install && !self.has_ended {
            nft(&text)?;
            self.listed = list_table().ok().map(|listed| (families(), listed));
        }
        Ok(())
    }

    /// Compares the kernel's state with the plan, and repairs it.
    pub fn check(&mut self) {
        if self.has_ended {
            return;
        }
        let trouble = if self.router.install { self.repair() } else { self.look() };
        let trouble = trouble.or_else(|| self.firewall());
        if self.router.install {
            self.set_table(trouble.is_none());
        }
        if trouble != self.trouble {
            match &trouble {
                Some(trouble) => log::say(format_args!("router: {trouble}")),
                None => log::say(format_args!("router: takes the TCP connections of its hosts again")),
            }
        }
        self.trouble = trouble;
    }

    fn plan(&self) -> Plan {
        plan(&self.router, &families(), &self.names)
    }

    /// Puts rules and routes back; returns the trouble if that fails.
    fn repair(&mut self) -> Option<String> {
        let is_dispute = self.is_dispute();
        for commands in missing(&self.router, &self.plan()) {
            if is_dispute {
                return Some(format!(
                    "another program removes what the router installs again and again; connections pass the router by for {} s",
                    FIX_WINDOW.as_secs()
                ));
            }
            self.fixes.push_back(Instant::now());
            match ip(&commands[0]) {
                Ok(_) => log::say(format_args!(
                    "router: another program has removed a rule or route; put back: ip {}",
                    commands[0]
                )),
                Err(error) => {
                    return Some(format!(
                        "cannot put back a rule or route, so connections pass the router by: {error}"
                    ));
                }
            }
        }
        None
    }

    /// Returns the first part that is missing, if the user installs them.
    fn look(&self) -> Option<String> {
        let missing = missing(&self.router, &self.plan());
        let what = match missing.first() {
            Some(commands) => {
                format!("a rule or route is missing, so connections of hosts hang (ip {})", commands[0])
            }
            None if !has_table() => {
                format!("the table {TABLE} of nftables is missing, so connections pass the router by")
            }
            None => return None,
        };
        Some(format!(
            "{what}; install = false leaves it to others: run what anabranch-proxy router --print prints"
        ))
    }

    /// A firewall that drops packets for the router.
    fn firewall(&mut self) -> Option<String> {
        let interfaces = self.router.interfaces.as_ref();
        let found = dropping(&ruleset()?, &families(), interfaces, *self.router.mark.as_ref());
        let certain = found.as_ref().filter(|found| found.is_certain);
        if let Some(suspected) =
            found.as_ref().filter(|found| !found.is_certain && self.suspected.as_ref() != Some(found))
        {
            log::say(format_args!(
                "router: the chain {} may drop what the kernel hands to the router; if connections of hosts hang: {}",
                suspected.chain, suspected.remedy
            ));
        }
        let trouble = certain.map(|Dropping { chain, remedy, .. }| {
            let effect = if self.router.install { "connections pass the router by until then" } else { "their connections hang" };
            format!("the chain {chain} drops the packets of hosts that the kernel hands to the router; {effect}: {remedy}")
        });
        self.suspected = found;
        trouble
    }

    /// Has the table of nftables there, as it was installed, or not there.
    fn set_table(&mut self, is_wanted: bool) {
        let listed = list_table().ok();
        let changed = match (is_wanted, &listed) {
            (false, None) => Ok(()),
            (false, Some(_)) => nft(&removal()),
            (true, Some(_)) if listed == self.expected() => Ok(()),
            (true, _) => nft(&self.plan().nft).map(|()| self.note_table()),
        };
        if let Err(error) = changed {
            log::say(format_args!("router: cannot change the table {TABLE} of nftables: {error}"));
        }
        self.is_marking = is_wanted;
    }

    /// Notes how the table is listed, which has just been installed.
    fn note_table(&mut self) {
        if self.is_marking {
            self.fixes.push_back(Instant::now());
            log::say(format_args!(
                "router: another program has removed or changed the table {TABLE} of nftables; put back"
            ));
        }
        // A list that is known is compared by the next check: another program may have been faster.
        if self.expected().is_none() || self.is_dispute() {
            self.listed = list_table().ok().map(|listed| (families(), listed));
        }
    }

    /// The list of the table, if it is known for the families that this machine has now.
    fn expected(&self) -> Option<String> {
        let (of, listed) = self.listed.as_ref()?;
        (*of == families()).then(|| listed.clone())
    }

    fn is_dispute(&mut self) -> bool {
        while self.fixes.front().is_some_and(|at| at.elapsed() > FIX_WINDOW) {
            self.fixes.pop_front();
        }
        self.fixes.len() > MAX_FIXES
    }
}
