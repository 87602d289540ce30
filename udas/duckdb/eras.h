/* Whose rows can be given back together.
 *
 * DuckDB destroys the states of a GROUP BY that it has scanned, and forgets the others: those of a
 * statement that failed, was cancelled, or had enough rows (LIMIT). So rows belong to eras. An era
 * gives all its rows back when no state is left in it, or when it is over: after a cancel, and
 * after a statement failed that was alone in it. That it was alone is seen from runs: states that
 * DuckDB passed in one call are of one statement, and so are those that share a state with them.
 * Eras that share a statement are a family, whose rows may be linked: they go together. A state
 * that outlives its era is refused wherever DuckDB brings it again.
 */
#ifndef TUSK_ERAS_H
#define TUSK_ERAS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../rowblock/memory.h"

typedef struct eras eras;

typedef struct era {
    eras *all;
    tusk_memory *memory; /* of its states' rows */
    int64_t born;        /* cancels so far */
    int64_t number;      /* from 1 on; in its head the least of the family */
    atomic_bool over;
    /* What follows is eras.c's own. */
    _Atomic int64_t n_states;
    atomic_bool closed;               /* a statement in it has begun to train */
    struct era *family;               /* the next one up to its head, which has itself */
    int64_t n_runs, n_joined, n_left; /* of the whole family, in its head */
    struct run *runs;
    struct era *next;
} era;

/* States of one statement in one era. */
typedef struct run {
    era *era;
    _Atomic(struct run *) same; /* another run of the statement */
    struct run *next;
    double began; /* seconds of the monotonic clock */
} run;

eras *eras_new(tusk_memory *account);
void eras_free(eras *all);

/* Around each callback: while any is inside, no rows are given back. */
void eras_enter(eras *all);
void eras_leave(eras *all);

/* A run for states that are in none; NULL: no memory. */
run *run_new(eras *all, int64_t cancels);
/* Both are of one statement. */
void run_join(run *a, run *b);
static inline void run_add_state(run *r) {
    atomic_fetch_add_explicit(&r->era->n_states, 1, memory_order_relaxed);
}
void run_drop_state(run *r);
/* A number of the statement. */
int64_t run_statement(run *r);
/* When the statement's rows began to come, in seconds of the monotonic clock, about. */
double run_began(run *r);
/* The statement trains: no other one joins its era. */
void run_close(run *r);
/* The statement has failed. */
void run_fail(run *r);

#endif
