#!/bin/sh
# install.sh CMAKE BUILD COMPILER - installs into a folder of its own, and builds a program against that by
# pkg-config.
. "${0%/*}/common.sh"
cmake=$1 build=$2 compiler=$3
here=${0%/*}
prefix=$work/prefix
command -v pkg-config >/dev/null || skip "there is no pkg-config: apt-get install pkg-config"

"$cmake" --install "$build" --prefix "$prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
for file in bin/makarna bin/makarna-quant include/makarna.h share/makarna/boards/pi5.conf \
    share/doc/makarna/LICENSE; do
    [ -f "$prefix/$file" ] || fail "$file is not installed"
done
[ "$(find "$prefix/include" -type f | wc -l)" -eq 1 ] || fail "more than one header is installed"
"$prefix/bin/makarna" --version >"$work/version" || fail "the installed program does not run"

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name makarna.pc)")
export PKG_CONFIG_PATH
version=$(pkg-config --modversion makarna)
grep -qF "$version" "$work/version" || fail "version is $version for pkg-config, $(cat "$work/version") for the program"
# shellcheck disable=SC2046 # flags are several words
"$compiler" -std=c11 -Wall -Wextra -Werror "$here/consumer.c" -o "$work/consumer" \
    $(pkg-config --cflags --libs makarna) && "$work/consumer" || fail "a program that uses the library"
finish "installation"
