/* pool.h - a fixed set of workers that share out numbered items of work. The caller's thread is worker
 * 0; the others wait between jobs by spinning briefly and then sleeping (futex). Items are taken one
 * by one from a shared counter, and a job ends when its items are done: a worker without a core misses
 * the job, and one that loses its core delays the item that it holds and no more. */
#ifndef MK_THREADS_POOL_H
#define MK_THREADS_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "makarna.h"

#define MK_MAX_THREADS 64u

/* Stack of each started thread; PTHREAD_STACK_MIN is 131072 on aarch64. Sanitizers need about 900 KB. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MK_STACK_BYTES 2097152u
#else
#define MK_STACK_BYTES 262144u
#endif

typedef void (*mk_item)(void *job, uint32_t worker, uint32_t item);

typedef struct mk_pool mk_pool;

typedef struct mk_worker {
    mk_pool *pool;
    uint32_t index;
    pthread_t thread;
} mk_worker;

struct mk_pool {
    uint32_t workers;
    mk_worker worker[MK_MAX_THREADS];
    mk_item item;
    void *job;
    uint32_t items;
    /* written by several threads, each on a cache line of its own */
    _Alignas(64) _Atomic uint32_t gate; /* number of the job, closed or stop, workers inside */
    _Alignas(64) _Atomic uint32_t next; /* item to take */
    _Alignas(64) _Atomic uint32_t sleeping_workers;
    _Atomic uint32_t sleeping_caller;
};

/* Starts workers - 1 threads on `stacks` (MK_STACK_BYTES for each, aligned to 64). */
mk_status mk_pool_start(mk_pool *pool, uint32_t workers, uint8_t *stacks, mk_error *err);
void mk_pool_stop(mk_pool *pool);

/* Work below which sharing costs more than it saves, in multiply-accumulates: tens of microseconds on a
 * small core. */
#define MK_WORTH_SHARING 65536u

/* Calls item(job, worker, i) once for each i below items, and returns when all are done. `work` is about how
 * many multiply-accumulates they take together; little of it is done by the caller alone. */
void mk_pool_run(mk_pool *pool, mk_item item, void *job, uint32_t items, uint64_t work);

#endif
