//! Secrets that nobody can guess.

use anabranch_endpoint::Secrets;
use std::io;

/// A source of secrets whose key the operating system has drawn.
///
/// # Errors
/// If the system has no randomness to give.
pub fn secrets() -> io::Result<Secrets> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    Ok(Secrets::new(key))
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_are_alike() {
        let mut drawn = [(); 2].map(|()| super::secrets().expect("the system has randomness").next_u64());
        drawn.sort_unstable();
        assert_ne!(drawn[0], drawn[1]);
    }
}
