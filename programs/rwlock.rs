//! Clients that update one table behind a reader-writer lock: usage: rwlock CLIENTS SECONDS
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

type Table = RwLock<HashMap<u64, u64>>;

fn mix(mut x: u64, rounds: u32) -> u64 {
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

#[inline(never)]
fn update(table: &Table, key: u64) {
    table.write().unwrap().insert(key % 1024, mix(key, 12000));
}

fn client(first: u64, table: &Table, stop: &AtomicBool, done: &AtomicU64) {
    let mut key = first;
    while !stop.load(Ordering::Relaxed) {
        key = mix(key + 1, 3000);
        update(table, key);
        done.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() {
    let words: Vec<u64> = std::env::args().skip(1).map(|word| word.parse().unwrap()).collect();
    let (clients, seconds) = (words[0], words[1]);
    let table = Arc::new(Table::default());
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let threads: Vec<_> = (0..clients)
        .map(|number| {
            let (table, stop, done) = (table.clone(), stop.clone(), done.clone());
            std::thread::spawn(move || client(number + 1, &table, &stop, &done))
        })
        .collect();
    let begin = Instant::now();
    std::thread::sleep(Duration::from_secs(seconds));
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    let rate = done.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64();
    println!("{rate:.1} operations/s");
}
