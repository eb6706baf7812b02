#!/bin/sh
# make_image.sh WATCH LIMIT IMAGE SOURCE QUANTIZER [OPTION...] - quantizes SOURCE to IMAGE, unless the image is
# newer than both. With a LIMIT above 0 the quantizer's peak resident set is measured by WATCH (watch.c), and
# may be LIMIT bytes at most.
. "${0%/*}/common.sh"
watch=$1 limit=$2 image=$3 source=$4 quantizer=$5
shift 5
need "$source"
if [ "$image" -nt "$source" ] && [ "$image" -nt "$quantizer" ]; then
    echo "$image is up to date"
    exit 0
fi

mkdir -p "${image%/*}"
if [ "$limit" -eq 0 ]; then
    exec "$quantizer" "$source" -o "$image" "$@"
fi
"$watch" "$work/report" -- "$quantizer" "$source" -o "$image" "$@"
status=$?
if [ $status -eq 77 ]; then # no ptrace: not measured
    exec "$quantizer" "$source" -o "$image" "$@"
fi
exit=$(sed -n 's/^exit //p' "$work/report") peak=$(sed -n 's/^peak_rss //p' "$work/report")
[ "$exit" = 0 ] || fail "exit status $exit"
[ "$peak" -le "$limit" ] || fail "peak RSS $peak, expected at most $limit"
[ "$failures" -eq 0 ] || rm -f "$image"
finish "$image, peak RSS $peak of $limit"
