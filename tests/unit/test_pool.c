/* The worker pool: every item runs exactly once, for all numbers of workers and items, job after job. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "threads/pool.h"

#define MAX_ITEMS 1000u

typedef struct job {
    _Atomic uint32_t runs[MAX_ITEMS];
    uint32_t workers;
    _Atomic uint32_t strangers; /* items run by a worker out of range */
} job;

static void count(void *argument, uint32_t worker, uint32_t item)
{
    job *j = argument;
    if (worker >= j->workers)
        j->strangers++;
    j->runs[item]++;
}

static void run_jobs(mk_pool *pool, uint32_t workers)
{
    static const uint32_t sizes[] = {0, 1, 2, 3, 7, 64, MAX_ITEMS};
    static job j;
    for (uint32_t round = 0; round < 300; round++) {
        uint32_t items = sizes[round % (sizeof sizes / sizeof sizes[0])];
        memset(&j, 0, sizeof j);
        j.workers = workers;
        mk_pool_run(pool, count, &j, items, round % 5 ? MK_WORTH_SHARING : 1);
        bool once = true;
        for (uint32_t i = 0; i < MAX_ITEMS; i++)
            once = once && j.runs[i] == (i < items);
        CHECK(once && j.strangers == 0);
    }
}

static void run_one(mk_pool *pool)
{
    static job j;
    memset(&j, 0, sizeof j);
    j.workers = pool->workers;
    mk_pool_run(pool, count, &j, 5, MK_WORTH_SHARING);
    CHECK(j.runs[0] == 1 && j.runs[4] == 1 && j.strangers == 0);
}

/* The number of the job wraps around; and workers that slept through exactly one round of it still stop. */
static void wrap_around(void)
{
    static mk_pool pool;
    uint8_t *stacks = aligned_alloc(4096, 2 * MK_STACK_BYTES);
    CHECK(mk_pool_start(&pool, 3, stacks, NULL) == MK_OK);
    run_one(&pool);
    uint32_t first = pool.gate;
    run_one(&pool);
    uint32_t second = pool.gate, step = second - first;
    pool.gate = second + (UINT32_MAX / step - 5) * step;
    for (int i = 0; i < 20; i++)
        run_one(&pool);
    CHECK(pool.gate < 20 * step);

    uint32_t before = pool.gate;
    run_one(&pool);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* the workers fall asleep */
    pool.gate = before;
    alarm(60);
    mk_pool_stop(&pool);
    alarm(0);
    free(stacks);
}

int main(void)
{
    static mk_pool pool;
    for (uint32_t workers = 1; workers <= 5; workers++) {
        uint8_t *stacks = aligned_alloc(4096, 4 * MK_STACK_BYTES);
        mk_error err = {""};
        CHECK_MSG(mk_pool_start(&pool, workers, stacks, &err) == MK_OK, "%s", err.text);
        run_jobs(&pool, workers);
        mk_pool_stop(&pool);
        free(stacks);
    }
    wrap_around();
    return check_end();
}
