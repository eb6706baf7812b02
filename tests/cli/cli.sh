#!/bin/sh
# cli.sh MAKARNA IMAGE - the command line as a user meets it: what it prints where, exit statuses, mistakes,
# and bad weather: full disks, closed pipes, interrupts, hostile text. IMAGE is a small model, quick enough
# to fill its whole context in a second or so.
. "${0%/*}/../system/common.sh"
makarna=$1 image=$2
need "$image"

# expect STATUS TEXT ARGUMENT... - runs makarna; its messages on standard error must have TEXT
expect() {
    want=$1 text=$2
    shift 2
    "$makarna" "$@" >"$work/out" 2>"$work/err" </dev/null
    judge $? "$want" "$text" "$*"
}
judge() { # STATUS WANT TEXT NAME
    [ "$1" -eq "$2" ] || fail "$4: exit status $1, expected $2: $(cat "$work/err")"
    [ -z "$3" ] || grep -qF -- "$3" "$work/err" || fail "$4: no \"$3\" in: $(cat "$work/err")"
}
says() { # TEXT: on standard output
    grep -qF -- "$1" "$work/out" || fail "no \"$1\" in: $(head -c 300 "$work/out")"
}
silent() { # nothing on standard output
    [ ! -s "$work/out" ] || fail "unexpected: $(head -c 300 "$work/out")"
}
quiet() { # nothing on standard error
    [ ! -s "$work/err" ] || fail "unexpected: $(cat "$work/err")"
}

usage() {
    expect 2 "no command"
    expect 2 "there is no command chatter" chatter
    expect 0 "" --help && says "makarna perplexity" && quiet
    expect 0 "" --version && says "makarna " && says "kernels: scalar" && quiet
    for command in run info bench perplexity tokenize verify; do
        expect 0 "" $command --help && says "Example:" && says "--config FILE" && quiet
        expect 2 "there is no option --nonsense" $command --nonsense
    done
    expect 2 "no model" run hello
    expect 2 "a value is missing after --temp" run --temp
    expect 2 '--temp: expected a number from 0 to 100, found "hot"' run --temp hot
    expect 2 '--threads: expected a whole number from 1 to 64, or auto, found "0"' run --threads=0
    expect 2 "there is no option -x" run -x
    expect 2 "there is no option -n5" run -n5
    expect 2 "one argument too many" run -m "$image" two words
    expect 2 "--temp has no meaning here" verify --temp 1 "$image"
    expect 2 '"word" is no option' bench -m "$image" word
    expect 2 "--window: expected a whole number from 2" perplexity -m "$image" --window 1
    silent
}

config() {
    mkdir -p "$work/boards"
    cp "$image" "$work/boards/m.mkn"
    printf 'threads = 1\nbatch = 5\nmodel = m.mkn\nn = 3\nraw = true\n' >"$work/boards/b.conf"
    printf 'include = boards/b.conf\nbatch = 6\n' >"$work/a.conf"
    expect 0 "threads 1, batch 6," run -c "$work/a.conf" Hello
    expect 0 "threads 1, batch 7," run --batch=7 -c "$work/a.conf" Hello
    expect 0 "threads 2, batch 6," run --threads 1 -c "$work/a.conf" --threads 2 Hello
    printf 'include = boards/b.conf\n[engine]\ntemp = 1\n' >"$work/a.conf"
    expect 1 "a.conf:3: temp: this key belongs to section [sampling]" run -c "$work/a.conf" Hello
    printf 'n = 2\nmodel = nowhere.mkn\n' >"$work/a.conf"
    expect 1 "a.conf:2: model: $work/nowhere.mkn: cannot open: no such file" run -c "$work/a.conf" Hello
    expect 0 "ready" run -m "$image" --raw -c "$work/a.conf" Hello
    printf '\nisa = mmx\n' >"$work/a.conf"
    expect 1 'a.conf:2: isa: isa "mmx" is not in this build' run -m "$image" -c "$work/a.conf" Hello
    printf 'context = 16777216\n' >"$work/a.conf"
    expect 1 "a.conf:1: context: context is 16777216" run -m "$image" -c "$work/a.conf" Hello
    printf 'include = a.conf\n' >"$work/b.conf"
    printf 'include = b.conf\n' >"$work/a.conf"
    expect 1 "b.conf:1: include: $work/a.conf includes itself" run -c "$work/a.conf" Hello
    printf '\357\273\277model = "%s"\r\n[memory]\r\nmemory = 1K' "$image" >"$work/a.conf"
    expect 1 "a.conf:3: memory: memory = 1024 bytes" run -c "$work/a.conf" Hello
    printf 'temprature = 1\n' >"$work/a.conf"
    expect 1 "a.conf:1: temprature: no such key: makarna run --help lists them" run -c "$work/a.conf" Hello
    expect 1 "cannot open the config file $work/none.conf: no such file" run -c "$work/none.conf" Hello
    silent
}

