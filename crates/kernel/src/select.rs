//! Sets the congestion control for the connections of a command and its descendants, by their cgroup.
//!
//! The command replaces the calling process (`exec`), so that it receives the signals, has the terminal and determines
//! the exit status. A second process, the holder, keeps the BPF program that sets the congestion control attached until
//! the cgroup is empty. The command may wait for all of its children, so the holder must not be one of them: the caller
//! starts a process that starts the holder and ends, so init becomes the holder's parent.

use crate::{Error, find, inherited, machine, object};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The compiled BPF program that sets a socket's congestion control.
static OBJECT: &[u8] = include_bytes!("../bpf/objects/select.bpf.o");

/// Prefix of the names of the cgroups that this module creates.
const CGROUP_PREFIX: &str = "anabranch-";

/// Byte that the holder writes when new connections get the congestion control.
const READY: u8 = b'+';

/// Runs a command in place of the calling process. Its connections, and those of its descendants, use the congestion
/// control. Returns only if that fails. `holder` is a command that runs [`detach`]; this function adds two arguments,
/// the name of the congestion control and the process id.
pub fn run(name: &str, command: &[String], holder: &mut Command) -> Error {
    match begin(name, command, holder) {
        Ok(mut command) => Error::system("cannot run the command", &command.exec()),
        Err(error) => error,
    }
}

fn begin(name: &str, command: &[String], holder: &mut Command) -> Result<Command, Error> {
    let [program, arguments @ ..] = command else {
        return Err(Error::Input("no command to run; write: anabranch cc run lia -- COMMAND".to_owned()));
    };
    machine::check()?;
    let ours = find(name).ok();
    let name = ours.map_or(name, |control| control.kernel_name);
    if !machine::knows(name) {
        let remedy = ours.map_or_else(
            || format!("the controls are {}", machine::registered().join(", ")),
            |control| format!("run: anabranch cc load {}", control.name),
        );
        return Err(Error::Input(format!("this kernel has no congestion control {name}; {remedy}")));
    }
    start(name, holder)?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Starts the holder and waits until it sets the congestion control.
fn start(name: &str, holder: &mut Command) -> Result<(), Error> {
    let mut between = holder
        .arg(name)
        .arg(std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| holder_error(&error))?;
    let mut answer = [0];
    let read = between.stdout.take().map(|mut stdout| stdout.read(&mut answer));
    between.wait().map_err(|error| holder_error(&error))?;
    if matches!(read, Some(Ok(1))) && answer[0] == READY {
        return Ok(());
    }
    Err(Error::Refused(format!("cannot set {name} for connections; see the message above")))
}

fn holder_error(error: &io::Error) -> Error {
    Error::system("cannot start the process that holds the control", error)
}

/// Starts `holder`, a command that runs [`hold`]. It is detached from the caller's terminal, working folder and open
/// files, except standard output and, until it sets the congestion control, standard error.
///
/// # Errors
///
/// If the system refuses.
pub fn detach(holder: &mut Command) -> Result<(), Error> {
    inherited::close_on_exec().map_err(|error| holder_error(&error))?;
    rustix::process::setsid().map_err(|error| holder_error(&error.into()))?;
    holder.current_dir("/").spawn().map_err(|error| holder_error(&error))?;
    Ok(())
}

/// Replaces the standard files of this process by `/dev/null`, because other processes may wait until they are closed.
fn close_standard_files() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    Ok(())
}

/// A cgroup of version 2, accessed through a mount that is not visible in the file system. The caller may be in a network
/// namespace whose `/sys` has no cgroups, or on a machine that does not mount this version.
struct Group {
    hierarchy: OwnedFd,
    path: PathBuf,
}

impl Group {
    /// Creates a cgroup below that of a process, so that the limits of the latter remain effective. If the process is
    /// already in a cgroup of this module, the new one becomes its sibling. If it were nested in that one, the upper
    /// cgroup would determine the congestion control, but the later choice must.
    fn create_for(process: u32) -> io::Result<Self> {
        let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let hierarchy = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup"))?;
        let theirs = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        // The name contains the process id of the holder, because an earlier holder may already have created a cgroup
        // for this process.
        Self::make(
            hierarchy,
            enclosing_foreign_cgroup(Path::new(theirs))
                .join(format!("{CGROUP_PREFIX}{}", std::process::id())),
        )
    }

