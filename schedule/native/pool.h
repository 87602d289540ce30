/* The process's only pool of threads. The native libraries do not link to each other, so Python
 * passes the pool to each one that computes in parallel (schedule/pool.py). The caller of a
 * computation gets its number of threads from the budget (schedule/budget.py).
 */
#ifndef TUSK_POOL_H
#define TUSK_POOL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs one task of a call. Returns 0, or another value if it failed. Must not throw. */
typedef int (*tusk_task)(void *context, int64_t number);

typedef struct tusk_pool {
    /* Calls task(context, number) for number = 0 .. n - 1 on up to `threads` threads, including
     * the caller's, and returns when all are done. Returns 0, or 1 if a task failed; no task
     * begins after that. Several callers may run at once: they share the workers. Idle workers
     * sleep. */
    int (*run)(int64_t n, int32_t threads, tusk_task task, void *context);
    /* Whether the calling thread is a worker of the pool. */

    int (*on_worker)(void);
} tusk_pool;

__attribute__((visibility("default"))) const tusk_pool *ts_pool(void);

#ifdef __cplusplus
}
#endif
#endif
