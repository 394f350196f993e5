//! False theorems whose counterexamples are too rare for samples. `make proofs` fails if it does not refute each.

theorem! {
    /// False for one number of 2³².
    fn one_number_differs(number: u32) {
        assert!(number != 0x1234_5678);
    }
}

theorem! {
    /// False for one sum of 2⁶⁴, which overflows.
    fn addition_overflows(number: u64) {
        assert!((number ^ 0x0123_4567_89ab_cdef) + 1 > 0);
    }
}

theorem! {
    /// False for one index of 2³², which is one behind the end.
    fn index_is_behind_the_end(index: u32, bytes: [u8; 5]) {
        let index = (index ^ 0x1234_5678) as usize;
        if index <= bytes.len() {
            assert!(bytes[index..=index].len() == 1);
        }
    }
}

theorem! {
    /// False if a copied part has one content of 2³².
    fn copied_bytes_differ(bytes: [u8; 8], at: u8) {
        let at = usize::from(at % 5);
        let mut copy = Vec::new();
        copy.extend_from_slice(&bytes[at..at + 4]);
        assert!(copy != [0xa7, 0x3c, 0x91, 0x5e]);
    }
}
