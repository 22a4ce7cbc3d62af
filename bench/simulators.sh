#!/bin/sh
# Service completions each second of the closed network of crates/model/tests/twins/network.toml
# (64 customers, 8 cores, 4 locks) by Kneepoint's engine, by SimPy and by nexosim, and of threads
# with slices, preemption, spinning and wake-up costs (threads.toml) by Kneepoint's engine; both also
# with 4,096 threads on 512 cores. One table with medians over rounds, in which all take turns.
#
# SimPy goes into target/simpy and nexosim into target/nexosim; without them they are left out.
# ROUNDS=5 bench/simulators.sh
set -eu
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-3}
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
figures=$(mktemp)
trap 'rm -f "$figures"' EXIT

python=${PYTHON:-python3}
if ! "$python" -c 'import simpy' 2>/dev/null; then
    python=$target/simpy/bin/python
    if ! "$python" -c 'import simpy' 2>/dev/null; then
        { python3 -m venv "$target/simpy" && "$python" -m pip install -q simpy; } >&2 ||
            python=
    fi
fi
[ -n "$python" ] || echo "SKIP SimPy: it cannot be installed here (pip install simpy)"

nexosim=$target/nexosim/release/network-nexosim
cargo build -q --release --manifest-path bench/nexosim/Cargo.toml \
    --target-dir "$target/nexosim" || nexosim=
[ -n "$nexosim" ] || echo "SKIP nexosim: it cannot be built here"

# Lines of a benchmark by divan: its name, then a line with fastest, slowest, median and mean.
own() {
    cargo bench -q -p kneepoint-model --bench engine | awk '
        /─ [a-z]/ { name = "" }
        /─ (network|threads)(_large)? / { match($0, /(network|threads)(_large)?/)
                                          name = substr($0, RSTART, RLENGTH) }
        /item\/s/ && name != "" {
            columns = split($0, part, "│"); at = 0
            for (i = 1; i <= columns; i++) if (part[i] ~ /item\/s/ && ++at == 3) found = part[i]
            split(found, word, " "); factor = 1
            if (word[2] ~ /^K/) factor = 1e3
            if (word[2] ~ /^M/) factor = 1e6
            if (word[2] ~ /^G/) factor = 1e9
            printf "Kneepoint, %s\t%.0f\t\n", name, word[1] * factor }'
}

round=1
while [ "$round" -le "$rounds" ]; do
    own >>"$figures"
    [ -z "$python" ] || "$python" bench/network_simpy.py >>"$figures"
    [ -z "$nexosim" ] || "$nexosim" >>"$figures"
    round=$((round + 1))
done

# Medians, ranges and ratios.
sort -t "$(printf '\t')" -k1,1 -k2,2n "$figures" | awk -F '\t' '
    $1 != last { last = $1; order[++engines] = $1 }
    { value[$1, ++count[$1]] = $2; if ($3 != "") rate[$1] = $3 }
    END {
        for (e = 1; e <= engines; e++) {
            name = order[e]; n = count[name]
            median[name] = n % 2 ? value[name, (n + 1) / 2] \
                                 : (value[name, n / 2] + value[name, n / 2 + 1]) / 2
            if (name ~ /^SimPy/) simpy = median[name]
            if (name ~ /^nexosim/) nexosim = median[name]
        }
        print "| engine | completions/s (range) | x SimPy | x nexosim | throughput (exact 7.9991) |"
        print "|---|---|---|---|---|"
        for (e = 1; e <= engines; e++) {
            name = order[e]; n = count[name]
            printf "| %s | %.3g M (%.3g to %.3g) | %s | %s | %s |\n", name, median[name] / 1e6,
                value[name, 1] / 1e6, value[name, n] / 1e6,
                simpy ? sprintf("%.3g", median[name] / simpy) : "",
                nexosim ? sprintf("%.3g", median[name] / nexosim) : "", rate[name]
        }
    }'
