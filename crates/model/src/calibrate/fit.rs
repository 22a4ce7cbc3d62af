//! Parameters by which the simulated levels come nearest to the measured ones.
//!
//! Few parameters, each in a range that means something, on a logarithmic scale: first a coarse
//! grid, then the simplex method (Nelder and Mead 1965) from its best point. Every evaluation has
//! the same seeds, so the surface is smooth enough for that.

use super::failed;
use super::observed::{Observed, ObservedLock};
use super::passing::Passing;
use super::text::{Parameters, twin_text};
use crate::sim::{Compiled, Outcome, Replicated, Settings, SimError, replicate, seed_of};
use crate::twin::{Twin, Wanted};
use kneepoint_vocab::Ratio;
use kneepoint_vocab::findings::{NoTwin, Residual, Undetermined};

/// Events that one simulated level may take,
const EVENTS: u64 = 1_000_000;
/// in the search, whose neighbours have the same seeds,
const EVENTS_OF_SEARCH: u64 = 200_000;
/// and on the grid, of which only the best points matter: they are looked at again.
const EVENTS_OF_GRID: u64 = 100_000;
const AGAIN: usize = 4;
const EVENTS_OF_CLIENT: u64 = 2_000;
/// Precision of one simulated level.
const PRECISION: f64 = 0.03;
/// Operations of a batch: rough is enough, the same seeds make neighbours comparable.
const BATCH: u64 = 20;
/// What blocked parts of an operation's time may be off by.
const BLOCKED_ERROR: f64 = 0.1;
/// Steps of the simplex.
const STEPS: usize = 60;
/// The simplex is done where its corners are this close, or their sums of squares this much alike:
/// to tell sets of parameters apart takes far more.
const CLOSE: f64 = 0.004;
const ALIKE: f64 = 0.1;
const ALIKE_PART: f64 = 0.01;
/// Sets of parameters that are kept beside the best, for intervals.
const KEPT: usize = 4;
/// Increase of the sum of squares up to which a set is as good as the best: 90 % of χ² with one
/// degree of freedom.
const AS_GOOD: f64 = 2.71;
/// Seconds until an idle core begins: from a poll to a virtual machine that has to be scheduled.
const IDLE_WAKE: (f64, f64) = (0.2e-6, 400e-6);
/// Visits to a lock for each wait that was seen.
const VISITS: (f64, f64) = (1.0, 8.0);
/// Most of the CPU that may be under locks that were counted.
const MOST_INSIDE: f64 = 0.98;
/// How long a stage is occupied, over what its throughput says where it is full: passing it on
/// takes a part of that.
const FULL: (f64, f64) = (0.25, 1.0);
/// A twin that is off by no more than this needs no other structure,
const WELL: f64 = 0.08;
/// and one that has another must be off by so much less.
const BETTER: f64 = 0.7;
/// A twin that is off by more than this at an upper level is not used.
const USABLE: f64 = 0.25;
/// Part of the CPU under one lock, as odds.
const ODDS: (f64, f64) = (0.005, 200.0);

/// A twin of a run, and how well it behaves as the run did.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibrated {
    /// What was measured.
    pub observed: Observed,
    /// The best parameters.
    pub best: Parameters,
    /// Others that are nearly as good: what the levels leave open.
    pub others: Vec<Parameters>,
    /// Measured against simulated, one for each level.
    pub residuals: Vec<Residual>,
    /// Root mean square of the residuals, with the parameters taken off the number of levels.
    pub error: Ratio,
    /// What the levels do not determine.
    pub open: Vec<Undetermined>,
}

impl Calibrated {
    /// The twin with the best parameters.
    ///
    /// # Errors
    /// Names in the run that a twin file cannot have.
    pub fn twin(&self) -> Result<Twin, NoTwin> {
        parse(&self.observed, &self.best)
    }

    /// The twin file, with what is fitted and how well in comments, and what is not determined in
    /// these words.
    #[must_use]
    pub fn file(&self, words: impl Fn(&Undetermined) -> String) -> String {
        let mut text = twin_text(&self.observed, &self.best);
        text.push_str("\n# clients   measured   simulated\n");
        for it in &self.residuals {
            let off = 100.0 * (it.simulated.0 / it.measured.0 - 1.0);
            let (clients, measured, simulated) = (it.clients, it.measured.0, it.simulated.0);
            text.push_str(&format!(
                "# {clients:>7} {measured:>10.0} {simulated:>11.0}  {off:+.1} %\n"
            ));
        }
        for one in &self.open {
            text.push_str(&format!("# not determined: {}\n", words(one)));
        }
        text
    }

