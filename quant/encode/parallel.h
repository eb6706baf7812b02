/* parallel.h - a loop over several threads. */
#ifndef MK_QUANT_PARALLEL_H
#define MK_QUANT_PARALLEL_H

#include <stdint.h>

enum { PARALLEL_MAX = 64 };

/* Calls body(context, index, worker) for each index below count, in any order, on up to `threads` threads;
 * worker is below `threads`. Threads that the system does not give are done without. */
void parallel_for(uint32_t threads, uint64_t count,
                  void (*body)(void *context, uint64_t index, uint32_t worker), void *context);

/* Number of online cores, PARALLEL_MAX at most. */
uint32_t parallel_default(void);

#endif
