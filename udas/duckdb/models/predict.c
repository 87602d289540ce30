/* predict, predict_proba, decision and others: compute a number from a model's payload and a row's
 * features, or a list of numbers, one for each class.
 *
 * SQL macros give them their public names and pass only the model's field `payload`, so that
 * DuckDB reads none of the model's lists.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../kvstore/mapped/clones.h"
#include "../../scalars/models/kinds.h"
#include "../../scalars/models/payload.h"
#include "../../scalars/models/quoted.h"
#include "../any_type.h"
#include "../database.h"
#include "model_column.h"
#include "plan_pool.h"
#include "predict.h"
#include "scattered.h"

/* --- reading the model --- */

/* The public name of a function. */
static const char *name_of(const overload *o) {
    return o->offset ? TUSK_OFFSET_NAMES[o->answer] : TUSK_ANSWER_NAMES[o->answer];
}

bool refuse_prediction(const call *c, const char *sentence) {
    char text[REFUSAL_ROOM + 32];
    snprintf(text, sizeof text, "%s: %s", name_of(c->o), sentence);
    tusk_make_utf8(text);
    duckdb_scalar_function_set_error(c->info, text);
    return false;
}

/* Whether a row without a payload still has a model. */
static bool has_model(const call *c, idx_t row) {
    return c->o->whole && is_valid(&c->models, row);
}

/* Counts how many of the n items, starting with the first, have the same bytes as the first. An
 * array of equal items equals itself shifted by one, so the usual case takes one memcmp. */
static idx_t same_bytes(const duckdb_string_t *first, idx_t n) {
    if (n == 1 || memcmp(first, first + 1, (n - 1) * sizeof *first) == 0)
        return n;
    idx_t i = 1;
    while (memcmp(first, first + i, sizeof *first) == 0)
        i++;
    return i;
}

/* Counts the rows from `row` on whose payload is at the same address, or that all have none. */
static idx_t model_run(const call *c, idx_t row) {
    const column *p = &c->payloads;
    idx_t n = c->n - row, i = 1;
    bool valid = is_valid(p, row);
    if (valid)
        n = same_bytes((const duckdb_string_t *)p->data + row, n);
    if (!p->validity)
        return n;
    while (i < n && is_valid(p, row + i) == valid &&
           (valid || has_model(c, row + i) == has_model(c, row)))
        i++;
    return i;
}

bool read_model_of_row(const call *c, idx_t row, tusk_scorer *s) {
    char sentence[TUSK_SENTENCE];
    *s = (tusk_scorer){.null = true};
    if (is_valid(&c->payloads, row)) {
        duckdb_string_t *text = (duckdb_string_t *)c->payloads.data + row;
        tusk_text payload = {duckdb_string_t_data(text), duckdb_string_t_length(*text)};
        return (tusk_read_model(payload, &c->stores, c->o->answer, s, sentence) &&
                (!c->o->offset || tusk_adds_offsets(s, sentence))) ||
               refuse_prediction(c, sentence);
    }
    return !has_model(c, row) || refuse_prediction(c, TUSK_NO_PAYLOAD);
}

/* --- scoring --- */

/* NaN is a NULL. */
static void put_end(end_column *end, idx_t row, double number) {
    end->data[row] = number;
    if (!isnan(number))
        return;
    if (!end->validity) {
        duckdb_vector_ensure_validity_writable(end->vector);
        end->validity = duckdb_vector_get_validity(end->vector);
    }
    duckdb_validity_set_row_invalid(end->validity, row);
}

void put_null_prediction(call *c, idx_t row) {
    if (!c->validity) {
        duckdb_vector_ensure_validity_writable(c->result);
        c->validity = duckdb_vector_get_validity(c->result);
    }
    duckdb_validity_set_row_invalid(c->validity, row);
    for (int k = 0; of_intervals(c->o) && k < TUSK_INTERVAL_FIELDS; k++)
        put_end(c->ends + k, row, NAN);
    if (!of_lists(c->o))
        c->out[row] = 0;
}

