#!/bin/sh
# digest.sh reference FILE IMAGE TOKENS MAKARNA...
#     writes the digests of the scalar kernels, one thread, batch 1, to FILE, a line for each KV type.
# digest.sh compare FILE IMAGE TOKENS CASES MAKARNA...
#     compares others with it. CASES is a list of ISA:THREADS:BATCH:KV; ISA may be `best` for
#     the default, or `every` for all that this CPU has.
# MAKARNA may be a command of several words: an emulator and the program.
here=${0%/*}
. "$here/common.sh"
mode=$1 file=$2 image=$3 tokens=$4
shift 4
need "$image"

# digest KV OPTION... - prints the 16 hexadecimal digits
digest() {
    kv=$1
    shift
    "$@" --kv "$kv" --digest --tokens "$tokens" -m "$image" -f "$here/digest.txt" \
        >"$work/out" 2>"$work/err" || { cat "$work/out" "$work/err" >&2; return 1; }
    sed -n 's/^digest: \([0-9a-f]\{16\}\)$/\1/p' "$work/out"
}

if [ "$mode" = reference ]; then
    mkdir -p "${file%/*}"
    for kv in q8 q4; do
        found=$(digest $kv "$@" perplexity --isa scalar --threads 1 --batch 1) && [ -n "$found" ] || exit 1
        echo "$kv $found"
    done >"$file"
    cat "$file"
    exit 0
fi

cases=$1
shift
need "$file"
every=$("$@" info "$image" | sed -n 's/;.*//; s/^kernels *//p' | tr ' ' '\n' | grep '^[a-z]')
compared=0
for case in $cases; do
    IFS=: read -r isa threads batch kv <<EOF
$case
EOF
    expected=$(sed -n "s/^$kv //p" "$file")
    [ "$isa" = every ] && isa=$every
    for set in $isa; do
        option=
        [ "$set" = best ] || option="--isa $set"
        # shellcheck disable=SC2086 # the option is two words, or none
        found=$(digest "$kv" "$@" perplexity --threads "$threads" --batch "$batch" $option)
        compared=$((compared + 1))
        used=$(sed -n 's/^ready: .*isa \([a-z0-9]*\).*/\1/p' "$work/err")
        echo "isa $used, threads $threads, batch $batch, kv $kv: $found"
        [ -n "$expected" ] && [ "$found" = "$expected" ] || fail "digest is $found, expected $expected"
    done
done
[ $compared -gt 0 ] || fail "nothing to compare"
finish "$image: $compared digests compared"
