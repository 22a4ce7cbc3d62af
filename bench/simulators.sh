#!/bin/sh
# Service completions each second of the closed network of crates/model/tests/twins/network.toml,
# by Kneepoint's engine and by other simulators where they are installed.
set -eu
cd "$(dirname "$0")/.."
cargo bench -q -p kneepoint-model --bench engine
python=${PYTHON:-python3}
if "$python" -c 'import simpy' 2>/dev/null; then
    "$python" bench/network_simpy.py
else
    echo "SKIP SimPy: $python has no module simpy (pip install simpy)"
fi
if [ -n "${NEXOSIM:-}" ] && [ -x "$NEXOSIM" ]; then
    "$NEXOSIM"
else
    echo "SKIP nexosim: set NEXOSIM to a program that prints its completions each second"
fi
