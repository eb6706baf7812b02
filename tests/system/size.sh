#!/bin/sh
# size.sh STRIP PROGRAM LIMIT - the program is static and, stripped, smaller than LIMIT bytes.
. "${0%/*}/common.sh"
strip=$1 program=$2 limit=$3
command -v "$strip" >/dev/null || skip "there is no $strip"

"$strip" -o "$work/stripped" "$program" || fail "cannot strip $program"
size=$(wc -c <"$work/stripped")
echo "$program: $size bytes stripped"
[ "$size" -lt "$limit" ] || fail "expected less than $limit bytes"
# A static program has no interpreter segment (PT_INTERP names the dynamic loader).
grep -q "/lib/ld-linux" "$program" && fail "it is not linked statically"
finish "size"
