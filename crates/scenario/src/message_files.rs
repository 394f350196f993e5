//! Files of a scenario with message sizes, and with recorded messages.

use super::error::Fault;
use super::model::{Recording, SizeList};
use super::trace::{Source, lines, number_of, time_of};
use super::values::Checked;
use anabranch_base::time::Duration;
use std::sync::Arc;

/// The largest message of a file.
const MAX_MESSAGE_BYTES: u64 = 1 << 30;

/// Reads a file of sizes.
pub(super) fn size_list(entry: &Checked, source: Source<'_>) -> Result<Arc<SizeList>, Fault> {
    let file = entry.value.text();
    let sizes = source.parsed("list of sizes", file, entry.origin, sizes)?;
    Ok(Arc::new(SizeList { file: file.to_owned(), sizes }))
}

/// Reads a file of messages.
pub(super) fn recording(entry: &Checked, source: Source<'_>) -> Result<Arc<Recording>, Fault> {
    let file = entry.value.text();
    let messages = source.parsed("recording", file, entry.origin, messages)?;
    Ok(Arc::new(Recording { file: file.to_owned(), messages }))
}

/// A size within the limits.
fn size(text: &str, number: usize) -> Result<u64, String> {
    // The line may be of any file that the scenario names: its content stays out of the message.
    let bytes: Option<u64> = text.parse().ok();
    bytes.filter(|bytes| (1..=MAX_MESSAGE_BYTES).contains(bytes)).ok_or_else(|| {
        format!("needs a whole number of bytes from 1 to {MAX_MESSAGE_BYTES} on line {number}; correct it")
    })
}

fn sizes(text: &str) -> Result<Vec<u64>, String> {
    let sizes: Vec<_> = lines(text).map(|(number, line)| size(&line, number)).collect::<Result<_, _>>()?;
    if sizes.is_empty() { Err("is empty; write a size in bytes on each line".into()) } else { Ok(sizes) }
}

fn messages(text: &str) -> Result<Vec<(Duration, u64)>, String> {
    const COLUMNS: &str = "time_s,bytes";
    let mut messages: Vec<(Duration, u64)> = Vec::new();
    for (number, line) in lines(text) {
        if messages.is_empty() && line == COLUMNS {
            continue;
        }
        let row = line.split_once(',').and_then(|(time, bytes)| Some((number_of(time)?, bytes)));
        let Some((seconds, bytes)) = row else {
            return Err(format!("needs a time and a size on line {number}; write rows of {COLUMNS}"));
        };
        let (at, bytes) = (time_of(seconds, number)?, size(bytes, number)?);
        if messages.last().is_some_and(|&(last, _)| at < last) {
            return Err(format!("goes back in time on line {number}; sort its rows"));
        }
        messages.push((at, bytes));
    }
    if messages.is_empty() { Err(format!("is empty; write rows of {COLUMNS}")) } else { Ok(messages) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_one_a_line() {
        assert_eq!(sizes("\u{feff}100\n\n 7 \n1073741824\n"), Ok(vec![100, 7, 1 << 30]));
    }

    #[test]
    fn errors_of_sizes_name_the_line() {
        for (text, expected) in [
            ("", "is empty"),
            ("\n \n", "is empty"),
            ("1\n0\n", "needs a whole number of bytes from 1 to 1073741824 on line 2"),
            ("1\n\n1073741825\n", "needs a whole number of bytes from 1 to 1073741824 on line 3"),
            ("-1\n", "needs a whole number of bytes from 1 to 1073741824 on line 1"),
            ("1.5\n", "needs a whole number of bytes from 1 to 1073741824 on line 1"),
            ("root:x\n", "needs a whole number of bytes from 1 to 1073741824 on line 1"),
        ] {
            let message = sizes(text).unwrap_err();
            assert!(message.starts_with(expected) && !message.contains("root"), "{message}");
        }
    }

    #[test]
    fn recordings_are_times_and_sizes() {
        let expected = [(0, 160), (20, 160), (20, 7)].map(|(ms, bytes)| (Duration::from_millis(ms), bytes));
        for text in ["time_s,bytes\n0,160\n0.02, 160\n0.02,7\n", "0,160\n\n0.02,160\n20e-3,7"] {
            assert_eq!(messages(text).as_deref(), Ok(&expected[..]));
        }
        assert_eq!(messages("5,1"), Ok(vec![(Duration::from_secs(5), 1)]), "the first time may be any");
    }

    #[test]
    fn errors_of_recordings_name_the_line() {
        for (text, expected) in [
            ("", "is empty; write rows of time_s,bytes"),
            ("time_s,bytes\n", "is empty"),
            ("0,1\n1\n", "needs a time and a size on line 2"),
            ("0,1\nNaN,1\n", "needs a time and a size on line 2"),
            ("0,1\n-1,1\n", "has a time on line 2 that is not from 0 to"),
            ("2,1\n1,1\n", "goes back in time on line 2"),
            ("0,0\n", "needs a whole number of bytes from 1 to 1073741824 on line 1"),
            ("0,1\n1,1073741825\n", "needs a whole number of bytes from 1 to 1073741824 on line 2"),
            ("0,root\n", "needs a whole number of bytes from 1 to 1073741824 on line 1"),
        ] {
            let message = messages(text).unwrap_err();
            assert!(message.starts_with(expected) && !message.contains("root"), "{message}");
        }
    }
}
