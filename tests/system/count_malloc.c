/* count_malloc.c - a library to preload: stands before malloc and its kin and tells the tracer (watch.c)
 * of each call after "ready". */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "count_malloc.h"

/* glibc's own entry points, so that nothing has to be looked up. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *old, size_t size);
void *memalign(size_t alignment, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **out, size_t alignment, size_t size);

static volatile long watching;

__attribute__((constructor)) static void tell_flag(void)
{
    prctl((int)COUNT_MALLOC_FLAG, (unsigned long)(uintptr_t)&watching, 0, 0, 0);
}

static void count(void)
{
    if (watching)
        prctl((int)COUNT_MALLOC_CALLED, 0, 0, 0, 0);
}

void *malloc(size_t size)
{
    count();
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    count();
    return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size)
{
    count();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    count();
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : 12;
}
