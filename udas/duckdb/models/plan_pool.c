#include "plan_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define MOST_KEPT 64 /* as many threads predict at once */

/* A forked process may find the lock held by a thread that it does not have, so no thread waits
 * for it. */
struct plan_pool {
    pthread_mutex_t lock;
    int n;
    tusk_plans *free[MOST_KEPT];
};

plan_pool *plan_pool_new(void) {
    plan_pool *pool = calloc(1, sizeof *pool);
    if (pool)
        pthread_mutex_init(&pool->lock, NULL);
    return pool;
}

void plan_pool_free(plan_pool *pool) {
    if (!pool)
        return;
    for (int i = 0; i < pool->n; i++)
        tusk_plans_free(pool->free[i]);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* The lock is held briefly. */
static bool try_lock(plan_pool *pool) {
    for (int i = 0; i < 100; i++) {
        if (pthread_mutex_trylock(&pool->lock) == 0)
            return true;
        sched_yield();
    }
    return false;
}

tusk_plans *plan_pool_take(plan_pool *pool) {
    if (!pool || !try_lock(pool))
        return NULL;
    tusk_plans *plans = pool->n ? pool->free[--pool->n] : NULL;
    pthread_mutex_unlock(&pool->lock);
    return plans ? plans : tusk_plans_new();
}

void plan_pool_give(plan_pool *pool, tusk_plans *plans) {
    if (!plans)
        return;
    if (try_lock(pool)) {
        if (pool->n < MOST_KEPT) {
            pool->free[pool->n++] = plans;
            plans = NULL;
        }
        pthread_mutex_unlock(&pool->lock);
    }
    tusk_plans_free(plans);
}
