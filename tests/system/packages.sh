#!/bin/sh
# packages.sh README CI - the README's line for the tests and .ci/run install the same packages.
. "${0%/*}/common.sh"
need "$1"

# packages FILE - those of the last "apt-get install" at or before the test workflow, one a line, sorted
packages() {
    sed -e ':join' -e '/\\$/{N;s/\\\n//;b join' -e '}' "$1" | awk '
        sub(/.*apt-get install -y /, "") { line = $0; sub(/ *&&.*/, "", line); list = line }
        /cmake --workflow --preset test/ { print list; exit }' | tr -s ' ' '\n' | grep . | sort
}
packages "$1" >"$work/readme"
packages "$2" >"$work/ci"
[ "$(wc -l <"$work/ci")" -gt 5 ] || fail "no packages found in $2"
diff "$work/readme" "$work/ci" || fail "the package lists of $1 and $2 differ"
finish "packages"
