//! A scenario file; comments that begin with `#set ` are also overrides.
#![no_main]

use anabranch_sim::scenario::{parse_with, to_toml};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let overrides: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("#set ")?.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let files = |_: &std::path::Path| Ok("0\n1\n1\n7\n".to_owned());
    match parse_with(text, "fuzz.toml", &overrides, &files) {
        // An accepted scenario keeps its meaning when it is written.
        Ok(scenario) => {
            let again = parse_with(&to_toml(&scenario), "again.toml", &[], &files);
            assert_eq!(again.as_ref(), Ok(&scenario));
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});
