//! What a specimen measured of itself, and which part of the loss its planted causes have by that.

use serde::{Deserialize, Serialize};

/// Below this part of the cores nothing is lost that could be shared out.
const LEAST: f64 = 0.05;

/// What a run with `--truth` prints.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Truth {
    pub(super) operations: f64,
    pub(super) seconds: f64,
    /// CPU seconds of the process.
    pub(super) cpu: f64,
    pub(super) cores: f64,
    /// One for each cause.
    pub(super) sections: Vec<Section>,
}

/// What clients waited for, spun on, or paid for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Section {
    pub(super) entered: f64,
    /// Thread-seconds in it.
    pub(super) wall: f64,
    /// CPU seconds in it.
    pub(super) cpu: f64,
}

impl Truth {
    /// Adds what another run of the same kind measured.
    pub(super) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.seconds += other.seconds;
        self.cpu += other.cpu;
        for (mine, theirs) in self.sections.iter_mut().zip(&other.sections) {
            mine.entered += theirs.entered;
            mine.wall += theirs.wall;
            mine.cpu += theirs.cpu;
        }
    }

    fn rate(&self) -> f64 {
        self.operations / self.seconds
    }

    fn demand(&self) -> f64 {
        self.cpu / self.operations
    }

    /// CPU of an operation outside the sections of its `causes`.
    fn outside(&self, causes: usize) -> f64 {
        let inside: f64 = self.sections.iter().take(causes).map(|section| section.cpu).sum();
        (self.cpu - inside).max(0.0) / self.operations
    }

    fn in_section(&self, which: usize) -> f64 {
        self.sections.get(which).map_or(0.0, |section| section.wall / self.operations)
    }
}

/// The part of each planted cause in the cores that `clients` lose, from a run of one client and
/// one of all; none where hardly anything is lost, or nothing tells the causes apart.
///
/// All is theirs that is lost, but for CPU that operations use more of outside their sections.
/// Several share it by how much longer an operation is in each section than alone.
pub(super) fn shares(
    alone: &Truth,
    together: &Truth,
    clients: f64,
    causes: usize,
) -> Option<Vec<f64>> {
    if causes == 0 || alone.operations <= 0.0 || together.operations <= 0.0 {
        return None;
    }
    let least = alone.demand().min(together.demand());
    let asked_for = together.cores.min(clients);
    let lost = asked_for - together.rate() * least;
    if lost < LEAST * together.cores {
        return None;
    }
    let elsewhere = (together.outside(causes) - alone.outside(causes)).max(0.0) * together.rate();
    let planted = ((lost - elsewhere) / lost).clamp(0.0, 1.0);
    if causes == 1 {
        return Some(vec![planted]);
    }
    let longer: Vec<f64> = (0..causes)
        .map(|which| (together.in_section(which) - alone.in_section(which)).max(0.0))
        .collect();
    let all: f64 = longer.iter().sum();
    (all > 0.0).then(|| longer.iter().map(|one| planted * one / all).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(operations: f64, cpu: f64, sections: &[(f64, f64)]) -> Truth {
        let section = |(wall, cpu): &(f64, f64)| Section { entered: 1.0, wall: *wall, cpu: *cpu };
        Truth {
            operations,
            seconds: 1.0,
            cpu,
            cores: 2.0,
            sections: sections.iter().map(section).collect(),
        }
    }

    fn close(found: Option<Vec<f64>>, expected: &[f64]) {
        let found = found.unwrap();
        assert_eq!(found.len(), expected.len());
        for (one, other) in found.iter().zip(expected) {
            assert!((one - other).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn a_single_cause_has_all_that_is_lost_but_extra_work_elsewhere() {
        let alone = truth(1000.0, 1.0, &[(0.0, 0.0)]);
        // One core idles for it.
        close(shares(&alone, &truth(1000.0, 1.0, &[(6.0, 0.0)]), 8.0, 1), &[1.0]);
        // Spinning in the section is its own; 0.25 of the lost core is work elsewhere.
        let spun = truth(1000.0, 2.0, &[(6.0, 0.75)]);
        close(shares(&alone, &spun, 8.0, 1), &[0.75]);
    }

    #[test]
    fn two_causes_share_by_how_much_longer_they_take() {
        let alone = truth(1000.0, 1.0, &[(0.1, 0.1), (0.2, 0.2)]);
        let together = truth(1000.0, 1.0, &[(3.1, 0.1), (1.2, 0.2)]);
        close(shares(&alone, &together, 8.0, 2), &[0.75, 0.25]);
        assert_eq!(shares(&alone, &truth(1000.0, 1.0, &[]), 8.0, 2), None);
    }

    #[test]
    fn where_nothing_is_lost_nothing_is_shared() {
        let alone = truth(1000.0, 1.0, &[(0.0, 0.0)]);
        assert_eq!(shares(&alone, &truth(1990.0, 1.99, &[(0.0, 0.0)]), 8.0, 1), None);
        assert_eq!(shares(&alone, &truth(1000.0, 1.0, &[(0.0, 0.0)]), 1.0, 1), None);
        assert_eq!(shares(&alone, &truth(0.0, 1.0, &[(0.0, 0.0)]), 8.0, 1), None);
    }

    #[test]
    fn runs_of_one_kind_are_one_longer_run() {
        let mut twice = truth(1000.0, 1.0, &[(6.0, 0.75)]);
        twice.add(&truth(500.0, 0.4, &[(2.0, 0.25)]));
        assert!((twice.rate() - 750.0).abs() < 1e-9 && (twice.cpu - 1.4).abs() < 1e-9);
        assert!((twice.sections[0].wall - 8.0).abs() < 1e-9);
        assert!((twice.sections[0].cpu - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_a_specimen_prints_is_read() {
        let printed = "{\"operations\":12,\"seconds\":0.3,\"cpu\":0.5,\"cores\":2,\"sections\":[\
                       {\"entered\":8,\"wall\":0.1,\"cpu\":0.05}]}";
        let read: Truth = serde_json::from_str(printed).unwrap();
        assert!((read.rate() - 40.0).abs() < 1e-9 && read.sections.len() == 1);
    }
}
