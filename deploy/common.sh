# Shared by deploy/up and tests/run: packages, build, messages. Sourced, not run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# What a build needs, and what the tests need beside it; the same names on Debian 12 and Ubuntu 24.04.
build_packages=(
  g++ cmake ninja-build ccache mold pkg-config
  libgrpc++-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev libabsl-dev
  libdnnl-dev libsleef-dev libspdlog-dev libcli11-dev libedit-dev libxxhash-dev nlohmann-json3-dev libssl-dev zlib1g-dev
  libgtest-dev libgmock-dev
)
test_packages=(python3 python3-numpy python3-sklearn clang-format-14 shellcheck debootstrap)

say() { printf '\033[1m==> %s\033[0m\n' "$*" | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Installs the packages of "$@" that are missing. Needs root or sudo only if one is.
install_missing() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "packages: all ${#} are there"
    return
  fi
  command -v apt-get >/dev/null || die "these packages are missing and there is no apt-get: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "these packages are missing; install them as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "packages: installing ${missing[*]}"
  # A held dpkg lock (unattended upgrades) is waited for, not failed on.
  "${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=300 update >/dev/null || say "package lists could not be renewed; going on with those there are"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${missing[@]}" \
    >"${TMPDIR:-/tmp}/tensord-apt.$$.log" 2>&1 || { tail -n 20 "${TMPDIR:-/tmp}/tensord-apt.$$.log" >&2; die "apt-get could not install them"; }
  rm -f "${TMPDIR:-/tmp}/tensord-apt.$$.log"
}

# Names of the packages whose libraries the programs "$@" load, one a line: what an image that runs them needs.
packages_of() {
  local library
  ldd "$@" | awk '$3 ~ /^\// {print $3}' | sort -u | while read -r library; do
    library=$(readlink -f "$library")
    dpkg-query -S "*/$(basename "$(dirname "$library")")/$(basename "$library")" 2>/dev/null | head -n 1 | cut -d: -f1
  done | sort -u
}

# build PRESET [TARGET…]: configures and builds; shows progress, and on a terminal on one line.
build() {
  local preset=$1 started=$SECONDS
  shift
  say "build: preset $preset"
  (
    cd "$root" || exit 1
    # --fresh is not needed: a changed preset reconfigures by itself.
    cmake --preset "$preset" >"$root/.build/configure.log" 2>&1 || { cat "$root/.build/configure.log" >&2; exit 1; }
    cmake --build --preset "$preset" ${1:+--target "$@"}
  ) || die "the build failed"
  say "build: done in $((SECONDS - started)) s"
}

mkdir -p "$root/.build"
