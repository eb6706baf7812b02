# Sourced by the test scripts: reporting, and a folder of their own for what they write.
set -u
LC_ALL=C
export LC_ALL
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { # message...
    echo "failed: $*"
    failures=$((failures + 1))
}

skip() { # reason...
    echo "skipped: $*"
    exit 77
}

need() { # file: without it there is nothing to test
    [ -e "$1" ] || skip "there is no $1"
}

finish() { # what was tested
    echo "$*: $failures failed"
    [ "$failures" -eq 0 ] || exit 1
    exit 0
}
