/* Groups of rows that can be freed together. DuckDB destroys the states that a statement got
 * to, but forgets others if the statement ends early. Both 1.5.6 and 2.0.0 do so. 2.0.0 forgets
 * all states of a window that fails after it has made the states of its frames, some states of
 * GROUPING SETS if the training of one group fails, and most states of a GROUP BY that runs out
 * of memory. So rows are allocated in eras. An era frees all its rows when none of its states
 * is left, or when it is over. It is over after a cancel, or after a failure of a statement
 * that had the era to itself. Runs determine whether a statement had it to itself: states that
 * DuckDB passes in one call belong to one statement, and so do states that share a state with
 * them. Eras that share a statement form a family. Their rows may be linked, so they are freed
 * together. A state that outlives its era is rejected wherever DuckDB passes it again. */
#ifndef TUSK_ERAS_H
#define TUSK_ERAS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../rowblock/memory.h"

typedef struct eras eras;

typedef struct era {
    eras *all;
    tusk_memory *memory; /* holds its states' rows */
    int64_t born;        /* the cancel count at its start */
    int64_t number;      /* counts from 1; in the head, the smallest of the family */
    atomic_bool over;
    char why[1024]; /* why its statement failed; set before over, "" after a cancel */
    /* Only eras.c uses the fields below. */
    _Atomic int64_t n_states;
    atomic_bool closed;               /* a statement in it has begun to train */
    struct era *family;               /* the next era of the family; the head's: itself */
    int64_t n_runs, n_joined, n_left; /* of the whole family; kept in its head */
    struct run *runs;
    struct era *next;
} era;

/* The states of one statement in one era. */
typedef struct run {
    era *era;
    _Atomic(struct run *) same; /* another run of the statement */
    struct run *next;
    double began; /* seconds of the monotonic clock */
} run;

eras *eras_new(tusk_memory *account);
void eras_free(eras *all);

/* The number of the newest era; each statement that runs alone has one of its own. */
int64_t eras_newest(eras *all);

/* Called around each callback. No rows are freed while any thread is inside. */
void eras_enter(eras *all);
void eras_leave(eras *all);

/* A run for states that have none yet; NULL if memory is out. */
run *run_new(eras *all, int64_t cancels);
/* Records that both runs belong to one statement. */
void run_join(run *a, run *b);
static inline void run_add_state(run *r) {
    atomic_fetch_add_explicit(&r->era->n_states, 1, memory_order_relaxed);
}
void run_drop_state(run *r);
/* A number that identifies the statement. */
int64_t run_statement(run *r);
/* Approximate time of the statement's first rows, in seconds of the monotonic clock. */
double run_began(run *r);
/* The statement begins to train: no other statement may join its era. */
void run_close(run *r);
/* Records that the statement has failed, with its sentence. */
void run_fail(run *r, const char *why);

#endif
