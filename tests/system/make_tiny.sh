#!/bin/sh
# make_tiny.sh PROGRAM FILE - has PROGRAM write the tiny model, unless FILE is newer.
[ "$2" -nt "$1" ] && exit 0
mkdir -p "${2%/*}"
exec "$1" "$2"
