//! Theorems about numbers of messages and chunks ([method](anabranch_proof)).

use super::unwrap_number;
use crate::receiver::inbound::following;
use anabranch_proof::theorem;
use anabranch_wire::seq::Serial;

theorem! {
    /// For all SSNs, unwrapping keeps the low 16 bits and moves less than 2¹⁵ up or at most 2¹⁵ down.
    fn unwrapped_ssn_is_the_nearest(next: u64, message: u16) {
        let number = unwrap_number(next, message.into(), false);
        assert!(number as u16 == message);
        assert!(number.wrapping_sub(next).wrapping_add(1 << 15) < 1 << 16);
    }
}

theorem! {
    /// For all MIDs, unwrapping keeps the low 32 bits and moves less than 2³¹ up or at most 2³¹ down.
    fn unwrapped_mid_is_the_nearest(next: u64, message: u32) {
        let number = unwrap_number(next, message, true);
        assert!(number as u32 == message);
        assert!(number.wrapping_sub(next).wrapping_add(1 << 31) < 1 << 32);
    }
}

theorem! {
    /// For every start below 2⁶⁴ − 2³² and every TSN, the following number has the TSN's 32 bits and is the first such
    /// number from the start on.
    fn following_tsn_is_the_first(from: u64, tsn: u32) {
        if from > u64::MAX - u64::from(u32::MAX) {
            return;
        }
        let number = following(from, Serial(tsn));
        assert!(number as u32 == tsn && number >= from && u32::try_from(number - from).is_ok());
    }
}
