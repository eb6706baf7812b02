#!/bin/sh
# symbols.sh LIBRARY... - what libmakarna.a asks of others: nothing but these functions of the C library,
# and what the compiler itself calls. Everything else, an allocation, stdio or a function of libm above
# all, is a failure.
allowed='
    open open64 close fstat fstat64 __fstat64_time64 read write
    mmap mmap64 munmap mlock madvise
    memchr memcmp memcpy memmove memset strchr strcmp strcspn strlen strncmp strrchr sigfillset
    pthread_[a-z_]* sched_[a-z_]* __sched_[a-z_]* syscall sysconf getauxval __errno_location
    __aeabi_[a-z0-9_]* __[a-z]*[sdt]i[23] __cpu_model __cpu_features2 __cpu_indicator_init
    _GLOBAL_OFFSET_TABLE_ __tls_get_addr __stack_chk_fail __stack_chk_guard'

pattern=$(printf '%s\n' $allowed | paste -sd '|' -)
failures=0
for library in "$@"; do
    defined=$(mktemp)
    nm --defined-only --extern-only "$library" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$defined"
    undefined=$(nm --undefined-only "$library" 2>/dev/null | awk 'NF == 2 { print $2 }' | sort -u |
        grep -vxFf "$defined")
    count=$(printf '%s\n' "$undefined" | wc -l)
    wrong=$(printf '%s\n' "$undefined" | grep -vxE "$pattern")
    if [ ! -s "$defined" ] || [ "$count" -lt 5 ]; then
        echo "$library: no symbols found"
        failures=1
    elif [ -n "$wrong" ]; then
        echo "$library: refers to" $wrong
        failures=1
    else
        echo "$library: $count functions of others, all allowed:" $undefined
    fi
    rm -f "$defined"
done
exit $failures
