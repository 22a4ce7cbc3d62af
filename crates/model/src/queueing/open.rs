//! Open queues: work comes from outside at a rate of its own (Erlang 1917; Jackson 1957).

use super::QueueError;
use kneepoint_vocab::{PerSecond, Ratio, Seconds};

/// A station: work arrives as a Poisson stream, service times are exponential, first come first
/// served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Mean service time.
    pub service: Seconds,
    /// Servers.
    pub servers: u32,
}

/// What a station in equilibrium looks like: M/M/c.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// Part of the servers that is busy.
    pub utilisation: Ratio,
    /// Probability that who arrives has to wait (Erlang's C formula).
    pub waits: Ratio,
    /// Mean time in the queue, of all who arrive.
    pub wait: Seconds,
    /// Mean time in queue and service.
    pub response: Seconds,
    /// Mean number in queue and service, by Little's law.
    pub number: f64,
}

impl Stage {
    /// The station under arrivals of this rate.
    ///
    /// The probability of waiting comes from Erlang's B formula, B(k) = aB(k-1) / (k + aB(k-1)),
    /// which only multiplies and divides numbers of like size: there is no factorial to overflow.
    ///
    /// # Errors
    /// Work that arrives as fast as it can be done, and numbers that mean nothing.
    pub fn under(&self, arrivals: PerSecond) -> Result<Queue, QueueError> {
        let (rate, service) = (arrivals.0, self.service.0);
        if !(rate.is_finite() && rate >= 0.0) {
            return Err(QueueError::Number("the rate of arrivals"));
        }
        if !(service.is_finite() && service >= 0.0) {
            return Err(QueueError::Number("the service time"));
        }
        if self.servers == 0 {
            return Err(QueueError::NoServer);
        }
        let servers = f64::from(self.servers);
        let offered = rate * service;
        let utilisation = offered / servers;
        if utilisation >= 1.0 {
            return Err(QueueError::Overloaded(offered, self.servers));
        }
        let lost = (1..=self.servers)
            .fold(1.0, |lost, k| offered * lost / (f64::from(k) + offered * lost));
        let waits = lost / (1.0 - utilisation * (1.0 - lost));
        let wait = waits * service / (servers * (1.0 - utilisation));
        let response = wait + service;
        Ok(Queue {
            utilisation: Ratio(utilisation),
            waits: Ratio(waits),
            wait: Seconds(wait),
            response: Seconds(response),
            number: rate * response,
        })
    }
}

/// Stations in a row, through which all work goes: what leaves one in equilibrium is a Poisson
/// stream again (Burke 1956), so each is a queue of its own.
///
/// # Errors
/// As for each station.
pub fn tandem(arrivals: PerSecond, stages: &[Stage]) -> Result<Vec<Queue>, QueueError> {
    stages.iter().map(|stage| stage.under(arrivals)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(service: f64, servers: u32) -> Stage {
        Stage { service: Seconds(service), servers }
    }

    #[test]
    fn one_server_by_hand() {
        let queue = stage(0.5, 1).under(PerSecond(1.2)).expect("60 % busy");
        assert!((queue.waits.0 - 0.6).abs() < 1e-15);
        assert!((queue.response.0 - 0.5 / 0.4).abs() < 1e-14);
        assert!((queue.number - 0.6 / 0.4).abs() < 1e-14);
    }

    /// C(c, a) from its definition: aᶜ/c! · c/(c-a) over the sum of all states.
    #[test]
    fn waiting_is_erlang_s_c() {
        for (servers, offered) in [(2_u32, 1.5_f64), (8, 7.0), (20, 12.0)] {
            let mut term = 1.0;
            let mut below = 0.0;
            for k in 0..servers {
                below += term;
                term *= offered / f64::from(k + 1);
            }
            let full = term * f64::from(servers) / (f64::from(servers) - offered);
            let queue = stage(1.0, servers).under(PerSecond(offered)).expect("not full");
            assert!((queue.waits.0 - full / (below + full)).abs() < 1e-14, "{servers}");
        }
    }

    #[test]
    fn thousands_of_servers_overflow_nothing() {
        let queue = stage(1.0, 5000).under(PerSecond(4900.0)).expect("98 % busy");
        assert!(queue.waits.0 > 0.05 && queue.waits.0 < 0.15, "{queue:?}");
    }

    #[test]
    fn what_has_no_equilibrium_is_refused() {
        let full = stage(1.0, 2).under(PerSecond(2.0));
        assert_eq!(full, Err(QueueError::Overloaded(2.0, 2)));
        assert!(full.expect_err("full").to_string().contains("grows without end"));
        assert_eq!(stage(1.0, 0).under(PerSecond(1.0)), Err(QueueError::NoServer));
        assert!(matches!(stage(f64::NAN, 1).under(PerSecond(1.0)), Err(QueueError::Number(_))));
        assert!(tandem(PerSecond(1.5), &[stage(0.1, 1), stage(1.0, 1)]).is_err());
    }
}
