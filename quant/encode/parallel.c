#define _GNU_SOURCE /* sysconf */
#include "quant/encode/parallel.h"

#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

typedef struct loop {
    void (*body)(void *context, uint64_t index, uint32_t worker);
    void *context;
    uint64_t count, next;
    pthread_mutex_t lock; /* of next */
} loop;

typedef struct worker {
    loop *loop;
    uint32_t number;
    bool started;
    pthread_t thread;
} worker;

static uint64_t next_index(loop *l)
{
    pthread_mutex_lock(&l->lock);
    uint64_t index = l->next++;
    pthread_mutex_unlock(&l->lock);
    return index;
}

static void *work(void *argument)
{
    const worker *w = argument;
    for (uint64_t index; (index = next_index(w->loop)) < w->loop->count;)
        w->loop->body(w->loop->context, index, w->number);
    return NULL;
}

void parallel_for(uint32_t threads, uint64_t count,
                  void (*body)(void *context, uint64_t index, uint32_t worker), void *context)
{
    loop l = {.body = body, .context = context, .count = count};
    worker workers[PARALLEL_MAX];
    threads = threads > PARALLEL_MAX ? PARALLEL_MAX : threads < 1 ? 1 : threads;
    if (threads > count)
        threads = count ? (uint32_t)count : 1;
    pthread_mutex_init(&l.lock, NULL);
    for (uint32_t i = 0; i < threads; i++) {
        workers[i] = (worker){.loop = &l, .number = i};
        if (i > 0)
            workers[i].started = pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
    }
    work(&workers[0]);
    for (uint32_t i = 1; i < threads; i++)
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
    pthread_mutex_destroy(&l.lock);
}

uint32_t parallel_default(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > PARALLEL_MAX ? PARALLEL_MAX : (uint32_t)cores;
}