    /// The worst level, and how far it is off.
    #[must_use]
    pub fn worst(&self) -> Option<Residual> {
        let all = self.residuals.iter().copied();
        all.max_by(|a, b| a.off().abs().total_cmp(&b.off().abs()))
    }
}

pub(super) fn parse(seen: &Observed, own: &Parameters) -> Result<Twin, NoTwin> {
    Twin::parse(&twin_text(seen, own)).map_err(failed)
}

/// Calibrates a twin. Where locks that anyone may take do not give what was measured, what clients
/// wait for most is tried as a stage, as a lock whose release wakes all, one that is handed on and
/// one whose waiters spin; each is taken if it does much better than what there is, and is not one
/// that misses an upper level where that does not. The same run and seed give the same twin on any
/// number of workers.
///
/// # Errors
/// What the run lacks.
pub fn calibrate(seen: &Observed, seed: u64, workers: usize) -> Result<Calibrated, NoTwin> {
    let error = |twin: &Result<Calibrated, NoTwin>| {
        twin.as_ref().map_or(f64::INFINITY, |twin| twin.error.0)
    };
    let mut twin = fitted(seen, seed, workers);
    for other in &seen.others {
        if error(&twin) <= WELL {
            break;
        }
        let other = fitted(other, seed, workers);
        let is_usable =
            |twin: &Result<Calibrated, NoTwin>| twin.as_ref().is_ok_and(|it| usable(it).is_ok());
        let may_be = is_usable(&other) || !is_usable(&twin);
        if may_be && error(&other) < BETTER * error(&twin) {
            twin = other;
        }
    }
    twin
}

fn fitted(seen: &Observed, seed: u64, workers: usize) -> Result<Calibrated, NoTwin> {
    let events = EVENTS_OF_SEARCH;
    let fitting = Fitting { seen, seed, workers, events, order: telling(seen) };
    let mut tried = fitting.best_of_grid();
    if !tried.first().is_some_and(|(_, cost)| cost.is_finite()) {
        return Err(NoTwin::NoStructure);
    }
    fitting.simplex(&mut tried);
    tried.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (best, least) = tried[0].clone();
    let as_good: Vec<&Vec<f64>> =
        tried.iter().skip(1).filter(|(_, cost)| *cost < least + AS_GOOD).map(|it| &it.0).collect();
    let open = fitting.open(&best, &as_good);
    let others = spread(&best, &as_good).into_iter().map(|it| fitting.parameters(it)).collect();
    let own = fitting.parameters(&best);
    let outcomes = Fitting { events: EVENTS, ..fitting }.outcomes(&own)?;
    let residuals: Vec<Residual> = (seen.levels.iter().zip(outcomes))
        .map(|(level, outcome)| Residual {
            clients: level.clients,
            measured: level.throughput,
            simulated: outcome.throughput,
        })
        .collect();
    let squares: f64 = residuals.iter().map(|it| it.off() * it.off()).sum();
    // Each level tells of throughput and, where there are locks, of waiting.
    #[allow(clippy::cast_precision_loss, reason = "few")]
    let free = {
        let waits = seen.levels.iter().any(|level| !level.blocked.is_empty());
        let seen = seen.levels.len() * (1 + usize::from(waits));
        (seen.saturating_sub(best.len()).max(1) as f64).min(residuals.len() as f64)
    };
    let error = Ratio((squares / free).sqrt());
    Ok(Calibrated { observed: seen.clone(), best: own, others, residuals, error, open })
}

/// Whether the twin does at the upper levels what the system did.
pub(super) fn usable(twin: &Calibrated) -> Result<(), NoTwin> {
    let from = twin.residuals.len() / 2;
    let upper = twin.residuals[from..].iter();
    let worst = upper.max_by(|a, b| a.off().abs().total_cmp(&b.off().abs()));
    match worst {
        Some(it) if it.off().abs() > USABLE => {
            Err(NoTwin::Misses { clients: it.clients, ratio: Ratio(it.off().exp()) })
        }
        _ => Ok(()),
    }
}