/* Checks the mask a word at a time, so that a mask without zeros costs almost nothing. */
static bool column_complete(const column *c, idx_t n) {
    if (!c->validity)
        return true;
    for (idx_t word = 0; word < n / 64; word++)
        if (~c->validity[word])
            return false;
    return all_valid(c, n / 64 * 64, n % 64);
}

static bool list_column_complete(const list_column *l, idx_t n) {
    return column_complete(&l->self, n) && column_complete(&l->child, l->items);
}

static bool features_complete(const feature_column *f, idx_t n) {
    return column_complete(&f->self, n) && list_column_complete(&f->values, n) &&
           (!f->type.sparse || list_column_complete(&f->indices, n));
}

static bool usable(const call *c, idx_t row) {
    return c->features_complete || features_valid(&c->features, row);
}

/* Whether these n lists have the same length and are contiguous. */
CLONES static bool is_matrix(const duckdb_list_entry *e, idx_t n) {
    uint64_t d = e->length, next = e->offset, wrong = 0;
    for (idx_t i = 0; i < n; i++, next += d)
        wrong |= (e[i].length ^ d) | (e[i].offset ^ next);
    return !wrong;
}

/* Counts the rows from `row` on that form one matrix. */
static idx_t dense_run(const call *c, idx_t row, idx_t end) {
    const duckdb_list_entry *e = (const duckdb_list_entry *)c->features.values.self.data + row;
    idx_t n = 1, d = e->length;
    while (row + n < end && e[n].length == d && e[n].offset == e->offset + n * d &&
           usable(c, row + n))
        n++;
    return n;
}

static bool score_dense(call *c, tusk_scorer *s, idx_t row, idx_t n) {
    duckdb_list_entry e = list_entry(&c->features.values, row);
    bool f64 = c->features.type.f64;
    const char *x = c->features.values.child.data;
    x += e.offset * (f64 ? sizeof(double) : sizeof(float));
    char sentence[TUSK_SENTENCE];
    return tusk_margins(s, x, f64, e.length, n, c->out + row, sentence) ||
           refuse_prediction(c, sentence);
}

/* Whether a list has NULLs, and the model supports them: trees have a side for them. */
static bool answers_gaps(const call *c, const tusk_scorer *s, idx_t row) {
    return tusk_kind_of(s->task)->keeps_gaps && !s->null && list_given(&c->features, row) &&
           !usable(c, row);
}

/* Scores a list with NULLs. */
static bool score_gaps(call *c, tusk_scorer *s, idx_t row) {
    duckdb_list_entry e = list_entry(&c->features.values, row);
    void *x = list_with_gaps(&c->features, row);
    if (!x)
        return refuse_prediction(c, "out of memory");
    char sentence[TUSK_SENTENCE];
    bool done = tusk_margins(s, x, c->features.type.f64, e.length, 1, c->out + row, sentence);
    free(x);
    return done || refuse_prediction(c, sentence);
}

static tusk_sparse_row sparse_at(const call *c, idx_t row) {
    duckdb_list_entry i = list_entry(&c->features.indices, row),
                      v = list_entry(&c->features.values, row);
    bool f64 = c->features.type.f64;
    const char *x = c->features.values.child.data;
    bool wide = c->features.type.wide;
    return (tusk_sparse_row){
        .ids = (const char *)c->features.indices.child.data + i.offset * (wide ? 8 : 4),
        .wide = wide,
        .values = x + v.offset * (f64 ? sizeof(double) : sizeof(float)),
        .n_ids = i.length,
        .n_values = v.length,
    };
}

static bool score_sparse(call *c, tusk_scorer *s, idx_t row) {
    tusk_sparse_row features = sparse_at(c, row);
    bool f64 = c->features.type.f64;
    char sentence[TUSK_SENTENCE];
    return tusk_sparse_margin(s, &features, f64, c->out + row, sentence) ||
           refuse_prediction(c, sentence);
}

