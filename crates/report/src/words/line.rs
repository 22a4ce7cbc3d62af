//! Words for lines of the ledgers.

use kneepoint_vocab::findings::{CoreName, Name, ThreadName, ThreadsName};

/// A line of the core ledger: what it counts.
pub(crate) fn core(name: &CoreName) -> String {
    let fixed = match name {
        CoreName::Useful => "useful: operations at their least CPU",
        CoreName::OtherFunctions => "extra CPU over other functions",
        CoreName::Scheduler => "idle while a thread was ready to run",
        other => return brief(other),
    };
    fixed.to_owned()
}

/// The same in fewer words, where the line's kind stands beside them.
pub(crate) fn beside_kind(name: &CoreName) -> String {
    match name {
        CoreName::Useful => "operations at their least CPU".to_owned(),
        CoreName::OtherFunctions => brief(name),
        CoreName::Wait { name } => waiting("waiting for", name),
        CoreName::OtherWaits => "waiting for other waits".to_owned(),
        other => core(other),
    }
}

/// The same as a name among others.
pub(crate) fn brief(name: &CoreName) -> String {
    let fixed = match name {
        CoreName::Function { name, .. } => return name.to_string(),
        CoreName::Wait { name } => return waiting("idle for", name),
        CoreName::Useful => "useful",
        CoreName::OtherFunctions => "other functions",
        CoreName::SpreadFunctions => "extra CPU, spread over functions",
        CoreName::Unnamed => "extra CPU (no stacks)",
        CoreName::Generator => "load generator",
        CoreName::KernelThreads => "kernel threads",
        CoreName::Steal => "steal by the hypervisor",
        CoreName::Interrupts => "interrupts",
        CoreName::Others => "other processes",
        CoreName::Kneepoint => "Kneepoint itself",
        CoreName::OtherWaits => "idle for other waits",
        CoreName::NoRequest => "idle: no request was there (the load generator's turn)",
        CoreName::Scheduler => "idle beside runnable threads",
        CoreName::Unused => "idle for want of clients",
        CoreName::Unaccounted => "unaccounted",
    };
    fixed.to_owned()
}

/// A line of a profile, which knows no clients and no level to be held against.
pub(crate) fn of_profile(name: &CoreName) -> String {
    let fixed = match name {
        CoreName::Unnamed | CoreName::SpreadFunctions => "CPU of the system",
        CoreName::NoRequest => "idle, waiting for requests or other processes",
        CoreName::Unused => "idle, with nothing to do",
        other => return brief(other),
    };
    fixed.to_owned()
}

/// A line of the thread ledger.
pub(crate) fn thread(name: &ThreadName) -> String {
    let fixed = match name {
        ThreadName::Function { name, says_all: true } => return name.to_string(),
        ThreadName::Function { name, .. } => return format!("in {name}"),
        ThreadName::Wait { name } => return waiting("blocked on", name),
        ThreadName::Running => "running",
        ThreadName::RunningElsewhere => "running elsewhere",
        ThreadName::Runnable => "waiting for a core",
        ThreadName::NoRequest => "idle, waiting for the next request",
        ThreadName::OtherWaits => "blocked on other things",
        ThreadName::Unaccounted => "unaccounted",
    };
    fixed.to_owned()
}

/// What threads of a profile do.
pub(crate) fn threads(name: &ThreadsName) -> String {
    let fixed = match name {
        ThreadsName::Wait { name } => return waiting("waiting for", name),
        ThreadsName::Running => "running",
        ThreadsName::Runnable => "waiting for a core",
        ThreadsName::NoRequest => "waiting for requests or other processes",
        ThreadsName::Asleep => "asleep, woken less than 10 times a second",
        ThreadsName::OtherWaits => "waiting for other things",
    };
    fixed.to_owned()
}

/// A wait by its name; nobody waits for a sleep of their own.
fn waiting(how: &str, name: &Name) -> String {
    match name.sleeps_in() {
        Some(function) => format!("asleep in {function}"),
        None => format!("{how} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::findings::Place;

    #[test]
    fn a_line_is_worded_for_where_it_stands() {
        let wait = CoreName::Wait { name: Name::object("mutex", Place::In("f".to_owned())) };
        assert_eq!((core(&wait), beside_kind(&wait)), {
            ("idle for mutex in f".to_owned(), "waiting for mutex in f".to_owned())
        });
        let sleep = CoreName::Wait { name: Name::sleep("await_slot") };
        assert_eq!(beside_kind(&sleep), "asleep in await_slot");
        assert_eq!(core(&CoreName::OtherFunctions), "extra CPU over other functions");
        assert_eq!(beside_kind(&CoreName::OtherFunctions), "other functions");
        assert_eq!(brief(&CoreName::Unused), "idle for want of clients");
        assert_eq!(of_profile(&CoreName::Unused), "idle, with nothing to do");
        let within = |says_all| ThreadName::Function { name: Name::from("f"), says_all };
        assert_eq!((thread(&within(false)), thread(&within(true))), {
            ("in f".to_owned(), "f".to_owned())
        });
    }
}