/// Those that differ most from the best, in any parameter.
fn spread<'a>(best: &[f64], all: &[&'a Vec<f64>]) -> Vec<&'a Vec<f64>> {
    let mut kept: Vec<&Vec<f64>> = Vec::new();
    for index in 0..best.len() {
        let low = all.iter().min_by(|a, b| a[index].total_cmp(&b[index]));
        let high = all.iter().max_by(|a, b| a[index].total_cmp(&b[index]));
        for one in [low, high].into_iter().flatten() {
            if kept.len() < KEPT && !kept.contains(one) {
                kept.push(one);
            }
        }
    }
    kept
}

/// CPU of an operation under a lock, where a census or the thread that serves says it.
fn known(lock: &ObservedLock) -> Option<f64> {
    let counted = lock.counted.map(|counted| counted.held);
    lock.stage.map_or(counted, |stage| stage.inside).map(|held| held.0)
}

struct Fitting<'a> {
    seen: &'a Observed,
    seed: u64,
    workers: usize,
    /// Events of one simulated level at most.
    events: u64,
    /// Places of the levels, those first that tell sets of parameters apart soonest.
    order: Vec<usize>,
}

/// Levels by what is blocked at them, most first: there wrong parameters are off most.
fn telling(seen: &Observed) -> Vec<usize> {
    let blocked = |place: &usize| seen.levels[*place].blocked.iter().map(|it| it.0).sum::<f64>();
    let mut order: Vec<usize> = (0..seen.levels.len()).collect();
    order.sort_by(|a, b| blocked(b).total_cmp(&blocked(a)));
    order
}