static bool score_named(call *c, tusk_scorer *s, idx_t row, idx_t end) {
    char sentence[TUSK_SENTENCE];
    tusk_sparse_row features;
    if (!s->null && !tusk_named_match(&c->rows, s, sentence))
        return refuse_prediction(c, sentence);
    for (; row < end; row++) {
        bool null = s->null || !is_valid(&c->features.self, row);
        if (!null && (!tusk_named_row(&c->rows, s, row, &features, &null, sentence) ||
                      (!null && !tusk_sparse_margin(s, &features, true, c->out + row, sentence))))
            return refuse_prediction(c, sentence);
        if (null)
            put_null_prediction(c, row);
    }
    return true;
}

#define LONG_RUN 8 /* rows of one model that are scored column by column */

/* The same with a plan. */
static bool score_planned(call *c, tusk_plan *plan, idx_t row, idx_t end) {
    char sentence[TUSK_SENTENCE];
    bool many = end - row >= LONG_RUN && !c->features.self.validity &&
                tusk_plan_margins(plan, &c->rows, row, end - row, c->out + row);
    for (; row < end; row++) {
        if (many && !isnan(c->out[row]))
            continue;
        bool null = !is_valid(&c->features.self, row);
        if (!null && !tusk_plan_margin(plan, &c->rows, row, c->out + row, &null, sentence))
            return refuse_prediction(c, sentence);
        if (null)
            put_null_prediction(c, row);
    }
    return true;
}

/* Appends space for the numbers of a row's list to the result. Those of an interval are written to
 * its fields later. */
static double *list_for(call *c, const tusk_scorer *s, idx_t row) {
    if (of_intervals(c->o))
        return c->interval;
    idx_t at = duckdb_list_vector_get_size(c->result);
    duckdb_list_vector_reserve(c->result, at + s->list_size);
    duckdb_list_vector_set_size(c->result, at + s->list_size);
    ((duckdb_list_entry *)duckdb_vector_get_data(c->result))[row] =
        (duckdb_list_entry){at, s->list_size};
    return (double *)duckdb_vector_get_data(duckdb_list_vector_get_child(c->result)) + at;
}

/* Writes the fields of a row's interval. */
static void put_interval(call *c, idx_t row) {
    for (int k = 0; of_intervals(c->o) && k < TUSK_INTERVAL_FIELDS; k++)
        put_end(c->ends + k, row, c->interval[k]);
}

/* Whether a row has a level, or needs none; then it is set. */
static bool set_level(const call *c, tusk_scorer *s, idx_t row, bool *null, char *sentence) {
    *null = of_intervals(c->o) && !is_valid(&c->levels, row);
    return *null || !of_intervals(c->o) || s->null ||
           tusk_set_level(s, ((const double *)c->levels.data)[row], sentence);
}

/* Writes the list of a row. */
static bool write_list(call *c, tusk_scorer *s, idx_t row) {
    bool f64 = c->features.type.f64, sparse = c->features.type.sparse;
    tusk_sparse_row ids;
    if (sparse)
        ids = sparse_at(c, row);
    duckdb_list_entry e = list_entry(&c->features.values, row);
    const char *x = c->features.values.child.data;
    x += e.offset * (f64 ? sizeof(double) : sizeof(float));
    void *filled = answers_gaps(c, s, row) ? list_with_gaps(&c->features, row) : NULL;
    char sentence[TUSK_SENTENCE];
    bool done = tusk_list(s, sparse ? &ids : NULL, filled ? filled : x, f64, e.length,
                          list_for(c, s, row), sentence);
    free(filled);
    if (done)
        put_interval(c, row);
    return done || refuse_prediction(c, sentence);
}

/* The same for rows by name. */
static bool list_named(call *c, tusk_scorer *s, idx_t row, idx_t end) {
    char sentence[TUSK_SENTENCE];
    tusk_sparse_row ids;
    if (!s->null && !tusk_named_match(&c->rows, s, sentence))
        return refuse_prediction(c, sentence);
    for (; row < end; row++) {
        bool null;
        if (!set_level(c, s, row, &null, sentence))
            return refuse_prediction(c, sentence);
        null = null || s->null || !is_valid(&c->features.self, row);
        if (!null && !tusk_named_row(&c->rows, s, row, &ids, &null, sentence))
            return refuse_prediction(c, sentence);
        if (null)
            put_null_prediction(c, row);
        else if (!tusk_list(s, &ids, NULL, true, 0, list_for(c, s, row), sentence))
            return refuse_prediction(c, sentence);
        else
            put_interval(c, row);
    }
    return true;
}

