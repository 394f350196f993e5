//! The queue of a server's clients: the first one runs its test.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The clients of a server that run or await a test, in the order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Queue(Arc<Mutex<Tickets>>);

#[derive(Debug, Default)]
struct Tickets {
    next: u64,
    waiting: VecDeque<u64>,
}

/// A client's position in the queue, which it leaves when this value is dropped.
#[derive(Debug)]
pub struct Ticket {
    queue: Queue,
    number: u64,
}

impl Queue {
    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the queue at its end; unless `waits`, only if it is empty.
    pub fn join(&self, waits: bool) -> Option<Ticket> {
        let mut tickets = self.tickets();
        if !waits && !tickets.waiting.is_empty() {
            return None;
        }
        let number = tickets.next;
        tickets.next += 1;
        tickets.waiting.push_back(number);
        Some(Ticket { queue: self.clone(), number })
    }
}

impl Ticket {
    /// Number of clients before this one.
    pub fn ahead(&self) -> usize {
        self.queue.tickets().waiting.iter().position(|&number| number == self.number).unwrap_or_default()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.queue.tickets().waiting.retain(|&number| number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_clients_move_up_in_order() {
        let queue = Queue::default();
        let first = queue.join(false).expect("the queue is empty");
        assert!(queue.join(false).is_none());
        let [second, third] = [(); 2].map(|()| queue.join(true).expect("the queue has room"));
        assert_eq!([first.ahead(), second.ahead(), third.ahead()], [0, 1, 2]);
        drop(second);
        assert_eq!(third.ahead(), 1);
        drop(first);
        assert_eq!(third.ahead(), 0);
        drop(third);
        assert!(queue.join(false).is_some());
    }
}
