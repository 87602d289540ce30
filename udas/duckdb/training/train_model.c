/* train_model and explain_training: pack the rows of a chunk into blocks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../rowblock/merge.h"
#include "../features/numberings.h"
#include "../features/rows.h"
#include "interrupt.h"
#include "train_model.h"

#define RUN 2048

static _Atomic int64_t rows_read;

/* The number of rows that trainings of this process have packed or skipped so far, for progress
 * bars. */
TUSK_EXPORT int64_t tusk_rows_read(void) {
    return atomic_load_explicit(&rows_read, memory_order_relaxed);
}

spec *spec_of_texts(duckdb_function_info info, text task, text options) {
    bool task_ends = memchr(task.data, 0, task.length);
    if (task_ends || memchr(options.data, 0, options.length)) {
        refuse(info, task_ends ? "the task has a character of code 0, expected none"
                               : "the options have a character of code 0, expected none");
        return NULL;
    }
    spec *s = spec_intern(overload_of(info)->database->specs, task, options);
    if (!s)
        refuse(info, "out of memory");
    return s;
}

static double number_at(const column *c, idx_t row) {
    return ((const double *)c->data)[row];
}

/* Whether a row has a nonzero weight and an offset. */
static bool extras_usable(const rows *r, idx_t row) {
    if (r->extras & TUSK_WEIGHTS && (!is_valid(&r->weight, row) || !number_at(&r->weight, row)))
        return false;
    return !(r->extras & TUSK_OFFSETS) || is_valid(&r->offset, row);
}

/* The extras of rows from `row` on. */
static tusk_extras extras_from(const rows *r, idx_t row) {
    return (tusk_extras){
        r->extras & TUSK_WEIGHTS ? (const double *)r->weight.data + row : NULL,
        r->extras & TUSK_OFFSETS ? (const double *)r->offset.data + row : NULL,
    };
}

static bool same_spec(const rows *r, idx_t a, idx_t b) {
    if (is_valid(&r->task, a) != is_valid(&r->task, b) || !same_string(&r->task, a, b))
        return false;
    if (!r->has_options)
        return true;
    return is_valid(&r->options, a) == is_valid(&r->options, b) && same_string(&r->options, a, b);
}

/* The spec of a row. If its texts are the same objects as in the row before, so is the spec. */
static spec *spec_of_row(duckdb_function_info info, const rows *r, idx_t row, idx_t before,
                         spec *current) {
    if (current && same_spec(r, row, before))
        return current;
    if (current)
        spec_release(current);
    if (!is_valid(&r->task, row)) {
        refuse(info, "task is NULL, expected the name of one, such as 'linear' or 'logistic'");
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
        s->block.extras = spec->merges ? TUSK_MAY_MERGE : 0;
        run_add_state(run);
        return true;
    }
    refuse(info, *spec->task ? "task and options must be the same in all rows of a group"
                             : "options must be the same in all rows of a group");
    return false;
}

static bool usable(const rows *r, idx_t row, const spec *spec) {
    if ((spec->labelled && !is_valid(&r->label, row)) || (r->extras && !extras_usable(r, row)))
        return false;
    if (r->by_word)
        return is_valid(&r->features.self, row);
    if (!r->by_name)
        return features_valid(&r->features, row) ||
               (spec->gaps == TUSK_KEEPS_GAPS && list_given(&r->features, row));
    return is_valid(&r->features.self, row) &&
           (spec->gaps != TUSK_KEEPS_NO_GAPS || !tusk_named_gap(&r->columns, row));
}

static void refuse_task(duckdb_function_info info, const spec *spec, const char *expected) {
    char text[200];
    snprintf(text, sizeof text, "task '%.40s' %s", spec->task, expected);
    refuse(info, text);
}

/* Rejects labels for tasks without labels, documents for tasks that take none, and other
 * features for tasks that take documents. */
static bool fits(duckdb_function_info info, const rows *r, idx_t row, const spec *spec) {
    if (!spec->labelled && is_valid(&r->label, row)) {
        refuse_task(info, spec, TUSK_NO_LABEL);
        return false;
    }
    if (!spec->documents) {
        char text[REFUSAL_ROOM];
        if (r->by_word) {
            write_refusal(tusk_request_name(overload_of(info)->request), r->chunk, text);
            duckdb_aggregate_function_set_error(info, text);
        }
        return !r->by_word;
    }
    bool sparse = !r->by_name && r->features.type.sparse;
    if (r->by_word || sparse || !usable(r, row, spec))
        return true;
    refuse_task(info, spec, TUSK_NEEDS_WORDS);
    return false;
}

