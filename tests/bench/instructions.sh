#!/bin/sh
# instructions.sh - instructions that whole kernels execute, as a Markdown table: what lies around the inner loops that
# cycles.sh looks at shows here. The ARM sets under QEMU, counted by a plugin (count_plugin.c), per unit of work.
#
#     tests/bench/instructions.sh [SET...]    needs: apt-get install gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
#
# Environment: CC (for aarch64), HOSTCC, QEMU.
set -u
LC_ALL=C
export LC_ALL
root=$(cd "${0%/*}/../.." && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
CC=${CC:-aarch64-linux-gnu-gcc} HOSTCC=${HOSTCC:-gcc} QEMU=${QEMU:-qemu-aarch64}
[ $# -gt 0 ] || set -- neon dotprod i8mm

# As in toolchains/pi-aarch64.cmake, cmake/flags.cmake and cmake/kernels.cmake.
build() { # file flags...
    file=$1
    shift
    name=${file##*/}
    $CC -c -march=armv8-a -mtune=cortex-a53 -mno-outline-atomics -O3 -DNDEBUG -std=c11 -ffp-contract=off \
        -fno-math-errno -ffunction-sections -DMK_HAVE_NEON=1 -DMK_HAVE_DOTPROD=1 -DMK_HAVE_I8MM=1 \
        -I"$root/include" -I"$root/src" -I"$root/tests" "$@" -o "$work/${name%.c}.o" "$file" || exit 1
}
for file in "$root"/src/base/*.c "$root"/src/kernels/scalar.c "$root"/src/kernels/attention.c \
    "$root"/src/kernels/select.c "$root"/src/kernels/neon.c "$root"/tests/bench/one_kernel.c; do
    build "$file"
done
build "$root/src/kernels/dotprod.c" -march=armv8.2-a+dotprod
build "$root/src/kernels/i8mm.c" -march=armv8.2-a+dotprod+i8mm
$CC -static -o "$work/one_kernel" "$work"/*.o -lm || exit 1

for version in 1 2 3 4 5 6 none; do
    [ $version = none ] && { echo "$0: $QEMU takes no plugin" >&2; exit 1; }
    $HOSTCC -O2 -shared -fPIC -DPLUGIN_VERSION=$version -o "$work/count.so" "$root/tests/bench/count_plugin.c" || exit 1
    $QEMU -plugin "$work/count.so" "$work/one_kernel" list >"$work/cases" 2>"$work/err" && break
done

count() { # set case runs
    $QEMU -cpu max,pauth-impdef=on -plugin "$work/count.so" "$work/one_kernel" "$@" 2>&1 | sed -n 's/^instructions //p'
}

printf '| kernel | unit |' && printf ' %s |' "$@" && printf '\n|---|---|' && printf -- '---:|%.0s' "$@" && echo
for set in "$@"; do
    count "$set" 0 0 >"$work/none.$set"
done
while IFS='|' read -r number units kernel unit; do
    printf '| %s | %s |' "$kernel" "$unit"
    for set in "$@"; do
        all=$(count "$set" "$number" 1)
        awk -v all="$all" -v none="$(cat "$work/none.$set")" -v units="$units" 'BEGIN { printf " %.1f |", (all - none) / units }'
    done
    echo
done <"$work/cases"