/* The same with a plan. */
static bool list_planned(call *c, tusk_plan *plan, idx_t row, idx_t end) {
    char sentence[TUSK_SENTENCE];
    for (; row < end; row++) {
        bool null = !is_valid(&c->features.self, row);
        if (!null && !tusk_plan_list(plan, &c->rows, row, list_for(c, tusk_plan_scorer(plan), row),
                                     &null, sentence))
            return refuse_prediction(c, sentence);
        if (null)
            put_null_prediction(c, row);
    }
    return true;
}

/* Whether rows need no check of their own: their features are a matrix, and their level is one. */
static bool are_alike(const call *c, idx_t row, idx_t end) {
    const duckdb_list_entry *e = (const duckdb_list_entry *)c->features.values.self.data + row;
    const double *level = c->levels.data;
    if (!c->features_complete || c->features.type.sparse || !all_valid(&c->levels, row, end - row))
        return false;
    return is_matrix(e, end - row) &&
           memcmp(level + row, level + row + 1, (end - row - 1) * sizeof *level) == 0;
}

/* Writes the intervals of such rows. */
static bool put_intervals(call *c, tusk_scorer *s, idx_t row, idx_t end) {
    char sentence[TUSK_SENTENCE];
    duckdb_list_entry e = list_entry(&c->features.values, row);
    bool f64 = c->features.type.f64, null;
    const char *x = c->features.values.child.data;
    double *ends[TUSK_INTERVAL_FIELDS];
    for (int k = 0; k < TUSK_INTERVAL_FIELDS; k++)
        ends[k] = c->ends[k].data + row;
    if (!set_level(c, s, row, &null, sentence) ||
        !tusk_intervals(s, x + e.offset * (f64 ? sizeof(double) : sizeof(float)), f64, e.length,
                        end - row, ends, sentence))
        return refuse_prediction(c, sentence);
    for (int k = 0; k < TUSK_INTERVAL_FIELDS; k++)
        for (idx_t i = row; i < end; i++)
            if (isnan(c->ends[k].data[i]))
                put_end(c->ends + k, i, NAN);
    return true;
}

static bool score_lists(call *c, tusk_scorer *s, idx_t row, idx_t end) {
    if (c->by_name)
        return list_named(c, s, row, end);
    if (s->preparation.length)
        return refuse_prediction(c, TUSK_NEEDS_NAMES);
    if (of_intervals(c->o) && !s->null && are_alike(c, row, end))
        return put_intervals(c, s, row, end);
    char sentence[TUSK_SENTENCE];
    for (; row < end; row++) {
        bool null;
        if (!set_level(c, s, row, &null, sentence))
            return refuse_prediction(c, sentence);
        if (null || s->null || !(usable(c, row) || answers_gaps(c, s, row)))
            put_null_prediction(c, row);
        else if (!write_list(c, s, row))
            return false;
    }
    return true;
}

/* Computes the margins of rows that share a model. */
static bool score_run(call *c, tusk_scorer *s, idx_t row, idx_t end) {
    if (c->by_name)
        return score_named(c, s, row, end);
    if (s->preparation.length)
        return refuse_prediction(c, TUSK_NEEDS_NAMES);
    const duckdb_list_entry *e = (const duckdb_list_entry *)c->features.values.self.data + row;
    if (!s->null && c->features_complete && !c->features.type.sparse && is_matrix(e, end - row))
        return score_dense(c, s, row, end - row);
    idx_t n;
    for (; row < end; row += n) {
        n = 1;
        if (answers_gaps(c, s, row)) {
            if (!score_gaps(c, s, row))
                return false;
        } else if (s->null || !usable(c, row)) {
            put_null_prediction(c, row);
        } else if (c->features.type.sparse) {
            if (!score_sparse(c, s, row))
                return false;
        } else {
            n = dense_run(c, row, end);
            if (!score_dense(c, s, row, n))
                return false;
        }
    }
    return true;
}

