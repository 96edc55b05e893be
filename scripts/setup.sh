# Sourced by ./run, ./check and .ci/run: Debian packages, configuring and building.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# quiet LOG COMMAND...: runs it with its output in the log; shows the end of the log if it fails.
quiet() {
    local log=$1 status=0
    shift
    "$@" >>"$log" 2>&1 </dev/null || status=$?
    if [ "$status" -ne 0 ]; then
        tail -n 40 "$log" >&2
        say "failed: $* (all of the output: $log)"
    fi
    return "$status"
}

# missing WHAT PACKAGE ...: prints the packages of the pairs whose command, file (file:PATH, or
# glob:PATTERN for any that matches) or pkg-config module (pc:NAME) is not there.
missing() {
    while [ $# -gt 0 ]; do
        case $1 in
        file:*) [ -e "${1#file:}" ] || echo "$2" ;;
        glob:*) compgen -G "${1#glob:}" >/dev/null || echo "$2" ;;
        pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null || echo "$2" ;;
        *) command -v "$1" >/dev/null 2>&1 || echo "$2" ;;
        esac
        shift 2
    done | sort -u
}

# need WHAT PACKAGE ...: installs what is missing, after saying so.
need() {
    local packages as=() log
    packages=$(missing "$@" | paste -sd ' ')
    [ -n "$packages" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        say "please install: $packages"
        return 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            say "please install as root: apt-get install $packages"
            return 1
        fi
        as=(sudo)
    fi
    say "installing Debian packages: $packages"
    mkdir -p "$root/build"
    log="$root/build/apt.log"
    # The lists may be absent or old: try with what is there, then with new ones.
    # shellcheck disable=SC2086
    { "${as[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends $packages >"$log" 2>&1 </dev/null; } ||
        { quiet "$log" "${as[@]}" apt-get update &&
            quiet "$log" "${as[@]}" env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y --no-install-recommends $packages; }
}

# shellcheck disable=SC2034
for_build=(cmake cmake ninja ninja-build cc gcc ld binutils pkg-config pkg-config
    file:/usr/include/stdio.h libc6-dev
    pc:libpcre2-8 libpcre2-dev pc:libxxhash libxxhash-dev
    pc:libutf8proc libutf8proc-dev pc:jansson libjansson-dev)
# shellcheck disable=SC2034
for_tests=(python3 python3 pc:cmocka libcmocka-dev)
# shellcheck disable=SC2034
for_clang=(clang clang "glob:/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.asan-*.a" libclang-rt-dev)
# shellcheck disable=SC2034
for_blas=(pc:openblas libopenblas-dev)
# shellcheck disable=SC2034
for_aarch64=(aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu qemu-aarch64 qemu-user
    file:/usr/aarch64-linux-gnu/include/stdio.h libc6-dev-arm64-cross)
# shellcheck disable=SC2034
for_riscv64=(riscv64-linux-gnu-gcc gcc-riscv64-linux-gnu
    file:/usr/riscv64-linux-gnu/include/stdio.h libc6-dev-riscv64-cross)
# shellcheck disable=SC2034
for_wasm=(clang clang llvm-ar llvm wasm-ld lld file:/usr/include/wasm32-wasi/stdio.h wasi-libc
    "glob:/usr/lib/llvm-*/lib/clang/*/lib/wasi/libclang_rt.*" libclang-rt-dev-wasm32 node nodejs)

# A build folder that was configured somewhere else (a copied or moved tree) starts anew.
drop_foreign() {
    local cache="$root/build/$1/CMakeCache.txt"
    if [ -e "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
        rm -rf "${root:?}/build/$1"
    fi
}

# One build at a time in a tree; the lock goes with the shell, or with `unlock`.
lock() {
    mkdir -p "$root/build"
    exec 9>"$root/build/.lock"
    if ! flock -n 9; then
        say "waiting for another build in this tree"
        flock 9
    fi
}
unlock() { exec 9>&-; }
