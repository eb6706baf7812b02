#!/bin/sh
# missing_isa.sh IMAGE ISA MAKARNA... - on a CPU without ISA, asking for it is an error that names it, and not
# asking for it is no illegal instruction.
. "${0%/*}/common.sh"
image=$1 isa=$2
shift 2
need "$image"

"$@" run -m "$image" --isa "$isa" --raw -n 4 "Once upon a time" >"$work/out" 2>"$work/err"
status=$?
cat "$work/err"
[ $status -eq 1 ] || fail "exit status $status, expected 1"
grep -q "$isa" "$work/err" || fail "the message does not name $isa"
"$@" run -m "$image" --raw -n 4 "Once upon a time" >"$work/out" 2>"$work/err" || fail "does not run: $(cat "$work/err")"
finish "$isa where there is none"
