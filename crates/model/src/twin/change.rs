//! What-if: changes of a twin before anyone changes code.

use super::file::{LockType, Step, Twin};
use toml::Spanned;

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The lock or semaphore is not there: what it protects is done without it.
    Without(String),
    /// The lock is split into this many, of which each visit takes one at random.
    Split(String, u32),
    /// The lock works in another way.
    Kind(String, LockType),
    /// All cores are this much faster.
    Speed(f64),
    /// The CPU of an operation stays what it is with few clients, however many there are.
    Uncrowded,
}

/// A change that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The twin has no such lock.
    #[error("the twin has no lock `{0}`; it has {1}")]
    NoLock(String, String),
    /// A number that means nothing.
    #[error("{0}")]
    Number(String),
}

impl Twin {
    /// The twin with a change.
    ///
    /// # Errors
    /// An unknown lock, or a number that means nothing.
    pub fn with(&self, change: &Change) -> Result<Self, ChangeError> {
        let mut twin = self.clone();
        match change {
            Change::Without(name) => {
                if twin.semaphore.remove(name).is_none() {
                    twin.known(name)?;
                    twin.lock.remove(name);
                }
                for class in &mut twin.thread {
                    class.program = without(&class.program, name);
                }
            }
            Change::Split(name, parts) => {
                if !(1..=1 << 16).contains(parts) {
                    let what = format!("a lock is split into 1 to 65536 parts, not {parts}");
                    return Err(ChangeError::Number(what));
                }
                twin.known(name)?.copies *= parts;
            }
            Change::Kind(name, kind) => {
                let lock = twin.known(name)?;
                lock.kind = *kind;
                let spins = matches!(kind, LockType::Futex | LockType::Adaptive);
                lock.spin = lock.spin.take().filter(|_| spins);
                lock.prefer = lock.prefer.filter(|_| *kind == LockType::ReadWrite);
            }
            Change::Speed(factor) => {
                if !(factor.is_finite() && *factor > 0.0) {
                    return Err(ChangeError::Number(format!("a speed is above 0, not {factor}")));
                }
                twin.cores.speed *= factor;
            }
            Change::Uncrowded => {
                twin.cores.crowding.clear();
                twin.cores.contended = None;
            }
        }
        Ok(twin)
    }

    fn known(&mut self, name: &str) -> Result<&mut super::file::Lock, ChangeError> {
        let names: Vec<String> = self.lock.keys().cloned().collect();
        let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        self.lock.get_mut(name).ok_or_else(|| ChangeError::NoLock(name.to_owned(), has))
    }
}

/// The steps without holding the lock or a unit of the semaphore.
fn without(steps: &[Spanned<Step>], name: &str) -> Vec<Spanned<Step>> {
    let mut all = Vec::new();
    for step in steps {
        let mut own = step.get_ref().clone();
        own.steps = own.steps.map(|inner| without(&inner, name));
        let held = own.hold.as_ref().or(own.within.as_ref());
        if held.is_some_and(|held| held.get_ref() == name) {
            all.extend(own.steps.unwrap_or_default());
        } else {
            all.push(Spanned::new(step.span(), own));
        }
    }
    all
}
