/* train_model and explain_training: rows into blocks, and at the end blocks to the trainer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "any_type.h"
#include "interrupt.h"
#include "train_model.h"

#define RUN 2048

static tusk_trainer trainer;

/* The Python package sets it once, before any query. */
TUSK_EXPORT void tusk_set_trainer(tusk_trainer t) {
    __atomic_store_n(&trainer, t, __ATOMIC_RELEASE);
}

static _Atomic int64_t rows_read;

/* Rows that trainings of this process have packed or skipped so far: for progress bars. */
TUSK_EXPORT int64_t tusk_rows_read(void) {
    return atomic_load_explicit(&rows_read, memory_order_relaxed);
}

void refuse(duckdb_function_info info, const char *sentence) {
    char text[1200];
    snprintf(text, sizeof text, "%s: %s", tusk_request_name(overload_of(info)->request), sentence);
    duckdb_aggregate_function_set_error(info, text);
}

void refuse_fault(duckdb_function_info info, const tusk_fault *fault) {
    char sentence[512];
    tusk_fault_message(fault, sentence, sizeof sentence);
    refuse(info, sentence);
}

/* --- state --- */

idx_t state_size(duckdb_function_info info) {
    (void)info;
    return sizeof(train_state);
}

void state_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    *(train_state *)state = (train_state){.mark = STATE_MARK};
}

/* Refuses states of a statement that is over, be it by a cancel. */
static bool may_go_on(duckdb_function_info info, const run *r) {
    if (r->era->born == cancels_so_far() && !r->era->over)
        return true;
    refuse(info, "the training was interrupted");
    return false;
}

#define AHEAD 32 /* rows: the states of many small groups lie scattered over memory */

/* The one run of the states that have any; *refused when they may not go on. */
static run *run_of(duckdb_function_info info, duckdb_aggregate_state *states, idx_t n,
                   bool *refused) {
    run *found = NULL, *last = NULL;
    *refused = false;
    for (idx_t i = 0; i < n && !*refused; i++) {
        if (i + AHEAD < n) {
            __builtin_prefetch(&((const train_state *)states[i + AHEAD])->mark, 1);
            __builtin_prefetch(&((const train_state *)states[i + AHEAD])->run, 1);
        }
        run *r = ((const train_state *)states[i])->run;
        if (!r || r == last)
            continue;
        *refused = !may_go_on(info, r);
        if (found)
            run_join(found, r);
        else
            found = r;
        last = r;
    }
    return found;
}

static void drop(train_state *s) {
    if (!s->run || !s->run->era->over)
        tusk_block_free(&s->block);
    if (s->spec)
        spec_release(s->spec);
    if (s->run)
        run_drop_state(s->run);
    *s = (train_state){0};
}

static void drop_all(duckdb_aggregate_state *states, idx_t n) {
    for (idx_t i = 0; i < n; i++)
        drop((train_state *)states[i]);
}

void state_destroy(duckdb_aggregate_state *states, idx_t n) {
    packing_ends();
    eras *all = NULL;
    for (idx_t i = 0; i < n && !all; i++) {
        const train_state *s = (const train_state *)states[i];
        all = s->run ? s->run->era->all : NULL;
    }
    if (all)
        eras_enter(all);
    drop_all(states, n);
    if (all)
        eras_leave(all);
}

/* --- update --- */

spec *spec_of_texts(duckdb_function_info info, text task, text options) {
    bool task_ends = memchr(task.data, 0, task.length);
    if (task_ends || memchr(options.data, 0, options.length)) {
        refuse(info, task_ends ? "the task has a character of code 0, expected none"
                               : "the options have a character of code 0, expected none");
        return NULL;
    }
    spec *s = spec_intern(overload_of(info)->door->specs, task, options);
    if (!s)
        refuse(info, "out of memory");
    return s;
}

typedef struct rows {
    idx_t n;
    column task, label, options;
    feature_column features;
    bool boolean_label, has_options;
} rows;

static rows rows_of(duckdb_data_chunk chunk, const overload *o) {
    rows r = {.n = duckdb_data_chunk_get_size(chunk),
              .boolean_label = o->boolean_label,
              .has_options = o->has_options};
    r.task = chunk_column(chunk, 0);
    r.label = chunk_column(chunk, 1);
    r.features = feature_column_of(duckdb_data_chunk_get_vector(chunk, 2), o->features);
    if (o->has_options)
        r.options = chunk_column(chunk, 3);
    return r;
}

/* The same of arguments of any type; false where they are none that can be trained on. */
static bool rows_of_any(duckdb_data_chunk chunk, const overload *o, scratch *s, rows *r) {
    *r = (rows){.n = duckdb_data_chunk_get_size(chunk), .has_options = o->has_options};
    duckdb_vector given[FULL];
    for (int i = 0; i < FULL && i < o->arguments; i++)
        given[i] = duckdb_data_chunk_get_vector(chunk, (idx_t)i);
    return (o->arguments == FULL || o->arguments == FULL - 1) &&
           text_of_any(given[0], r->n, s, &r->task) &&
           label_of_any(given[1], r->n, s, &r->label, &r->boolean_label) &&
           features_of_any(given[2], r->n, s, &r->features) &&
           (!o->has_options || text_of_any(given[3], r->n, s, &r->options));
}

