#!/usr/bin/env bash
# Runs the compat tests on a Debian release's own build of torch, in a chroot of its own:
#   tools/debian.sh bookworm | trixie | sid
# Needs root and debootstrap, and about 2 GB for the time of the run; where it cannot run, it says so and ends well.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=$1
env="debian-$suite"
root="$PWD/.tox/$env"
reports="$PWD/.tox/reports"
mkdir -p "$reports"

record() { .venv-matrix/bin/python tools/record_debian.py "$env" "$@"; }

if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
  record skipped "needs root and debootstrap"
  exit 0
fi

remove() { umount "$root/proc" 2>/dev/null || true; rm -rf "$root"; }
trap remove EXIT
rm -f "$reports/$env.xml"
start=$SECONDS
code=0
{
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$root"
  mount -t proc proc "$root/proc"
  cp -L /etc/resolv.conf "$root/etc/" || true
  chroot "$root" apt-get install -y --no-install-recommends python3-torch
} >".tox/$env.log" 2>&1 || { tail -5 ".tox/$env.log"; record failed "the chroot could not be made"; exit 1; }

# Pure Python, so they can be fetched outside; --no-deps, since pip would replace torch 1.13.0a0.
.venv-matrix/bin/python -m pip wheel --quiet --no-deps --wheel-dir "$root/wheels" .
.venv-matrix/bin/python -m pip download --quiet --only-binary :all: --dest "$root/wheels" \
  "pytest>=9,<10" "hypothesis>=6.100,<7" "packaging>=22" "typing_extensions>=4.6"
mkdir "$root/rnncompat"
git ls-files -z | xargs -0 cp -P --parents -t "$root/rnncompat"
chroot "$root" sh -euc '
  python3 -m venv --system-site-packages /venv
  /venv/bin/pip install --quiet --no-index --find-links /wheels pytest hypothesis "packaging>=22" "typing_extensions>=4.6"
  /venv/bin/pip install --quiet --no-index --no-deps /wheels/rnncompat-*.whl
  cd /rnncompat && /venv/bin/pytest -m compat --junitxml=/report.xml
' || code=$?
cp "$root/report.xml" "$reports/$env.xml" || true
record ran "$code" "$((SECONDS - start))" "-m compat"
exit "$code"
