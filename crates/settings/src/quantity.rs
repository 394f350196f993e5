//! Numbers with units: exact decimal arithmetic from text to the base unit, and back to the shortest exact
//! text.

use super::suggest;
use super::text::quoted;

/// A unit and its value in the base unit of its family.
#[derive(Debug)]
pub struct Unit {
    /// Name of the unit.
    pub name: &'static str,
    /// Number of base units in one unit.
    pub factor: u64,
    /// True if the unit is used when a value is written as text; other units are only read.
    written: bool,
}

/// Units that measure the same thing.
#[derive(Debug)]
pub struct Family {
    /// Name of the quantity with its article, for example "a rate".
    pub what: &'static str,
    /// An example in the users' notation.
    pub example: &'static str,
    /// Units that are the most likely ones for a number without a unit.
    completions: &'static [&'static str],
    /// The units, from small to large.
    pub units: &'static [Unit],
    /// True if a fraction of the base unit is an error; otherwise it is rounded.
    whole: bool,
}

const fn unit(name: &'static str, factor: u64) -> Unit {
    Unit { name, factor, written: true }
}

const fn accepted(name: &'static str, factor: u64) -> Unit {
    Unit { name, factor, written: false }
}

/// Times in nanoseconds.
pub static TIME: Family = Family {
    what: "a time",
    example: "20 ms",
    completions: &["ms", "s"],
    units: &[
        unit("ns", 1),
        unit("us", 1_000),
        accepted("µs", 1_000),
        unit("ms", 1_000_000),
        unit("s", 1_000_000_000),
        accepted("min", 60_000_000_000),
        accepted("h", 3_600_000_000_000),
    ],
    whole: false,
};

/// Rates in bits per second.
pub static RATE: Family = Family {
    what: "a rate",
    example: "10 Mbit/s",
    completions: &["Mbit/s", "bit/s"],
    units: &[
        unit("bit/s", 1),
        unit("kbit/s", 1_000),
        unit("Mbit/s", 1_000_000),
        unit("Gbit/s", 1_000_000_000),
        accepted("Tbit/s", 1_000_000_000_000),
    ],
    whole: false,
};

/// Numbers of bytes, with decimal and binary prefixes.
pub static SIZE: Family = Family {
    what: "a size",
    example: "500 kB",
    completions: &["B", "kB"],
    units: &[
        unit("B", 1),
        unit("kB", 1_000),
        accepted("KiB", 1 << 10),
        unit("MB", 1_000_000),
        accepted("MiB", 1 << 20),
        unit("GB", 1_000_000_000),
        accepted("GiB", 1 << 30),
        accepted("TB", 1_000_000_000_000),
    ],
    whole: false,
};

/// Numbers of packets.
pub static PACKETS: Family = Family {
    what: "a number of packets",
    example: "100 packets",
    completions: &["packets"],
    units: &[accepted("packet", 1), unit("packets", 1)],
    whole: true,
};

impl Family {
    /// Names of the units, for messages.
    pub fn unit_names(&self) -> String {
        names(&[self])
    }

    /// The shortest exact text of `value` (in the base unit).
    pub fn written(&self, value: u64) -> String {
        // Zero is a multiple of every unit, so it is written in a common one.
        let fits = |unit: &&Unit| {
            unit.written
                && if value == 0 {
                    unit.name == self.completions[0]
                } else {
                    value.is_multiple_of(unit.factor)
                }
        };
        let unit = self.units.iter().rfind(fits).expect("the base unit fits every value");
        format!("{} {}", value / unit.factor, unit.name)
    }
}

fn names(families: &[&Family]) -> String {
    let all: Vec<_> = families.iter().flat_map(|f| f.units.iter().map(|unit| unit.name)).collect();
    all.join(", ")
}

/// A number of base units of one family.
#[derive(Debug)]
pub struct Quantity {
    /// The value.
    pub value: u64,
    /// Index of the family.
    pub family: usize,
}

