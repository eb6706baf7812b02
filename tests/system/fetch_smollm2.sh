#!/bin/sh
# fetch_smollm2.sh CMAKE FOLDER - fetches the real model for the tests; without a network they are skipped.
. "${0%/*}/common.sh"
"$1" "-DFOLDER=$2" -P "${0%/*}/../../cmake/scripts/fetch_smollm2.cmake" || skip "SmolLM2 could not be fetched"
finish "SmolLM2"
