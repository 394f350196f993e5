//! The nearest valid spelling of a word that is not valid.

use super::error::quoted;

/// The candidate that a user most likely meant by `word`, if one is near enough to say so.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = simplified(word);
    // A third of the letters may be wrong: "loss_god" is near "loss_good", "qeue" near "queue", "x" near nothing.
    let tolerance = plain.chars().count().div_ceil(3).min(4);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&plain, &simplified(candidate)), candidate))
        .filter(|&(distance, candidate)| {
            distance <= tolerance && distance < simplified(candidate).chars().count()
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// The remedy for a wrong word, as the end of a sentence: the nearest valid one, or all of them.
pub(super) fn remedy<'a>(word: &str, candidates: &[&'a str], what: &str) -> String {
    /// Longer lists are cut: they are no help any more.
    const LONGEST: usize = 40;
    if let Some(near) = nearest(word, candidates.iter().copied()) {
        return format!("did you mean {}?", quoted(near));
    }
    let mut list: Vec<&'a str> = candidates.iter().copied().take(LONGEST).collect();
    if candidates.len() > LONGEST {
        list.push("…");
    }
    match list.as_slice() {
        [] => format!("there are no {what}"),
        [only] => format!("the only one is {}", quoted(only)),
        _ => format!("the {what} are {}", list.join(", ")),
    }
}

/// Without what people confuse: case, and how words are joined.
fn simplified(word: &str) -> String {
    // A word of many pages has no near neighbour; comparing it would cost its length squared.
    word.chars().take(64).filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_spellings_are_found_and_far_ones_are_not() {
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