impl Fitting<'_> {
    /// Positions between 0 and 1 in the ranges: idle wake-up, visits, the odds of each lock of
    /// which the CPU under it is not known, then how long a stage is occupied.
    fn parameters(&self, at: &[f64]) -> Parameters {
        let on =
            |range: (f64, f64), at: f64| range.0 * (range.1 / range.0).powf(at.clamp(0.0, 1.0));
        let times = at.get(1).map_or(1.0, |&at| on(VISITS, at));
        let locks = self.unknown().count();
        let mut odds = at.iter().skip(2).take(locks).map(|&at| on(ODDS, at));
        let all = 1.0 + odds.clone().sum::<f64>();
        let full = at.get(2 + locks).map_or(1.0, |&at| on(FULL, at));
        let demand = self.seen.least_demand().0;
        let counted = self.seen.locks.iter().map(|lock| known(lock).unwrap_or(0.0));
        let counted = counted.sum::<f64>() / demand;
        // A lock that is held for more than all CPU is held asleep.
        let fit = if counted > MOST_INSIDE { MOST_INSIDE / counted } else { 1.0 };
        let slept = |lock: &ObservedLock| match lock.stage {
            Some(_) => 0.0,
            None => known(lock).unwrap_or(0.0) * (1.0 - fit),
        };
        let all_slept: f64 = self.seen.locks.iter().map(slept).sum();
        let part = if all_slept > 0.0 { (self.seen.delay.0 / all_slept).min(1.0) } else { 0.0 };
        let left = 1.0 - counted * fit;
        let of_lock = |lock: &ObservedLock| {
            let inside = match known(lock) {
                Some(known) => known / demand * fit,
                None => left * odds.next().unwrap_or(0.0) / all,
            };
            let visits = match (lock.stage, lock.counted) {
                (Some(_), _) => 1.0,
                (None, Some(counted)) => counted.visits,
                (None, None) if lock.passing == Passing::WakesAll => 1.0,
                (None, None) => lock.waits * times,
            };
            let asleep = match lock.stage {
                Some(stage) => (stage.full.0 * full - inside * demand).max(0.0),
                None => slept(lock) * part,
            };
            (visits, (inside, asleep))
        };
        let (visits, held): (_, Vec<(f64, f64)>) = self.seen.locks.iter().map(of_lock).unzip();
        let (inside, asleep) = held.into_iter().unzip();
        Parameters { visits, inside, asleep, idle_wake: on(IDLE_WAKE, at[0]) }
    }

    /// Locks of which the CPU under them is not known.
    fn unknown(&self) -> impl Iterator<Item = &ObservedLock> {
        self.seen.locks.iter().filter(|lock| known(lock).is_none())
    }

    fn grid(&self) -> Vec<Vec<f64>> {
        let locks = self.unknown().count();
        let is_staged = self.seen.locks.iter().any(|lock| lock.stage.is_some());
        let is_waited =
            self.unknown().any(|lock| lock.stage.is_none() && lock.passing != Passing::WakesAll);
        let visits: &[f64] = if is_waited { &[0.0, 0.3, 0.6] } else { &[0.0] };
        let odds: &[f64] = if locks > 0 { &[0.3, 0.5, 0.65, 0.8] } else { &[0.0] };
        let full: &[f64] = if is_staged { &[0.5, 0.8, 1.0] } else { &[1.0] };
        let mut all = Vec::new();
        for wake in [0.25, 0.5, 0.7, 0.85] {
            if locks == 0 && !is_staged {
                all.push(vec![wake]);
                continue;
            }
            let each = visits.iter().flat_map(|&visits| {
                odds.iter()
                    .flat_map(move |&odds| full.iter().map(move |&full| (visits, odds, full)))
            });
            for (visits, odds, full) in each {
                let mut point = vec![wake, visits];
                // Lesser locks begin with less of the CPU.
                point.extend((0..locks).map(|place| if place == 0 { odds } else { 0.3 }));
                point.extend(is_staged.then_some(full));
                all.push(point);
            }
        }
        all
    }

    /// The best points of the grid, each with its cost, the best first.
    fn best_of_grid(&self) -> Vec<(Vec<f64>, f64)> {
        let quick = Fitting { events: EVENTS_OF_GRID, order: self.order.clone(), ..*self };
        let mut tried: Vec<(Vec<f64>, f64)> = Vec::new();
        let mut least = f64::INFINITY;
        for point in self.grid() {
            let cost = quick.cost(&point, least + AS_GOOD);
            least = least.min(cost);
            tried.push((point, cost));
        }
        tried.sort_by(|a, b| a.1.total_cmp(&b.1));
        tried.truncate(AGAIN);
        for (point, cost) in &mut tried {
            *cost = self.cost(point, f64::INFINITY);
        }
        tried.sort_by(|a, b| a.1.total_cmp(&b.1));
        tried
    }

    /// The twin with these parameters, at every level.
    fn compiled(&self, own: &Parameters) -> Result<Vec<Compiled>, NoTwin> {
        let twin = parse(self.seen, own)?;
        let level = |clients: u32| {
            let wanted = Wanted { clients: Some(clients), cores: Some(self.seen.cores) };
            twin.compile(wanted).map_err(failed)
        };
        self.seen.levels.iter().map(|it| level(it.clients)).collect()
    }

    /// Simulates the levels at these places.
    fn simulated(&self, all: &[Compiled], places: &[usize]) -> Vec<Result<Outcome, SimError>> {
        let job = |&place: &usize| {
            let clients = u64::from(self.seen.levels[place].clients);
            let settings = Settings {
                seed: seed_of(self.seed, place as u64),
                precision: Ratio(PRECISION),
                budget: self.events + EVENTS_OF_CLIENT * clients,
                batch: BATCH,
                ..Settings::default()
            };
            Replicated { twin: &all[place], settings }
        };
        replicate(&places.iter().map(job).collect::<Vec<_>>(), self.workers)
    }

    fn outcomes(&self, own: &Parameters) -> Result<Vec<Outcome>, NoTwin> {
        let places: Vec<usize> = (0..self.seen.levels.len()).collect();
        let all = self.simulated(&self.compiled(own)?, &places).into_iter();
        let all: Result<Vec<Outcome>, SimError> = all.collect();
        all.map_err(failed)
    }

    /// Squares of what is off, each over its error; infinite where they are more than `enough`.
    /// They only add up, so the levels that are left need no simulation then.
    fn cost(&self, at: &[f64], enough: f64) -> f64 {
        let Ok(all) = self.compiled(&self.parameters(at)) else { return f64::INFINITY };
        // What is outside its range is no better than at its edge, and worse by how far.
        let outside = at.iter().map(|x| (x - x.clamp(0.0, 1.0)).abs()).sum::<f64>() * 1e3;
        let mut parts = vec![0.0; self.seen.levels.len()];
        for places in self.order.chunks(self.workers.max(1)) {
            for (&place, outcome) in places.iter().zip(self.simulated(&all, places)) {
                let Ok(outcome) = outcome else { return f64::INFINITY };
                parts[place] = self.off(place, &outcome);
            }
            if outside + parts.iter().sum::<f64>() > enough {
                return f64::INFINITY;
            }
        }
        outside + parts.iter().sum::<f64>()
    }

    /// Squares of what one level is off.
    fn off(&self, place: usize, outcome: &Outcome) -> f64 {
        let level = &self.seen.levels[place];
        let off = (outcome.throughput.0 / level.throughput.0).ln() / level.error.0;
        let life: f64 = outcome.ledger.thread.iter().map(|line| line.amount.0).sum();
        let blocked = self.seen.locks.iter().zip(&level.blocked).map(|(lock, blocked)| {
            let own = outcome.ledger.thread.iter().filter(|line| line.object == lock.name);
            let part = own.map(|line| line.amount.0).sum::<f64>() / life;
            ((part - blocked.0) / BLOCKED_ERROR).powi(2)
        });
        off * off + blocked.sum::<f64>()
    }

    /// Nelder and Mead's simplex, from the best point of the grid.
    fn simplex(&self, tried: &mut Vec<(Vec<f64>, f64)>) {
        let best = tried[0].clone();
        let mut corners = vec![best.clone()];
        for index in 0..best.0.len() {
            let mut point = best.0.clone();
            point[index] += if point[index] > 0.5 { -0.12 } else { 0.12 };
            let cost = self.cost(&point, f64::INFINITY);
            corners.push((point, cost));
        }
        for _ in 0..STEPS {
            corners.sort_by(|a, b| a.1.total_cmp(&b.1));
            let last = corners.len() - 1;
            let size: f64 = (corners[last].0.iter().zip(&corners[0].0))
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f64::max);
            let apart = corners[last].1 - corners[0].1;
            if size < CLOSE || apart < ALIKE + ALIKE_PART * corners[0].1 {
                break;
            }
            #[allow(clippy::cast_precision_loss, reason = "few parameters")]
            let middle: Vec<f64> = (0..best.0.len())
                .map(|i| corners[..last].iter().map(|it| it.0[i]).sum::<f64>() / last as f64)
                .collect();
            // A cost matters only below that which it is compared with.
            let along = |by: f64, enough: f64| -> (Vec<f64>, f64) {
                let from = &corners[last].0;
                let point: Vec<f64> =
                    middle.iter().zip(from).map(|(m, f)| m + by * (m - f)).collect();
                let cost = self.cost(&point, enough);
                (point, cost)
            };
            let mirrored = along(1.0, corners[last - 1].1);
            let next = if mirrored.1 < corners[0].1 {
                let further = along(2.0, mirrored.1);
                if further.1 < mirrored.1 { further } else { mirrored }
            } else if mirrored.1 < corners[last - 1].1 {
                mirrored
            } else {
                along(-0.5, corners[last].1)
            };
            if next.1 < corners[last].1 {
                tried.push(next.clone());
                corners[last] = next;
                continue;
            }
            let lowest = corners[0].0.clone();
            for corner in &mut corners[1..] {
                for (x, low) in corner.0.iter_mut().zip(&lowest) {
                    *x = low + 0.5 * (*x - low);
                }
                corner.1 = self.cost(&corner.0, f64::INFINITY);
            }
        }
        tried.extend(corners);
    }

    /// What other sets that are as good differ in.
    fn open(&self, best: &[f64], as_good: &[&Vec<f64>]) -> Vec<Undetermined> {
        let mut said = Vec::new();
        let ends = |index: usize| {
            let all = as_good.iter().map(|it| it[index]).chain([best[index]]);
            let all = all.map(|at| at.clamp(0.0, 1.0));
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)))
        };
        let low = self.seen.levels.first().map_or(1, |it| it.clients);
        let most = self.seen.most();
        // Where one client alone does not tell, it matters at no level.
        if let Some(from) = self.seen.awake {
            said.push(Undetermined::Asleep { from });
        } else if low > 1 && ends(0).1 - ends(0).0 > 0.3 {
            said.push(Undetermined::Start);
        }
        if best.len() > 1 && ends(1).1 - ends(1).0 > 0.3 {
            said.push(Undetermined::Visits);
        }
        for (index, lock) in self.unknown().enumerate() {
            let (a, b) = ends(2 + index);
            if b - a > 0.3 {
                said.push(Undetermined::Held { lock: lock.name.clone(), low, most });
            }
        }
        said
    }
}