static bool same_spec(const rows *r, idx_t a, idx_t b) {
    if (is_valid(&r->task, a) != is_valid(&r->task, b) || !same_string(&r->task, a, b))
        return false;
    if (!r->has_options)
        return true;
    return is_valid(&r->options, a) == is_valid(&r->options, b) && same_string(&r->options, a, b);
}

/* The spec of a row; the one of the row before when the texts are the same objects. */
static spec *spec_of_row(duckdb_function_info info, const rows *r, idx_t row, idx_t before,
                         spec *current) {
    if (current && same_spec(r, row, before))
        return current;
    if (current)
        spec_release(current);
    if (!is_valid(&r->task, row)) {
        refuse(
            info,
            "task is NULL, expected one of 'linear', 'logistic', 'svm', 'matrix_factorization'");
        return NULL;
    }
    text none = {"", 0};
    bool given = r->has_options && is_valid(&r->options, row);
    return spec_of_texts(info, text_at(&r->task, row), given ? text_at(&r->options, row) : none);
}

bool adopt(duckdb_function_info info, train_state *s, spec *spec, run *run) {
    if (s->spec == spec)
        return true;
    if (!s->spec) {
        spec_retain(spec);
        s->spec = spec;
        s->run = run;
        run_add_state(run);
        return true;
    }
    refuse(info, *spec->task ? "task and options must be the same in all rows of a group"
                             : "options must be the same in all rows of a group");
    return false;
}

static double label_at(const rows *r, idx_t row) {
    return r->boolean_label ? ((const bool *)r->label.data)[row]
                            : ((const double *)r->label.data)[row];
}

static bool usable(const rows *r, idx_t row) {
    return is_valid(&r->label, row) && features_valid(&r->features, row);
}

/* How many rows from here on go to the same state as one matrix: lists of one length, one behind
 * the other. */
static idx_t dense_run(const rows *r, idx_t row, duckdb_aggregate_state *states) {
    duckdb_list_entry first = list_entry(&r->features.values, row);
    idx_t n = 1;
    while (row + n < r->n && n < RUN && states[row + n] == states[row] && usable(r, row + n) &&
           same_spec(r, row, row + n)) {
        duckdb_list_entry e = list_entry(&r->features.values, row + n);
        if (e.length != first.length || e.offset != first.offset + n * first.length)
            break;
        n++;
    }
    return n;
}

static int append_dense(const rows *r, idx_t row, idx_t n, train_state *s, tusk_fault *fault) {
    double labels[RUN];
    const double *y = (const double *)r->label.data + row;
    if (r->boolean_label) {
        for (idx_t i = 0; i < n; i++)
            labels[i] = ((const bool *)r->label.data)[row + i];
        y = labels;
    }
    duckdb_list_entry e = list_entry(&r->features.values, row);
    bool f64 = r->features.type.f64;
    const char *x = (const char *)r->features.values.child.data + e.offset * (f64 ? 8 : 4);
    return tusk_append_dense(s->run->era->memory, &s->block, f64, x, (int64_t)e.length, y,
                             (int64_t)n, fault);
}

static int append_sparse(const rows *r, idx_t row, train_state *s, tusk_fault *fault) {
    feature_type type = r->features.type;
    duckdb_list_entry ids = list_entry(&r->features.indices, row);
    duckdb_list_entry values = list_entry(&r->features.values, row);
    if (ids.length != values.length) {
        *fault = (tusk_fault){.code = TUSK_LENGTHS_DIFFER,
                              .row = s->block.n_rows + s->block.n_skipped + 1,
                              .position = (int64_t)ids.length,
                              .value = (double)values.length};
        return fault->code;
    }
    const char *index = (const char *)r->features.indices.child.data + ids.offset * 4;
    const char *x =
        (const char *)r->features.values.child.data + values.offset * (type.f64 ? 8 : 4);
    return tusk_append_sparse(s->run->era->memory, &s->block, type.f64, index, 0, x,
                              (int64_t)ids.length, label_at(r, row), fault);
}

static void take(duckdb_function_info info, const void *chunk, duckdb_aggregate_state *states,
                 run *run) {
    const rows *r = chunk;
    spec *current = NULL;
    tusk_fault fault;
    idx_t n;
    for (idx_t row = 0; row < r->n; row += n) {
        train_state *s = (train_state *)states[row];
        n = 1;
        if (row + AHEAD < r->n) {
            tusk_block_expect(&((const train_state *)states[row + AHEAD])->block);
            tusk_block_expect_row(&((const train_state *)states[row + AHEAD / 2])->block);
        }
        current = spec_of_row(info, r, row, row ? row - 1 : 0, current);
        if (!current)
            return;
        if (!adopt(info, s, current, run))
            break;
        if (!usable(r, row)) {
            s->block.n_skipped++;
            continue;
        }
        int code;
        if (r->features.type.sparse) {
            code = append_sparse(r, row, s, &fault);
        } else {
            n = dense_run(r, row, states);
            code = append_dense(r, row, n, s, &fault);
        }
        if (code) {
            refuse_fault(info, &fault);
            break;
        }
    }
    if (current)
        spec_release(current);
}

