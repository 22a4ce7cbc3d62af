//! Closed networks of product form: N clients go round for ever (Gordon and Newell 1967).
//!
//! A station with demand D and c servers has the factor g(n) = Dⁿ / Π min(j, c), j = 1..n; the
//! convolution of all stations' factors gives the normalisation constants G(n) (Buzen 1973), and
//! throughput with N clients is G(N-1) / G(N). All terms are positive, so the sums lose nothing;
//! that they leave the range of doubles is met by numbers with exponents of their own. Mean value
//! analysis with load-dependent stations subtracts instead, and loses everything at some tens of
//! servers.

use super::QueueError;
use super::scaled::Scaled;
use kneepoint_vocab::{PerSecond, Ratio, Seconds};

/// Servers of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// This many; who finds them busy waits.
    Limited(u32),
    /// One for each client: think time, a pure delay.
    Unlimited,
}

/// A station.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// Service demand of one operation: visits × mean service time.
    pub demand: Seconds,
    /// Its servers.
    pub servers: Servers,
}

/// A closed network.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed {
    stations: Vec<Station>,
}

/// The network with 1 to N clients.
#[derive(Clone, Debug)]
pub struct Solved {
    network: Closed,
    constants: Vec<Scaled>,
}

/// Clients solved for at most: the work grows with their square.
pub const MOST_CLIENTS: u32 = 1 << 14;

impl Closed {
    /// A network of these stations.
    ///
    /// # Errors
    /// No station that takes time, and numbers that mean nothing.
    pub fn new(stations: &[Station]) -> Result<Self, QueueError> {
        if stations.iter().any(|it| !(it.demand.0.is_finite() && it.demand.0 >= 0.0)) {
            return Err(QueueError::Number("a demand"));
        }
        if stations.iter().any(|it| it.servers == Servers::Limited(0)) {
            return Err(QueueError::NoServer);
        }
        if stations.iter().all(|it| it.demand.0 <= f64::MIN_POSITIVE) {
            return Err(QueueError::NoDemand);
        }
        Ok(Self { stations: stations.to_vec() })
    }

    /// The machine repairman: clients think, then want one of some servers. M/M/c//N, with the
    /// clients as the machines and the servers as those who repair them.
    ///
    /// # Errors
    /// As for [`Closed::new`].
    pub fn repairman(think: Seconds, service: Seconds, servers: u32) -> Result<Self, QueueError> {
        Self::new(&[
            Station { demand: think, servers: Servers::Unlimited },
            Station { demand: service, servers: Servers::Limited(servers) },
        ])
    }

    /// Solves it for 1 to `clients` clients.
    ///
    /// # Errors
    /// More clients than [`MOST_CLIENTS`].
    pub fn solve(&self, clients: u32) -> Result<Solved, QueueError> {
        if clients > MOST_CLIENTS {
            return Err(QueueError::TooMany(clients, MOST_CLIENTS));
        }
        let constants = constants(self.stations.iter(), clients as usize);
        Ok(Solved { network: self.clone(), constants })
    }
}

impl Solved {
    /// Throughput with `clients` clients: G(N-1) / G(N). `None` for 0 and beyond those solved.
    #[must_use]
    pub fn throughput(&self, clients: u32) -> Option<PerSecond> {
        let before = self.constants.get((clients as usize).checked_sub(1)?)?;
        Some(PerSecond(before.over(*self.constants.get(clients as usize)?)))
    }

    /// Part of a station's servers that is busy: U = XD / c. `None` as for the throughput, and at
    /// a station without a number of servers.
    #[must_use]
    pub fn utilisation(&self, station: usize, clients: u32) -> Option<Ratio> {
        let it = self.network.stations.get(station)?;
        let Servers::Limited(servers) = it.servers else { return None };
        Some(Ratio(self.throughput(clients)?.0 * it.demand.0 / f64::from(servers)))
    }

    /// Mean number of clients at a station, queueing or served: Σ k g(k) G′(N-k) / G(N), with G′
    /// the constants of the network without it.
    #[must_use]
    pub fn number(&self, station: usize, clients: u32) -> Option<f64> {
        let own = self.network.stations.get(station)?;
        let total = *self.constants.get(clients as usize)?;
        let all = self.network.stations.iter().enumerate();
        let rest = all.filter(|(index, _)| *index != station).map(|(_, it)| it);
        let others = constants(rest, clients as usize);
        let mut factor = Scaled::ONE;
        let mut mean = Scaled::ZERO;
        for k in 1..=clients {
            factor = factor * own.step(k);
            let weight = Scaled::new(f64::from(k)) * factor;
            mean = mean + weight * others[(clients - k) as usize];
        }
        Some(mean.over(total))
    }
}

impl Station {
    /// g(n) / g(n-1).
    fn step(&self, number: u32) -> Scaled {
        let at_once = match self.servers {
            Servers::Limited(servers) => servers.min(number),
            Servers::Unlimited => number,
        };
        Scaled::new(self.demand.0 / f64::from(at_once))
    }
}

/// G(0) to G(N).
fn constants<'a>(stations: impl Iterator<Item = &'a Station>, clients: usize) -> Vec<Scaled> {
    let mut all = vec![Scaled::ZERO; clients + 1];
    all[0] = Scaled::ONE;
    for station in stations {
        add(&mut all, station);
    }
    all
}

/// Convolves with a station's factors.
///
/// From c clients on the factors are geometric, so their part of the sum follows from the one
/// before: one server takes N steps, c servers N·c.
fn add(all: &mut Vec<Scaled>, station: &Station) {
    let clients = all.len() - 1;
    let first = match station.servers {
        Servers::Limited(servers) => (servers as usize).min(clients + 1),
        Servers::Unlimited => clients + 1,
    };
    let mut factors = Vec::with_capacity(first + 1);
    factors.push(Scaled::ONE);
    for number in (1_u32..).take(first) {
        factors.push(factors[number as usize - 1] * station.step(number));
    }
    let ratio = station.step(u32::try_from(first).unwrap_or(u32::MAX));
    let mut tail = Scaled::ZERO;
    let mut sums = Vec::with_capacity(clients + 1);
    for number in 0..=clients {
        if number >= first {
            tail = tail * ratio + factors[first] * all[number - first];
        }
        let few = first.min(number + 1);
        let before = all[number + 1 - few..=number].iter().rev();
        sums.push(Scaled::dot(factors[..few].iter().copied().zip(before.copied())) + tail);
    }
    *all = sums;
}
