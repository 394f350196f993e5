//! Files of a scenario with values over time: delivery opportunities in Mahimahi's format, and CSV files.

use super::error::{Fault, Origin, quoted, shortened};
use super::values::Checked;
use anabranch_base::time::Duration;
use anabranch_netem::Series;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads files: from the file system, or by a function of a test.
pub(super) type Files<'a> = &'a dyn Fn(&Path) -> Result<String, String>;

/// The source of the files that a scenario names.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// The name of the scenario file, as given by the caller.
    pub file: &'a str,
    pub files: Files<'a>,
}

impl Source<'_> {
    /// The text of the file `name`, a path relative to the scenario file. Messages call its content `what`.
    fn text(&self, what: &str, name: &str, origin: Origin) -> Result<String, Fault> {
        let folder = Path::new(self.file).parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let path = folder.join(name);
        (self.files)(&path).map_err(|reason| {
            let (shown, path) = (quoted(name), shortened(&path.display().to_string()));
            Fault::new(origin, format!("the {what} {shown} cannot be read ({path}: {reason}); give its path relative to the scenario file"))
        })
    }

    /// The content of a file. `parse` returns the content, or a problem that follows the name of the file in a message.
    pub fn parsed<T>(
        &self,
        what: &str,
        name: &str,
        origin: Origin,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, Fault> {
        let text = self.text(what, name, origin)?;
        parse(&text).map_err(|problem| Fault::new(origin, format!("the {what} {} {problem}", quoted(name))))
    }
}

/// Reads a trace of delivery opportunities.
pub(super) fn opportunities(trace: &str, origin: Origin, source: Source<'_>) -> Result<Arc<[u64]>, Fault> {
    source.parsed("trace", trace, origin, parse)
}

/// The second column of a CSV file; the first one is `time_s`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    name: &'static str,
    /// Values in the unit of the result for each unit in the file.
    scale: f64,
    /// Maximum, in the unit of the file.
    max: f64,
    /// Some value must be above zero.
    needs_positive: bool,
}

/// Rates in bit/s, at most a petabit per second.
pub(super) const RATES: Column = Column { name: "bit_per_s", scale: 1.0, max: 1e15, needs_positive: true };

/// Delays in milliseconds, at most an hour; the result is in nanoseconds.
pub(super) const DELAYS: Column = Column { name: "delay_ms", scale: 1e6, max: 3.6e6, needs_positive: false };

/// Probabilities.
pub(super) const fn probabilities(name: &'static str) -> Column {
    Column { name, scale: 1.0, max: 1.0, needs_positive: false }
}

/// Reads a CSV file with values over time.
pub(super) fn series(entry: &Checked, column: &Column, source: Source<'_>) -> Result<Series, Fault> {
    let name = entry.value.text();
    let points = source.parsed("trace", name, entry.origin, |text| points(text, column))?;
    Ok(Series::new(name, points))
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

/// The lines of a file with content, without white space, and their numbers.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let lines = (1..).zip(text.trim_start_matches('\u{feff}').lines());
    let content = lines.map(|(number, line)| (number, line.split_whitespace().collect::<String>()));
    content.filter(|(_, line)| !line.is_empty())
}

/// The time of a row of a CSV file.
pub(super) fn time_of(seconds: f64, number: usize) -> Result<Duration, String> {
    /// The largest time, seconds.
    const MAX_TIME_S: f64 = 1e9;
    if !(0.0..=MAX_TIME_S).contains(&seconds) {
        return Err(format!("has a time on line {number} that is not from 0 to {MAX_TIME_S} s; correct it"));
    }
    Ok(Duration::from_nanos((seconds * 1e9).round() as u64))
}

