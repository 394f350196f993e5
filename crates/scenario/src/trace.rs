//! Traces of delivery opportunities in Mahimahi's format.

use super::error::{Fault, Origin, quoted, shortened};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Source of trace files: the file system, or a function of a test.
pub(super) type Files<'a> = &'a dyn Fn(&Path) -> Result<String, String>;

/// Reads a trace, its path relative to the scenario file.
pub(super) fn read(
    trace: &str,
    scenario: &str,
    files: Files<'_>,
    origin: Origin,
) -> Result<Arc<[u64]>, Fault> {
    let folder = Path::new(scenario).parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let path = folder.join(trace);
    let shown = quoted(trace);
    let text = files(&path).map_err(|reason| {
        let path = shortened(&path.display().to_string());
        Fault::new(origin, format!("the trace {shown} cannot be read ({path}: {reason}); give its path relative to the scenario file"))
    })?;
    parse(&text).map_err(|problem| Fault::new(origin, format!("the trace {shown} {problem}")))
}

/// Reads a trace from the file system, if it is a regular file of acceptable size.
pub(super) fn from_disk(path: &Path) -> Result<String, String> {
    /// A trace of a day at 100 Mbit/s is smaller.
    const MAX_FILE_BYTES: u64 = 1 << 30;
    let metadata = std::fs::metadata(path).map_err(|error| reason(&error))?;
    if !metadata.is_file() {
        return Err("it is not a file".into());
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err("it is larger than 1 GiB".into());
    }
    std::fs::read_to_string(path).map_err(|error| reason(&error))
}

/// The message of an I/O error without its number.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::InvalidData => "it is not text".into(),
        kind => kind.to_string(),
    }
}

/// Parses times in milliseconds: ascending, at least one, the last greater than zero.
fn parse(text: &str) -> Result<Arc<[u64]>, String> {
    let mut moments: Vec<u64> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let number = index + 1;
        let Ok(moment) = line.parse::<u64>() else {
            // The line may be of any file that the scenario names: its content stays out of the message.
            return Err(format!(
                "has no time on its line {number}; write a time in whole milliseconds on each line"
            ));
        };
        if moments.last().is_some_and(|&last| moment < last) {
            return Err(format!("goes back in time on its line {number}; sort its lines in ascending order"));
        }
        moments.push(moment);
    }
    match moments.last() {
        None => Err("is empty; write at least one line with a time in milliseconds".into()),
        Some(0) => Err("contains only 0 ms; its last line is its period and must be greater than 0".into()),
        Some(&last) if last > u64::MAX / 2_000_000 => {
            Err(format!("ends at {last} ms, which is too large to count; shorten it"))
        }
        Some(_) => Ok(moments.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_is_a_list_of_times() {
        assert_eq!(parse("0\n0\n 5\n\n12\n").unwrap().as_ref(), [0, 0, 5, 12]);
    }

    #[test]
    fn errors_of_traces_name_the_line() {
        let message = parse("1\nroot:x:0\n").unwrap_err();
        assert!(message.contains("line 2"));
        assert!(!message.contains("root"), "{message}");
        assert!(parse("3\n2\n").unwrap_err().contains("back in time on its line 2"));
        assert!(parse("\n").unwrap_err().contains("is empty"));
        assert!(parse("0\n").unwrap_err().contains("period"));
        assert!(parse("-1\n").unwrap_err().contains("whole milliseconds"));
    }
}