answers() {
    run="run -m $image --raw"
    # shellcheck disable=SC2086 # words on purpose, here and below
    expect 0 "answer: 8 tokens" $run -n 8 "Once upon a time" && [ -s "$work/out" ] || fail "no answer"
    cp "$work/out" "$work/first"
    expect 0 "" $run -n 8 --threads 3 --batch 2 --isa scalar "Once upon a time"
    cmp -s "$work/out" "$work/first" || fail "3 threads, batch 2, scalar: another answer"
    printf 'Once upon a time\n' | "$makarna" $run -n 8 >"$work/out" 2>"$work/err"
    cmp -s "$work/out" "$work/first" || fail "standard input gives another answer"
    printf 'Once upon a time\r\n' | "$makarna" $run -n 8 - >"$work/out" 2>"$work/err"
    cmp -s "$work/out" "$work/first" || fail "standard input as - gives another answer"
    [ "$(tail -c 1 "$work/out" | od -An -tx1 | tr -d ' ')" = 0a ] || fail "no newline at the end"
    expect 0 "answer: 0 tokens" $run -n 0 Hello && silent
    for seed in 1 1 2; do
        expect 0 "" $run -n 30 --temp 1.5 --seed $seed "Once upon a time"
        cp "$work/out" "$work/seed$seed.$((count = ${count:-0} + 1))"
    done
    cmp -s "$work/seed1.1" "$work/seed1.2" || fail "one seed, two answers"
    cmp -s "$work/seed1.1" "$work/seed2.3" && fail "two seeds, one answer"
    expect 0 "seed: " $run -n 3 --temp 1 --seed random Hello
    expect 0 "answer: 5 tokens" $run -n 5 -- "-hello"
}

limits() {
    run="run -m $image --raw"
    expect 0 "the context of 20 tokens is full" $run --context 20 "Once upon a time"
    expect 1 "the context holds 4: shorten it" $run --context 4 "Once upon a time there was a big tree"
    grep -q "the prompt has [0-9]* tokens, the context holds 4" "$work/err" || fail "not both numbers"
    silent
    context=$("$makarna" info "$image" | sed -n 's/^context  *//p')
    expect 1 "this model takes 1 to $context" $run --context $((context + 1)) Hello
    expect 0 "the context of 1 tokens is full" $run --context 1 ""
    yes "one two three" | head -n $context >"$work/text"
    expect 1 "give --window $context" perplexity -m "$image" -f "$work/text" --window $((context + 1))
    head -c 100000000 /dev/zero | "$makarna" $run >"$work/out" 2>"$work/err"
    judge $? 1 "the prompt has more than" "100 MB of zeros"
}

text() {
    printf 'a\000b\377\376 \303(\355\240\200' >"$work/bad"
    "$makarna" run -m "$image" --raw -n 4 <"$work/bad" >"$work/out" 2>"$work/err"
    judge $? 0 "answer: " "invalid text"
    "$makarna" tokenize -m "$image" <"$work/bad" >"$work/out" 2>"$work/err"
    judge $? 0 "" "tokenizing invalid text" && says '\x00' && quiet
    expect 0 "" tokenize -m "$image" --ids "" && [ "$(cat "$work/out")" = "" ] || fail "ids of nothing"
    expect 0 "" tokenize -m "$image" --ids "one two" && quiet
    grep -qE '^[0-9]+( [0-9]+)*$' "$work/out" || fail "ids: $(cat "$work/out")"
    wanted=$(wc -w <"$work/out")
    expect 0 "" tokenize -m "$image" "one two"
    [ "$(wc -l <"$work/out")" -eq "$wanted" ] || fail "a line for each token: $(cat "$work/out")"
    head -c 1000000 /dev/urandom >"$work/bad"
    "$makarna" tokenize -m "$image" --ids <"$work/bad" >"$work/out" 2>"$work/err"
    judge $? 0 "" "a megabyte of random bytes"
}

