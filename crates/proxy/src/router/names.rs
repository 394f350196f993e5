//! The addresses of names that are not sent by the proxy.

use super::{commands, rules};
use crate::config::Router;
use crate::log::Limited;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::ToSocketAddrs;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often names are resolved.
const EVERY: Duration = Duration::from_secs(60);

/// An address is kept for so long after a name had it last: hosts may have asked before the router did.
const KEPT: Duration = Duration::from_secs(3600);

/// Resolver that are resolved at once.
const AT_ONCE: usize = 64;

static UNKNOWN: Limited = Limited::new();
static NOT_RENEWED: Limited = Limited::new();

/// The addresses that names have had of late.
#[derive(Debug, Default)]
pub struct Seen(BTreeMap<IpAddr, Instant>);

impl Seen {
    /// These are had now; returns all that are kept.
    pub fn add(&mut self, now: Instant, addresses: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        self.0.extend(addresses.into_iter().map(|address| (address, now)));
        self.0.retain(|_, had| now.saturating_duration_since(*had) < KEPT);
        self.0.keys().copied().collect()
    }
}

/// The addresses of the names of `bypass`, and of the proxy itself, to which hosts may go on their own; and the names that have
/// none.
pub fn addresses(router: &Router) -> (BTreeSet<IpAddr>, Vec<String>) {
    let names = router.bypass.names.iter().map(|name| (name.as_ref().as_str(), false));
    let asked: Vec<_> = names.chain([(router.via.as_ref().proxy.as_str(), true)]).collect();
    let resolve = |&(name, has_port): &(&str, bool)| -> io::Result<Vec<IpAddr>> {
        let found = if has_port { name.to_socket_addrs() } else { (name, 0).to_socket_addrs() };
        Ok(found?.map(|address| address.ip()).collect())
    };
    let (mut addresses, mut unknown) = (BTreeSet::new(), Vec::new());
    for ((name, _), found) in asked.iter().zip(at_once(&asked, resolve)) {
        match found {
            Ok(found) => addresses.extend(found),
            Err(error) => unknown.push(format!("{name} ({error})")),
        }
    }
    (addresses, unknown)
}

/// Asks for all of some things, many at once: where name servers keep silent, each takes ten seconds and more.
fn at_once<T: Sync, U: Send>(asked: &[T], ask: impl Fn(&T) -> io::Result<U> + Sync) -> Vec<io::Result<U>> {
    let (mut answers, ask) = (Vec::new(), &ask);
    for some in asked.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let one = |asked| std::thread::Builder::new().spawn_scoped(scope, move || ask(asked));
            let under_way: Vec<_> = some.iter().map(one).collect();
            let ended = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            answers.extend(under_way.into_iter().map(|thread| thread.and_then(ended)));
        });
    }
    answers
}

/// As `addresses`; says which have none.
pub fn resolve(router: &Router) -> BTreeSet<IpAddr> {
    let (addresses, unknown) = addresses(router);
    if !unknown.is_empty() {
        UNKNOWN.say(format_args!("router: no address is known of {}", unknown.join(", ")));
    }
    addresses
}

/// Resolves them again and again, and has the kernel know what has changed.
pub async fn follow(router: Router, mut seen: Seen) {
    let mut known: BTreeSet<IpAddr> = seen.0.keys().copied().collect();
    loop {
        sleep(EVERY).await;
        let asked = router.clone();
        let Ok(found) = tokio::task::spawn_blocking(move || resolve(&asked)).await else { continue };
        let now = seen.add(Instant::now(), found);
        if now == known {
            continue;
        }
        let text = rules::renewal(&now);
        match tokio::task::spawn_blocking(move || commands::nft(&text)).await {
            Ok(Ok(())) => known = now,
            Ok(Err(error)) => {
                NOT_RENEWED.say(format_args!("router: addresses of names are not renewed: {error}"));
            }
            // It is being ended.
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each answer waits until all have been asked for.
    #[test]
    fn one_name_does_not_wait_for_another() {
        let asked: Vec<_> = (0..AT_ONCE).collect();
        let all = std::sync::Barrier::new(AT_ONCE);
        let answers = at_once(&asked, |&number| {
            all.wait();
            if number == 3 { Err(io::ErrorKind::NotFound.into()) } else { Ok(number) }
        });
        let answers: Vec<_> = answers.into_iter().map(Result::ok).collect();
        assert_eq!(
            answers,
            asked.into_iter().map(|number| Some(number).filter(|&n| n != 3)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn addresses_are_kept_for_an_hour_after_a_name_had_them_last() {
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse::<IpAddr>().expect("an address"));
        let (mut seen, begin) = (Seen::default(), Instant::now());
        assert_eq!(seen.add(begin, [a].into()), [a].into());
        assert_eq!(seen.add(begin + KEPT / 2, [b].into()), [a, b].into());
        assert_eq!(seen.add(begin + KEPT, BTreeSet::new()), [b].into());
        assert_eq!(seen.add(begin + 2 * KEPT, BTreeSet::new()), BTreeSet::new());
    }
}
