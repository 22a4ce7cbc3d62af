//! Waits for a device, followed into the device: which one, how full, and who works for it.

use crate::limits::generator::SATURATED;
use crate::words;
use kneepoint_vocab::TaskOwner;
use kneepoint_vocab::findings::{Cause, CauseKind, DeviceLine, LevelInstruments, TaskLine};

/// Requests in flight that one device, or devices of one kind, must have for the waits to be its.
const MOST: f64 = 0.9;

/// Names the device that waits for a device are for, and says whether it is the stage that is
/// full: a device that is never without a request passes on no more, however many wait.
pub(crate) fn follow(causes: &mut [Cause], instruments: Option<&LevelInstruments>) {
    let Some(instruments) = instruments else { return };
    let Some(waited_for) = Stage::of(instruments) else { return };
    for cause in causes.iter_mut().filter(|cause| cause.kind == CauseKind::Device) {
        cause.name = format!("device {}", waited_for.name);
        cause.path.insert(0, waited_for.name.clone());
        cause.evidence.push_str(&waited_for.words());
    }
}

/// Devices of one kind, and the kernel's threads that bear their name.
struct Stage<'a> {
    name: String,
    lines: Vec<&'a DeviceLine>,
    workers: Vec<&'a TaskLine>,
}

impl<'a> Stage<'a> {
    fn of(instruments: &'a LevelInstruments) -> Option<Self> {
        let lines = &instruments.devices;
        let all: f64 = lines.iter().map(|line| line.in_flight.0).sum();
        let fullest = lines.iter().max_by(|a, b| a.in_flight.0.total_cmp(&b.in_flight.0))?;
        let alike: Vec<&DeviceLine> =
            lines.iter().filter(|line| kind_of(&line.name) == kind_of(&fullest.name)).collect();
        let theirs: f64 = alike.iter().map(|line| line.in_flight.0).sum();
        if all <= 0.0 || theirs < MOST * all {
            return None;
        }
        let alone = fullest.in_flight.0 >= MOST * theirs;
        let name = if alone { fullest.name.as_str() } else { kind_of(&fullest.name) };
        let workers = instruments
            .tasks
            .iter()
            .filter(|task| task.owner == TaskOwner::Kernel && task.name.contains(name))
            .collect();
        let lines = if alone { vec![fullest] } else { alike };
        Some(Self { name: name.to_owned(), lines, workers })
    }

    fn words(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let full = if line.busy.0 >= SATURATED { "the full stage" } else { "not full" };
            text.push_str(&format!(
                "; {} is {full}: a request in flight {} of the time, {:.1} of them at once",
                line.name,
                words::percent(line.busy.0),
                line.in_flight.0
            ));
        }
        for worker in &self.workers {
            text.push_str(&format!(
                "; {} works for it on {:.2} cores",
                worker.name, worker.cores.0
            ));
        }
        text
    }
}

/// `loop` for `loop4`: a new start may get another device of the kind.
fn kind_of(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}
