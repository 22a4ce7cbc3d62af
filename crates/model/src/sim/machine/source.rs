//! Open arrivals: items that come whether or not the last ones are done.

use super::Machine;

impl Machine<'_> {
    pub(super) fn arm_source(&mut self, source: u32) {
        let law = self.twin.sources[source as usize].gap;
        let gap = self.draws.length(self.twin.laws[law as usize]);
        let at = self.in_future(gap);
        self.agenda.set(self.source_entity(source), at);
    }

    pub(super) fn timer_source(&mut self, source: u32) {
        self.arrive(self.twin.sources[source as usize].channel);
        self.arm_source(source);
    }
}
