//! Where and how the threads of a variant run: CPUs, nice value, policy. They are given thread by
//! thread, and read back so; they end with the process, so there is nothing to undo.

use crate::placement;
use anyhow::{Context as _, ensure};
use kneepoint_machine::policy::Policy;
use kneepoint_machine::proc::process::session;
use kneepoint_machine::proc::{self, stat, tasks};
use kneepoint_machine::{own_pid, realtime};
use kneepoint_vocab::Proof;
use rustix::process::{Pid, setpriority_process};
use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use std::collections::BTreeSet;
use std::io;

/// Nice values that there are.
const NICE: std::ops::RangeInclusive<i32> = -20..=19;
/// How often threads are looked for that have not got what is wanted: some are started meanwhile.
const PASSES: u32 = 16;
/// Where each is read back.
const CPUS_SHOWN: &str = "CPUs of its threads in /proc/PID/task/TID/status";
const NICE_SHOWN: &str = "nice of its threads in /proc/PID/task/TID/stat";
const POLICY_SHOWN: &str = "policy of its threads in /proc/PID/task/TID/stat";

/// What a variant changes of how its threads run; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// CPUs that they may use, ascending; not changed where there are none.
    pub cpus: Vec<u32>,
    /// Their nice value.
    pub nice: Option<i32>,
    /// Their policy.
    pub policy: Option<Policy>,
}

impl Scheduling {
    /// Its keys, on the command line and in recipes.
    pub const KEYS: [&str; 3] = ["cpus", "nice", "policy"];

