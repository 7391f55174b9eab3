#!/usr/bin/env bash
# End to end with real SGLang on one GPU, and a recording of situation A. usage: bash tools/gpu_e2e.sh OUT [PYTHON]
# PYTHON (with whatever PYTHONPATH it needs already set) has SGLang and this package's dependencies. Results: OUT/e2e.json,
# OUT/e2e.md, OUT/captures.tar.gz (unpack into fixtures/incident/captures), OUT/record.txt.
set -euo pipefail
OUT=$1
PYTHON=${2:-$(command -v python3)}
cd "$(dirname "$0")/.."
mkdir -p "$OUT"
CAPTURES=$(mktemp -d)
code=0
"$PYTHON" tools/gpu_e2e.py --out "$OUT" --engine-python "$PYTHON" || code=$?
"$PYTHON" -m fixtures.record_live fixtures/incident --engine-python "$PYTHON" --device cuda --only a --suffix=-gpu \
    --samples 5 --out "$CAPTURES" | tee "$OUT/record.txt"
tar -czf "$OUT/captures.tar.gz" -C "$CAPTURES" .
ls -l "$OUT"
exit $code
