#!/usr/bin/env bash
# Create CACHE/sglang-0.5.20 and CACHE/sglang-0.5.23 (virtual environments with real, unpatched SGLang for the CPU) and
# CACHE/sglang-0.5.12.post1 (that wheel, unpacked: it runs on the first one's packages). A rerun skips what is ready.
# usage: install.sh CACHE [PYTHON]     exit 3: the package index is out of reach
set -euo pipefail
CACHE=$1
PYTHON=${2:-python3}
HERE=$(cd "$(dirname "$0")" && pwd)/requirements
OLD=0.5.12.post1
mkdir -p "$CACHE"

stamp() { cat "$@" | sha256sum | cut -d' ' -f1; }

# pip lists every requirement of SGLang that is left out on purpose; that goes to a log, which is shown on failure.
pip() {
    local venv=$1
    shift
    if ! "$venv/bin/pip" install --quiet "$@" > "$CACHE/pip.log" 2>&1; then
        tail -5 "$CACHE/pip.log" >&2
        exit 3
    fi
}

install() {
    local version=$1 venv="$CACHE/sglang-$1" wanted
    wanted=$(stamp "$HERE/common.txt" "$HERE/$version.txt" "$HERE/$version-alone.txt")
    if [ "$(cat "$venv/.ready" 2>/dev/null)" = "$wanted" ]; then return; fi
    echo "installing SGLang $version into $venv" >&2
    rm -rf "$venv"
    "$PYTHON" -m venv "$venv"
    # torch first, then what drags in CUDA packages, without them: nothing here runs on a GPU
    pip "$venv" torch==2.13.0
    pip "$venv" --no-deps -r "$HERE/$version-alone.txt"
    pip "$venv" -r "$HERE/common.txt" -r "$HERE/$version.txt"
    echo "$wanted" > "$venv/.ready"
}

unpack_old() {
    local folder="$CACHE/sglang-$OLD"
    if [ -f "$folder/.ready" ]; then return; fi
    rm -rf "$folder"
    pip "$CACHE/sglang-0.5.20" --no-deps --no-compile --target "$folder" "sglang==$OLD"
    touch "$folder/.ready"
}

install 0.5.20
install 0.5.23
unpack_old