/* Whether the next row can be appended to the same state in one call. */
static bool goes_along(const rows *r, idx_t row, idx_t next, duckdb_aggregate_state *states) {
    return states[next] == states[row] && same_spec(r, row, next) &&
           usable(r, next, ((const train_state *)states[row])->spec);
}

/* Counts the rows from `row` on, at most `most`, that go to one state as a matrix: contiguous
 * lists of one length. */
static idx_t dense_run(const rows *r, idx_t row, idx_t most, duckdb_aggregate_state *states) {
    duckdb_list_entry first = list_entry(&r->features.values, row);
    idx_t n = 1;
    while (row + n < r->n && n < most && goes_along(r, row, row + n, states)) {
        duckdb_list_entry e = list_entry(&r->features.values, row + n);
        if (e.length != first.length || e.offset != first.offset + n * first.length)
            break;
        if (r->features.values.child.validity && !features_valid(&r->features, row + n))
            break;
        n++;
    }
    return n;
}

/* The labels of n rows; `buffer` has room for them. Texts become codes. NULL with a fault. */
static const double *labels_of(const rows *r, idx_t row, idx_t n, train_state *s, double *buffer,
                               tusk_fault *fault) {
    if (!s->spec->labelled) {
        memset(buffer, 0, n * sizeof *buffer);
        return buffer;
    }
    if (!r->label_texts && !r->boolean_label) {
        if (tusk_any_bit(r->label.rounded, row, n))
            tusk_remark_rounded(&s->remarks, TUSK_OF_LABEL, NULL);
        return (const double *)r->label.data + row;
    }
    if (!r->label_texts) {
        for (idx_t i = 0; i < n; i++)
            buffer[i] = ((const bool *)r->label.data)[row + i];
        return buffer;
    }
    if (s->spec->ordered &&
        tusk_label_order(s->run->era->memory, &s->block, r->columns.schema, r->label_order, fault))
        return NULL;
    for (idx_t i = 0; i < n; i++) {
        if (tusk_label_code(s->run->era->memory, &s->block, r->columns.schema,
                            r->label_texts[row + i], buffer + i, fault)) {
            fault->row += (int64_t)i;
            return NULL;
        }
    }
    return buffer;
}

/* Records whether one of n numbers of lists was rounded. */
static void note_features(const rows *r, idx_t first, idx_t n, train_state *s) {
    if (tusk_any_bit(r->features.values.child.rounded, first, n))
        tusk_remark_rounded(&s->remarks, TUSK_OF_FEATURES, NULL);
}

static int append_dense(const rows *r, idx_t row, idx_t n, train_state *s, tusk_fault *fault) {
    double labels[RUN];
    const double *y = labels_of(r, row, n, s, labels, fault);
    if (!y)
        return fault->code;
    duckdb_list_entry e = list_entry(&r->features.values, row);
    bool f64 = r->features.type.f64;
    note_features(r, e.offset, (idx_t)e.length * n, s);
    tusk_dense_rows given = {
        .f64 = f64,
        .x = (const char *)r->features.values.child.data + e.offset * (f64 ? 8 : 4),
        .y = y,
        .n = (int64_t)n,
        .d = (int64_t)e.length,
        .extras = extras_from(r, row),
    };
    return tusk_append_dense(s->run->era->memory, &s->block, &given, fault);
}

/* Whether NaN counts as a NULL that is kept. */
static bool nan_is_gap(const spec *s) {
    return s->invalid == TUSK_INVALID_SKIP && s->gaps != TUSK_KEEPS_NO_GAPS;
}

/* The first number of a list that is not finite; NULLs, and NaN if it counts as NULL, are
   valid. */
static idx_t first_not_finite(const feature_column *c, idx_t row, bool gaps, double *value) {
    duckdb_list_entry e = list_entry(&c->values, row);
    for (idx_t i = 0; i < e.length; i++) {
        idx_t at = e.offset + i;
        *value = c->type.f64 ? ((const double *)c->values.child.data)[at]
                             : (double)((const float *)c->values.child.data)[at];
        if (is_valid(&c->values.child, at) && !isfinite(*value) && !(gaps && isnan(*value)))
            return i;
    }
    return e.length;
}

