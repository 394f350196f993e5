//! Methods that congestion controls for tests and benchmarks have in common, because they ignore all events.

/// Implements the event methods that a `CongestionControl` must have, so that they have no effect. The type itself
/// defines name, window and threshold.
#[macro_export]
macro_rules! takes_no_notice {
    () => {
        fn add_path(
            &mut self,
            _: anabranch_multipath::PathId,
            _: anabranch_multipath::congestion::PathSetup,
        ) {
        }
        fn remove_path(&mut self, _: anabranch_multipath::PathId) {}
        fn set_usable(&mut self, _: anabranch_multipath::PathId, _: bool) {}
        fn set_mss(&mut self, _: anabranch_multipath::PathId, _: u32) {}
        fn on_ack(&mut self, _: &anabranch_multipath::congestion::Ack) {}
        fn on_loss(&mut self, _: &anabranch_multipath::congestion::Loss) {}
        fn on_recovered(&mut self, _: anabranch_base::time::Time, _: anabranch_multipath::PathId) {}
        fn on_timeout(&mut self, _: &anabranch_multipath::congestion::Timeout) {}
        fn on_idle(&mut self, _: &anabranch_multipath::congestion::Idle) {}
        fn on_spurious(&mut self, _: anabranch_base::time::Time, _: anabranch_multipath::PathId) {}
        fn penalise(
            &mut self,
            _: anabranch_base::time::Time,
            _: anabranch_multipath::PathId,
            _: anabranch_multipath::congestion::PenaltyInSlowStart,
        ) {
        }
    };
}
