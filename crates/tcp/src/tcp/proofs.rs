//! Theorems about windows ([method](anabranch_proof)).

use super::input::window_shift;
use super::output::window_field;
use anabranch_proof::theorem;

theorem! {
    /// For every buffer, the shift is the smallest with which the buffer fits the window field, at most 14 (RFC 7323
    /// §2.3).
    fn window_shift_is_the_smallest(bytes: u64) {
        let shift = window_shift(bytes);
        assert!(shift <= 14);
        assert!(shift == 14 || bytes >> shift <= 0xffff);
        assert!(shift == 0 || bytes >> (shift - 1) > 0xffff);
    }
}

theorem! {
    /// For every window and every shift up to 14, the advertised window is at most the real one, and smaller by less
    /// than one unit or limited by the field.
    fn advertised_window_is_never_too_large(window: u64, shift: u8) {
        if shift > 14 {
            return;
        }
        let field = window_field(window, shift);
        let advertised = u64::from(field) << shift;
        assert!(advertised <= window);
        assert!(window - advertised < 1 << shift || field == u16::MAX);
    }
}

theorem! {
    /// For every buffer up to 1 GiB and every window within it, the field loses less than one unit.
    fn window_within_the_buffer_is_not_limited(buffer: u32, window: u32) {
        if buffer > 1 << 30 || window > buffer || window_shift(buffer.into()) == 14 {
            return;
        }
        let shift = window_shift(buffer.into());
        let advertised = u64::from(window_field(window.into(), shift)) << shift;
        assert!(u64::from(window) - advertised < 1 << shift);
    }
}
