//! Theorems about checksums, serial numbers and payloads ([method](anabranch_proof)).

use crate::checksum::fold_carries;
use crate::seq::Serial;
use crate::{Checksum, Payload};
use anabranch_proof::theorem;

/// The ones'-complement sum of two words: a carry is added back (RFC 1071 §1).
const fn add_words(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// The ones'-complement sum of the big-endian words of an even number of bytes.
fn sum_of_words<const N: usize>(bytes: [u8; N]) -> u16 {
    let mut sum = 0;
    for pair in bytes.as_chunks().0 {
        sum = add_words(sum, u16::from_be_bytes(*pair));
    }
    sum
}

theorem! {
    /// For every sum below 2³², folding equals the ones'-complement sum of its two words.
    fn folding_adds_two_words(sum: u32) {
        assert!(fold_carries(sum.into()) == add_words((sum >> 16) as u16, sum as u16));
    }
}

theorem! {
    /// For all 4 bytes, the checksum is the one of RFC 1071 §1.
    fn checksum_of_4_bytes_is_defined_sum(bytes: [u8; 4]) {
        assert!(Checksum::new().bytes(&bytes).finish() == !sum_of_words(bytes));
    }
}

theorem! {
    /// For all 2 bytes in front of their checksum, the checksum over all is zero.
    fn checksum_over_its_own_bytes_is_zero(bytes: [u8; 2]) {
        let sum = Checksum::new().bytes(&bytes).finish().to_be_bytes();
        assert!(Checksum::new().bytes(&[bytes[0], bytes[1], sum[0], sum[1]]).finish() == 0);
    }
}

theorem! {
    /// For all 4 bytes and every cut, two parts have the checksum of the whole, in either order.
    fn checksum_of_two_parts_is_that_of_the_whole(bytes: [u8; 4], cut: u8) {
        if cut > 4 {
            return;
        }
        let (front, back) = bytes.split_at(cut.into());
        let whole = Checksum::new().bytes(&bytes).finish();
        assert!(Checksum::new().bytes(front).bytes(back).finish() == whole);
        let parts = Checksum::new().with_part(cut % 2 == 1, Checksum::new().bytes(back));
        assert!(parts.with_part(false, Checksum::new().bytes(front)).finish() == whole);
    }
}

theorem! {
    /// For all pairs, exactly one of before, equal and after holds, except for numbers 2³¹ apart.
    fn serial_order_is_total(a: u32, b: u32) {
        let (a, b) = (Serial(a), Serial(b));
        if a.0.wrapping_sub(b.0) != 1 << 31 {
            assert!(u8::from(a.before(b)) + u8::from(a == b) + u8::from(a.after(b)) == 1);
        }
        assert!(a.at_or_before(b) == (a.before(b) || a == b));
    }
}

theorem! {
    /// For every number and every distance below 2³¹, a number precedes the one that is this distance behind.
    fn serial_precedes_its_successors(a: u32, steps: u32) {
        let (a, b) = (Serial(a), Serial(a).add(steps));
        assert!(b.sub(steps) == a);
        if steps < 1 << 31 {
            assert!(a.before(b) == (steps > 0) && a.at_or_before(b) && !b.before(a));
        }
    }
}

theorem! {
    /// For all numbers within half the space, the order is transitive.
    fn serial_order_is_transitive_in_a_window(a: u32, to_b: u32, to_c: u32) {
        let (a, b) = (Serial(a), Serial(a).add(to_b));
        let c = b.add(to_c);
        if a.before(b) && b.before(c) && to_b.checked_add(to_c).is_some_and(|sum| sum < 1 << 31) {
            assert!(a.before(c));
        }
    }
}

theorem! {
    /// For all serial numbers and all 64-bit numbers, unwrapping keeps the low 32 bits and moves less than 2³¹ up or at
    /// most 2³¹ down.
    fn unwrapping_finds_the_nearest_number(low: u32, near: u64) {
        let number = Serial(low).unwrap_near(near);
        assert!(number as u32 == low);
        assert!(number.wrapping_sub(near).wrapping_add(1 << 31) < 1 << 32);
    }
}

theorem! {
    /// For all payloads and all parts within, the part lies within the payload.
    fn part_of_payload_lies_within(offset: u64, len: u32, skip: u32, part: u32) {
        if offset > u64::MAX - u64::from(u32::MAX) || skip > len || part > len - skip {
            return;
        }
        let whole = Payload::new(offset, len);
        let part = whole.part(skip, part);
        assert!(part.offset >= whole.offset && part.end() <= whole.end());
    }
}

theorem! {
    /// For every first number, every position and every reference nearer than 2³¹, the position is recovered from the
    /// 32 bits on the wire.
    fn position_is_recovered_from_32_bits(first: u32, position: u64, behind: u32) {
        if behind >= 1 << 31 {
            return;
        }
        let (first, near) = (Serial(first), position.wrapping_sub(behind.into()));
        let sent = first.add(position as u32);
        assert!(sent.distance_from(first, near) == position);
        assert!(sent.distance_from(first, position.wrapping_add(behind.into())) == position);
    }
}
