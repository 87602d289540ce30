/* The plans of a database (scalars/planned/plan.h), from which each chunk of rows borrows some. */
#ifndef TUSK_PLAN_POOL_H
#define TUSK_PLAN_POOL_H

#include "../../scalars/planned/plan.h"

typedef struct plan_pool plan_pool;

plan_pool *plan_pool_new(void);
void plan_pool_free(plan_pool *pool);
/* NULL if memory is out, or if another thread uses the pool. */
tusk_plans *plan_pool_take(plan_pool *pool);
/* plans may be NULL. */
void plan_pool_give(plan_pool *pool, tusk_plans *plans);

#endif