/// Reads text such as `"10 Mbit/s"` with the units of any of `families`.
///
/// # Errors
///
/// The end of a sentence that begins with the place: the error and the remedy.
pub fn parse(text: &str, families: &[&'static Family]) -> Result<Quantity, String> {
    let (number, unit) = split(text.trim());
    let shown = || quoted(text);
    if number.starts_with('-') && decimal(&number[1..]).is_some() {
        return Err(format!("{} is negative; write a value without the sign", shown()));
    }
    let Some(decimal) = decimal(number) else {
        return Err(format!("{} is not {}", shown(), wanted(families)));
    };
    if unit.is_empty() {
        return Err(format!("{} has no unit; write {}", shown(), with_unit(number, families)));
    }
    let found = families
        .iter()
        .enumerate()
        .find_map(|(index, family)| Some((index, family.units.iter().find(|known| known.name == unit)?)));
    let Some((family, unit)) = found else {
        return Err(format!(
            "unknown unit {} in {}; {}",
            quoted(unit),
            shown(),
            unit_remedy(number, unit, families)
        ));
    };
    let whole = families[family].whole;
    match decimal.times(unit.factor, whole) {
        Scaled::Value(value) => Ok(Quantity { value, family }),
        Scaled::TooLarge => Err(format!("{} is too large to count; write a smaller value", shown())),
        Scaled::Broken => Err(format!("{} is not whole; write a whole number of {}", shown(), unit.name)),
        Scaled::Vanishing => Err(format!(
            "{} is less than one {1}; write at least \"1 {1}\"",
            shown(),
            families[family].units[0].name
        )),
    }
}

/// The expected notation, for a message: `a rate such as "10 Mbit/s" (units: bit/s, …)`.
pub fn wanted(families: &[&'static Family]) -> String {
    let kinds: Vec<_> =
        families.iter().map(|family| format!("{} such as \"{}\"", family.what, family.example)).collect();
    format!("{} (units: {})", kinds.join(" or "), names(families))
}

/// Smallest number without a unit that is most likely a rate in bit/s.
const MIN_BARE_RATE: f64 = 100_000.0;

/// A number without a unit, completed by the most likely units: `"5 ms" (units: …)`.
pub fn with_unit(number: &str, families: &[&'static Family]) -> String {
    let value: f64 = number.parse().unwrap_or(0.0);
    let completions = families.iter().flat_map(|family| {
        let second_is_likelier = match family {
            _ if std::ptr::eq(*family, &raw const RATE) => value >= MIN_BARE_RATE,
            _ if std::ptr::eq(*family, &raw const TIME) => value > 0.0 && value < 1.0,
            _ => false,
        };
        let mut units = family.completions.to_vec();
        if second_is_likelier {
            units.reverse();
        }
        units
    });
    let examples: Vec<_> = completions.map(|unit| format!("\"{number} {unit}\"")).collect();
    format!("for example {} (units: {})", examples.join(" or "), names(families))
}

/// The remedy for a unit that other tools and texts use and that is not merely a misspelling.
fn slip(unit: &str) -> Option<String> {
    const WORDS: &[(&str, &str)] = &[
        ("sec", "s"),
        ("secs", "s"),
        ("second", "s"),
        ("seconds", "s"),
        ("msec", "ms"),
        ("usec", "us"),
        ("minute", "min"),
        ("minutes", "min"),
        ("mins", "min"),
        ("hr", "h"),
        ("hour", "h"),
        ("hours", "h"),
        ("byte", "B"),
        ("bytes", "B"),
        ("p", "packets"),
        ("pkt", "packets"),
        ("pkts", "packets"),
    ];
    let word =
        WORDS.iter().find(|(other, _)| unit.eq_ignore_ascii_case(other)).map(|(_, ours)| (*ours).to_owned());
    let rate = || {
        let prefix = ["bps", "b/s", "bits/s", "bit"].iter().find_map(|suffix| unit.strip_suffix(suffix))?;
        Some(format!("{}bit/s", if prefix == "K" { "k" } else { prefix }))
    };
    word.or_else(rate)
}

fn unit_remedy(number: &str, unit: &str, families: &[&'static Family]) -> String {
    let candidates = || families.iter().flat_map(|family| family.units.iter().map(|known| known.name));
    let rates = families.iter().any(|family| std::ptr::eq(*family, &raw const RATE));
    let sizes = families.iter().any(|family| std::ptr::eq(*family, &raw const SIZE));
    if let Some(meant) = slip(unit).filter(|meant| candidates().any(|known| known == meant)) {
        return format!("did you mean \"{number} {meant}\"?");
    }
    if rates && (unit.ends_with("B/s") || unit.ends_with("Bps")) {
        return format!("rates are in bits per second: {}", names(families));
    }
    if sizes && (unit.ends_with("bit") || unit.ends_with('b')) {
        return format!("sizes are in bytes: {}", names(families));
    }
    match suggest::nearest(unit, candidates()) {
        Some(near) => format!("did you mean \"{number} {near}\"?"),
        None => format!("write {}", wanted(families)),
    }
}

/// Splits a text into its number and its unit; either may be empty.
fn split(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let exponent = matches!(bytes[end], b'e' | b'E')
            && end > 0
            && matches!(bytes.get(end + 1..), Some([b'0'..=b'9', ..] | [b'+' | b'-', b'0'..=b'9', ..]));
        let sign = matches!(bytes[end], b'+' | b'-') && (end == 0 || matches!(bytes[end - 1], b'e' | b'E'));
        if !(exponent || sign || matches!(bytes[end], b'0'..=b'9' | b'.' | b',' | b'_')) {
            break;
        }
        end += 1;
    }
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// `digits · 10^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    digits: u128,
    exponent: i32,
}

enum Scaled {
    Value(u64),
    TooLarge,
    /// The value has a fraction although only whole numbers are allowed.
    Broken,
    /// The value is greater than zero but rounds to zero.
    Vanishing,
}

fn decimal(text: &str) -> Option<Decimal> {
    /// Maximum number of stored digits. No quantity needs more; further digits affect only the magnitude.
    const MAX_DIGITS: usize = 22;
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok().filter(|e| e.abs() <= 1000)?),
        None => (text, 0),
    };
    let mantissa = mantissa.strip_prefix('+').unwrap_or(mantissa);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let kept = &significant[..significant.len().min(MAX_DIGITS)];
    let dropped = i32::try_from(significant.len() - kept.len()).ok()?;
    let after_point = i32::try_from(fraction.len()).ok()?;
    let digits = if kept.is_empty() { 0 } else { kept.parse().ok()? };
    Some(Decimal { digits, exponent: exponent + dropped - after_point })
}

impl Decimal {
    fn times(self, factor: u64, whole: bool) -> Scaled {
        // At most 10^22 · 3.6·10^12: no overflow.
        let product = self.digits * u128::from(factor);
        if product == 0 {
            return Scaled::Value(0);
        }
        let power = 10u128.checked_pow(self.exponent.unsigned_abs());
        if self.exponent >= 0 {
            let value = power.and_then(|power| product.checked_mul(power));
            return value.and_then(|value| u64::try_from(value).ok()).map_or(Scaled::TooLarge, Scaled::Value);
        }
        let Some(power) = power else {
            return Scaled::Vanishing;
        };
        if whole && !product.is_multiple_of(power) {
            return Scaled::Broken;
        }
        match u64::try_from((product + power / 2) / power) {
            Ok(0) => Scaled::Vanishing,
            Ok(value) => Scaled::Value(value),
            Err(_) => Scaled::TooLarge,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str, family: &'static Family) -> u64 {
        parse(text, &[family]).unwrap().value
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(value("10 Mbit/s", &RATE), 10_000_000);
        assert_eq!(value("0.25Mbit/s", &RATE), 250_000);
        assert_eq!(value("0.1 ms", &TIME), 100_000);
        assert_eq!(value("1e-3 s", &TIME), 1_000_000);
        assert_eq!(value("2.5E+1 ms", &TIME), 25_000_000);
        assert_eq!(value("1 MiB", &SIZE), 1_048_576);
        assert_eq!(value("1.5 kB", &SIZE), 1_500);
        assert_eq!(value("33.333333333333336 Mbit/s", &RATE), 33_333_333);
        assert_eq!(value("0.000 s", &TIME), 0);
        assert_eq!(value("18446744073709551615 ns", &TIME), u64::MAX);
        assert_eq!(value("50 packets", &PACKETS), 50);
        assert_eq!(value("1 packet", &PACKETS), 1);
    }

    #[test]
    fn errors_contain_a_remedy() {
        let error = |text: &str, family: &'static Family| parse(text, &[family]).unwrap_err();
        for text in ["10 Kbps", "10 kb/s", "10 kbits/s", "10 kbit"] {
            assert!(error(text, &RATE).ends_with("; did you mean \"10 kbit/s\"?"), "{text}");
        }
        assert!(error("60 seconds", &TIME).ends_with("; did you mean \"60 s\"?"));
        assert!(error("9 pkts", &PACKETS).ends_with("; did you mean \"9 packets\"?"));
        assert_eq!(
            error("10 Mbps", &RATE),
            "unknown unit \"Mbps\" in \"10 Mbps\"; did you mean \"10 Mbit/s\"?"
        );
        assert_eq!(
            error("10 MB/s", &RATE),
            "unknown unit \"MB/s\" in \"10 MB/s\"; rates are in bits per second: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s"
        );
        assert_eq!(error("5 KB", &SIZE), "unknown unit \"KB\" in \"5 KB\"; did you mean \"5 kB\"?");
        assert!(error("5 kbit", &SIZE).contains("sizes are in bytes"));
        assert_eq!(
            error("5", &TIME),
            "\"5\" has no unit; write for example \"5 ms\" or \"5 s\" (units: ns, us, µs, ms, s, min, h)"
        );
        assert!(error("-5 ms", &TIME).contains("is negative"));
        assert!(error("fast", &RATE).contains("is not a rate such as"));
        assert!(error("1,000 B", &SIZE).contains("is not a size"));
        assert!(error("1.2.3 s", &TIME).contains("is not a time"));
        assert!(error("1.5 packets", &PACKETS).contains("is not whole"));
        assert!(error("0.1 ns", &TIME).contains("less than one ns"));
        assert!(error("1e300 s", &TIME).contains("too large"));
        assert!(error("99999999999999999999999999999999 h", &TIME).contains("too large"));
    }

    proptest! {
        #[test]
        fn written_quantities_round_trip(number: u64) {
            for family in [&TIME, &RATE, &SIZE, &PACKETS] {
                prop_assert_eq!(value(&family.written(number), family), number);
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            for family in [&TIME, &RATE, &SIZE, &PACKETS] {
                let _ = parse(&text, &[family]);
            }
        }

        #[test]
        fn no_number_panics(text in "[-+]?[0-9._,]{0,40}(e[-+]?[0-9]{0,5})? ?[a-zA-Zµ/]{0,8}") {
            let _ = parse(&text, &[&TIME, &SIZE]);
        }
    }
}