    /// Sets what one of [`Self::KEYS`] stands for.
    ///
    /// # Errors
    /// What it must be.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        let refuse = |must: &str| format!("{key} must be {must} (found {text:?})");
        match key {
            "cpus" => {
                self.cpus = cpus(text)
                    .ok_or_else(|| refuse("numbers of CPUs, such as 0, 0-3 or 0,2,4-7"))?;
            }
            "nice" => {
                let nice = text.parse().ok().filter(|nice| NICE.contains(nice));
                self.nice = Some(nice.ok_or_else(|| refuse("-20 to 19"))?);
            }
            "policy" => {
                let policy = text.parse();
                let must = "other, batch, idle, fifo:N or rr:N, with N from 1 to 99";
                self.policy = Some(policy.map_err(|_| refuse(must))?);
            }
            _ => return Err(format!("no key of scheduling is named {key:?}")),
        }
        Ok(())
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The keys that it sets, with their values.
    #[must_use]
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let cpus = (!self.cpus.is_empty()).then(|| ("cpus", listed(&self.cpus)));
        let nice = self.nice.map(|nice| ("nice", nice.to_string()));
        let policy = self.policy.map(|policy| ("policy", policy.to_string()));
        [cpus, nice, policy].into_iter().flatten().collect()
    }

    /// The same with what `other` changes.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            cpus: if other.cpus.is_empty() { &self.cpus } else { &other.cpus }.clone(),
            nice: other.nice.or(self.nice),
            policy: other.policy.or(self.policy),
        }
    }

    /// Why this machine does not grant it, where it does not: what is lacking and how to get it.
    #[must_use]
    pub fn lacking(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let allowed = placement::allowed();
        if let Some(cpu) = self.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            return Some(format!(
                "CPU {cpu}: Kneepoint may use {} on this machine",
                listed(&allowed)
            ));
        }
        if let Some(policy) = self.policy.filter(|policy| policy.is_real_time())
            && (self.cpus.is_empty() || self.cpus == allowed)
            && is_unlimited()
        {
            return Some(format!(
                "a CPU that is left to others: policy {policy} would keep all of them, since \
                 kernel.sched_rt_runtime_us is -1; add cpus="
            ));
        }
        self.refused()
    }

    /// What the kernel does not grant: tried on a thread that ends at once.
    fn refused(&self) -> Option<String> {
        let tried = self.clone();
        let trial = std::thread::Builder::new().spawn(move || {
            let own = u32::try_from(gettid().as_raw_pid()).unwrap_or(0);
            tried.give_thread(own)
        });
        let outcome = trial.map(std::thread::JoinHandle::join);
        match outcome {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err((key, error)))) if error.kind() == io::ErrorKind::PermissionDenied => {
                Some(format!("the right to set {key}: run as root, or with CAP_SYS_NICE"))
            }
            Ok(Ok(Err((key, error)))) => Some(format!("{key}: the kernel refuses: {error}")),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// Gives it to every thread of these processes and of all that descend from them. Threads that
    /// they start later have it from those that start them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn give(&self, pids: &[u32]) -> anyhow::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let mut leaders = BTreeSet::new();
        for _ in 0..PASSES {
            let unlike: Vec<(u32, u32)> =
                threads(pids).into_iter().filter(|at| self.is_of(*at) == Some(false)).collect();
            if unlike.is_empty() {
                break;
            }
            for (pid, tid) in unlike {
                if leaders.insert(pid) {
                    self.give_group(pid);
                }
                match self.give_thread(tid) {
                    Err((key, error)) if !is_gone(&error) => {
                        return Err(error).with_context(|| {
                            format!("thread {tid} of process {pid} cannot be given its {key}")
                        });
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Where a process leads a session of its own, the kernel weighs that session's group first.
    fn give_group(&self, pid: u32) {
        if let Some(nice) = self.nice
            && session(pid) == Some(pid)
        {
            // Kernels without such groups weigh the threads alone.
            let _ = proc::write(&format!("{pid}/autogroup"), &nice.to_string());
        }
    }

    fn give_thread(&self, tid: u32) -> Result<(), (&'static str, io::Error)> {
        let id = i32::try_from(tid).ok().and_then(Pid::from_raw);
        if let Some(policy) = self.policy {
            realtime::give(tid, policy).map_err(|error| ("policy", error))?;
        }
        if let Some(nice) = self.nice {
            setpriority_process(id, nice).map_err(|error| ("nice", io::Error::from(error)))?;
        }
        if !self.cpus.is_empty() {
            let mut set = CpuSet::new();
            self.cpus.iter().for_each(|cpu| set.set(*cpu as usize));
            sched_setaffinity(id, &set).map_err(|error| ("cpus", io::Error::from(error)))?;
        }
        Ok(())
    }

    /// Whether a thread has it; none where it has ended.
    fn is_of(&self, (pid, tid): (u32, u32)) -> Option<bool> {
        let found = stat::read_scheduling(pid, tid)?;
        let nice = self.nice.is_none_or(|nice| nice == found.nice);
        let policy = self.policy.is_none_or(|policy| Some(policy) == found.policy);
        let cpus = self.cpus.is_empty() || tasks::cpus(pid, tid)? == self.cpus;
        Some(nice && policy && cpus)
    }

    /// Fails where a thread of these processes does not have it.
    ///
    /// # Errors
    /// It names the thread.
    pub(crate) fn check(&self, pids: &[u32]) -> anyhow::Result<()> {
        for proof in self.proofs("the system", pids) {
            let Proof { what, expected, found, active } = proof;
            ensure!(
                active,
                "{what} are {found}, not {expected} as before: the program sets them by itself, \
                 so no variant can"
            );
        }
        Ok(())
    }

    /// That every thread of these processes has it, factor by factor; nothing where there is none.
    pub(crate) fn proofs(&self, who: &str, pids: &[u32]) -> Vec<Proof> {
        if self.is_empty() {
            return Vec::new();
        }
        let threads: Vec<(u32, u32, stat::Scheduling)> = threads(pids)
            .into_iter()
            .filter_map(|(pid, tid)| Some((pid, tid, stat::read_scheduling(pid, tid)?)))
            .collect();
        let proof = |what: &str, expected: String, found: BTreeSet<String>| {
            (!found.is_empty()).then(|| Proof {
                what: format!("{who}: {what}"),
                active: found.iter().eq([&expected]),
                expected,
                found: found.into_iter().collect::<Vec<_>>().join(" and "),
            })
        };
        let cpus = || {
            let all = threads.iter().filter_map(|(pid, tid, _)| tasks::cpus(*pid, *tid));
            proof(CPUS_SHOWN, listed(&self.cpus), all.map(|cpus| listed(&cpus)).collect())
        };
        let cpus = if self.cpus.is_empty() { None } else { cpus() };
        let nice = self.nice.and_then(|nice| {
            let all = threads.iter().map(|(.., found)| found.nice.to_string());
            proof(NICE_SHOWN, nice.to_string(), all.collect())
        });
        let name = |found: Option<Policy>| match found {
            Some(found) => found.to_string(),
            None => "another".to_owned(),
        };
        let policy = self.policy.and_then(|policy| {
            let all = threads.iter().map(|(.., found)| name(found.policy));
            proof(POLICY_SHOWN, policy.to_string(), all.collect())
        });
        [cpus, nice, policy].into_iter().flatten().collect()
    }

    /// Whether proofs of it are among these.
    pub(crate) fn is_among(proofs: &[Proof]) -> bool {
        let known = [CPUS_SHOWN, NICE_SHOWN, POLICY_SHOWN];
        proofs.iter().any(|proof| known.iter().any(|shown| proof.what.ends_with(shown)))
    }
}

/// Processes and threads of these processes and of all that descend from them.
fn threads(pids: &[u32]) -> Vec<(u32, u32)> {
    let of = |pid: u32| tasks::threads(pid).into_iter().map(move |tid| (pid, tid));
    tasks::family(pids).into_iter().flat_map(of).filter(|(pid, _)| *pid != own_pid()).collect()
}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Whether real-time threads may keep a core for ever.
fn is_unlimited() -> bool {
    proc::text("sys/kernel/sched_rt_runtime_us").is_ok_and(|text| text.trim() == "-1")
}

/// CPUs of a text such as `0-3,8`, ascending; none where it is no such text.
fn cpus(text: &str) -> Option<Vec<u32>> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 = if digits { text.parse().ok()? } else { return None };
        ((number as usize) < CpuSet::MAX_CPU).then_some(number)
    };
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return None;
        }
        all.extend(low..=high);
    }
    Some(all.into_iter().collect())
}

