//! Variants that fit any program: what `list --variants` offers beside the catalogue, and
//! `--variant auto` tries.

use crate::placement;
use crate::scheduling::listed;
use kneepoint_vocab::Relief;
use serde::Deserialize;
use std::sync::LazyLock;

/// Stands for the first half of the CPUs.
const HALF: &str = "{half}";

/// A variant that fits any program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Its name.
    pub id: String,
    /// One line for people.
    pub label: String,
    /// What it changes, in the words of `--variant`.
    changes: String,
    /// What it may relieve.
    pub relieves: Relief,
    /// The same for people.
    pub expects: String,
}

impl Offer {
    /// What it changes on this machine, in the words of `--variant`.
    ///
    /// # Errors
    /// The machine is too small for it.
    pub(crate) fn changes(&self) -> Result<String, String> {
        if !self.changes.contains(HALF) {
            return Ok(self.changes.clone());
        }
        let all = placement::allowed();
        match all.len() / 2 {
            0 => Err("it needs two CPUs or more".to_owned()),
            half => Ok(self.changes.replace(HALF, &listed(&all[..half]))),
        }
    }

    /// Whether it works through the C library of the program: an environment and libraries.
    pub(crate) fn needs_a_library(&self) -> bool {
        self.changes.starts_with(|c: char| c.is_ascii_uppercase())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Offers {
    offer: Vec<Offer>,
}

static OFFERS: LazyLock<Vec<Offer>> = LazyLock::new(|| {
    let offers: Offers = toml::from_str(include_str!("offers.toml")).expect("they are tested");
    offers.offer
});

/// All of them, in their order.
#[must_use]
pub fn all() -> &'static [Offer] {
    &OFFERS
}

/// The one of this id.
#[must_use]
pub fn named(id: &str) -> Option<&'static Offer> {
    all().iter().find(|offer| offer.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_offer_is_whole() {
        let ids: BTreeSet<&str> = all().iter().map(|offer| offer.id.as_str()).collect();
        assert_eq!(ids.len(), all().len());
        for offer in all() {
            assert!(crate::treatment::named(&offer.id).is_none(), "{}", offer.id);
            assert!(!offer.label.is_empty() && !offer.expects.is_empty());
            if let Ok(changes) = offer.changes() {
                assert!(!changes.contains('{'), "{changes}");
            }
        }
        assert!(named("jemalloc").unwrap().needs_a_library());
        assert!(!named("batch").unwrap().needs_a_library() && named("no-such").is_none());
    }
}