numbers() {
    expect 0 "" info "$image" && says "hidden " && says "KV cache" && quiet
    expect 0 "" verify "$image" && says "whole" && quiet
    head -c 2000 "$image" >"$work/cut.mkn"
    expect 1 "cut.mkn" verify "$work/cut.mkn" && silent
    expect 0 "ready" bench -m "$image" -p 12 -n 3 -r 2 && says "prompt " && says "generation "
    expect 0 "ready" bench -m "$image" -p 12 -n 0 -r 2 --json && says '"tokens_per_second": '
    expect 2 "do not fit into a context of 5" bench -m "$image" -p 12 --context 5
    yes "one two three" | head -n 40 >"$work/text"
    expect 0 "ready" perplexity -m "$image" -f "$work/text" --tokens 40 --window 16 --logits "$work/logits"
    says "perplexity: " && says "tokens: 40, predictions: 37"
    rows=$("$makarna" info "$image" | sed -n 's/^vocabulary  *//p')
    [ "$(wc -c <"$work/logits")" -eq $((40 * 4 * rows)) ] || fail "size of the logits"
    expect 0 "ready" perplexity -m "$image" -f "$work/text" --tokens 40 --window 16 --digest
    grep -qxE 'digest: [0-9a-f]{16}' "$work/out" && [ "$(wc -l <"$work/out")" -eq 1 ] || fail "digest"
    cp "$work/out" "$work/first"
    expect 0 "ready" perplexity -m "$image" -f "$work/text" --tokens 40 --window 16 --digest --batch 3 \
        --threads 1
    cmp -s "$work/out" "$work/first" || fail "the digest depends on batch and threads"
    expect 1 "nowhere: no such file" perplexity -m "$image" -f nowhere
}

streams() {
    run="run -m $image --raw"
    for command in "$run Hello" "info $image" "--help" "tokenize -m $image Hello"; do
        [ -e /dev/full ] || break
        # shellcheck disable=SC2086
        "$makarna" $command >/dev/full 2>"$work/err"
        judge $? 1 "cannot write to standard output: no space left" "$command on a full disk"
        "$makarna" $command >&- 2>"$work/err"
        judge $? 1 "cannot write to standard output: not open" "$command without standard output"
    done
    "$makarna" $run -n 2 Hello 2>&- >"$work/out" || fail "without standard error: $?"
    "$makarna" $run -n 2 Hello <&- 2>"$work/err" >"$work/out" || fail "without standard input: $?"
    # An output that another program made non-blocking: everything arrives.
    mkfifo "$work/slow"
    yes "one two three" | head -n 2000 >"$work/text"
    "$makarna" tokenize -m "$image" <"$work/text" >"$work/first"
    { sleep 1; cat; } <"$work/slow" >"$work/out" &
    { dd if=/dev/null oflag=nonblock 2>/dev/null; "$makarna" tokenize -m "$image" <"$work/text"; } \
        >"$work/slow" 2>"$work/err"
    judge $? 0 "" "a non-blocking output"
    wait $!
    [ "$(wc -c <"$work/first")" -gt 65536 ] && cmp -s "$work/out" "$work/first" || fail "a non-blocking output"
    # Waiting for the prompt is no time of ours.
    { sleep 2; echo Hello; } | "$makarna" $run -n 1 >"$work/out" 2>"$work/err"
    judge $? 0 "ready: " "a prompt that is late"
    grep -qE '^ready: [0-9]{1,3}[.]' "$work/err" || fail "a prompt that is late: $(cat "$work/err")"
    # A reader that goes away: no message, exit status 1.
    {
        sleep 1
        "$makarna" $run "Once upon a time" 2>"$work/err"
        echo $? >"$work/status"
    } | true
    judge "$(cat "$work/status")" 1 "ready" "a closed pipe"
    grep -q "makarna: " "$work/err" && fail "a closed pipe: $(cat "$work/err")"
}

# Starts a run that cannot write its answer, into a pipe that is full, and sends it SIGINT $1 times.
interrupt() {
    rm -f "$work/pipe"
    mkfifo "$work/pipe"
    exec 3<>"$work/pipe"
    dd if=/dev/zero of="$work/pipe" bs=4096 count=1000 oflag=nonblock 2>/dev/null
    dd if=/dev/zero of="$work/pipe" bs=1 count=5000 oflag=nonblock 2>/dev/null
    # shellcheck disable=SC2086
    "$makarna" $run "Once upon a time" >"$work/pipe" 2>"$work/err" 3>&- &
    program=$!
    tries=0
    until grep -q ready "$work/err" || [ $((tries += 1)) -gt 100 ]; do
        sleep 0.1
    done
    sleep 1 # it now waits in write
    for _ in $(seq "$1"); do
        kill -INT $program
        sleep 0.2
    done
    dd if="$work/pipe" of=/dev/null bs=65536 count=100 iflag=nonblock 2>/dev/null
    wait $program
    status=$?
    exec 3>&-
}

interrupts() {
    run="run -m $image --raw"
    interrupt 1
    judge $status 0 "stopped" "one interrupt"
    grep -q "answer: [01] tokens in" "$work/err" || fail "one interrupt: $(cat "$work/err")"
    interrupt 2
    [ $status -eq 130 ] || fail "two interrupts: exit status $status, expected 130"
}

usage
config
answers
limits
text
numbers
streams
interrupts
finish "command line, $image"