static bool refuse_types(const call *c, duckdb_data_chunk chunk, const scratch *kept) {
    if (kept->out_of_memory)
        return refuse_prediction(c, "out of memory");
    char text[REFUSAL_ROOM];
    write_refusal(name_of(c->o), chunk, text);
    duckdb_scalar_function_set_error(c->info, text);
    return false;
}

static bool read_named(call *c, duckdb_data_chunk chunk, duckdb_vector v, scratch *kept) {
    tusk_named_chunk columns;
    char refusal[REFUSAL_ROOM];
    if (!named_columns_of(v, c->n, NAMED_PREDICT, kept, &columns, refusal))
        return *refusal ? refuse_prediction(c, refusal) : refuse_types(c, chunk, kept);
    c->by_name = true;
    c->features.self = column_of(v);
    c->rows.column = columns.column;
    c->rows.n_columns = (uint32_t)columns.schema->n_columns;
    c->rows.schema = columns.schema;
    c->rows.n = c->n;
    return true;
}

static bool read_arguments(call *c, duckdb_data_chunk chunk, scratch *kept) {
    duckdb_vector model = duckdb_data_chunk_get_vector(chunk, 0);
    duckdb_vector features = duckdb_data_chunk_get_vector(chunk, 1);
    duckdb_vector payloads = c->o->whole ? field_of(model, "payload") : model;
    c->models = column_of(model);
    if (of_intervals(c->o))
        c->levels = column_of(duckdb_data_chunk_get_vector(chunk, 2));
    if (payloads && !is_null_type(payloads))
        c->payloads = column_of(payloads);
    else if (!is_null_type(model) || !all_null(c->n, kept, &c->payloads))
        return refuse_types(c, chunk, kept);
    if (!c->o->any)
        c->features = feature_column_of(features, c->o->features);
    else if (!features_of_any(features, c->n, kept, &c->features))
        return read_named(c, chunk, features, kept);
    c->features_complete = features_complete(&c->features, c->n);
    return true;
}

tusk_plan *plan_of_row(const call *c, idx_t row, idx_t n) {
    if (!c->plans || !is_valid(&c->payloads, row))
        return NULL;
    tusk_text payload = text_of_string((const duckdb_string_t *)c->payloads.data + row);
    tusk_plan *plan = tusk_plan_of(c->plans, payload, &c->stores, c->o->answer, n);
    char sentence[TUSK_SENTENCE];
    bool usable = !plan || !c->o->offset || tusk_adds_offsets(tusk_plan_scorer(plan), sentence);
    return usable ? plan : NULL;
}

/* Prefetches the memory for finding the plans of some rows, first the heads of their payloads. */
static void expect_plans(const call *c, idx_t row, idx_t end) {
    const duckdb_string_t *payload = c->payloads.data;
    end = end < c->n ? end : c->n;
    for (idx_t i = row; c->plans && i < end; i++)
        if (is_valid(&c->payloads, i))
            __builtin_prefetch(text_of_string(payload + i).data);
    for (idx_t i = row; c->plans && i < end; i++)
        if (is_valid(&c->payloads, i))
            tusk_plans_expect(c->plans, text_of_string(payload + i), c->o->answer);
}

/* Consecutive rows that share a model. */
typedef struct shared {
    idx_t row, n;
    tusk_plan *plan; /* NULL: there is none */
} shared;

void answer_margins(const call *c, const tusk_scorer *s, double *margins, idx_t n) {
    if (c->o->answer == TUSK_PREDICT || c->o->answer == TUSK_PREDICT_CLASS)
        tusk_to_predictions(s, margins, n);
    if (c->o->answer == TUSK_PREDICT_PROBA)
        tusk_to_probabilities(s, margins, n);
}

/* The same with the offsets of the n rows from `row` on, whose margins are in the result. */
static void answer_rows(const call *c, const tusk_scorer *s, idx_t row, idx_t n) {
    double *margins = c->out + row;
    const double *offset = c->o->offset ? (const double *)c->offsets.data + row : NULL;
    for (idx_t i = 0; offset && i < n; i++)
        margins[i] += offset[i];
    answer_margins(c, s, margins, n);
}

