//! Treatments of the synthetic findings, with the control and the variant without a collector.

use kneepoint_vocab::findings::{Effect, Verdict};
use kneepoint_vocab::record::{Proof, Proven};
use kneepoint_vocab::{Estimate, Ratio, Seconds, VariantId, VariantRole};

/// Four treatments, one of them on top of another and one not active; then the controls.
pub(super) fn effects() -> Vec<Effect> {
    let mut all = vec![
        Effect {
            changes: vec!["shared_cache = off".to_owned(), "cache_size = -2000".to_owned()],
            p_holm: Some(0.0002),
            proofs: vec![proof("sqlite3_config(SHARED_CACHE)", "off", "off")],
            ..tried(
                "private-cache",
                "private page caches",
                "baseline",
                [4.05, 3.79, 4.34],
                Verdict::Better,
            )
        },
        Effect {
            changes: vec!["mmap_size = 268435456".to_owned()],
            p_holm: Some(0.013),
            proofs: vec![proof("PRAGMA mmap_size", "268435456", "268435456")],
            ..tried(
                "mmap",
                "memory-mapped reads",
                "private-cache",
                [1.21, 1.10, 1.33],
                Verdict::Better,
            )
        },
        Effect {
            changes: vec!["SQLITE_CONFIG_MEMSTATUS = 0".to_owned()],
            p_holm: Some(0.71),
            proofs: vec![proof("sqlite3_memory_used()", "0", "0")],
            ..tried(
                "no-memstatus",
                "memory statistics off",
                "baseline",
                [1.01, 0.96, 1.06],
                Verdict::NoEffect { smallest: Ratio(0.07) },
            )
        },
        Effect {
            changes: vec!["LD_PRELOAD = libjemalloc.so.2".to_owned()],
            p_holm: Some(0.44),
            proofs: vec![proof("/proc/PID/maps", "libjemalloc.so.2", "libjemalloc.so.2")],
            ..tried(
                "jemalloc",
                "jemalloc in place of malloc",
                "baseline",
                [0.95, 0.86, 1.05],
                Verdict::Undecided { needs: Seconds(140.0) },
            )
        },
        Effect {
            ratio: None,
            throughput: None,
            pair_ratios: Vec::new(),
            changes: vec!["lookaside = 128,512".to_owned()],
            proofs: vec![proof("SQLITE_DBSTATUS_LOOKASIDE_HIT", "> 0", "0")],
            ..tried(
                "lookaside",
                "larger lookaside buffers",
                "baseline",
                [1.0, 1.0, 1.0],
                Verdict::Invalid,
            )
        },
    ];
    all.extend(controls());
    all
}

fn controls() -> [Effect; 2] {
    [
        Effect {
            role: VariantRole::Control,
            ..tried(
                "control",
                "A/A control: the baseline again",
                "baseline",
                [1.006, 0.971, 1.041],
                Verdict::NoEffect { smallest: Ratio(0.041) },
            )
        },
        Effect {
            role: VariantRole::Unprobed,
            ..tried(
                "unprobed",
                "collector detached",
                "baseline",
                [1.029, 1.003, 1.055],
                Verdict::NoEffect { smallest: Ratio(0.055) },
            )
        },
    ]
}

fn proof(what: &str, expected: &str, found: &str) -> Proof {
    Proof {
        what: what.to_owned(),
        expected: expected.to_owned(),
        found: found.to_owned(),
        active: found == expected,
    }
}

fn tried(variant: &str, label: &str, over: &str, ratio: [f64; 3], verdict: Verdict) -> Effect {
    let [value, low, high] = ratio;
    let spread = (high / low).ln() * 0.8;
    let offsets = [-0.9, 0.4, 0.1, -0.3, 0.8, -0.6, 0.2, 0.6, -0.1, -0.4, 0.9, -0.7];
    let base = if over == "baseline" { 4_604.0 } else { 18_650.0 };
    Effect {
        variant: VariantId::new(variant),
        role: VariantRole::Treatment,
        label: label.to_owned(),
        over: VariantId::new(over),
        changes: Vec::new(),
        ratio: Some(Estimate::of(value, low, high)),
        throughput: Some(Estimate::of(value * base, low * base, high * base)),
        pairs: 12,
        starts: 3,
        verdict,
        p_holm: None,
        proofs: Vec::new(),
        proven: Proven::Yes,
        pair_ratios: offsets.map(|offset| Ratio(value * (offset * spread).exp())).to_vec(),
    }
}
