//! Loads, replaces, lists and unloads congestion controls.

use crate::{CONTROLS, Control, Error, Settings, link, log, machine, object, pins};
use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapMut, Object};
use serde::Serialize;
use std::fs;
use std::time::Duration;

/// Result of loading a congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The congestion control was not loaded before.
    Loaded,
    /// A loaded version was replaced. It stays in memory while connections use it.
    Replaced,
}

/// Statistics of all sockets of a congestion control, `struct statistics` in `bpf/control.bpf.c`. They do not yet
/// include acknowledgements of an open socket since its last loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// Sockets (subflows, or TCP connections) that have started with this congestion control.
    pub opened: u64,
    /// Sockets that have ended, or that have changed to another congestion control.
    pub closed: u64,
    /// Acknowledgements for which a window was computed.
    pub acknowledgements: u64,
    /// Acknowledgements for which the window was computed from more than one usable subflow.
    pub coupled: u64,
    /// Reactions to losses and congestion marks, including timeouts.
    pub losses: u64,
    /// Timeouts.
    pub timeouts: u64,
}

impl Statistics {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut numbers =
            bytes.chunks_exact(8).map(|eight| u64::from_ne_bytes(eight.try_into().unwrap_or_default()));
        Some(Self {
            opened: numbers.next()?,
            closed: numbers.next()?,
            acknowledgements: numbers.next()?,
            coupled: numbers.next()?,
            losses: numbers.next()?,
            timeouts: numbers.next()?,
        })
    }

    fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.closed += other.closed;
        self.acknowledgements += other.acknowledgements;
        self.coupled += other.coupled;
        self.losses += other.losses;
        self.timeouts += other.timeouts;
    }

    /// Returns the number of sockets that use the congestion control now, in all network namespaces.
    pub fn open(&self) -> u64 {
        self.opened.saturating_sub(self.closed)
    }
}

/// A loaded congestion control.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Loaded {
    /// Name of the congestion control in scenarios.
    pub name: &'static str,
    /// Version of the loader that loaded it.
    pub version: String,
    /// The kernel's number of the map with the operations. After a replacement, the number is another one.
    pub number: u32,
    /// Minimum threshold after a loss, packets.
    pub floor: u32,
    /// True if slow start is coupled as well; only for `lia`.
    pub coupled_start: bool,
    /// Number of sockets that use the congestion control now, in all network namespaces.
    pub sockets: u64,
    /// Statistics of the sockets with this congestion control, since it was first loaded.
    pub statistics: Statistics,
}

/// Loads a congestion control and registers it under its name, until it is unloaded or the machine shuts down. If it is
/// already loaded, it is replaced atomically.
///
/// # Errors
///
/// If this machine does not meet a requirement, if another congestion control has the name, or if the kernel refuses.
pub fn load(control: &Control, settings: Settings) -> Result<Outcome, Error> {
    machine::check_for_loading()?;
    let _alone = pins::prepare()?;
    pins::check(control.name)?;
    let pinned = pins::link(control.name).exists();
    if !pinned && machine::knows(control.kernel_name) {
        return Err(name_taken(control.kernel_name));
    }
    let mut object = object::load(control, settings)?;
    let outcome =
        if pinned { replace_loaded(control, &mut object)? } else { register(control, &mut object)? };
    remove_unused(control.name)?;
    Ok(outcome)
}

fn name_taken(name: &str) -> Error {
    Error::Refused(format!(
        "this kernel has another congestion control named {name}; unload it first (rmmod tcp_{name}, or with its loader)"
    ))
}

fn operations(object: &mut Object) -> Option<MapMut<'_>> {
    object.maps_mut().find(|map| object::is_operations(map.map_type()))
}

fn register(control: &Control, object: &mut Object) -> Result<Outcome, Error> {
    log::begin();
    let Some(mut map) = operations(object) else { return Err(missing_operations(control.name)) };
    let mut link = map.attach_struct_ops().map_err(|error| match error.kind() {
        libbpf_rs::ErrorKind::AlreadyExists => name_taken(control.kernel_name),
        _ => Error::Refused(log::explain(control.name, &error)),
    })?;
    pin(control.name, map_number(&map)?, object)?;
    link.pin(pins::link(control.name)).map_err(|error| {
        Error::system(&format!("cannot pin {} in the BPF file system", control.name), &error)
    })?;
    Ok(Outcome::Loaded)
}

fn replace_loaded(control: &Control, object: &mut Object) -> Result<Outcome, Error> {
    log::begin();
    let refused =
        |error: &dyn std::fmt::Display| Error::system(&format!("cannot replace {}", control.name), error);
    let old = Link::open(pins::link(control.name)).map_err(|error| refused(&error))?;
    let Some(mut map) = operations(object) else { return Err(missing_operations(control.name)) };
    // Registering the map fills it, and then fails, because the name is in use.
    match map.attach_struct_ops() {
        Err(error) if error.kind() == libbpf_rs::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(refused(&log::explain(control.name, &error))),
        Ok(_) => return Err(refused(&"it is pinned, but not registered in the kernel; unload it first")),
    }
    let number = map_number(&map)?;
    link::update(&old, &map).map_err(|error| refused(&error))?;
    pin(control.name, number, object)?;
    // A network namespace keeps the operations that its default congestion control had when the default was set. So the
    // default is set again.
    if machine::is_default(control.kernel_name) {
        machine::make_default(control.kernel_name).map_err(|error| {
            Error::system(
                &format!(
                    "{} was replaced, but new connections in this network namespace use the old version",
                    control.name
                ),
                &error,
            )
        })?;
    }
    Ok(Outcome::Replaced)
}

