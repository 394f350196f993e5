//! Runs the reconciliation of the uplinks until the process is stopped.

use super::netlink::Changes;
use super::probes::Probes;
use super::reconciler::Reconciler;
use super::routing::GROUPS;
use crate::config::{ProbeTarget, Uplink, Uplinks};
use crate::error::Error;
use crate::instance_lock::{InstanceLock, check_permission};
use crate::{log, systemd};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

/// Name of the lock that permits one instance per network namespace.
const NAME: &str = "anabranch-uplinks";

/// True if `anabranch-proxy uplinks` runs in this network namespace.
pub fn runs() -> bool {
    crate::instance_lock::runs(NAME)
}

/// The kernel reports changes in groups. After the first notification of a group, the others are awaited for this time.
const DEBOUNCE: Duration = Duration::from_millis(20);

/// Interval of checks without a notification: the kernel does not report some changes, such as an endpoint that another
/// program removes.
const RESYNC_INTERVAL: Duration = Duration::from_secs(10);

/// With more corrections than this within `FIX_WINDOW`, another program is assumed to revert them, and the
/// reconciliation pauses.
const MAX_FIXES: usize = 20;
const FIX_WINDOW: Duration = Duration::from_secs(10);

/// Maintains the uplinks until SIGTERM, SIGINT or SIGHUP; then removes everything that it installed. Sends probes to
/// the targets in `probed` over each uplink.
///
/// # Errors
/// If the process may not configure the network, another instance runs, or the kernel lacks a feature.
pub fn run(uplinks: Vec<Uplink>, common: &Uplinks, probed: Vec<ProbeTarget>) -> Result<(), Error> {
    let refused = |error: io::Error| Error::Refused(format!("cannot start: {error}"));
    check_permission("uplinks")?;
    let _lock = InstanceLock::acquire(NAME, "anabranch-proxy uplinks")?;
    let mut reconciler = Reconciler::new(uplinks, common)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    runtime
        .block_on(async {
            let mut terminate = signal(SignalKind::terminate()).map_err(refused)?;
            let mut interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
            let mut hang_up = signal(SignalKind::hangup()).map_err(refused)?;
            let mut changes = Changes::follow(None, GROUPS).map_err(refused)?;
            let mut probes = Probes::new(probed, common.dead_after.as_ref().duration()).map_err(refused)?;
            reconciler.reconcile(&probes.silent())?;
            probes.watch(reconciler.open());
            systemd::notify("READY=1");
            tokio::select! {
                _ = terminate.recv() => Ok(()),
                _ = interrupt.recv() => Ok(()),
                // The controlling terminal was closed.
                _ = hang_up.recv() => Ok(()),
                failed = follow(&mut reconciler, &mut changes, &mut probes) => failed,
            }
        })
        // Removes everything even if the reconciliation failed.
        .and(reconciler.remove_all())
}

/// Reconciles after each change that the kernel or the probes report.
async fn follow(
    reconciler: &mut Reconciler,
    changes: &mut Changes,
    probes: &mut Probes,
) -> Result<(), Error> {
    let mut busy = VecDeque::new();
    loop {
        tokio::select! {
            notified = timeout(RESYNC_INTERVAL, changes.next()) => match notified {
                Ok(false) => return Err(Error::Refused("the kernel reports no more changes".to_owned())),
                Ok(true) => sleep(DEBOUNCE).await,
                Err(_) => {}
            },
            () = probes.changed() => {}
        }
        match reconciler.reconcile(&probes.silent()) {
            Ok(true) => busy.push_back(Instant::now()),
            Ok(false) => {}
            // The kernel may lack memory, or the lists may change too fast to be read.
            Err(error) => {
                log::log_line(format_args!("uplinks: {error}; trying again"));
                sleep(Duration::from_secs(1)).await;
            }
        }
        probes.watch(reconciler.open());
        while busy.front().is_some_and(|at: &Instant| at.elapsed() > FIX_WINDOW) {
            busy.pop_front();
        }
        if busy.len() > MAX_FIXES {
            log::log_line(format_args!(
                "uplinks: another program keeps changing rules, routes or endpoints, or links flap; pausing for {} s",
                FIX_WINDOW.as_secs()
            ));
            sleep(FIX_WINDOW).await;
            busy.clear();
        }
    }
}