void take_in(duckdb_function_info info, duckdb_aggregate_state *given, idx_t n, const void *caller,
             const void *rows, row_taker take) {
    door *d = overload_of(info)->door;
    if (d->process != forks_so_far()) {
        refuse(info, FORKED);
        return;
    }
    duckdb_aggregate_state same[CHUNK_ROWS];
    duckdb_aggregate_state *states = states_of_rows(&d->sites, given, n, caller, same);
    if (!states) {
        refuse(info, LONE_STATE);
        state_destroy(given, 1);
        return;
    }
    if (!packing_goes_on()) {
        refuse(info, "the training was interrupted");
        return;
    }
    look_at_limits(d);
    atomic_fetch_add_explicit(&rows_read, (int64_t)n, memory_order_relaxed);
    eras_enter(d->eras);
    bool refused;
    run *run = run_of(info, states, n, &refused);
    if (!run)
        run = run_new(d->eras, cancels_so_far());
    if (!run)
        refuse(info, "out of memory");
    else if (!refused)
        take(info, rows, states, run);
    eras_leave(d->eras);
}

void train_update(duckdb_function_info info, duckdb_data_chunk chunk,
                  duckdb_aggregate_state *states) {
    rows r = rows_of(chunk, overload_of(info));
    take_in(info, states, r.n, CALLER, &r, take);
}

void train_update_any(duckdb_function_info info, duckdb_data_chunk chunk,
                      duckdb_aggregate_state *states) {
    const overload *o = overload_of(info);
    scratch kept = {0};
    rows r;
    if (rows_of_any(chunk, o, &kept, &r)) {
        take_in(info, states, r.n, CALLER, &r, take);
    } else if (kept.out_of_memory) {
        refuse(info, "out of memory");
    } else {
        char text[REFUSAL_ROOM];
        write_refusal(tusk_request_name(o->request), chunk, text);
        duckdb_aggregate_function_set_error(info, text);
    }
    scratch_free(&kept);
}

/* --- combine --- */

static void splice(duckdb_function_info info, duckdb_aggregate_state *sources,
                   duckdb_aggregate_state *targets, idx_t n) {
    tusk_fault fault;
    for (idx_t i = 0; i < n; i++) {
        train_state *source = (train_state *)sources[i], *target = (train_state *)targets[i];
        if (source->spec && !adopt(info, target, source->spec, source->run))
            return;
        if (tusk_block_splice(&target->block, &source->block, &fault)) {
            refuse_fault(info, &fault);
            return;
        }
    }
}

void combine(duckdb_function_info info, duckdb_aggregate_state *sources,
             duckdb_aggregate_state *targets, idx_t n) {
    eras *all = overload_of(info)->door->eras;
    eras_enter(all);
    bool refused, too;
    run *from = run_of(info, sources, n, &refused), *to = run_of(info, targets, n, &too);
    if (from && to)
        run_join(from, to);
    if (!refused && !too)
        splice(info, sources, targets, n);
    eras_leave(all);
}

/* --- finalize --- */

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

/* Whether the trainer says so, and every group has its answer. */
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

/* Groups with usable rows go into the batch; the others are NULL at once. */
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
        c->groups[g] = (tusk_group){b->head, b->n_rows, b->n_skipped, b->dim, b->kind};
        c->spec[g] = number_spec(c, &batch->n_specs, s->spec);
        c->row[g] = offset + i;
    }
}

/* False when there are no models. */
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
                            .memory = o->door->memory,
                            .store_root = store_root(o->door),
                            .statement = run ? run_statement(run) : 0,
                            .began = run ? run_began(run) : 0};
        answer a = {result, c.row, c.emitted, false, o->door, run ? run->era->born : -1};
        batch.door = &a;
        fill_batch(&c, &batch, states, result, n, offset);
        if (batch.n_groups)
            train(&batch);
        done = !batch.n_groups || (!a.failed && all_answered(&batch, &c));
        if (a.failed)
            refuse(info, "no memory for the models: raise memory_limit");
        else if (!done)
            refuse(info, batch.error[0] ? batch.error : "the training was interrupted");
    }
    call_free(&c);
    return done;
}

void finalize(duckdb_function_info info, duckdb_aggregate_state *states, duckdb_vector result,
              idx_t n, idx_t offset) {
    door *d = overload_of(info)->door;
    packing_ends();
    look_again(d);
    eras_enter(d->eras);
    bool refused;
    run *run = run_of(info, states, n, &refused);
    if (run)
        run_close(run);
    if (refused || !train_batch(info, states, result, n, offset, run)) {
        if (run)
            run_fail(run);
        drop_all(states, n); /* DuckDB 1.x forgets states whose finalize failed */
    }
    eras_leave(d->eras);
}
