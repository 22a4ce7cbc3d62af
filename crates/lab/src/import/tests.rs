//! Files as tools write them, and files that nobody should have written.

use super::*;
use kneepoint_vocab::RunRecord;
use proptest::prelude::*;

const SYSBENCH: &str = include_str!("../../../rig/tests/output/sysbench-oltp.txt");
const PGBENCH: &str = include_str!("../../../rig/tests/output/pgbench-time.txt");
const FIO: &str = include_str!("../../../rig/tests/output/fio-four-jobs.json");

/// Imports files of these texts, named `0`, `1` and so on.
fn imported(texts: &[&[u8]], cores: Option<u32>) -> Result<RunRecord, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: String| folder.path().join(name);
    let files: Vec<PathBuf> = (0..texts.len()).map(|index| path(index.to_string())).collect();
    for (file, text) in files.iter().zip(texts) {
        std::fs::write(file, text).unwrap();
    }
    let options = ImportOptions {
        files,
        format: None,
        cores,
        operation: None,
        directory: path("run".to_owned()),
        numbered: false,
        kneepoint: "test".to_owned(),
        begun: "2026-01-01T00:00:00Z".to_owned(),
        arguments: Vec::new(),
    };
    let reported = |error: ImportError| {
        assert!(!options.directory.exists(), "a refused import leaves nothing");
        error.to_string().replace(&format!("{}/", folder.path().display()), "")
    };
    import(&options).map_err(reported)?;
    Ok(crate::open(&options.directory).unwrap())
}

/// Other tools name the two columns otherwise.
#[test]
fn a_table_of_threads_and_tps_is_read() {
    for header in ["threads,tps", "\"Connections\",QPS", "users,ops/s", "workers,iops"] {
        let text = format!("{header}\n1,100\n2,190\n");
        let rows = super::csv::parse(&text).unwrap();
        assert!(super::csv::is(&text), "{header}");
        assert_eq!(rows.iter().map(|row| row.clients).collect::<Vec<_>>(), [1, 2], "{header}");
    }
    assert!(!super::csv::is("threads,latency\n1,5\n"));
}

#[test]
fn reports_of_tools_become_levels() {
    let second = SYSBENCH.replace("threads: 2", "threads: 4");
    let texts = [SYSBENCH.as_bytes(), second.as_bytes(), SYSBENCH.as_bytes()];
    let run = imported(&texts, Some(8)).unwrap();
    let at = |clients| Level { clients, cores: 8 };
    assert_eq!(run.plan.levels, [at(2), at(4)]);
    assert_eq!(run.plan.protocol, ProtocolName::Imported);
    assert_eq!((run.plan.sweep_blocks, run.plan.variants.len(), run.variants.len()), (2, 1, 0));
    assert_eq!(run.trials.iter().map(|trial| trial.id.block).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!((run.host.cores, run.host.cpu.as_str()), (8, "not known"));
    assert_eq!(run.plan.summary, "results of sysbench from 3 files");
    let each = imported(&[PGBENCH.as_bytes(), FIO.as_bytes()], Some(2)).unwrap();
    assert_eq!(each.plan.levels.iter().map(|level| level.clients).collect::<Vec<_>>(), [4, 32]);
    assert_eq!(each.plan.operation, "transactions");
}

#[test]
fn a_table_may_tell_cores_and_blocks() {
    let table = "# a remark\nclients,throughput,cores,repetition,seconds\n\
        1,100.5,2,0,60\n2,190,2,0,60\n1,0.25,4,1,60\n";
    let run = imported(&[table.as_bytes()], None).unwrap();
    assert_eq!(run.plan.levels.len(), 3);
    let rates: Vec<f64> = run.trials.iter().map(|trial| trial.throughput().0).collect();
    for (rate, expected) in rates.iter().zip([100.5, 190.0, 0.25]) {
        assert!((rate / expected - 1.0).abs() < 1e-6, "{rates:?}");
    }
    assert_eq!(run.trials[2].id.block, 1);
    let bare = imported(&[b"throughput,clients\n0.0179,1\n2e6,8\n"], Some(1)).unwrap();
    assert!((bare.trials[0].throughput().0 / 0.0179 - 1.0).abs() < 1e-9);
}

#[test]
fn what_makes_no_sense_is_reported_with_its_place() {
    let refused = |text: &[u8]| imported(&[text], Some(2)).unwrap_err();
    let header = "clients,throughput\n";
    for (row, words) in [
        ("0,5", "0:2: clients must be a number from 1 to 1000000 (found \"0\")"),
        ("-1,5", "0:2: clients must be"),
        ("1,NaN", "0:2: throughput must be a number"),
        ("1,inf", "0:2: throughput must be a number"),
        ("1,-5", "0:2: throughput must be a number"),
        ("1,0", "0:2: throughput must be a number"),
        ("1,1e300", "0:2: throughput must be a number"),
        ("1", "0:2: expected 2 columns as in the header (found 1)"),
    ] {
        let message = refused(format!("{header}{row}\n").as_bytes());
        assert!(message.starts_with(words) && !message.contains('\n'), "{message}");
    }
    for (text, words) in [
        (&b"\xff\xfe\x00binary"[..], "0: is not text"),
        (b"", "0: this is not the output of"),
        (b"a,b\n1,2\n", "0: this is not the output of"),
        (b"clients,throughput\n", "0: there is no result of CSV in it"),
        (b"Number of threads: 0\ntotal time: 1s\ntotal number of events: 5\n", "0:1: clients must"),
        (b"Number of threads: 1\ntotal time: 0s\ntotal number of events: 5\n", "0:1: nothing was"),
    ] {
        let message = refused(text);
        assert!(message.starts_with(words), "{message}");
    }
    let message = imported(&[b"clients,throughput\n1,5\n"], None).unwrap_err();
    assert!(message.ends_with("give --cores N"), "{message}");
    let mut large = header.as_bytes().to_vec();
    large.resize(65 << 20, b' ');
    assert_eq!(refused(&large), "0: is larger than 64 MiB");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_table_makes_it_panic(rows in "[0-9a-z,.\"\n#-]{0,120}") {
        let text = format!("clients,throughput,cores,block,seconds\n{rows}");
        let _ = imported(&[text.as_bytes()], Some(4));
    }
}