/* Rows whose offset is NULL have no prediction. */
static void forget_rows_without_offset(call *c) {
    for (idx_t row = 0; c->o->offset && row < c->n; row++)
        if (!is_valid(&c->offsets, row))
            put_null_prediction(c, row);
}

static bool score_unplanned(call *c, shared r) {
    tusk_scorer s;
    idx_t end = r.row + r.n;
    bool done = read_model_of_row(c, r.row, &s) &&
                (of_lists(c->o) ? score_lists(c, &s, r.row, end) : score_run(c, &s, r.row, end));
    tusk_forget_model(&s);
    if (done && !of_lists(c->o))
        answer_rows(c, &s, r.row, r.n);
    return done;
}

/* Scores runs of planned models, as many of the n as are alike; 0 on failure. */
static int score_alike(call *c, const shared *r, int n) {
    int k = 0;
    if (of_lists(c->o))
        return list_planned(c, r->plan, r->row, r->row + r->n);
    for (; k < n && r[k].plan && (!k || tusk_plans_alike(r[0].plan, r[k].plan)); k++)
        if (!score_planned(c, r[k].plan, r[k].row, r[k].row + r[k].n))
            return 0;
    answer_rows(c, tusk_plan_scorer(r[0].plan), r[0].row, r[k - 1].row + r[k - 1].n - r[0].row);
    return k;
}

/* Number of models that are found before the first of them scores its rows, so that waits for
 * memory overlap. */
#define AHEAD_MODELS 32

static bool score(call *c) {
    shared ahead[AHEAD_MODELS];
    for (idx_t row = 0; row < c->n;) {
        int n = 0;
        expect_plans(c, row, row + AHEAD_MODELS);
        for (; n < AHEAD_MODELS && row < c->n; row += ahead[n++].n) {
            idx_t run = model_run(c, row);
            ahead[n] = (shared){row, run, plan_of_row(c, row, run)};
        }
        for (int i = 0; i < n; i++)
            if (ahead[i].plan)
                tusk_plan_expect_layout(ahead[i].plan);
        for (int i = 0; i < n; i++)
            if (ahead[i].plan)
                tusk_plan_expect(ahead[i].plan, &c->rows, ahead[i].row);
        for (int i = 0, done; i < n; i += done) {
            done = ahead[i].plan ? score_alike(c, ahead + i, n - i) : score_unplanned(c, ahead[i]);
            if (!done)
                return false;
        }
    }
    return true;
}

/* With fewer rows, models are checked each time. */
#define PLANNED_ROWS 256

static void take_plans(call *c, bool scattered) {
    if (!(c->by_name || scattered) || c->n < PLANNED_ROWS || of_intervals(c->o))
        return;
    c->plans = plan_pool_take(c->o->database->plans);
    if (c->plans)
        tusk_plans_begin(c->plans, &c->rows);
}

void score_chunk(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    const overload *o = duckdb_scalar_function_get_extra_info(info);
    call c = {.info = info, .o = o, .n = duckdb_data_chunk_get_size(chunk), .result = result};
    scratch kept = {0};
    c.stores = stores_of(o->database);
    if (of_intervals(o))
        for (int k = 0; k < TUSK_INTERVAL_FIELDS; k++) {
            duckdb_vector end = duckdb_struct_vector_get_child(result, (idx_t)k);
            c.ends[k] = (end_column){end, duckdb_vector_get_data(end), NULL};
        }
    else
        c.out = duckdb_vector_get_data(result);
    bool done = read_arguments(&c, chunk, &kept);
    if (done && o->offset)
        c.offsets = chunk_column(chunk, 2);
    if (done) {
        model_order order;
        bool scattered =
            !o->offset && column_complete(&c.payloads, c.n) && order_by_model(&c, &order);
        take_plans(&c, scattered);
        done = scattered ? score_models(&c, &order) : score(&c);
        plan_pool_give(o->database->plans, c.plans);
        forget_rows_without_offset(&c);
    }
    tusk_named_free(&c.rows);
    scratch_free(&kept);
}
