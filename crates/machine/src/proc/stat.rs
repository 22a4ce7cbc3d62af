//! `/proc/stat` (the machine) and `/proc/PID/task/TID/stat` (one thread).

use crate::policy::Policy;

/// Ticks of all CPUs since boot, by what they were spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// User, nice and kernel, guests included.
    pub busy: u64,
    /// Idle, and idle with a device request pending.
    pub idle: u64,
    /// Interrupts and soft interrupts.
    pub irq: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}

impl CpuTicks {
    /// What was added since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            idle: self.idle.saturating_sub(earlier.idle),
            irq: self.irq.saturating_sub(earlier.irq),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }
}

/// The sum over `cpus` (all where empty) of `/proc/stat`'s `cpuN` lines.
#[must_use]
pub fn parse_machine(text: &str, cpus: &[u32]) -> Option<CpuTicks> {
    let mut sum = CpuTicks::default();
    let mut any = false;
    for line in text.lines() {
        let Some((head, rest)) = line.split_once(' ') else { continue };
        let Some(Ok(cpu)) = head.strip_prefix("cpu").map(str::parse::<u32>) else { continue };
        if !cpus.is_empty() && !cpus.contains(&cpu) {
            continue;
        }
        let fields: Vec<u64> = rest.split_ascii_whitespace().flat_map(str::parse).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or(0);
        sum.busy += field(0) + field(1) + field(2);
        sum.idle += field(3) + field(4);
        sum.irq += field(5) + field(6);
        sum.steal += field(7);
        any |= fields.len() >= 4;
    }
    any.then_some(sum)
}

/// Reads the machine's ticks over `cpus` (all where empty).
#[must_use]
pub fn read_machine(cpus: &[u32]) -> Option<CpuTicks> {
    parse_machine(&super::text("stat").ok()?, cpus)
}

/// Switches of all CPUs from one thread to another since boot.
#[must_use]
pub fn parse_switches(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok())
}

/// Reads [`parse_switches`].
#[must_use]
pub fn read_switches() -> Option<u64> {
    parse_switches(&super::text("stat").ok()?)
}

/// Length of a tick in ns, from the kernel's constant of 100 ticks a second in all its files.
pub const TICK: u64 = 10_000_000;

/// The kernel's flag of its own threads.
const PF_KTHREAD: u64 = 0x0020_0000;

/// What the `stat` file of a thread or process tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStat {
    /// Its name.
    pub comm: String,
    /// `R`, `S`, `D`, `Z`, ...
    pub state: char,
    /// Parent process.
    pub parent: u32,
    /// Session; 0 where its leader is outside this PID namespace.
    pub session: u32,
    /// Whether it is a thread of the kernel.
    pub kernel: bool,
    /// CPU of children that were waited for, in ticks.
    pub children: u64,
    /// Birth, in ticks since boot.
    pub birth: u64,
}

impl TaskStat {
    /// Whether it has ended, though its parent has not noticed yet.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Parses it. The name may hold spaces and brackets, so the last `)` ends it.
#[must_use]
pub fn parse_task(text: &str) -> Option<TaskStat> {
    let (head, tail) = text.rsplit_once(')')?;
    let comm = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(TaskStat {
        comm,
        state: fields.first()?.chars().next()?,
        parent: u32::try_from(number(1)?).ok()?,
        session: u32::try_from(number(3)?).ok()?,
        kernel: number(6)? & PF_KTHREAD != 0,
        children: number(13)? + number(14)?,
        birth: number(19)?,
    })
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// Its nice value.
    pub nice: i32,
    /// Its policy; none where Kneepoint has no name for it.
    pub policy: Option<Policy>,
}

/// What a thread's `stat` file says of that; none where it has ended.
#[must_use]
pub fn parse_scheduling(text: &str) -> Option<Scheduling> {
    if parse_task(text)?.has_ended() {
        return None;
    }
    let (_, tail) = text.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let priority = fields.get(37)?.parse().ok()?;
    Some(Scheduling {
        nice: fields.get(16)?.parse().ok()?,
        policy: Policy::of_numbers(fields.get(38)?.parse().ok()?, priority),
    })
}

/// Reads how a thread is scheduled; none where it is gone.
#[must_use]
pub fn read_scheduling(pid: u32, tid: u32) -> Option<Scheduling> {
    parse_scheduling(&super::text(&format!("{pid}/task/{tid}/stat")).ok()?)
}

/// Reads one thread's; `None` where it is gone.
#[must_use]
pub fn read_task(pid: u32, tid: u32) -> Option<TaskStat> {
    parse_task(&super::text(&format!("{pid}/task/{tid}/stat")).ok()?)
}

/// Reads one process's, with the sums over its threads; `None` where it is gone.
#[must_use]
pub fn read_process(pid: u32) -> Option<TaskStat> {
    parse_task(&super::text(&format!("{pid}/stat")).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 1 5 100 3 2 4 7 0 0\n\
                           cpu1 20 2 6 200 4 1 1 8 0 0\nintr 5\n";

    #[test]
    fn cpus_are_summed_and_chosen() {
        let all = parse_machine(MACHINE, &[]).unwrap();
        assert_eq!(all, CpuTicks { busy: 44, idle: 307, irq: 8, steal: 15 });
        let one = parse_machine(MACHINE, &[1]).unwrap();
        assert_eq!(one, CpuTicks { busy: 28, idle: 204, irq: 2, steal: 8 });
        assert_eq!(parse_machine("nothing here", &[]), None);
    }

    #[test]
    fn names_with_brackets_are_whole() {
        let text = "42 (a) (b) c) S 7 1 5 0 -1 4194304 1 2 3 4 5 6 70 80 20 0 3 0 999 1 2";
        let task = parse_task(text).unwrap();
        assert_eq!(task.comm, "a) (b) c");
        assert_eq!((task.state, task.parent, task.session, task.birth), ('S', 7, 5, 999));
        assert!(!task.has_ended() && parse_task(&text.replace(") S", ") Z")).unwrap().has_ended());
        assert_eq!(task.children, 150);
        assert!(!task.kernel);
        let flags = text.replace("4194304", "2129984");
        assert!(parse_task(&flags).unwrap().kernel);
        assert_eq!(parse_task("42 (x"), None);
    }

    #[test]
    fn how_a_thread_is_scheduled_is_read() {
        let line = |state: &str, nice: &str, priority: &str, policy: &str| {
            let mut fields = vec!["0"; 50];
            (fields[0], fields[16], fields[37], fields[38]) = (state, nice, priority, policy);
            format!("42 (a b) {}", fields.join(" "))
        };
        let found = parse_scheduling(&line("S", "-5", "10", "1")).unwrap();
        assert_eq!(found, Scheduling { nice: -5, policy: Some(Policy::Fifo(10)) });
        let found = parse_scheduling(&line("R", "19", "0", "3")).unwrap();
        assert_eq!(found, Scheduling { nice: 19, policy: Some(Policy::Batch) });
        assert_eq!(parse_scheduling(&line("R", "0", "0", "6")).unwrap().policy, None);
        assert_eq!(parse_scheduling(&line("Z", "0", "0", "0")), None);
        assert_eq!(parse_scheduling("42 (x) S 1 2"), None);
        let own = crate::own_pid();
        assert!(read_scheduling(own, own).is_some() && read_scheduling(own, u32::MAX).is_none());
    }
}
