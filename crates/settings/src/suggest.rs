//! The nearest valid spelling of an invalid word.

use super::text::quoted;

/// Names in other tools and texts, and the names in scenarios.
const SYNONYMS: &[(&str, &str)] = &[
    ("bandwidth", "rate"),
    ("capacity", "rate"),
    ("speed", "rate"),
    ("latency", "delay"),
    ("rtt", "delay"),
    ("cc", "congestion"),
    ("source", "from"),
    ("src", "from"),
    ("destination", "to"),
    ("dst", "to"),
    ("nodes", "between"),
    ("droptail", "fifo"),
    ("newreno", "reno"),
    ("minrtt", "lowest-rtt"),
    ("constant", "rate"),
    ("cbr", "rate"),
    ("bulk", "saturated"),
    ("random", "bernoulli"),
    ("off", "down"),
    ("on", "up"),
];

/// The candidate that the user most likely meant by `word`, if one is close enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&'a str> = candidates.into_iter().collect();
    let spelling = nearest_spelling(word, &candidates);
    spelling.or_else(|| {
        let plain = simplified(word);
        let mut meant = SYNONYMS.iter().filter(|(other, _)| *other == plain).map(|(_, ours)| *ours);
        meant.find_map(|ours| candidates.iter().copied().find(|&candidate| candidate == ours))
    })
}

fn nearest_spelling<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let plain = simplified(word);
    // At most 4 letters may be wrong, and of n letters at most (n + 1) / 3: "loss_god" matches "loss_good", "quue"
    // matches "queue", but "name" does not match "rate".
    let tolerance = ((plain.chars().count() + 1) / 3).min(4);
    let first = plain.chars().next();
    let distance = |candidate: &str| {
        let candidate = simplified(candidate);
        let starts = candidate.chars().count() >= 3 && plain.starts_with(&candidate);
        // A candidate of at least three letters is close to any word that begins with it: "min" to "minimum".
        let distance = if starts { 1 } else { strsim::damerau_levenshtein(&plain, &candidate) };
        // If two candidates are equally close, the one with the same first letter is more likely.
        (distance, candidate.chars().next() != first)
    };
    candidates
        .iter()
        .map(|&candidate| (distance(candidate), candidate))
        .filter(|&((distance, _), candidate)| {
            distance <= tolerance && distance < simplified(candidate).chars().count()
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// The remedy for a wrong word, as the end of a sentence: the nearest valid word, or all of them.
pub fn remedy<'a>(word: &str, candidates: &[&'a str], what: &str) -> String {
    /// Maximum number of words that a message lists.
    const MAX_LISTED: usize = 40;
    if let Some(near) = nearest(word, candidates.iter().copied()) {
        return format!("did you mean {}?", quoted(near));
    }
    let mut list: Vec<&'a str> = candidates.iter().copied().take(MAX_LISTED).collect();
    if candidates.len() > MAX_LISTED {
        list.push("…");
    }
    match list.as_slice() {
        [] => format!("there are no {what}"),
        [only] => format!("the only one is {}", quoted(only)),
        _ => format!("the {what} are {}", list.join(", ")),
    }
}

/// A word in lower case and without separators, which users often confuse.
fn simplified(word: &str) -> String {
    // A word beyond 64 letters has no close candidate, and the comparison takes quadratic time.
    word.chars().take(64).filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_spellings_are_found() {
        let keys = ["rate", "delay", "queue", "receive_buffer", "jitter"];
        assert_eq!(nearest("quue", keys), Some("queue"));
        assert_eq!(nearest("Rate", keys), Some("rate"));
        assert_eq!(nearest("receive-buffer", keys), Some("receive_buffer"));
        assert_eq!(nearest("dealy", keys), Some("delay"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("x", keys), None);
        assert_eq!(nearest("", keys), None);
    }
}
