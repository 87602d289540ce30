#ifndef TUSK_ACTIVITY_LISTING_H
#define TUSK_ACTIVITY_LISTING_H

#include "table.h"

/* Lists the trainings of a table, like tusk_activity. */
int32_t tusk_list_running(tusk_table *table, tusk_running *out);

/* The columns of tuskml_activity(): name, kind, and the value of a tusk_running `r`. A NaN is
 * NULL; WHEN is a time given in seconds from now. */

#define TUSK_ACTIVITY_COLUMNS(X)                   \
    X(session, WHOLE, r->pid)                      \
    X(training, WHOLE, r->number)                  \
    X(program, TEXT, r->program)                   \
    X(task, TEXT, r->task)                         \
    X(plan, TEXT, r->plan)                         \
    X(n_groups, WHOLE, r->groups)                  \
    X(n_models, WHOLE, r->done)                    \
    X(share, NUMBER, r->share)                     \
    X(threads, WHOLE, r->wanted)                   \
    X(weight, NUMBER, r->weight)                   \
    X(seconds, NUMBER, r->seconds)                 \
    X(core_seconds, NUMBER, r->core_seconds)       \
    X(rows_per_second, NUMBER, r->rows_per_second) \
    X(progress, NUMBER, r->progress)               \
    X(estimated_end, WHEN, r->left)                \
    X(rho, NUMBER, r->rho)                         \
    X(device, TEXT, !r->device ? "cpu" : r->has_device ? "gpu" : "waits for gpu")

#endif
