#!/usr/bin/env bash
# The incident on a real 30-layer model, from belief to repair, with the commands that you would type on your own files.
# Usage: make demo-real   (or: BIN=.venv/bin MODEL=.cache/smollm2 OUT=demo-out bash tools/demo.sh)
set -euo pipefail
BIN=${BIN:-.venv/bin}
MODEL=${MODEL:-.cache/smollm2}
OUT=${OUT:-demo-out}
PATH="$(cd "$BIN" && pwd):$PATH"

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }

# run EXPECTED-EXIT-CODE COMMAND...: show the command, run it, and insist on the exit code that the docs promise.
run() {
  local expected=$1 code=0
  shift
  printf '\n$ %s\n' "$*"
  "$@" || code=$?
  if [ "$code" -ne "$expected" ]; then
    echo "demo: expected exit code $expected, got $code" >&2
    exit 1
  fi
  [ "$code" -eq 0 ] || printf '(exit code %s)\n' "$code"
}

rm -rf "$OUT"
say "Training dumps of SmolLM2-135M, labelled as the incident believed: embedding, 3, 15, 27. And a drafter trained on them."
run 0 python fixtures/smollm2_dumps.py --target "$MODEL" --out "$OUT"

say "1. The target's files alone. No engine, no reference run: is channel 0 the embedding?"
run 1 hsforensics compare "$OUT/speculators" --target "$MODEL"

say "2. A bank: all states of the target for the very tokens of the dumps."
run 0 hsforensics capture "$OUT/speculators" --engine transformers --target "$MODEL" --out "$OUT/bank"

say "   (the drafter: trained here for a minute on what the dumps really hold; its config carries the incident's wrong fix)"
run 0 python fixtures/train_drafter.py --capture "$OUT/bank" --target "$MODEL" --wiring 3,15,27 --out "$OUT/trained"
cp "$OUT/trained/model.safetensors" "$OUT/drafter/"

say "3. Every channel against the bank; what the drafter's config would serve is shown as a prediction."
run 1 hsforensics compare "$OUT/raw" "$OUT/bank" --draft "$OUT/drafter" --engine sglang==0.5.23

say "4. The drafter decides, too: the believed wiring against the one found, on the bank."
run 0 hsforensics draft-eval "$OUT/drafter" --target "$MODEL" --data "$OUT/bank" --wiring 0,3,15 --wiring 3,15,27

say "   The dump's own channels give a good number whatever their labels say: it proves the drafter, not the wiring."
run 0 hsforensics draft-eval "$OUT/drafter" --target "$MODEL" --data "$OUT/speculators" --channels 0,1,2

say "5. The repair, for one engine version: first the diff, then the file, then nothing left to do."
hsforensics compare "$OUT/raw" "$OUT/bank" --draft "$OUT/drafter" --engine sglang==0.5.23 --json >"$OUT/report.json" || true
run 1 hsforensics fix-config "$OUT/drafter" --report "$OUT/report.json" --engine sglang==0.5.23
run 0 hsforensics fix-config "$OUT/drafter" --report "$OUT/report.json" --engine sglang==0.5.23 --write
run 0 hsforensics fix-config "$OUT/drafter" --report "$OUT/report.json" --engine sglang==0.5.23 --check

say "Done. The dumps hold states 3, 15, 27 (never the embedding), and the config now asks SGLang for exactly these."
echo "On your own files: hsforensics compare DUMPS --target MODEL"
