//! The program that takes the stacks of those who end sampled waits. Nothing else needs it, and the
//! kernel calls it at each wake-up: where switches are many it stays for the window's first part.

use super::wire::Core;
use aya::programs::tp_btf::BtfTracePointLink;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Its name.
pub(crate) const PROGRAM: &str = "on_waking";
/// When the switches are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Switches of a core each second from where on the program comes off then. A call of it takes
/// 70 ns, so it takes 0.2 % of a core at most.
const MANY: f64 = 30_000.0;

/// The program's link, and for how much of the window it was there.
#[derive(Default)]
pub(crate) struct Wakers {
    link: Option<BtfTracePointLink>,
    watching: Option<Watching>,
}

struct Watching {
    began: Instant,
    /// Dropped when the window ends.
    stop: Sender<()>,
    thread: JoinHandle<(Option<BtfTracePointLink>, Option<Instant>)>,
}

/// Whether a core switched so often in this time that the calls count.
#[allow(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn is_often(cores: &[Core], window: u64, time: Duration) -> bool {
    let of_window = cores.iter().filter(|core| core.generation == window);
    let most = of_window.map(|core| core.switches).max().unwrap_or(0);
    most as f64 > MANY * time.as_secs_f64()
}

impl Wakers {
    /// Whether it has to be attached.
    pub(crate) fn is_off(&self) -> bool {
        self.link.is_none()
    }

    /// Keeps a new link.
    pub(crate) fn attached(&mut self, link: BtfTracePointLink) {
        self.link = Some(link);
    }

    /// Takes the program off.
    pub(crate) fn detach(&mut self) {
        self.link = None;
    }

    /// The window that began at `window` is open; `cores` reads what its cores did.
    pub(crate) fn watch(
        &mut self,
        window: u64,
        cores: impl Fn() -> Option<Vec<Core>> + Send + 'static,
    ) {
        let Some(link) = self.link.take() else { return };
        let (stop, stopped) = channel::<()>();
        let began = Instant::now();
        let work = move || {
            if stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout)
                && cores().is_some_and(|cores| is_often(&cores, window, began.elapsed()))
            {
                drop(link);
                return (None, Some(Instant::now()));
            }
            // Nothing is ever sent; the other end is dropped when the window ends.
            let _ = stopped.recv();
            (Some(link), None)
        };
        let thread = std::thread::Builder::new().name("kneepoint-wakers".to_owned()).spawn(work);
        self.watching = thread.ok().map(|thread| Watching { began, stop, thread });
    }

    /// The window has ended: for what share of it the program was there.
    pub(crate) fn share(&mut self) -> f64 {
        let Some(Watching { began, stop, thread }) = self.watching.take() else { return 1.0 };
        let whole = began.elapsed();
        drop(stop);
        let Ok((link, ended)) = thread.join() else { return 1.0 };
        self.link = link;
        let part = ended.map_or(whole, |ended| ended - began);
        (part.as_secs_f64() / whole.as_secs_f64().max(1e-9)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_core_of_the_window_decides() {
        let core = |generation, switches| Core { generation, switches, ..Core::default() };
        let cores = [core(7, 2_000), core(7, 3_100), core(6, 90_000)];
        assert!(is_often(&cores, 7, LOOK));
        assert!(!is_often(&cores, 7, 2 * LOOK));
        assert!(!is_often(&cores, 8, LOOK));
    }

    #[test]
    fn without_a_program_there_is_nothing_to_watch() {
        let mut wakers = Wakers::default();
        wakers.watch(1, || None);
        assert!(wakers.is_off());
        assert!((wakers.share() - 1.0).abs() < f64::EPSILON);
    }
}
