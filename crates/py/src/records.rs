//! Stored records for Python: their checksums, and their values as columns.

use anabranch_sim::scenario::result::columns::{self, Documents, Values};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// Size of the blocks in which a store is read.
const BLOCK_BYTES: usize = 1 << 20;

/// The CRC-32 of a text, as zlib computes it.
#[pyfunction]
pub(crate) fn checksum(text: &[u8]) -> u32 {
    crc32fast::hash(text)
}

/// Decodes lines of a store into columns.
#[pyclass]
pub(crate) struct RecordDecoder(Documents);

#[pymethods]
impl RecordDecoder {
    /// A decoder of records with these keys; each has a name, a type in Rust, and is true if it may be absent.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn new(keys: Vec<(String, String, bool)>) -> PyResult<Self> {
        Documents::new(&keys).map(Self).map_err(pyo3::exceptions::PyValueError::new_err)
    }

    /// Adds the record of a line; returns the difference if it is damaged or has another layout.
    fn add(&mut self, line: &[u8]) -> Option<String> {
        let Some(text) = undamaged(line) else { return Some("is damaged".to_owned()) };
        self.0.add(text).err().map(|error| error.to_string())
    }

    /// Returns the columns of all records, and begins empty ones.
    fn take(&mut self, py: Python<'_>) -> PyResult<Column> {
        Column::of_part(py, self.0.take())
    }
}

/// Offset and length of a line without its end, and the key of its run with the fingerprint of the simulator. A line that
/// is damaged, or has another beginning than those of runs, is given as a whole instead.
type Line<'py> = (u64, usize, Option<(String, Bound<'py, PyString>)>, Option<Bound<'py, PyBytes>>);

/// The lines of a store, in their order.
#[pyclass]
pub(crate) struct StoreLines {
    file: BufReader<File>,
    offset: u64,
    line: Vec<u8>,
    /// The last fingerprint; most runs have the same one.
    build: Option<Py<PyString>>,
}

#[pymethods]
impl StoreLines {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let file = BufReader::with_capacity(BLOCK_BYTES, File::open(path)?);
        Ok(Self { file, offset: 0, line: Vec::new(), build: None })
    }

    fn __iter__(own: Py<Self>) -> Py<Self> {
        own
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Line<'py>>> {
        self.line.clear();
        let length = self.file.read_until(b'\n', &mut self.line)?;
        if length == 0 {
            return Ok(None);
        }
        let offset = self.offset;
        self.offset += length as u64;
        let run = self.line.strip_suffix(b"\n").and_then(undamaged).and_then(run);
        let Some((key, build)) = run else {
            return Ok(Some((offset, length - 1, None, Some(PyBytes::new(py, &self.line)))));
        };
        let same = self.build.take().filter(|last| last.bind(py).to_str().is_ok_and(|last| last == build));
        let build = same.unwrap_or_else(|| PyString::new(py, build).unbind());
        self.build = Some(build.clone_ref(py));
        Ok(Some((offset, length - 1, Some((key.to_owned(), build.into_bound(py))), None)))
    }
}

