//! A control for one program and all that it starts, by the cgroup that they are in.
//!
//! The program takes the place of the caller (`exec`), so that signals, terminal and exit status are its own. A second
//! process holds the BPF program that sets the control, until the cgroup is empty. The program must not find it among its
//! children, for whose end it may wait: the caller starts one that starts the holder and ends, and init inherits the holder.

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

static OBJECT: &[u8] = include_bytes!("../bpf/objects/select.bpf.o");

/// What the names of our cgroups begin with.
const PREFIX: &str = "anabranch-";

/// What the holder says when connections get the control.
const READY: u8 = b'+';

/// Runs a command in the caller's place, whose connections and whose children's have the control. Returns only if that is
/// impossible. `holder` runs [`detach`] with two words behind it, the name of the control and the number of the process.
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
            || format!("it has {}", machine::registered().join(", ")),
            |control| format!("run: anabranch cc load {}", control.name),
        );
        return Err(Error::Input(format!("this kernel has no congestion control {name}; {remedy}")));
    }
    start(name, holder)?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Starts the holder and waits until it holds.
fn start(name: &str, holder: &mut Command) -> Result<(), Error> {
    let mut between = holder
        .arg(name)
        .arg(std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| unstarted(&error))?;
    let mut said = [0];
    let heard = between.stdout.take().map(|mut stdout| stdout.read(&mut said));
    between.wait().map_err(|error| unstarted(&error))?;
    if matches!(heard, Some(Ok(1))) && said[0] == READY {
        return Ok(());
    }
    Err(Error::Refused(format!("connections cannot be given {name}; the reason stands above")))
}

fn unstarted(error: &io::Error) -> Error {
    Error::system("cannot start the process that holds the control", error)
}

/// Starts `holder`, which runs [`hold`], apart from the terminal, the working folder and the open files of the caller, but for
/// standard output and, until it holds, standard error.
///
/// # Errors
///
/// If the system refuses.
pub fn detach(holder: &mut Command) -> Result<(), Error> {
    inherited::keep().map_err(|error| unstarted(&error))?;
    rustix::process::setsid().map_err(|error| unstarted(&error.into()))?;
    holder.current_dir("/").spawn().map_err(|error| unstarted(&error))?;
    Ok(())
}

/// Lets go of the caller's standard files, for whose end somebody may wait.
fn silence() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    Ok(())
}

/// A cgroup of version 2, reached by a mount of its own that stands nowhere in the tree of files: whoever runs this may be in
/// a network namespace whose `/sys` has no cgroups, or on a machine that mounts none of this version.
struct Group {
    hierarchy: OwnedFd,
    path: PathBuf,
}

impl Group {
    /// Makes one below the cgroup of a process, so that its limits go on to hold. One of ours that the process is in already
    /// is not its parent: the control of the upper of two would win, and the later choice has to.
    fn around(process: u32) -> io::Result<Self> {
        let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let hierarchy = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup"))?;
        let theirs = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        // The process may have been given a control before, under the same number, but not by this holder.
        Self::make(hierarchy, outside(Path::new(theirs)).join(format!("{PREFIX}{}", std::process::id())))
    }

    fn make(hierarchy: OwnedFd, path: PathBuf) -> io::Result<Self> {
        let make = || mkdirat(&hierarchy, &path, Mode::from_raw_mode(0o755));
        make().or_else(|error| {
            // A holder that was killed has left it. The kernel removes none that has processes.
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

    /// Returns when its last process has ended.
    fn wait(&self) -> io::Result<()> {
        let mut events = self.open("cgroup.events", OFlags::RDONLY)?;
        loop {
            let mut text = String::new();
            events.rewind()?;
            events.read_to_string(&mut text)?;
            if text.lines().any(|line| line == "populated 0") {
                return Ok(());
            }
            // The kernel marks the file at each change.
            poll(&mut [PollFd::new(&events, PollFlags::PRI)], None)?;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // One that is not empty stays; the kernel says so, and nobody else could help.
        let _ = unlinkat(&self.hierarchy, &self.path, AtFlags::REMOVEDIR);
    }
}

/// The nearest cgroup around one that is not ours.
fn outside(path: &Path) -> &Path {
    let ours = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    path.ancestors().find(|path| !ours(path)).unwrap_or(path)
}

/// Puts a process into a cgroup of its own, says so on standard output, and gives every connection of that cgroup a control
/// until its last process has ended.
///
/// # Errors
///
/// If the kernel refuses.
pub fn hold(name: &str, process: u32) -> Result<(), Error> {
    let mut constants = [0; 16];
    if name.len() >= constants.len() {
        return Err(Error::Input(format!("{name} is longer than a control's name may be")));
    }
    constants[..name.len()].copy_from_slice(name.as_bytes());
    let object = object::with_constants("select", OBJECT, &constants)?;
    let refused =
        |error: &dyn std::fmt::Display| Error::system("cannot have a cgroup for the command", error);
    let group = Group::around(process).map_err(|error| refused(&error))?;
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
        .and_then(|()| silence())
        .map_err(|error| refused(&error))?;
    let waited = group.wait().map_err(|error| refused(&error));
    drop(links);
    waited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_stands_beside_ours_and_below_others() {
        assert_eq!(outside(Path::new("a/anabranch-1/anabranch-2")), Path::new("a"));
        assert_eq!(outside(Path::new("anabranch-1")), Path::new(""));
        assert_eq!(outside(Path::new("anabranch-1/b")), Path::new("anabranch-1/b"));
    }

    #[test]
    fn a_group_that_a_killed_holder_left_is_made_anew() {
        if let Err(error) = machine::check() {
            return eprintln!("skipped: {error}");
        }
        let process = std::process::id();
        std::mem::forget(Group::around(process).expect("as root"));
        let group = Group::around(process).expect("as root");
        group.open("cgroup.procs", OFlags::RDONLY).expect("it is there");
    }
}