/* Appends a list with NULLs, which become NaN. */
static int append_gaps(const rows *r, idx_t row, train_state *s, tusk_fault *fault) {
    duckdb_list_entry e = list_entry(&r->features.values, row);
    idx_t d = e.length;
    double label, value = 0;
    note_features(r, e.offset, d, s);
    idx_t wrong = first_not_finite(&r->features, row, nan_is_gap(s->spec), &value);
    const double *y = labels_of(r, row, 1, s, &label, fault);
    if (!y)
        return fault->code;
    *fault = (tusk_fault){.row = tusk_rows_seen(&s->block) + 1};
    if (wrong < d) {
        fault->position = (int64_t)wrong + 1;
        fault->value = value;
        return fault->code = TUSK_NOT_FINITE;
    }
    void *x = list_with_gaps(&r->features, row);
    if (!x)
        return fault->code = TUSK_NO_MEMORY;
    tusk_dense_rows given = {
        .f64 = r->features.type.f64,
        .x = x,
        .y = y,
        .n = 1,
        .d = (int64_t)d,
        .raw = 1,
        .extras = extras_from(r, row),
    };
    int code = tusk_append_dense(s->run->era->memory, &s->block, &given, fault);
    free(x);
    return code;
}

static int append_sparse(const rows *r, idx_t row, train_state *s, tusk_fault *fault) {
    feature_type type = r->features.type;
    duckdb_list_entry ids = list_entry(&r->features.indices, row);
    duckdb_list_entry values = list_entry(&r->features.values, row);
    if (ids.length != values.length) {
        *fault = (tusk_fault){.code = TUSK_LENGTHS_DIFFER,
                              .row = tusk_rows_seen(&s->block) + 1,
                              .position = (int64_t)ids.length,
                              .value = (double)values.length};
        return fault->code;
    }
    tusk_entries entries = {
        .wide = type.wide,
        .f64 = type.f64,
        .index = (const char *)r->features.indices.child.data + ids.offset * (type.wide ? 8 : 4),
        .values = (const char *)r->features.values.child.data + values.offset * (type.f64 ? 8 : 4),
        .n = (int64_t)ids.length,
        .extras = extras_from(r, row),
    };
    double label;
    const double *y = labels_of(r, row, 1, s, &label, fault);
    if (!y)
        return fault->code;
    return tusk_append_sparse(s->run->era->memory, &s->block, &entries, *y, fault);
}

static int append_by_name(const rows *r, idx_t row, idx_t n, train_state *s, tusk_fault *fault) {
    double labels[TUSK_NAMED_RUN];
    const double *y = labels_of(r, row, n, s, labels, fault);
    if (!s->spec->ids)
        tusk_named_rounded(&r->columns, row, n, &s->remarks);
    return y ? tusk_append_named(s->run->era->memory, &s->block, &r->columns, row, n, y,
                                 nan_is_gap(s->spec), s->spec->ids, fault)
             : fault->code;
}

static int append_words(const rows *r, idx_t row, train_state *s, tusk_fault *fault) {
    tusk_document document = document_at(&r->documents, row);
    document.extras = extras_from(r, row);
    return tusk_append_document(s->run->era->memory, &s->block, &document, fault);
}

/* Whether a list has a NaN that counts as a kept NULL. */
static bool has_nan(const rows *r, idx_t row, const spec *s) {
    if (!nan_is_gap(s) || s->gaps != TUSK_KEEPS_GAPS)
        return false;
    duckdb_list_entry e = list_entry(&r->features.values, row);
    double value;
    return first_not_finite(&r->features, row, false, &value) < e.length && isnan(value);
}

/* Appends the row, together with at most `most` - 1 following ones: *n rows. */
static int append(const rows *r, idx_t row, duckdb_aggregate_state *states, idx_t most, idx_t *n,
                  tusk_fault *fault) {
    train_state *s = (train_state *)states[row];
    *n = 1;
    if (r->by_word)
        return append_words(r, row, s, fault);
    if (r->by_name) {
        most = most < TUSK_NAMED_RUN ? most : TUSK_NAMED_RUN;
        while (row + *n < r->n && *n < most && goes_along(r, row, row + *n, states))
            ++*n;
        return append_by_name(r, row, *n, s, fault);
    }
    if (r->features.type.sparse)
        return append_sparse(r, row, s, fault);
    if (!features_valid(&r->features, row) || has_nan(r, row, s->spec))
        return append_gaps(r, row, s, fault);
    *n = dense_run(r, row, most, states);
    return append_dense(r, row, *n, s, fault);
}

