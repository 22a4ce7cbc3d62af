//! Waits for a device, followed into the device: which one, how full, and who works for it.

use crate::limits::generator::SATURATED;
use kneepoint_vocab::TaskOwner;
use kneepoint_vocab::findings::{
    Cause, CauseKind, DeviceLine, DeviceStage, DeviceWorker, LevelInstruments, Name, TaskLine,
};

/// Requests in flight that one device, or devices of one kind, must have for the waits to be its.
const MOST: f64 = 0.9;

/// Names the device that waits for a device are for, and says whether it is the stage that is
/// full: a device that is never without a request passes on no more, however many wait.
pub(crate) fn follow(causes: &mut [Cause], instruments: Option<&LevelInstruments>) {
    let Some(instruments) = instruments else { return };
    let Some(waited_for) = Stage::of(instruments) else { return };
    for cause in causes.iter_mut().filter(|cause| cause.kind == CauseKind::Device) {
        cause.name = Name::Device(waited_for.name.clone());
        cause.path.insert(0, waited_for.name.clone());
        cause.evidence.devices = waited_for.lines.iter().map(|line| stage(line)).collect();
        cause.evidence.workers = waited_for.workers.iter().map(|task| worker(task)).collect();
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
}

fn stage(line: &DeviceLine) -> DeviceStage {
    DeviceStage {
        name: line.name.clone(),
        full: line.busy.0 >= SATURATED,
        busy: line.busy,
        in_flight: line.in_flight,
    }
}

fn worker(task: &TaskLine) -> DeviceWorker {
    DeviceWorker { name: task.name.clone(), cores: task.cores }
}

/// `loop` for `loop4`: a new start may get another device of the kind.
fn kind_of(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}
