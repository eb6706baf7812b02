#!/bin/sh
# memory_cap.sh MAKARNA IMAGE CONTEXT CAP - a cap on memory that CONTEXT exceeds is an error with exit status
# 1 that names what is needed and the longest context that fits; at that context it runs, at one more not.
. "${0%/*}/common.sh"
makarna=$1 image=$2 context=$3 cap=$4
need "$image"

printf 'model = %s\nmemory = %s\ncontext = %s\nthreads = 2\nn = 4\n' "$image" "$cap" "$context" >"$work/board.conf"
"$makarna" run -c "$work/board.conf" "Hello" >"$work/out" 2>"$work/err"
status=$?
cat "$work/err"
[ $status -eq 1 ] || fail "exit status $status, expected 1"
[ ! -s "$work/out" ] || fail "text on standard output"
grep -q "board.conf:2: memory" "$work/err" || fail "the message does not name the file, line and key"
grep -q "bytes.* are needed" "$work/err" || fail "the message does not say how much is needed"
grep -q "KV cache" "$work/err" || fail "the message does not say what for"
longest=$(sed -n 's/.*longest context that fits is \([0-9]*\).*/\1/p' "$work/err")
[ -n "$longest" ] || fail "the message does not name the longest context that fits"

if [ -n "$longest" ]; then
    "$makarna" run -c "$work/board.conf" --context "$longest" "Hello" >"$work/out" 2>"$work/err" ||
        fail "does not run at context $longest: $(cat "$work/err")"
    "$makarna" run -c "$work/board.conf" --context $((longest + 1)) "Hello" >"$work/out" 2>"$work/err" &&
        fail "runs at context $((longest + 1)), which should not fit"
fi
finish "memory = $cap at context $context"
