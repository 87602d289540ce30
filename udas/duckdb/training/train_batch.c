/* Passes the blocks of a batch of groups to the trainer, and checks its results. */
#include <stdlib.h>
#include <string.h>

#include "../../rowblock/merge.h"
#include "../../rowblock/named.h"
#include "../emit.h"
#include "../hosting/python.h"
#include "interrupt.h"
#include "train_model.h"

static tusk_trainer trainer;

/* The Python package sets it once: before any query, or in a process that is not Python's when the
 * first training starts the package. */
TUSK_EXPORT void tusk_set_trainer(tusk_trainer t) {
    __atomic_store_n(&trainer, t, __ATOMIC_RELEASE);
}

tusk_trainer trainer_now(void) {
    return __atomic_load_n(&trainer, __ATOMIC_ACQUIRE);
}

typedef struct call {
    tusk_group *groups;
    int32_t *spec;
    tusk_spec *specs;
    spec **unique;
    idx_t *row;
    bool *emitted;
    const char **flaws;
    tusk_remark *remarks;
} call;

/* n: groups at most; n_remarks: of all of them. */
static bool call_new(call *c, idx_t n, size_t n_remarks) {
    c->remarks = malloc((n_remarks + 1) * sizeof *c->remarks);
    c->groups = malloc(n * sizeof *c->groups);
    c->spec = malloc(n * sizeof *c->spec);
    c->specs = malloc(n * sizeof *c->specs);
    c->unique = malloc(n * sizeof *c->unique);
    c->row = malloc(n * sizeof *c->row);
    c->emitted = calloc(n, sizeof *c->emitted);
    c->flaws = malloc(n * sizeof *c->flaws);
    return c->groups && c->spec && c->specs && c->unique && c->row && c->emitted && c->flaws &&
           c->remarks;
}

static void call_free(call *c) {
    free(c->groups);
    free(c->spec);
    free(c->specs);
    free(c->unique);
    free(c->row);
    free(c->emitted);
    free(c->flaws);
    free(c->remarks);
}

static size_t count_remarks(duckdb_aggregate_state *states, idx_t n) {
    size_t all = 0;
    for (idx_t i = 0; i < n; i++)
        all += (size_t)((const train_state *)states[i])->remarks.n;
    return all;
}

/* Whether the trainer reports success and every group has its result. */
static bool all_answered(const tusk_batch *batch, const call *c) {
    for (int64_t g = 0; g < batch->n_groups; g++)
        if (!c->emitted[g])
            return false;
    return batch->answered == 1;
}

static int32_t number_spec(call *c, int32_t *n_specs, spec *s) {
    for (int32_t i = *n_specs - 1; i >= 0; i--)
        if (c->unique[i] == s)
            return i;
    c->unique[*n_specs] = s;
    c->specs[*n_specs] = (tusk_spec){s->task, s->options};
    return (*n_specs)++;
}

/* Adds groups with rows, usable or invalid, to the batch; the others become NULL at once, after
 * a check of their task and options. False for rows that an earlier training has used up. */
static bool fill_batch(call *c, tusk_batch *batch, duckdb_aggregate_state *states,
                       duckdb_vector result, idx_t n, idx_t offset) {
    for (idx_t i = 0; i < n; i++) {
        train_state *s = (train_state *)states[i];
        tusk_block *b = &s->block;
        if (!b->n_rows && !b->flaw) {
            if (s->spec)
                number_spec(c, &batch->n_specs, s->spec);
            set_null(result, offset + i);
            continue;
        }
        if (tusk_block_spent(b) || b->lent)
            return false;
        tusk_merge_rest(s->run->era->memory, b);
        int64_t g = batch->n_groups++;
        c->groups[g] = tusk_group_of(b);
        c->flaws[g] = tusk_block_flaw(b);
        for (int32_t k = 0; k < s->remarks.n; k++) {
            c->remarks[batch->n_remarks] = s->remarks.list[k];
            c->remarks[batch->n_remarks++].group = g;
        }
        batch->labels |= tusk_labels_are(b);
        c->spec[g] = number_spec(c, &batch->n_specs, s->spec);
        c->row[g] = offset + i;
    }
    return true;
}

/* Sets the participation of the database's trainings in the shares of the host's cores. */
static void take_part(const database *d, tusk_batch *batch) {
    batch->unshared = d->unshared;
    batch->weight = d->weight;
}

/* Returns why there are no models, or NULL on success. The sentence may be in `room`. */
static const char *train_batch(const overload *o, duckdb_aggregate_state *states,
                               duckdb_vector result, idx_t n, idx_t offset, run *run,
                               char room[static 1024]) {
    if (!trainer_now() && !python_starts(room))
        return room;
    tusk_trainer train = trainer_now();
    call c = {0};
    const char *why = "out of memory";
    if (call_new(&c, n, count_remarks(states, n))) {
        tusk_batch batch = {.groups = c.groups,
                            .spec = c.spec,
                            .specs = c.specs,
                            .request = (int32_t)o->request,
                            .memory = o->database->memory,
                            .store_root = store_root(o->database),
                            .most_threads = threads_of_host(o->database),
                            .statement = run ? run_statement(run) : 0,
                            .began = run ? run_began(run) : 0,
                            .program = "duckdb",
                            .flaws = c.flaws,
                            .remarks = c.remarks};
        take_part(o->database, &batch);
        answer a = {result, c.row, c.emitted, false, o->database, run ? run->era->born : -1, NULL};
        batch.context = &a;
        bool whole = fill_batch(&c, &batch, states, result, n, offset);
        if (whole && batch.n_specs)
            train(&batch);
        if (!whole)
            why = TUSK_WAS_READ;
        else if (a.failed)
            why = "no memory for the models: raise memory_limit";
        else if (!batch.n_specs || all_answered(&batch, &c))
            why = NULL;
        else if (batch.error[0])
            why = memcpy(room, batch.error, sizeof batch.error);
        else
            why = tusk_interrupted((int)o->request);
    }
    call_free(&c);
    return why;
}

void finalize(duckdb_function_info info, duckdb_aggregate_state *states, duckdb_vector result,
              idx_t n, idx_t offset) {
    database *d = overload_of(info)->database;
    sigint_watcher watcher = answering_begins();
    packing_ends();
    look_again(d);
    eras_enter(d->eras);
    bool refused;
    run *run = run_of_states(info, states, n, &refused);
    if (run)
        run_close(run);
    char room[1024];
    const char *why =
        refused ? "" : train_batch(overload_of(info), states, result, n, offset, run, room);
    if (why) {
        if (run)
            run_fail(run, why);
        if (!refused)
            refuse(info, why);
        drop_states(states, n); /* DuckDB 1.x never destroys states whose finalize failed */
    }
    eras_leave(d->eras);
    answering_ends(watcher);
}