fn missing_operations(name: &str) -> Error {
    Error::Refused(format!("the object of {name} has no operations; rebuild the loader"))
}

fn map_number(map: &MapMut<'_>) -> Result<u32, Error> {
    let info = map.info().map_err(|error| Error::system("cannot read the number of a map", &error))?;
    Ok(info.info.id)
}

/// Pins the maps with the statistics and the settings of the BPF programs.
fn pin(name: &str, number: u32, object: &mut Object) -> Result<(), Error> {
    let folder = pins::make(name, number)?;
    let refused =
        |error: &dyn std::fmt::Display| Error::system(&format!("cannot pin {}", folder.display()), error);
    for mut map in object.maps_mut() {
        let file = match map.name().to_string_lossy() {
            name if name.ends_with(".data.count") => pins::STATISTICS,
            name if name.ends_with(".rodata") => pins::SETTINGS,
            _ => continue,
        };
        map.pin(folder.join(file)).map_err(|error| refused(&error))?;
    }
    Ok(())
}

fn read_pin(pin: &std::path::Path) -> Option<Vec<u8>> {
    MapHandle::from_pinned_path(pin).ok()?.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()?
}

/// Reads the statistics of a set of operations from the folder of its pinned files.
fn read_statistics(folder: &std::path::Path) -> Option<Statistics> {
    read_pin(&folder.join(pins::STATISTICS)).and_then(|bytes| Statistics::decode(&bytes))
}

/// Returns the number of the operations that are registered under a name.
fn registered_number(name: &str) -> Option<u32> {
    log::begin();
    match Link::open(pins::link(name)).ok()?.info().ok()?.info {
        LinkTypeInfo::StructOps(operations) => Some(operations.map_id),
        _ => None,
    }
}

/// Removes the pinned files of replaced operations that no socket uses any more.
fn remove_unused(name: &str) -> Result<(), Error> {
    let current = registered_number(name);
    for (number, folder) in pins::generations(name) {
        if current != Some(number) && read_statistics(&folder).is_none_or(|statistics| statistics.open() == 0)
        {
            pins::remove(&folder)?;
        }
    }
    Ok(())
}

/// Lists the loaded congestion controls.
///
/// # Errors
///
/// If the caller is not root, because the kernel gives this information only to root; or if users other than root may
/// have created the pinned files.
pub fn list() -> Result<Vec<Loaded>, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Machine("only root can list loaded controls; run this as root".to_owned()));
    }
    CONTROLS.iter().try_for_each(|control| pins::check(control.name))?;
    Ok(CONTROLS.iter().filter_map(|control| loaded(control.name)).collect())
}

fn loaded(name: &'static str) -> Option<Loaded> {
    let current = registered_number(name)?;
    let (settings, version) =
        Settings::decode(&read_pin(&pins::folder(name).join(current.to_string()).join(pins::SETTINGS))?)?;
    let mut statistics = Statistics::default();
    for (_, folder) in pins::generations(name) {
        if let Some(read_statistics) = read_statistics(&folder) {
            statistics.add(&read_statistics);
        }
    }
    let Settings { floor, coupled_start } = settings;
    Some(Loaded {
        name,
        version,
        number: current,
        floor,
        coupled_start,
        sockets: statistics.open(),
        statistics,
    })
}

/// Maximum number of checks whether the kernel has unregistered a name, and the interval between them.
const UNREGISTER_POLL: (u32, Duration) = (500, Duration::from_millis(10));

/// Unregisters a congestion control; returns the number of sockets that still use it. It stays in memory while
/// connections use it.
///
/// # Errors
///
/// If the congestion control is not loaded, if it is the default of the caller's network namespace, or if the kernel
/// refuses.
pub fn unload(control: &Control) -> Result<u64, Error> {
    let name = control.name;
    let open = list()?.into_iter().find(|loaded| loaded.name == name).map_or(0, |loaded| loaded.sockets);
    if !pins::link(name).exists() {
        return Err(Error::Input(format!("{name} is not loaded")));
    }
    if machine::is_default(control.kernel_name) {
        return Err(Error::Refused(format!(
            "{name} is the default of this network namespace; set another first: sysctl net.ipv4.tcp_congestion_control=cubic"
        )));
    }
    let _alone = pins::prepare()?;
    pins::check(name)?;
    let refused = |error: std::io::Error| Error::system(&format!("cannot unload {name}"), &error);
    fs::remove_file(pins::link(name)).map_err(refused)?;
    for (_, folder) in pins::generations(name) {
        pins::remove(&folder)?;
    }
    fs::remove_dir(pins::folder(name)).map_err(refused)?;
    // Ignore errors: the folder is not empty while other controls are loaded.
    let _ = fs::remove_dir(pins::root());
    let (steps, pause) = UNREGISTER_POLL;
    for _ in 0..steps {
        if !machine::knows(control.kernel_name) {
            return Ok(open);
        }
        std::thread::sleep(pause);
    }
    Err(Error::Refused(format!("{name} is still registered: another program holds its link")))
}

#[cfg(test)]
mod tests {
    use super::Statistics;

    #[test]
    fn statistics_have_six_numbers() {
        let bytes: Vec<u8> = (1..=6_u64).flat_map(u64::to_ne_bytes).collect();
        let found = Statistics::decode(&bytes).expect("enough bytes");
        assert_eq!((found.opened, found.closed, found.timeouts), (1, 2, 6));
        assert_eq!(found.open(), 0);
        assert_eq!(Statistics::decode(&bytes[..40]), None);
    }
}
