#!/bin/sh
# boards.sh FOLDER MAKARNA IMAGE - every board's config is one, and the model runs with it, in the memory that
# it allows.
. "${0%/*}/common.sh"
folder=$1 makarna=$2 image=$3
need "$image"

count=0
for board in "$folder"/*.conf; do
    count=$((count + 1))
    printf 'include = %s\nmodel = %s\nn = 2\n' "$board" "$image" >"$work/own.conf"
    "$makarna" run -c "$work/own.conf" --raw "Once upon a time" >"$work/out" 2>"$work/err" ||
        fail "${board##*/}: $(cat "$work/err")"
    echo "${board##*/}: $(grep '^ready' "$work/err")"
    grep -q "^| ${board##*/} " "$folder/README.md" || fail "${board##*/} is not in the table of $folder/README.md"
done
[ $count -ge 6 ] || fail "$count board configs, expected at least 6"
finish "boards"
