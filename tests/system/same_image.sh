#!/bin/sh
# same_image.sh IMAGE QUANTIZER... - the command, quantizer with its input and options, makes the same bytes as
# are in IMAGE: on another machine, with another number of threads.
. "${0%/*}/common.sh"
image=$1
shift
need "$image"

"$@" -o "$work/${image##*/}" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
cmp "$image" "$work/${image##*/}" || fail "another image"
finish "$*"
