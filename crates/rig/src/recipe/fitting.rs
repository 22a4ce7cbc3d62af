//! Variants that fit a recipe: those that it tries, others of the catalogue, and what fits any
//! program; with what the machine lacks for each.

use super::Recipe;
use super::variant_line::said;
use super::variants::{self, Baseline};
use crate::elf;
use crate::search_path::SearchPath;
use crate::treatment::offers::{self, Offer};
use crate::treatment::{self, Treatment};
use kneepoint_vocab::Relief;
use serde::Serialize;

/// What an expectation begins with that promises nothing: such variants are for comparison.
const NO_RELIEF: &str = "no relief";
/// Most variants that are tried without being named.
const MOST: usize = 4;

/// A variant that could be tried with a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fitting {
    /// Its name, which `--variant` takes.
    pub id: String,
    /// One line for people.
    pub label: String,
    /// What it changes, a line each.
    pub changes: Vec<String>,
    /// What it should relieve, for people; empty where nobody said.
    pub expects: String,
    /// The kind of that, of what fits any program.
    pub relieves: Option<Relief>,
    /// Whether the recipe tries it without being asked.
    pub tried: bool,
    /// Why it cannot be tried here; absent where it can.
    pub lacking: Option<String>,
}

impl Recipe {
    /// All variants that fit it: its own, those of the catalogue, then those that fit any program.
    #[must_use]
    pub fn fitting(&self) -> Vec<Fitting> {
        let own = self.treatments.iter().map(|one| {
            let lacking = self.lacking(one);
            let lacking = (!lacking.is_empty()).then(|| format!("it needs {}", lacking.join(", ")));
            Fitting { tried: true, lacking, ..of(one, None) }
        });
        let more = treatment::for_workload(self.workload.name())
            .filter(|one| self.treatments.iter().all(|other| other.id != one.id))
            .map(|one| Fitting { lacking: self.catalogued(one).err(), ..of(one, None) });
        let offered = offers::all()
            .iter()
            .filter(|offer| self.treatments.iter().all(|other| other.id != offer.id))
            .map(|offer| self.shown(offer));
        own.chain(more).chain(offered).collect()
    }

    /// Names of the workload's settings that a variant can change.
    #[must_use]
    pub fn known_settings(&self) -> Vec<String> {
        // A refusal of a name that nobody has lists all that there are.
        let mut settings = self.settings.clone();
        settings.insert(String::new(), String::new());
        let refused = self.workload.configure(&settings).err().map(|error| error.problem);
        let listed = refused.as_deref().and_then(|text| text.rsplit_once("there are: "));
        let names = listed.map_or("", |(_, names)| names).split(", ");
        let changes = |name: &&str| !name.is_empty() && !self.workload.made_once().contains(name);
        names.filter(changes).map(str::to_owned).collect()
    }

    /// Adds variants that fit and that it does not try already, as far as the machine has
    /// everything for them: of the catalogue those that promise something, and one of each kind
    /// that fits any program; two of a kind, and nothing else, where it is said what is `wanted`.
    /// At most four. Returns those that it has added.
    pub fn add_fitting(&mut self, wanted: Option<&[Relief]>) -> Vec<Fitting> {
        let mut added: Vec<Fitting> = Vec::new();
        let candidates = self.fitting().into_iter().filter(|one| !one.tried);
        for one in candidates.filter(|one| one.lacking.is_none()) {
            let same = added.iter().filter(|other| other.relieves == one.relieves).count();
            let is_wanted = match (wanted, one.relieves) {
                (None, None) => !one.expects.starts_with(NO_RELIEF),
                (None, Some(_)) => same == 0,
                (Some(wanted), Some(relief)) => wanted.contains(&relief) && same < 2,
                (Some(_), None) => false,
            };
            let is_new = || self.treatments.iter().all(|other| changes(other) != one.changes);
            if added.len() < MOST && is_wanted && is_new() && self.add_variant(&one.id).is_ok() {
                added.push(one);
            }
        }
        added
    }