/// CPUs as such a text.
pub(crate) fn listed(cpus: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let run = |(low, high): &(u32, u32)| match low == high {
        true => low.to_string(),
        false => format!("{low}-{high}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::{Child, Command, Stdio};

    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn of(pairs: &[(&str, &str)]) -> Scheduling {
        let mut all = Scheduling::default();
        pairs.iter().for_each(|(key, text)| all.set(key, text).unwrap());
        all
    }

    #[test]
    fn keys_are_read_and_what_cannot_be_is_reported() {
        let all = of(&[("cpus", "3,0-1,1"), ("nice", "-5"), ("policy", "rr:3")]);
        assert_eq!((&all.cpus[..], all.nice), (&[0, 1, 3][..], Some(-5)));
        let pairs: Vec<String> = all.pairs().iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(pairs, ["cpus=0-1,3", "nice=-5", "policy=rr:3"]);
        let changed = all.with(&of(&[("nice", "7")]));
        assert_eq!((changed.nice, changed.cpus, changed.policy), (Some(7), all.cpus, all.policy));
        for (key, text, reported) in [
            ("cpus", "", "cpus must be numbers of CPUs, such as 0, 0-3 or 0,2,4-7 (found \"\")"),
            ("cpus", "1-0", "numbers of CPUs"),
            ("cpus", "0-99999", "numbers of CPUs"),
            ("cpus", "+1", "numbers of CPUs"),
            ("nice", "20", "nice must be -20 to 19 (found \"20\")"),
            ("nice", "low", "-20 to 19"),
            ("policy", "fifo", "with N from 1 to 99 (found \"fifo\")"),
        ] {
            let refused = Scheduling::default().set(key, text).unwrap_err();
            assert!(refused.contains(reported), "{key}={text}: {refused}");
        }
    }

    #[test]
    fn a_process_gets_it_and_shows_it() {
        let allowed = placement::allowed();
        let one = allowed.last().copied().unwrap();
        let wanted = of(&[("cpus", &one.to_string()), ("nice", "7"), ("policy", "batch")]);
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 2 & read word"]).stdin(Stdio::piped());
        let child = Running(command.stdout(Stdio::null()).spawn().unwrap());
        let pids = [child.0.id()];
        let before = wanted.proofs("it", &pids);
        assert_eq!(before.len(), 3);
        assert!(before.iter().any(|proof| !proof.active), "{before:?}");
        assert!(wanted.check(&pids).is_err());
        wanted.give(&pids).unwrap();
        let after = wanted.proofs("it", &pids);
        assert!(after.iter().all(|proof| proof.active), "{after:?}");
        let found: Vec<&str> = after.iter().map(|proof| proof.found.as_str()).collect();
        assert_eq!(found, [&one.to_string(), "7", "batch"]);
        assert!(Scheduling::is_among(&after) && !Scheduling::is_among(&[]));
        wanted.check(&pids).unwrap();
        // This process is what it was.
        assert_eq!(placement::allowed(), allowed);
        drop(child);
        assert!(wanted.proofs("it", &pids).is_empty());
        assert!(Scheduling::default().proofs("it", &[own_pid()]).is_empty());
    }

    #[test]
    fn what_the_machine_does_not_grant_is_lacking() {
        assert_eq!(Scheduling::default().lacking(), None);
        assert_eq!(of(&[("nice", "19"), ("policy", "batch")]).lacking(), None);
        let beyond = of(&[("cpus", &(CpuSet::MAX_CPU - 1).to_string())]).lacking().unwrap();
        assert!(beyond.contains("Kneepoint may use "), "{beyond}");
        if let Some(why) = of(&[("nice", "-20")]).lacking() {
            assert_eq!(why, "the right to set nice: run as root, or with CAP_SYS_NICE");
        }
    }

    proptest! {
        #[test]
        fn cpus_are_what_their_list_says(all in prop::collection::btree_set(0_u32..1024, 1..40)) {
            let all: Vec<u32> = all.into_iter().collect();
            prop_assert_eq!(cpus(&listed(&all)), Some(all));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,12}") {
            for key in Scheduling::KEYS {
                let _ = Scheduling::default().set(key, &text);
            }
        }
    }
}
