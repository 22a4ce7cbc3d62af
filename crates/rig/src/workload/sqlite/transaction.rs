//! One operation: the read-only transaction of sysbench 1.0 (`oltp_read_only`).
//!
//! BEGIN, ten point selects, and one each of: a range, the sum over a range, a sorted range, the
//! distinct values of a range, sorted; COMMIT. Ids are uniform (sysbench's own default is a
//! distribution with a hot spot, its `special`), ranges span [`RANGE`] ids and are cut off where
//! the table ends.

use super::table::uniform;
use rand_pcg::Pcg64;
use rusqlite::{CachedStatement, Connection, Error, Params};
use std::hint::black_box;

/// Ids that a range spans.
const RANGE: u32 = 100;
/// Point selects of one transaction.
const POINTS: u32 = 10;

const SIMPLE: &str = "SELECT c FROM sbtest1 WHERE id BETWEEN ?1 AND ?2";
const SUM: &str = "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ?1 AND ?2";
const ORDER: &str = "SELECT c FROM sbtest1 WHERE id BETWEEN ?1 AND ?2 ORDER BY c";
const DISTINCT: &str = "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ?1 AND ?2 ORDER BY c";

/// The statements of the transaction, prepared on one connection.
pub(super) struct Transaction<'c> {
    begin: CachedStatement<'c>,
    point: CachedStatement<'c>,
    sum: CachedStatement<'c>,
    /// Those that return the texts of a range.
    ranges: [CachedStatement<'c>; 3],
    commit: CachedStatement<'c>,
    rows: u32,
}

impl<'c> Transaction<'c> {
    /// Prepares the statements, or takes them from the connection's cache.
    pub(super) fn prepare(connection: &'c Connection, rows: u32) -> rusqlite::Result<Self> {
        let prepare = |text| connection.prepare_cached(text);
        Ok(Self {
            begin: prepare("BEGIN")?,
            point: prepare("SELECT c FROM sbtest1 WHERE id = ?1")?,
            sum: prepare(SUM)?,
            ranges: [prepare(SIMPLE)?, prepare(ORDER)?, prepare(DISTINCT)?],
            commit: prepare("COMMIT")?,
            rows,
        })
    }

    /// Runs it once, reading every row, and returns the number of rows read.
    ///
    /// # Errors
    /// SQLite's, which `SQLITE_LOCKED` is one of, or a row that is not there.
    pub(super) fn run(&mut self, random: &mut Pcg64) -> rusqlite::Result<u64> {
        let mut read = 0;
        self.begin.execute([])?;
        for _ in 0..POINTS {
            match texts(&mut self.point, [uniform(random, self.rows)])? {
                1 => read += 1,
                _ => return Err(Error::QueryReturnedNoRows),
            }
        }
        let [simple, order, distinct] = &mut self.ranges;
        read += texts(simple, range(random, self.rows))?;
        let sum = self.sum.query_row(range(random, self.rows), |row| row.get::<_, i64>(0))?;
        read += u64::from(black_box(sum) > 0);
        read += texts(order, range(random, self.rows))?;
        read += texts(distinct, range(random, self.rows))?;
        self.commit.execute([])?;
        Ok(read)
    }
}

fn range(random: &mut Pcg64, rows: u32) -> [u32; 2] {
    let first = uniform(random, rows);
    [first, first.saturating_add(RANGE - 1)]
}

/// Steps through all rows and reads the text of each; their number.
fn texts(statement: &mut CachedStatement<'_>, params: impl Params) -> rusqlite::Result<u64> {
    let mut rows = statement.query(params)?;
    let mut read = 0;
    while let Some(row) = rows.next()? {
        black_box(row.get_ref(0)?.as_str()?);
        read += 1;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    #[test]
    fn it_reads_the_rows_it_should_and_leaves_no_transaction_open() {
        let mut connection = Connection::open_in_memory().unwrap();
        table::load(&mut connection, 100_000, 3).unwrap();
        let mut random = Pcg64::new(3, 0);
        let mut transaction = Transaction::prepare(&connection, 100_000).unwrap();
        let read: Vec<_> = (0..50).map(|_| transaction.run(&mut random).unwrap()).collect();
        // Ten points, three ranges of a hundred and a sum; fewer only at the table's end.
        assert!(read.iter().all(|&rows| rows <= 311), "{read:?}");
        assert!(read.iter().filter(|&&rows| rows == 311).count() > 40, "{read:?}");
        assert!(connection.is_autocommit());
    }

    #[test]
    fn a_missing_row_is_an_error() {
        let mut connection = Connection::open_in_memory().unwrap();
        table::load(&mut connection, 1000, 3).unwrap();
        let mut transaction = Transaction::prepare(&connection, 100_000_000).unwrap();
        assert!(transaction.run(&mut Pcg64::new(3, 0)).is_err());
    }
}
