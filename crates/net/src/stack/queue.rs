//! A queue of commands to a thread that sleeps in `poll(2)`, or to an event loop.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Commands, oldest first.
struct Waiting<C> {
    commands: Vec<C>,
    /// The thread that takes the commands has ended.
    closed: bool,
}

/// A queue with several senders and one receiver. The receiver's descriptor is readable while commands wait.
pub struct Queue<C> {
    waiting: Mutex<Waiting<C>>,
    /// Maximum number of commands that wait.
    limit: usize,
    wake: OwnedFd,
}

impl<C> Queue<C> {
    /// An empty queue without a limit.
    ///
    /// # Errors
    /// If the process has no free descriptor.
    pub fn new() -> io::Result<Arc<Self>> {
        Self::with_limit(usize::MAX)
    }

    /// An empty queue for this number of commands.
    ///
    /// # Errors
    /// If the process has no free descriptor.
    pub fn with_limit(limit: usize) -> io::Result<Arc<Self>> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let waiting = Mutex::new(Waiting { commands: Vec::new(), closed: false });
        Ok(Arc::new(Self { waiting, limit, wake }))
    }

    /// Adds a command.
    ///
    /// # Errors
    /// Returns the command if the queue is closed or full.
    pub fn send(&self, command: C) -> Result<(), C> {
        let mut waiting = self.lock();
        if waiting.closed || waiting.commands.len() >= self.limit {
            return Err(command);
        }
        waiting.commands.push(command);
        if waiting.commands.len() == 1 {
            self.wake();
        }
        Ok(())
    }

    /// Adds all commands for which there is room, in order, and drops the others. If the queue is closed, all are dropped.
    pub fn send_all(&self, commands: &mut Vec<C>) {
        let mut waiting = self.lock();
        let room = if waiting.closed { 0 } else { self.limit - waiting.commands.len() };
        let was_empty = waiting.commands.is_empty();
        waiting.commands.extend(commands.drain(..room.min(commands.len())));
        if was_empty && !waiting.commands.is_empty() {
            self.wake();
        }
        drop(waiting);
        commands.clear();
    }

    /// Makes the descriptor readable. The caller holds the lock: if the receiver took the commands before, the descriptor would
    /// stay readable, and the receiver would never sleep.
    fn wake(&self) {
        // If the counter is full, the descriptor is readable, too.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Takes all commands.
    pub fn take(&self) -> Vec<C> {
        let mut waiting = self.lock();
        if !waiting.commands.is_empty() {
            // Afterwards the counter is zero, even if it was zero before.
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        core::mem::take(&mut waiting.commands)
    }

    /// Refuses further commands and drops those that wait.
    pub fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        let dropped = core::mem::take(&mut waiting.commands);
        drop(waiting);
        // Dropped outside the lock, since a command may own a handle that sends another command when it is dropped.
        drop(dropped);
    }

    /// Readable while commands wait.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// No call panics while it holds the lock, so the queue is valid even after a panic elsewhere.
    fn lock(&self) -> MutexGuard<'_, Waiting<C>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(queue: &Queue<u32>) -> bool {
        let fd = queue.fd();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&at_once)).expect("poll works") == 1
    }

    #[test]
    fn descriptor_is_readable_while_commands_wait() {
        let queue = Queue::new().expect("a descriptor");
        assert!(!is_readable(&queue) && queue.take().is_empty());
        for round in 0..2 {
            assert_eq!((queue.send(round), queue.send(7)), (Ok(()), Ok(())));
            assert!(is_readable(&queue));
            assert_eq!(queue.take(), [round, 7]);
            assert!(!is_readable(&queue));
        }
        queue.close();
        assert_eq!(queue.send(9), Err(9));
    }

    #[test]
    fn full_queue_refuses_commands() {
        let queue = Queue::with_limit(1).expect("a descriptor");
        assert_eq!((queue.send(1), queue.send(2)), (Ok(()), Err(2)));
        assert_eq!((queue.take(), queue.send(3)), (vec![1], Ok(())));
    }

    #[test]
    fn several_commands_keep_order_and_limit() {
        let queue = Queue::with_limit(3).expect("a descriptor");
        queue.send_all(&mut Vec::new());
        assert!(!is_readable(&queue));
        queue.send_all(&mut vec![1, 2]);
        let mut late = vec![3, 4];
        queue.send_all(&mut late);
        assert!(is_readable(&queue) && late.is_empty());
        assert_eq!(queue.take(), [1, 2, 3]);
        assert!(!is_readable(&queue));
        queue.close();
        queue.send_all(&mut vec![5]);
        assert!(queue.take().is_empty() && !is_readable(&queue));
    }
}
