//! By which rule idle cores are charged to waits. One is used; others are kept beside it so that
//! specimens with a known answer can decide (docs/accuracy.md).

use crate::ledgers::row::Row;
use crate::ledgers::slices::Slice;
use crate::number::quotient;

/// A rule that charges idle cores to waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Charging {
    /// An idle stretch is the wait's of the thread that ends it, for the part in which that thread
    /// was blocked (docs/method.md, section 2).
    #[default]
    NextThread,
    /// All that is blocked meanwhile shares an idle core alike, by thread-time: the rule of bottle
    /// graphs (Du Bois et al. 2013) and GAPP (Nair and Field 2020), here over a slice instead of an
    /// instant.
    AllBlocked,
    /// The waits share idle cores by how often each handed a thread back to a core.
    WakeUps,
}

impl Charging {
    /// Every rule.
    pub const ALL: [Self; 3] = [Self::NextThread, Self::AllBlocked, Self::WakeUps];

    /// In a word or two.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NextThread => "next thread",
            Self::AllBlocked => "all blocked alike",
            Self::WakeUps => "by wake-ups",
        }
    }

    /// Charges the idle cores of slices, which come charged to the next thread.
    pub(crate) fn applied(self, mut slices: Vec<Slice<'_>>) -> Vec<Slice<'_>> {
        for slice in &mut slices {
            match self {
                Self::NextThread => {}
                Self::AllBlocked => uncharge(&mut slice.row),
                Self::WakeUps => charge_by_wake_ups(&mut slice.row),
            }
        }
        slices
    }
}

/// What nobody is charged for is split over what was blocked meanwhile.
fn uncharge(row: &mut Row) {
    row.charged.fill(0.0);
    row.idle_no_request = 0.0;
    row.idle_scheduler = 0.0;
}

fn charge_by_wake_ups(row: &mut Row) {
    let all = row.woken.iter().sum::<f64>() + row.woken_for_work;
    if all <= 0.0 {
        return;
    }
    let charged = row.charged.iter().sum::<f64>() + row.idle_no_request;
    for (charge, woken) in row.charged.iter_mut().zip(&row.woken) {
        *charge = charged * quotient(*woken, all);
    }
    row.idle_no_request = charged * quotient(row.woken_for_work, all);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            idle: 1.0,
            charged: vec![0.6, 0.0],
            idle_no_request: 0.2,
            idle_scheduler: 0.1,
            woken: vec![10.0, 20.0],
            woken_for_work: 10.0,
            ..Row::default()
        }
    }

    #[test]
    fn without_charges_all_is_left_to_what_was_blocked() {
        let mut row = row();
        uncharge(&mut row);
        assert_eq!(row.charged, [0.0, 0.0]);
        assert!(row.idle_no_request + row.idle_scheduler <= 0.0 && row.idle >= 1.0);
    }

    #[test]
    fn wake_ups_divide_what_was_charged() {
        let mut row = row();
        charge_by_wake_ups(&mut row);
        assert!((row.charged[0] - 0.2).abs() < 1e-12 && (row.charged[1] - 0.4).abs() < 1e-12);
        assert!((row.idle_no_request - 0.2).abs() < 1e-12);
        assert!((row.idle_scheduler - 0.1).abs() < 1e-12, "who was on the way stays there");
        let mut still = Row { charged: vec![0.3], woken: vec![0.0], ..Row::default() };
        charge_by_wake_ups(&mut still);
        assert_eq!(still.charged, [0.3], "nothing was woken");
    }
}