    fn make(hierarchy: OwnedFd, path: PathBuf) -> io::Result<Self> {
        let make = || mkdirat(&hierarchy, &path, Mode::from_raw_mode(0o755));
        make().or_else(|error| {
            // The cgroup of a holder that was killed still exists. The kernel refuses to remove it if it has processes.
            if error != Errno::EXIST {
                return Err(error);
            }
            unlinkat(&hierarchy, &path, AtFlags::REMOVEDIR)?;
            make()
        })?;
        Ok(Self { hierarchy, path })
    }

    fn open(&self, file: &str, access: OFlags) -> io::Result<File> {
        Ok(openat(&self.hierarchy, self.path.join(file), access | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    fn take(&self, process: u32) -> io::Result<()> {
        self.open("cgroup.procs", OFlags::WRONLY)?.write_all(process.to_string().as_bytes())
    }

    /// Waits until the last process of the cgroup has ended.
    fn wait(&self) -> io::Result<()> {
        let mut events = self.open("cgroup.events", OFlags::RDONLY)?;
        loop {
            let mut text = String::new();
            events.rewind()?;
            events.read_to_string(&mut text)?;
            if text.lines().any(|line| line == "populated 0") {
                return Ok(());
            }
            // The kernel reports a change of this file as an exceptional condition.
            poll(&mut [PollFd::new(&events, PollFlags::PRI)], None)?;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Ignore errors: a cgroup that is not empty remains, and there is no remedy.
        let _ = unlinkat(&self.hierarchy, &self.path, AtFlags::REMOVEDIR);
    }
}

/// Returns the nearest enclosing cgroup that this module has not created.
fn enclosing_foreign_cgroup(path: &Path) -> &Path {
    let ours =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CGROUP_PREFIX));
    path.ancestors().find(|path| !ours(path)).unwrap_or(path)
}

/// Moves a process to a new cgroup, and sets the congestion control of every connection of this cgroup until its last
/// process has ended. Reports on standard output when new connections get the congestion control.
///
/// # Errors
///
/// If the kernel refuses.
pub fn hold(name: &str, process: u32) -> Result<(), Error> {
    let mut constants = [0; 16];
    if name.len() >= constants.len() {
        return Err(Error::Input(format!("{name} is too long for the name of a control")));
    }
    constants[..name.len()].copy_from_slice(name.as_bytes());
    let object = object::with_constants("select", OBJECT, &constants)?;
    let refused =
        |error: &dyn std::fmt::Display| Error::system("cannot create a cgroup for the command", error);
    let group = Group::create_for(process).map_err(|error| refused(&error))?;
    let folder = group.open(".", OFlags::RDONLY | OFlags::DIRECTORY).map_err(|error| refused(&error))?;
    let mut links = Vec::new();
    for program in object.progs_mut() {
        links.push(program.attach_cgroup(folder.as_raw_fd()).map_err(|error| refused(&error))?);
    }
    group.take(process).map_err(|error| refused(&error))?;
    let mut stdout = io::stdout();
    stdout
        .write_all(&[READY])
        .and_then(|()| stdout.flush())
        .and_then(|()| close_standard_files())
        .map_err(|error| refused(&error))?;
    let waited = group.wait().map_err(|error| refused(&error));
    drop(links);
    waited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_is_sibling_of_ours_and_child_of_others() {
        assert_eq!(enclosing_foreign_cgroup(Path::new("a/anabranch-1/anabranch-2")), Path::new("a"));
        assert_eq!(enclosing_foreign_cgroup(Path::new("anabranch-1")), Path::new(""));
        assert_eq!(enclosing_foreign_cgroup(Path::new("anabranch-1/b")), Path::new("anabranch-1/b"));
    }

    #[test]
    fn group_of_a_killed_holder_is_recreated() {
        if let Err(error) = machine::check() {
            return anabranch_testkit::machine::skip(error);
        }
        let process = std::process::id();
        std::mem::forget(Group::create_for(process).expect("as root"));
        let group = Group::create_for(process).expect("as root");
        group.open("cgroup.procs", OFlags::RDONLY).expect("the cgroup exists");
    }
}