/// The key and the fingerprint of a record that begins as the store writes it, without parsing the rest.
fn run(text: &str) -> Option<(&str, &str)> {
    let (key, rest) = text.strip_prefix(r#"{"key":""#)?.split_once(r#"","title":""#)?;
    let rest = after_text(rest)?.strip_prefix(r#","repetition":"#)?;
    let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).strip_prefix(r#","seed":"#)?;
    let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).strip_prefix(r#","build":""#)?;
    let (build, _) = rest.split_once('"')?;
    // A text with an escaped sign needs a parser.
    let is_plain = |text: &str| !text.contains(['"', '\\']);
    (is_plain(key) && is_plain(build)).then_some((key, build))
}

/// The rest after the end of a text.
fn after_text(text: &str) -> Option<&str> {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    Some(&text[end + 1..])
}

/// The text of a line, which begins with its checksum.
fn undamaged(line: &[u8]) -> Option<&str> {
    let (checksum, text) = str::from_utf8(line).ok()?.split_once(' ')?;
    let expected = u32::from_str_radix(checksum, 16).ok()?;
    (expected == crc32fast::hash(text.as_bytes())).then_some(text)
}

/// A column: bytes of numbers in the machine's order, or further columns.
#[pyclass(frozen, get_all)]
pub(crate) struct Column {
    rows: usize,
    /// Indices of the rows without a value, u64.
    absent: Py<PyBytes>,
    /// Numbers f64 or u64, truth values u8, indices of texts u32, or ends of lists and tables u64.
    values: Py<PyBytes>,
    /// Different texts.
    texts: Vec<String>,
    /// Keys of tables.
    keys: Option<Py<Column>>,
    /// Items of lists, or values of tables.
    items: Option<Py<Column>>,
    /// Columns of a part by key.
    parts: Py<PyDict>,
}

impl Column {
    fn of(py: Python<'_>, column: columns::Column) -> PyResult<Self> {
        let rows = column.rows();
        let absent = bytes(py, &column.absent, u64::to_ne_bytes)?;
        let column = match column.values {
            Values::Part(part) => Self::of_part(py, part)?,
            Values::F64(values) => Self::of_numbers(py, rows, bytes(py, &values, f64::to_ne_bytes)?),
            Values::U64(values) => Self::of_numbers(py, rows, bytes(py, &values, u64::to_ne_bytes)?),
            Values::Bool(values) => Self::of_numbers(py, rows, bytes(py, &values, |v| [u8::from(v)])?),
            Values::Exactly(..) | Values::Ignored(_) => {
                Self::of_numbers(py, rows, PyBytes::new(py, &[]).unbind())
            }
            Values::Text(texts) => Self::of_texts(py, texts)?,
            Values::List(list) => {
                let items = Some(Py::new(py, Self::of(py, *list.items)?)?);
                Self { items, ..Self::of_numbers(py, rows, bytes(py, &list.ends, u64::to_ne_bytes)?) }
            }
            Values::Table(table) => {
                let keys = Some(Py::new(py, Self::of_texts(py, table.keys)?)?);
                let items = Some(Py::new(py, Self::of(py, *table.values)?)?);
                Self { keys, items, ..Self::of_numbers(py, rows, bytes(py, &table.ends, u64::to_ne_bytes)?) }
            }
        };
        Ok(Self { absent, ..column })
    }

    fn of_part(py: Python<'_>, part: columns::Part) -> PyResult<Self> {
        let parts = PyDict::new(py);
        for key in part.keys {
            parts.set_item(key.name, Self::of(py, key.column)?)?;
        }
        Ok(Self { parts: parts.unbind(), ..Self::of_numbers(py, part.rows, PyBytes::new(py, &[]).unbind()) })
    }

    fn of_texts(py: Python<'_>, texts: columns::Texts) -> PyResult<Self> {
        let codes = bytes(py, &texts.codes, u32::to_ne_bytes)?;
        Ok(Self { texts: texts.distinct, ..Self::of_numbers(py, texts.codes.len(), codes) })
    }

    fn of_numbers(py: Python<'_>, rows: usize, values: Py<PyBytes>) -> Self {
        let absent = PyBytes::new(py, &[]).unbind();
        Self {
            rows,
            absent,
            values,
            texts: Vec::new(),
            keys: None,
            items: None,
            parts: PyDict::new(py).unbind(),
        }
    }
}

/// The bytes of numbers, one after the other.
fn bytes<T: Copy, const N: usize>(
    py: Python<'_>,
    numbers: &[T],
    of: impl Fn(T) -> [u8; N],
) -> PyResult<Py<PyBytes>> {
    let fill = |content: &mut [u8]| {
        content.as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(place, number)| *place = of(*number));
        Ok(())
    };
    PyBytes::new_with(py, numbers.len() * N, fill).map(Bound::unbind)
}