/* The same with as many rows as are valid; an invalid first row is left out if its group's
 * option `invalid` allows that. */
static int take_rows(const rows *r, idx_t row, duckdb_aggregate_state *states, idx_t *n,
                     tusk_fault *fault) {
    train_state *s = (train_state *)states[row];
    bool skips = s->spec->invalid == TUSK_INVALID_SKIP;
    int64_t before = skips ? tusk_rows_seen(&s->block) : 0;
    if (skips)
        tusk_parts_mark(&s->block);
    int code = append(r, row, states, RUN, n, fault);
    if (!code)
        return TUSK_OK;
    if (skips)
        tusk_parts_undo(&s->block);
    int64_t sound = skips ? fault->row - before - 1 : 0;
    if (sound > 0)
        return append(r, row, states, (idx_t)sound, n, fault);
    *n = 1;
    if (!tusk_block_forgive(&s->block, s->spec->invalid, fault))
        return code;
    tusk_remark_gap(&s->remarks, TUSK_OF_FAULT, NULL);
    return TUSK_OK;
}

/* Prefetches the memory that rows ahead will read and write. */
static void expect(const rows *r, idx_t row, duckdb_aggregate_state *states) {
    const tusk_block *half = &((const train_state *)states[row + AHEAD / 2])->block;
    tusk_block_expect(&((const train_state *)states[row + AHEAD])->block);
    tusk_block_expect_row(half);
    if (!r->by_name || states[row] == states[row + 1])
        return;
    tusk_named_expect(half, &r->columns);
    tusk_named_expect_row(&((const train_state *)states[row + AHEAD / 4])->block, &r->columns,
                          row + AHEAD / 4);
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
        if (row + AHEAD < r->n)
            expect(r, row, states);
        current = spec_of_row(info, r, row, row ? row - 1 : 0, current);
        if (!current)
            return;
        if (!adopt(info, s, current, run))
            break;
        if (!fits(info, r, row, current))
            break;
        s->block.booleans = r->boolean_label;
        if (s->block.flaw || !usable(r, row, current)) {
            s->block.n_skipped++;
            if (!s->block.flaw)
                remark_gaps(r, row, current, &s->remarks);
            continue;
        }
        if (take_rows(r, row, states, &n, &fault)) {
            refuse_fault(info, &fault);
            break;
        }
    }
    if (current)
        spec_release(current);
}

void take_in(duckdb_function_info info, duckdb_aggregate_state *given, idx_t n, const void *caller,
             const void *rows, row_taker take) {
    database *d = overload_of(info)->database;
    if (d->process != forks_so_far()) {
        refuse(info, FORKED);
        return;
    }
    duckdb_aggregate_state same[CHUNK_ROWS];
    duckdb_aggregate_state *states = states_of_rows(d, given, n, caller, same);
    if (!states) {
        refuse(info, LONE_STATE);
        state_destroy(given, 1);
        return;
    }
    if (!packing_goes_on()) {
        refuse(info, tusk_interrupted(overload_of(info)->request));
        return;
    }
    look_at_limits(d);
    atomic_fetch_add_explicit(&rows_read, (int64_t)n, memory_order_relaxed);
    eras_enter(d->eras);
    bool refused;
    run *run = run_of_states(info, states, n, &refused);
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
        r.columns.extras = extras_from(&r, 0);
        bool numbered = r.by_name && number_texts(o->database, &r.columns, states, r.n, &kept);
        take_in(info, states, r.n, CALLER, &r, take);
        if (numbered)
            numbering_give(o->database->numberings);
    } else if (kept.out_of_memory) {
        refuse(info, "out of memory");
    } else {
        char text[REFUSAL_ROOM];
        if (*r.refusal) {
            refuse(info, r.refusal);
        } else {
            write_refusal(tusk_request_name(o->request), chunk, text);
            duckdb_aggregate_function_set_error(info, text);
        }
    }
    scratch_free(&kept);
}
