#define _GNU_SOURCE /* syscall */
#include "threads/pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

#ifndef SYS_futex /* 32-bit ports with 64-bit time alone */
#define SYS_futex SYS_futex_time64
#endif

/* About 20 microseconds on a gigahertz core: longer than the gaps between the jobs of one token. */
#define SPINS 4000

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0);
}

/* Waits until *word is no longer `value`; *sleepers tells the other side that a wake is needed. */
static void wait_change(_Atomic uint32_t *word, uint32_t value, _Atomic uint32_t *sleepers)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return;
        relax();
    }
    atomic_fetch_add(sleepers, 1);
    while (atomic_load(word) == value)
        futex_wait(word, value);
    atomic_fetch_sub(sleepers, 1);
}

static void take_items(mk_pool *pool, uint32_t worker)
{
    for (;;) {
        uint32_t i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (i >= pool->items)
            return;
        pool->item(pool->job, worker, i);
    }
}

static void *work(void *argument)
{
    mk_worker *self = argument;
    mk_pool *pool = self->pool;
    for (uint32_t seen = 0;; seen++) {
        wait_change(&pool->round, seen, &pool->sleepers);
        if (pool->stop)
            return NULL;
        take_items(pool, self->index);
        if (atomic_fetch_sub(&pool->busy, 1) == 1 && atomic_load(&pool->caller_sleeps))
            futex_wake_all(&pool->busy);
    }
}

static void begin_round(mk_pool *pool)
{
    atomic_fetch_add(&pool->round, 1);
    if (atomic_load(&pool->sleepers))
        futex_wake_all(&pool->round);
}

void mk_pool_run(mk_pool *pool, mk_item item, void *job, uint32_t items)
{
    if (pool->workers == 1 || items < 2) {
        for (uint32_t i = 0; i < items; i++)
            item(job, 0, i);
        return;
    }
    pool->item = item;
    pool->job = job;
    pool->items = items;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->busy, pool->workers - 1, memory_order_relaxed);
    begin_round(pool);
    take_items(pool, 0);
    for (uint32_t left; (left = atomic_load_explicit(&pool->busy, memory_order_acquire)) != 0;)
        wait_change(&pool->busy, left, &pool->caller_sleeps);
}

/* Signals are for the caller's thread: a worker must not run its handlers. */
static int start_thread(mk_worker *worker, void *stack)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error)
        return error;
    error = pthread_attr_setstack(&attributes, stack, MK_STACK_BYTES);
    if (!error) {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&worker->thread, &attributes, work, worker);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    return error;
}

mk_status mk_pool_start(mk_pool *pool, uint32_t workers, uint8_t *stacks, mk_error *err)
{
    memset(pool, 0, sizeof *pool);
    pool->workers = 1;
    for (uint32_t i = 1; i < workers; i++) {
        mk_worker *worker = &pool->worker[i];
        worker->pool = pool;
        worker->index = i;
        int error = start_thread(worker, stacks + (size_t)(i - 1) * MK_STACK_BYTES);
        if (error) {
            mk_pool_stop(pool);
            return mk_fail(err, MK_ERR_IO, "cannot start thread %u of %u: %e; use a lower --threads", i + 1, workers,
                           error);
        }
        pool->workers = i + 1;
    }
    return MK_OK;
}

void mk_pool_stop(mk_pool *pool)
{
    pool->stop = true;
    begin_round(pool);
    for (uint32_t i = 1; i < pool->workers; i++)
        pthread_join(pool->worker[i].thread, NULL);
    pool->workers = 1;
}
