/* Passes the blocks of a batch of groups to the trainer, and checks its answers. */
#include <stdlib.h>

#include "interrupt.h"
#include "train_model.h"

static tusk_trainer trainer;

/* The Python package sets it once, before any query. */
TUSK_EXPORT void tusk_set_trainer(tusk_trainer t) {
    __atomic_store_n(&trainer, t, __ATOMIC_RELEASE);
}

typedef struct call {
    tusk_group *groups;
    int32_t *spec;
    tusk_spec *specs;
    spec **unique;
    idx_t *row;
    bool *emitted;
} call;

static bool call_new(call *c, idx_t n) {
    c->groups = malloc(n * sizeof *c->groups);
    c->spec = malloc(n * sizeof *c->spec);
    c->specs = malloc(n * sizeof *c->specs);
    c->unique = malloc(n * sizeof *c->unique);
    c->row = malloc(n * sizeof *c->row);
    c->emitted = calloc(n, sizeof *c->emitted);
    return c->groups && c->spec && c->specs && c->unique && c->row && c->emitted;
}

static void call_free(call *c) {
    free(c->groups);
    free(c->spec);
    free(c->specs);
    free(c->unique);
    free(c->row);
    free(c->emitted);
}

/* Whether the trainer reports success and every group has its answer. */
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

/* Puts groups with usable rows into the batch; the others become NULL at once. */
static void fill_batch(call *c, tusk_batch *batch, duckdb_aggregate_state *states,
                       duckdb_vector result, idx_t n, idx_t offset) {
    for (idx_t i = 0; i < n; i++) {
        const train_state *s = (const train_state *)states[i];
        const tusk_block *b = &s->block;
        if (!b->n_rows) {
            set_null(result, offset + i);
            continue;
        }
        int64_t g = batch->n_groups++;
        c->groups[g] = (tusk_group){b->head,   b->n_rows, b->n_skipped, b->dim, b->kind, b->parts,
                                    b->extras, 0,         b->wide};
        c->spec[g] = number_spec(c, &batch->n_specs, s->spec);
        c->row[g] = offset + i;
    }
}

/* Returns false if there are no models. */
static bool train_batch(duckdb_function_info info, duckdb_aggregate_state *states,
                        duckdb_vector result, idx_t n, idx_t offset, run *run) {
    const overload *o = overload_of(info);
    tusk_trainer train = __atomic_load_n(&trainer, __ATOMIC_ACQUIRE);
    call c = {0};
    bool done = false;
    if (!train) {
        refuse(info, "the extension was loaded without its Python package, which trains: run the "
                     "statement by `tuskml sql`, or in Python open the database with "
                     "tuskml.connect() or call tuskml.load(connection)");
    } else if (!call_new(&c, n)) {
        refuse(info, "out of memory");
    } else {
        tusk_batch batch = {.groups = c.groups,
                            .spec = c.spec,
                            .specs = c.specs,
                            .request = (int32_t)o->request,
                            .memory = o->database->memory,
                            .store_root = store_root(o->database),
                            .statement = run ? run_statement(run) : 0,
                            .began = run ? run_began(run) : 0};
        answer a = {result, c.row, c.emitted, false, o->database, run ? run->era->born : -1};
        batch.context = &a;
        fill_batch(&c, &batch, states, result, n, offset);
        if (batch.n_groups)
            train(&batch);
        done = !batch.n_groups || (!a.failed && all_answered(&batch, &c));
        if (a.failed)
            refuse(info, "no memory for the models: raise memory_limit");
        else if (!done)
            refuse(info, batch.error[0] ? batch.error : tusk_interrupted((int)o->request));
    }
    call_free(&c);
    return done;
}

void finalize(duckdb_function_info info, duckdb_aggregate_state *states, duckdb_vector result,
              idx_t n, idx_t offset) {
    database *d = overload_of(info)->database;
    packing_ends();
    look_again(d);
    eras_enter(d->eras);
    bool refused;
    run *run = run_of_states(info, states, n, &refused);
    if (run)
        run_close(run);
    if (refused || !train_batch(info, states, result, n, offset, run)) {
        if (run)
            run_fail(run);
        drop_states(states, n); /* DuckDB 1.x never destroys states whose finalize failed */
    }
    eras_leave(d->eras);
}
