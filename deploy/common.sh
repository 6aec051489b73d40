# Shared by deploy/up, tests/run and the Dockerfile: packages, build, messages. Sourced, not run.
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

say() { if [ -t 1 ]; then printf '\033[1m==> %s\033[0m\n' "$*"; else printf '==> %s\n' "$*"; fi; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Installs the packages of "$@" that are missing. Needs root or sudo only if one is.
install_missing() {
  local missing=() package there output as_root=()
  command -v dpkg-query >/dev/null || die "this is not Debian or Ubuntu; install what these packages hold, then build with cmake --preset release: $*"
  there=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "$package installed" <<<"$there" || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "packages: all $# are there"
    return
  fi
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "packages are missing and there is no sudo; as root, run: apt-get update && apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "packages: installing ${missing[*]}"
  output=$(mktemp)
  # A held dpkg lock (unattended upgrades) is waited for, not failed on. The first command shows sudo's question.
  "${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=300 update >"$output" ||
    say "package lists could not be renewed; going on with those there are"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends \
    "${missing[@]}" </dev/null >"$output" 2>&1 || { tail -n 20 "$output" >&2; rm -f "$output"; die "apt-get could not install ${missing[*]}"; }
  rm -f "$output"
}

# Names of the packages whose libraries the programs "$@" load, one a line: what an image that runs them needs.
packages_of() {
  local loaded library package packages=
  loaded=$(ldd "$@") || die "$*: not programs that ldd reads"
  ! grep 'not found' <<<"$loaded" >&2 || die "a library is missing"
  for library in $(awk '$3 ~ /^\// {print $3}' <<<"$loaded" | sort -u); do
    # By folder and name: dpkg may know the file under /usr/lib while the loader names it under /lib.
    library=$(readlink -f "$library")
    package=$(dpkg-query -S "*/$(basename "$(dirname "$library")")/$(basename "$library")" 2>/dev/null | sed -n '1s/:.*//p')
    [ -n "$package" ] || die "no package holds $library"
    packages+=$package$'\n'
  done
  printf %s "$packages" | sort -u
}

# build PRESET [TARGET…]: configures and builds, with ninja's progress. A second time takes seconds.
build() {
  local preset=$1 started=$SECONDS cache
  shift
  cache=$root/.build/$preset/CMakeCache.txt
  # A tree that was moved or copied together with its .build: CMake would refuse, so it starts anew.
  if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
    rm -rf "$root/.build/$preset"
  fi
  say "build: preset $preset$([ -f "$cache" ] || echo ', for the first time: this takes minutes')"
  (
    cd "$root" || exit 1
    cmake --preset "$preset" >.build/configure.log 2>&1 || { cat .build/configure.log >&2; exit 1; }
    cmake --build --preset "$preset" ${1:+--target "$@"}
  ) || die "the build failed; its output is above"
  say "build: done in $((SECONDS - started)) s"
}

mkdir -p "$root/.build" 2>/dev/null && [ -w "$root/.build" ] ||
  die "$root/.build cannot be written by $(id -un): give it to this user (was it made by root?), or copy the tree"
