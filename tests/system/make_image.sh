#!/bin/sh
# make_image.sh IMAGE SOURCE QUANTIZER [OPTION...] - quantizes SOURCE to IMAGE, unless the image is newer
# than both.
image=$1 source=$2 quantizer=$3
shift 3
[ -e "$source" ] || { echo "skipped: there is no $source"; exit 77; }
if [ "$image" -nt "$source" ] && [ "$image" -nt "$quantizer" ]; then
    echo "$image is up to date"
    exit 0
fi
mkdir -p "${image%/*}"
exec "$quantizer" "$source" -o "$image" "$@"
