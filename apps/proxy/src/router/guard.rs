//! Restores the router's rules, routes and nftables table if another program removes them while the router runs.
//!
//! The nftables table marks the packets to intercept. If marked packets meet no rule or route, they are forwarded;
//! their connections then hang, as they do if a firewall drops the packets. So the table is installed only while rules,
//! routes and firewall permit interception. Otherwise it is removed, and connections bypass the proxy.

use super::commands::{ip, nft};
use super::firewall::{DroppingChain, find_dropping_chain, packets};
use super::install::{has_table, list_table, missing, ruleset};
use super::names::NamedAddresses;
use super::rules::{Family, Plan, TABLE, families, plan, removal};
use crate::config::Router;
use crate::error::Error;
use crate::log;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// With more repairs than this within `FIX_WINDOW`, another program is assumed to keep removing the rules.
const MAX_FIXES: usize = 20;
const FIX_WINDOW: Duration = Duration::from_secs(10);

/// State of rules, routes and nftables.
#[derive(Debug)]
pub struct Guard {
    router: Router,
    names: NamedAddresses,
    /// The nftables table as `nft` lists it, and the address families for which this listing is valid.
    listed: Option<(Vec<Family>, String)>,
    /// True if the nftables table is installed, so packets are marked.
    is_marking: bool,
    /// Reason why connections bypass the proxy, or hang if others install the rules.
    problem: Option<String>,
    /// Chain that possibly drops intercepted packets.
    suspected: Option<DroppingChain>,
    repairs: VecDeque<Instant>,
    has_ended: bool,
}

impl Guard {
    /// Creates the guard. `names` are the addresses of the names in `bypass` and `only`. If `install` is set, rules and routes
    /// have just been installed.
    pub fn new(router: Router, names: NamedAddresses) -> Self {
        let listed = router.install.then(list_table).and_then(Result::ok);
        let is_marking = router.install;
        Self {
            router,
            names,
            listed: listed.map(|listed| (families(), listed)),
            is_marking,
            problem: None,
            suspected: None,
            repairs: VecDeque::new(),
            has_ended: false,
        }
    }

    /// Ends all checks and repairs.
    pub fn stop(&mut self) {
        self.has_ended = true;
    }

    /// Replaces the addresses of the names in `bypass` and `only`.
    pub fn update_names(&mut self, names: NamedAddresses) -> Result<(), Error> {
        let text = super::rules::renewal(&self.router, &names);
        self.names = names;
        self.listed = None;
        if self.is_marking && self.router.install && !self.has_ended {
            nft(&text)?;
            self.listed = list_table().ok().map(|listed| (families(), listed));
        }
        Ok(())
    }

    /// Compares the rules in the kernel with the plan, and restores them if the settings permit that. Logs a problem once.
    pub fn check(&mut self) {
        if self.has_ended {
            return;
        }
        let problem = if self.router.install { self.repair() } else { self.find_missing() };
        let problem = problem.or_else(|| self.check_firewall());
        if self.router.install {
            self.set_table(problem.is_none());
        }
        if problem != self.problem {
            match &problem {
                Some(problem) => log::log_line(format_args!("router: {problem}")),
                None => {
                    log::log_line(format_args!("router: intercepts the TCP connections of its hosts again"));
                }
            }
        }
        self.problem = problem;
    }

    fn plan(&self) -> Plan {
        plan(&self.router, &families(), &self.names)
    }

    /// Restores missing rules and routes; describes the problem if that fails.
    fn repair(&mut self) -> Option<String> {
        let is_dispute = self.is_dispute();
        for commands in missing(&self.router, &self.plan()) {
            if is_dispute {
                return Some(format!(
                    "another program keeps removing the router's rules or routes; connections bypass the proxy for {} s",
                    FIX_WINDOW.as_secs()
                ));
            }
            self.repairs.push_back(Instant::now());
            match ip(&commands[0]) {
                Ok(_) => log::log_line(format_args!(
                    "router: another program has removed a rule or route; restored: ip {}",
                    commands[0]
                )),
                Err(error) => {
                    return Some(format!(
                        "cannot restore a rule or route, so connections bypass the proxy: {error}"
                    ));
                }
            }
        }
        None
    }

    /// Describes the first missing rule, route or table, for a router that restores none of them (`install = false`).
    fn find_missing(&self) -> Option<String> {
        let missing = missing(&self.router, &self.plan());
        let problem = match missing.first() {
            Some(commands) => {
                format!("a rule or route is missing, so connections of hosts hang (ip {})", commands[0])
            }
            None if !has_table() => {
                format!("the nftables table {TABLE} is missing, so connections bypass the proxy")
            }
            None => return None,
        };
        Some(format!(
            "{problem}; the router does not restore it because of install = false: run the commands of anabranch-proxy router --print"
        ))
    }

    /// Describes the firewall chain that drops intercepted packets, if there is one. Logs a chain that may drop them.
    fn check_firewall(&mut self) -> Option<String> {
        let interfaces = self.router.interfaces.as_ref();
        let found =
            find_dropping_chain(&ruleset()?, &packets(&self.router), interfaces, *self.router.mark.as_ref());
        let certain = found.as_ref().filter(|found| found.is_certain);
        if let Some(suspected) =
            found.as_ref().filter(|found| !found.is_certain && self.suspected.as_ref() != Some(found))
        {
            log::log_line(format_args!(
                "router: the chain {} may drop intercepted packets; if connections of hosts hang, run: {}",
                suspected.chain, suspected.remedy
            ));
        }
        let problem = certain.map(|DroppingChain { chain, remedy, .. }| {
            let effect = if self.router.install {
                "connections bypass the proxy until this is changed"
            } else {
                "connections of hosts hang"
            };
            format!("the chain {chain} drops intercepted packets; {effect}; run: {remedy}")
        });
        self.suspected = found;
        problem
    }

    /// Installs the nftables table or removes it. Restores the table if another program has changed it.
    fn set_table(&mut self, is_wanted: bool) {
        let listed = list_table().ok();
        let changed = match (is_wanted, &listed) {
            (false, None) => Ok(()),
            (false, Some(_)) => nft(&removal()),
            (true, Some(_)) if listed == self.expected() => Ok(()),
            (true, _) => nft(&self.plan().nft).map(|()| self.record_table()),
        };
        if let Err(error) = changed {
            log::log_line(format_args!("router: cannot change the nftables table {TABLE}: {error}"));
        }
        self.is_marking = is_wanted;
    }

    /// Stores how `nft` lists the table that has just been installed.
    fn record_table(&mut self) {
        if self.is_marking {
            self.repairs.push_back(Instant::now());
            log::log_line(format_args!(
                "router: another program has removed or changed the nftables table {TABLE}; restored"
            ));
        }
        // A known listing is kept for the comparison in the next check: another program may already have changed the table again.
        if self.expected().is_none() || self.is_dispute() {
            self.listed = list_table().ok().map(|listed| (families(), listed));
        }
    }

    /// Returns the listing that the table must have; `None` if it is unknown for the address families enabled now.
    fn expected(&self) -> Option<String> {
        let (for_families, listed) = self.listed.as_ref()?;
        (*for_families == families()).then(|| listed.clone())
    }

    fn is_dispute(&mut self) -> bool {
        while self.repairs.front().is_some_and(|at| at.elapsed() > FIX_WINDOW) {
            self.repairs.pop_front();
        }
        self.repairs.len() > MAX_FIXES
    }
}
