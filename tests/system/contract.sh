#!/bin/sh
# contract.sh FOLDER MAKARNA IMAGE - the memory contract, watched from outside (watch.c): from "ready" to
# the end no brk, mmap, mremap or malloc in any thread, on any path; peak resident set at most image + arena + 4 MiB.
# Opening and creating a context reads at most 1 MB of the image: what is mapped at "ready" is counted, where
# the kernel maps 64 KB around each page that is touched. (A run has looked up its prompt by then, all
# over the tokenizer's tables; that is not counted.) FOLDER has the programs of tests/system.
. "${0%/*}/common.sh"
folder=$1 makarna=$2 image=$3
need "$image"
out=$work/out interrupt=0

# watch OPTIONS... -- PROGRAM... : sets the variables of the report, e.g. $exit, $forbidden
watch() {
    "$folder/watch" "$work/report" --preload "$folder/count_malloc.so" --image "$image" "$@"
    status=$?
    [ $status -ne 77 ] || exit 77
    [ $status -eq 0 ] || { fail "watch ended with $status"; return 1; }
    exit=$(value exit) ready=$(value ready) forbidden=$(value forbidden) mallocs=$(value mallocs)
    image_read=$(value image_read) peak_rss=$(value peak_rss)
}
value() {
    sed -n "s/^$1 //p" "$work/report"
}

# expect NAME EXIT READY TEXT ARGUMENT... : runs makarna with the arguments; its messages must have TEXT
expect() {
    name=$1 want_exit=$2 want_ready=$3 text=$4
    shift 4
    watch --stdout "$out" --stderr "$work/err" --interrupt "$interrupt" -- "$makarna" "$@" || return
    [ "$exit" = "$want_exit" ] || fail "$name: exit status $exit, expected $want_exit"
    [ "$ready" = "$want_ready" ] || fail "$name: ready is $ready, expected $want_ready"
    [ "$forbidden" = 0 ] || fail "$name: after ready: $forbidden"
    [ "$mallocs" = 0 ] || fail "$name: $mallocs allocations after ready"
    grep -q -- "$text" "$work/err" || fail "$name: no \"$text\" on standard error"
    [ "$failures" -eq 0 ] || cat "$work/err"
    echo "$name: exit $exit, $image_read bytes of the image until ready, peak RSS $peak_rss: $(grep '^ready' "$work/err")"
    [ "$want_ready" = 1 ] || return 0
    arena=$(sed -n 's/^ready: .* arena \([0-9]*\) bytes.*/\1/p' "$work/err")
    limit=$(($(wc -c <"$image") + arena + 4 * 1024 * 1024))
    [ "$peak_rss" -le "$limit" ] || fail "$name: peak RSS $peak_rss, expected at most $limit"
}

# The watching itself: each of these must be noticed.
for sin in brk mmap mremap malloc thread nothing; do
    watch --stderr "$work/err" -- "$folder/misbehave" $sin || continue
    case $sin in
    nothing) [ "$ready $forbidden $mallocs" = "1 0 0" ] ;;
    malloc) [ "$ready $forbidden $mallocs" = "1 0 1" ] ;;
    thread) [ "$ready $forbidden $mallocs" = "1 1 mmap 0" ] ;;
    *) [ "$ready $forbidden $mallocs" = "1 1 $sin 0" ] ;;
    esac || fail "$sin after ready was not seen: $(cat "$work/report")"
done

expect "an answer" 0 1 "answer: " run -m "$image" -n 24 "Tell me about the sea."
expect "4 threads" 0 1 "answer: " run -m "$image" -n 8 --threads 4 --kv q4 --raw "Once upon a time"
expect "1 thread" 0 1 "answer: " run -m "$image" -n 8 --threads 1 --temp 0.8 --top-k 40 --seed 1 --raw "Once upon a time"
expect "preload" 0 1 "answer: " run -m "$image" -n 4 --raw --context 64 --load preload "Once upon a time"
expect "context full" 0 1 "context of 24 tokens is full" run -m "$image" --raw --context 24 "Once upon a time there was a big tree"
expect "prompt too long" 1 0 "the context holds 8" run -m "$image" --raw --context 8 "One two three four five six seven eight nine ten"
expect "unknown kernels" 1 0 "mmx" run -m "$image" --isa mmx "Hello"
expect "no such image" 1 0 "nowhere.mkn" run -m "$work/nowhere.mkn" "Hello"
out=/dev/full
expect "disk full" 1 1 "cannot write" run -m "$image" -n 24 --raw "Once upon a time"
out=$work/out
expect "bench" 0 1 "ready" bench -m "$image" -p 16 -n 4 -r 1
[ "$image_read" -gt 0 ] && [ "$image_read" -le 1000000 ] ||
    fail "opening read $image_read bytes of the image, expected at most 1000000"
expect "perplexity" 0 1 "ready" perplexity -m "$image" -f "${0%/*}/digest.txt" --tokens 40 --digest

interrupt=3
expect "Ctrl-C" 0 1 "^stopped" run -m "$image" --raw "Once upon a time"
grep -q "^answer: 3 tokens" "$work/err" || grep -q "^answer: 4 tokens" "$work/err" || fail "Ctrl-C: $(cat "$work/err")"
finish "memory contract, $image"
