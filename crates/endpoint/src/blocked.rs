//! Time for which a protocol could not send available data, by cause.

use anabranch_base::time::{Duration, Time};

/// Time by cause, under the names that results use.
pub type Spent = Vec<(&'static str, Duration)>;

/// The `N` causes that a [`Blocked`] distinguishes.
pub trait Causes<const N: usize>: Copy + Eq + 'static {
    /// Every cause once.
    const ALL: [Self; N];

    /// The name in results; stable.
    fn name(self) -> &'static str;
}

/// A stopwatch for each cause; at most one runs at a time.
#[derive(Clone, Copy, Debug)]
pub struct Blocked<C, const N: usize> {
    spent: [Duration; N],
    current: Option<(C, Time)>,
}

impl<C, const N: usize> Default for Blocked<C, N> {
    fn default() -> Self {
        Self { spent: [Duration::ZERO; N], current: None }
    }
}

impl<C: Causes<N>, const N: usize> Blocked<C, N> {
    /// Sets the cause for which data waits from `now` on, or `None` if no data waits; returns true if the cause
    /// changed.
    #[inline]
    pub fn set(&mut self, now: Time, cause: Option<C>) -> bool {
        self.cause() != cause && self.change(now, cause)
    }

    fn change(&mut self, now: Time, cause: Option<C>) -> bool {
        self.spent = self.spent(now);
        self.current = cause.map(|cause| (cause, now));
        true
    }

    /// The cause for which data waits now.
    pub fn cause(&self) -> Option<C> {
        self.current.map(|(cause, _)| cause)
    }

    /// Time spent up to `now`, in the order of the causes.
    pub fn spent(&self, now: Time) -> [Duration; N] {
        let mut spent = self.spent;
        if let Some((cause, since)) = self.current
            && let Some(at) = C::ALL.iter().position(|&other| other == cause)
        {
            spent[at] += now.since(since);
        }
        spent
    }

    /// Time spent up to `now`, with the causes' names.
    pub fn report(&self, now: Time) -> Spent {
        C::ALL.iter().map(|cause| cause.name()).zip(self.spent(now)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum WaitCause {
        CongestionWindow,
        ReceiveWindow,
    }

    impl Causes<2> for WaitCause {
        const ALL: [Self; 2] = [Self::CongestionWindow, Self::ReceiveWindow];

        fn name(self) -> &'static str {
            match self {
                Self::CongestionWindow => "congestion-window",
                Self::ReceiveWindow => "receive-window",
            }
        }
    }

    #[test]
    fn time_is_charged_to_the_current_cause() {
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let mut blocked = Blocked::default();
        assert!(blocked.set(at(0), Some(WaitCause::ReceiveWindow)));
        assert!(!blocked.set(at(3), Some(WaitCause::ReceiveWindow)));
        assert!(blocked.set(at(5), Some(WaitCause::CongestionWindow)));
        assert!(blocked.set(at(9), None));
        assert!(blocked.set(at(20), Some(WaitCause::ReceiveWindow)));
        let ms = |now| blocked.spent(now).map(Duration::as_millis);
        assert_eq!((ms(at(20)), ms(at(21))), ([4, 5], [4, 6]), "the wait that runs counts");
        assert_eq!(blocked.report(at(20))[1], ("receive-window", Duration::from_millis(5)));
    }
}