    /// The variant of this name, of the catalogue or of what fits any program; none where there is
    /// no such name.
    pub(super) fn listed(&self, id: &str) -> Option<Result<Treatment, String>> {
        let found = match (treatment::named(id), offers::named(id)) {
            (Some(treatment), _) => self.catalogued(treatment),
            (None, Some(offer)) => self.offered(offer),
            (None, None) => return None,
        };
        let found = match self.treatments.iter().any(|other| other.id == id) {
            true => Err("it is tried already".to_owned()),
            false => found,
        };
        Some(found.map_err(|why| format!("variant {id:?}: {why}")))
    }

    fn catalogued(&self, treatment: &Treatment) -> Result<Treatment, String> {
        if treatment.workload != self.workload.name() {
            let (its, ours) = (&treatment.workload, self.workload.name());
            return Err(format!("it is for the workload {its}, not for {ours}"));
        }
        if let Some(over) = &treatment.over
            && self.treatments.iter().all(|other| &other.id != over)
        {
            return Err(format!("it adds to {over}: name that before it"));
        }
        let baseline =
            Baseline { workload: self.workload, settings: &self.settings, system: &*self.baseline };
        if let Some((_, problem)) = variants::misfit(baseline, treatment, &self.treatments) {
            return Err(problem);
        }
        let lacking = self.lacking(treatment);
        if lacking.is_empty() {
            return Ok(treatment.clone());
        }
        Err(format!("it needs {}", lacking.join(", ")))
    }

    fn offered(&self, offer: &Offer) -> Result<Treatment, String> {
        if let Some(why) = self.unfit(offer) {
            return Err(why);
        }
        let variant = self.granted(offer.id.clone(), &offer.label, said(&offer.changes()?)?)?;
        Ok(Treatment { expects: offer.expects.clone(), ..variant })
    }

    fn shown(&self, offer: &Offer) -> Fitting {
        let offered = self.offered(offer);
        Fitting {
            id: offer.id.clone(),
            label: offer.label.clone(),
            changes: offered.as_ref().map(changes).unwrap_or_default(),
            expects: offer.expects.clone(),
            relieves: Some(offer.relieves),
            tried: false,
            lacking: offered.err(),
        }
    }

    /// Why an offer does nothing for the recipe's program.
    fn unfit(&self, offer: &Offer) -> Option<String> {
        let sets_allocator = |one: &Treatment| one.set.contains_key("allocator");
        if offer.relieves == Relief::Malloc
            && treatment::for_workload(self.workload.name()).any(sets_allocator)
        {
            return Some("the workload has a setting for that: allocator".to_owned());
        }
        let program = self.baseline.program(&SearchPath::own())?;
        let elf = elf::read(&program).ok().flatten()?;
        (offer.needs_a_library() && !elf.loaded).then(|| {
            let program = program.display();
            format!("{program} is linked statically, so no library and no tunable reaches it")
        })
    }
}

fn of(treatment: &Treatment, relieves: Option<Relief>) -> Fitting {
    Fitting {
        id: treatment.id.clone(),
        label: treatment.label.clone(),
        changes: changes(treatment),
        expects: treatment.expects.clone(),
        relieves,
        tried: false,
        lacking: None,
    }
}