/// Parses rows of a time in seconds and a value: the first time is zero, the others ascend. A first line with the
/// names of the columns is skipped.
fn points(text: &str, column: &Column) -> Result<Vec<(Duration, f64)>, String> {
    let columns = format!("time_s,{}", column.name);
    let mut points: Vec<(Duration, f64)> = Vec::new();
    for (number, line) in lines(text) {
        if points.is_empty() && line == columns {
            continue;
        }
        // The file may be any file on the machine that the scenario names, so the message does not contain its
        // content.
        let numbers =
            line.split_once(',').and_then(|(time, value)| Some((number_of(time)?, number_of(value)?)));
        let Some((seconds, value)) = numbers else {
            return Err(format!("needs two numbers on line {number}; write rows of {columns}"));
        };
        let at = time_of(seconds, number)?;
        if !(0.0..=column.max).contains(&value) {
            let (name, max) = (column.name, column.max);
            return Err(format!("has a {name} on line {number} that is not from 0 to {max}; correct it"));
        }
        match points.last() {
            None if at > Duration::ZERO => {
                return Err(format!("does not begin at 0 s (line {number}); its first time must be 0"));
            }
            Some(&(last, _)) if at <= last => {
                return Err(format!(
                    "does not go forward in time on line {number}; sort its rows and keep one for each time"
                ));
            }
            _ => points.push((at, value * column.scale)),
        }
    }
    if points.len() < 2 {
        return Err(format!("needs at least two rows of {columns}; the time of the last one is its period"));
    }
    if column.needs_positive && points[..points.len() - 1].iter().all(|&(_, value)| value < 0.5) {
        return Err("has only rates of 0; at least one before its last row must be greater".into());
    }
    Ok(points)
}

/// A finite number.
pub(super) fn number_of(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
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
            // The file may be any file on the machine that the scenario names, so the message does not contain its
            // content.
            return Err(format!(
                "needs a time on line {number}; write a time in whole milliseconds on each line"
            ));
        };
        if moments.last().is_some_and(|&last| moment < last) {
            return Err(format!("goes back in time on line {number}; sort its lines in ascending order"));
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
        assert!(parse("3\n2\n").unwrap_err().contains("back in time on line 2"));
        assert!(parse("\n").unwrap_err().contains("is empty"));
        assert!(parse("0\n").unwrap_err().contains("period"));
        assert!(parse("-1\n").unwrap_err().contains("whole milliseconds"));
    }

    #[test]
    fn rows_are_times_and_values() {
        let expected =
            [(0, 2e6), (1500, 0.0), (4000, 7.0)].map(|(ms, rate)| (Duration::from_millis(ms), rate));
        for text in ["time_s,bit_per_s\n0,2e6\n1.5, 0\n4,7\n", "0,2000000\n\n1.5,0\n4,7"] {
            assert_eq!(points(text, &RATES).unwrap(), expected);
        }
        let delays = [(Duration::ZERO, 1.5e6), (Duration::from_secs(2), 3e6)];
        assert_eq!(points("0,1.5\n2,3\n", &DELAYS).unwrap(), delays);
    }

    #[test]
    fn errors_of_rows_name_the_line() {
        for (text, expected) in [
            ("0,1\n1,root:x\n", "needs two numbers on line 2; write rows of time_s,bit_per_s"),
            ("0,1\n1,NaN\n", "needs two numbers on line 2"),
            ("0,1\n1,inf\n", "needs two numbers on line 2"),
            ("0\n", "needs two numbers on line 1"),
            ("0,1\n-1,1\n", "has a time on line 2 that is not from 0 to"),
            ("0,1\n1,-1\n", "has a bit_per_s on line 2 that is not from 0 to"),
            ("time_s,bit_per_s\n1,1\n", "does not begin at 0 s (line 2)"),
            ("0,1\n2,1\n2,1\n", "does not go forward in time on line 3"),
            ("0,1\n", "needs at least two rows"),
            ("time_s,delay_ms\n0,1\n2,1\n", "needs two numbers on line 1"),
            ("0,0\n1,0\n2,9\n", "has only rates of 0"),
        ] {
            let message = points(text, &RATES).unwrap_err();
            assert!(message.starts_with(expected) && !message.contains("root"), "{message}");
        }
        assert!(points("0,0\n1,1.1\n", &probabilities("loss")).unwrap_err().contains("not from 0 to 1"));
    }
}
