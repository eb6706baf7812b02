#!/bin/sh
# cycles.sh - cycles of the inner loops of the ARM kernels on the scheduling models of LLVM, as a Markdown table:
# what llvm-mca expects of the code that gcc makes, beside its bound for the same instructions in any order
# (block reciprocal throughput), beside the targets.
#
#     tests/bench/cycles.sh            needs nothing but this: apt-get install gcc-aarch64-linux-gnu llvm-19
#     tests/bench/cycles.sh --regions  prints instead the instructions of every region
#
# Environment: CC, MCA. The kernels are compiled as the library is, with MK_MARKS on top (src/kernels/internal.h).
set -u
LC_ALL=C
export LC_ALL
root=$(cd "${0%/*}/../.." && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
CC=${CC:-aarch64-linux-gnu-gcc}
if [ -z "${MCA:-}" ]; then
    MCA=llvm-mca-19
    command -v $MCA >/dev/null || MCA=llvm-mca
fi
for program in $CC $MCA; do
    command -v "${program%% *}" >/dev/null || {
        echo "$0: there is no $program: apt-get install gcc-aarch64-linux-gnu llvm-19" >&2
        exit 1
    }
done

# compile <set> [flags...]: every marked region of src/kernels/<set>.c to $work/<set>.<name>.s. A region without an end
# is a loop: from the first label after the mark that a branch leads back to, to that branch.
compile() {
    set=$1
    shift
    # As in toolchains/pi-aarch64.cmake, cmake/flags.cmake and cmake/kernels.cmake.
    for marks in -UMK_MARKS -DMK_MARKS; do
        $CC -S -march=armv8-a -mtune=cortex-a53 -mno-outline-atomics -O3 -DNDEBUG -std=c11 -ffp-contract=off -fno-math-errno -ffunction-sections "$@" $marks \
            -I"$root/include" -I"$root/src" -o "$work/$set$marks" "$root/src/kernels/$set.c" || exit 1
    done
    awk -v prefix="$work/$set." '
        function take(name, from, to,    i, file, line) {
            file = prefix name ".s"
            if (taken[name]++)
                return # the first of a name stands for all copies of an inlined function
            for (i = from; i <= to; i++) {
                line = code[i]
                sub(/^1:/, ".L1:", line)
                sub(/[ \t]1b$/, " .L1", line)
                print line > file
            }
            close(file)
        }
        /LLVM-MCA-BEGIN/ { open[$3] = n + 1; next }
        /LLVM-MCA-END/ { for (name in open) take(name, open[name], n); split("", open); next }
        /^[ \t]*(\.|#|\/\/|$)/ && !/^\.L[A-Za-z0-9_]*:/ { next }
        { code[++n] = $0 }
        /^[.A-Za-z0-9_]+:/ { label = $1; sub(/:.*/, "", label); place[label] = n; next }
        $1 ~ /^(b|b\.?(eq|ne|cs|cc|hs|lo|hi|ls|ge|lt|gt|le|mi|pl|any|none)|cbn?z|tbn?z)$/ {
            target = $NF
            sub(/^1b$/, "1", target)
            for (name in open)
                if (target in place && place[target] >= open[name]) {
                    take(name, place[target], n)
                    delete open[name]
                }
        }' "$work/$set-DMK_MARKS" || exit 1
}

# shipped <set> <region>: takes in place of a marked loop the same of the unmarked code, where the compiler may order it
# otherwise: a run of as many instructions of the same kinds. "scale" is straight code and stays: the marks keep it
# from mixing with its neighbours.
shipped() {
    [ "$2" = scale ] && return
    awk '
        /^[ \t]*(\.|#|\/\/|$)/ || /^[.A-Za-z0-9_]+:/ { next }
        FNR == NR { wanted[$1]++; size++; next }
        { code[++n] = $0; kind[n] = $1 }
        END {
            for (i = 1; i <= n; i++) {
                have[kind[i]]++
                if (i > size)
                    have[kind[i - size]]--
                same = i >= size && kind[i] ~ /^b/
                for (k in wanted)
                    same = same && wanted[k] == have[k]
                if (same)
                    break
            }
            if (!same)
                exit 1
            sub(/[^ \t,]+$/, ".L1", code[i])
            print ".L1:"
            for (k = i - size + 1; k <= i; k++)
                print code[k]
        }' "$work/$1.$2.s" "$work/$1-UMK_MARKS" >"$work/loop" && mv "$work/loop" "$work/$1.$2.s"
}

# model <cpu> <set> <region>: "cycles bound" of one pass
model() {
    [ -e "$work/$2.$3.s" ] || { echo "$0: no region $3 in $2.c" >&2; exit 1; }
    shipped "$2" "$3" || { echo "$0: the marks change the loop $3 in $2.c" >&2; exit 1; }
    $MCA -mtriple=aarch64-linux-gnu -mcpu="$1" -mattr=+dotprod,+i8mm -iterations=1000 "$work/$2.$3.s" >"$work/out" 2>"$work/err" ||
        { cat "$work/err" >&2; exit 1; }
    awk '/^Total Cycles:/ { cycles = $3 / 1000 } /^Block RThroughput:/ { bound = $3 } END { print cycles, bound }' "$work/out"
}

compile neon
compile dotprod -march=armv8.2-a+dotprod
compile i8mm -march=armv8.2-a+dotprod+i8mm
if [ "${1:-}" = --regions ]; then
    for file in "$work"/*.*.s; do
        echo "== ${file##*/}"
        cat "$file"
    done
    exit 0
fi

# What one pass of a region does: set, region, its share of 128 weights, of 2,048 multiply-accumulates (tile), of
# 8 results (scale), of 32 values of the activations (pack).
regions='
neon gemv_q4 2      neon gemv_q8 2      neon expand_q4 1     neon expand_q8 1     neon tile 0.125    neon scale 2
dotprod dot_q4 1    dotprod dot_q8 1    dotprod expand_q4 1  dotprod expand_q8 1  dotprod tile 0.5   dotprod scale 4
i8mm expand_q4 1    i8mm expand_q8 1    i8mm tile 0.25       i8mm scale 4         i8mm pack 1'

# In GEMM with 64 tokens a weight is expanded once per 64 multiply-accumulates, a result scaled once per 256 and a
# value of the activations packed (i8mm) once per 64, the rows of a tile: for 2,048 multiply-accumulates, a
# quarter of 128 weights, 8 results and 32 values.
for cpu in cortex-a53:neon cortex-a57:neon cortex-a55:dotprod neoverse-n1:dotprod neoverse-n2:dotprod neoverse-n2:i8mm; do
    echo $regions | tr ' ' '\n' | paste -d ' ' - - - | while read -r set region share; do
        [ "$set" = "${cpu#*:}" ] || continue
        figures=$(model "${cpu%:*}" "$set" "$region") || exit 1
        echo "${cpu%:*} $set ${region#gemv_} $share $figures"
    done || exit 1
done >"$work/figures" || exit 1

awk '
    { key = $1 " " $2; sub(/^dot_/, "", $3); cycles[key, $3] = $5 / $4; bound[key, $3] = $6 / $4
      if (!(key in seen)) { seen[key] = 1; order[++n] = key } }
    function row(key, work, c, b, target) {
        split(key, part, " ")
        printf "| %s | %s | %s | " (work ~ /times/ ? "%.2f | %.2f" : "%.1f | %.1f") " | %s |\n", core[part[1]], part[2], work, c, b, target
    }
    function all(of, key, type,    pack) {
        pack = key ~ /i8mm/ ? of[key, "pack"] : 0
        return of[key, "tile"] + of[key, "expand_" type] / 4 + of[key, "scale"] + pack
    }
    function show(key,    i, type, c, b, sdot) {
        sdot = "neoverse-n2 dotprod"
        for (i = 1; i <= 2; i++) {
            type = i == 1 ? "q4" : "q8"
            if ((key, type) in cycles)
                row(key, "GEMV " type ", 128 weights", cycles[key, type], bound[key, type], target[key, "gemv " type])
        }
        row(key, "GEMM, the tile alone, 2,048 products", cycles[key, "tile"], bound[key, "tile"], "")
        for (i = 1; i <= 2; i++) {
            type = i == 1 ? "q4" : "q8"
            c = all(cycles, key, type)
            b = all(bound, key, type)
            row(key, "GEMM " type ", 64 tokens, all in, 2,048 products", c, b, "")
            row(key, "the same in products per cycle", 2048 / c, 2048 / b, target[key, "gemm"])
            if (key ~ /i8mm/)
                row(key, "the same, times the SDOT kernel", all(cycles, sdot, type) / c, all(bound, sdot, type) / b, ">= 1.7")
        }
    }
    END {
        core["cortex-a53"] = "Cortex-A53"; core["cortex-a57"] = "Cortex-A72 (cortex-a57)"; core["cortex-a55"] = "Cortex-A55"
        core["neoverse-n1"] = "Cortex-A76 (neoverse-n1)"; core["neoverse-n2"] = "Cortex-A710 (neoverse-n2)"
        target["cortex-a53 neon", "gemv q4"] = "<= 60"
        target["cortex-a57 neon", "gemv q4"] = "<= 34"
        target["neoverse-n1 dotprod", "gemv q4"] = "<= 12.6"
        target["cortex-a53 neon", "gemv q8"] = target["neoverse-n1 dotprod", "gemv q8"] = "bound + 15 %"
        target["neoverse-n1 dotprod", "gemm"] = ">= 27"
        target["cortex-a57 neon", "gemm"] = ">= 6.5"
        target["cortex-a53 neon", "gemm"] = "bound - 20 %"
        print "| core | set | work | cycles | bound | target |"
        print "|---|---|---|---:|---:|---|"
        for (i = 1; i <= n; i++)
            show(order[i])
    }' "$work/figures"