fn changes(treatment: &Treatment) -> Vec<String> {
    treatment.variant_plan().changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    fn command(program: &str) -> Recipe {
        Recipe::of_command(&[program.to_owned()], BTreeMap::new()).unwrap()
    }

    fn ids(all: &[Fitting]) -> Vec<&str> {
        all.iter().map(|one| one.id.as_str()).collect()
    }

    #[test]
    fn a_recipe_has_its_own_then_the_catalogue_s_then_what_fits_any_program() {
        let recipe = Recipe::named("sqlite-shared-cache").unwrap();
        let all = recipe.fitting();
        let tried = recipe.treatments.len();
        assert!(all[..tried].iter().all(|one| one.tried && one.lacking.is_none()), "{all:?}");
        assert!(all[tried..].iter().all(|one| !one.tried));
        assert!(ids(&all).contains(&"batch") && ids(&all).contains(&"sqlite-private-cache"));
        let jemalloc = all.iter().find(|one| one.id == "jemalloc").unwrap();
        assert!(jemalloc.lacking.as_ref().unwrap().contains("allocator"), "{jemalloc:?}");
        let settings = recipe.known_settings();
        for name in ["cache", "mmap", "environment"] {
            assert!(settings.contains(&name.to_owned()), "{settings:?}");
        }
    }

    #[test]
    fn the_settings_of_every_workload_are_known() {
        for listing in super::super::all().unwrap() {
            let recipe = Recipe::named(&listing.name).unwrap();
            let settings = recipe.known_settings();
            assert!(settings.contains(&"environment".to_owned()), "{}: {settings:?}", listing.name);
            let once = recipe.workload.made_once();
            assert!(settings.iter().all(|name| !once.contains(&name.as_str())));
        }
    }

    #[test]
    fn what_fits_is_added_once_of_each_kind_and_never_more_than_four() {
        let mut recipe = command("sh");
        let added = recipe.add_fitting(None);
        assert!(added.len() <= MOST && added.len() == recipe.treatments.len());
        assert!(ids(&added).contains(&"batch") && ids(&added).contains(&"kept-memory"));
        assert!(!ids(&added).contains(&"huge-pages"), "one of a kind: {added:?}");
        let twice = recipe.clone().add_fitting(None);
        assert!(twice.iter().all(|one| !ids(&added).contains(&one.id.as_str())), "{twice:?}");
        let mut recipe = command("sh");
        let added = recipe.add_fitting(Some(&[Relief::Faults]));
        assert_eq!(ids(&added), ["kept-memory", "huge-pages"]);
        assert!(recipe.add_fitting(Some(&[])).is_empty());
        // The same in other words is the same.
        let mut recipe = command("sh");
        recipe.add_variant("polite: policy=batch").unwrap();
        assert!(!ids(&recipe.add_fitting(None)).contains(&"batch"));
    }

    #[test]
    fn a_variant_can_be_asked_for_by_its_name_alone() {
        let mut recipe = Recipe::named("sqlite-shared-cache").unwrap();
        let is_tried = |recipe: &Recipe, id: &str| recipe.treatments.iter().any(|t| t.id == id);
        let other = recipe.fitting().into_iter().find(|one| !one.tried && one.relieves.is_none());
        if let Some(other) = other {
            recipe.add_variant(&other.id).unwrap();
            assert!(is_tried(&recipe, &other.id));
        }
        recipe.add_variant(" batch ").unwrap();
        assert!(is_tried(&recipe, "batch"));
        for (typed, reported) in [
            ("batch", "variant \"batch\": it is tried already"),
            ("postgres-tcp", "it is for the workload postgres, not for sqlite-oltp"),
            ("jemalloc", "the workload has a setting for that: allocator"),
            ("no-such", "or the name of one that `kneepoint list --variants` shows"),
        ] {
            let refused = recipe.add_variant(typed).unwrap_err();
            assert!(refused.contains(reported) && !refused.contains('\n'), "{typed}: {refused}");
        }
    }

    #[test]
    fn a_program_without_the_loader_takes_no_library() {
        let folder = tempfile::TempDir::new().unwrap();
        let program = folder.path().join("static");
        let mut head = vec![0; 64];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        (head[16], head[18]) = (2, 62);
        std::fs::write(&program, head).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let all = command(&program.display().to_string()).fitting();
        let lacking = |id: &str| all.iter().find(|one| one.id == id).unwrap().lacking.clone();
        assert!(lacking("huge-pages").unwrap().contains("linked statically"));
        assert_eq!(lacking("batch"), None);
    }
}
