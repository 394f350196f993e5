//! Network namespaces of hosts, identified by files.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A network namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    path: PathBuf,
    file: Arc<File>,
}

impl Namespace {
    /// The namespace of a file such as `/run/netns/NAME` or `/proc/PID/ns/net`.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: Arc::new(File::open(path)?) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the calling thread into the namespace, permanently.
    ///
    /// # Errors
    ///
    /// If the caller lacks the right to do so, or if the file is not a network namespace.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Runs `body` in a separate thread in the namespace.
    ///
    /// # Errors
    ///
    /// Errors of `body`, and like [`enter`](Self::enter).
    ///
    /// # Panics
    /// If `body` does.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter()?;
                body()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}
