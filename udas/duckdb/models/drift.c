/* drift: an aggregate behind the macro of its name, which passes the histogram of a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../scalars/drift/drift.h"
#include "../../scalars/metrics/heap.h"
#include "../catching.h"
#include "../features/named.h"
#include "../metrics/metrics.h"

#define NAME "drift"

enum argument { A_HISTOGRAM, A_ROW, A_WEIGHT };

typedef struct drift_state {
    tusk_drift *counts; /* NULL: no rows yet */
} drift_state;

static bool refuse(duckdb_function_info info, const char *sentence) {
    char text[REFUSAL_ROOM + 32];
    snprintf(text, sizeof text, NAME ": %s", sentence);
    duckdb_aggregate_function_set_error(info, text);
    return false;
}

static idx_t drift_size(duckdb_function_info info) {
    (void)info;
    return sizeof(drift_state);
}

static void drift_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    *(drift_state *)state = (drift_state){0};
}

/* The rows of a chunk. */
typedef struct call {
    duckdb_function_info info;
    idx_t n;
    column histograms, weights;
    feature_column features;
    bool by_name; /* features are in `rows`, not in `features` */
    tusk_named_rows rows;
    const drift_state *last; /* of the row before, and its histogram */
    const char *last_histogram;
} call;

static bool refuse_type(const call *c, duckdb_vector v) {
    char type[200], text[REFUSAL_ROOM];
    write_type(v, type, sizeof type);
    snprintf(text, sizeof text,
             "features is %s, expected a row with names such as {'a': a, 'b': b} or a list of "
             "numbers such as [a, b]",
             type);
    return refuse(c->info, text);
}

static bool read_features(call *c, duckdb_vector v, scratch *kept) {
    tusk_named_chunk columns;
    char refusal[REFUSAL_ROOM] = "";
    if (features_of_any(v, c->n, kept, &c->features))
        return !c->features.type.sparse || refuse_type(c, v);
    if (!kept->out_of_memory &&
        named_columns_of(v, c->n, NAMED_PREDICT, kept, &columns, refusal)) {
        c->by_name = true;
        c->features.self = column_of(v);
        c->rows.column = columns.column;
        c->rows.n_columns = (uint32_t)columns.schema->n_columns;
        return true;
    }
    if (kept->out_of_memory)
        return refuse(c->info, "out of memory");
    return *refusal ? refuse(c->info, refusal) : refuse_type(c, v);
}

/* Starts the counts of a group with its first row, or compares the histogram with that of the
 * counts, unless the row before had the same one. */
static bool expect_histogram(call *c, drift_state *s, idx_t row) {
    char sentence[TUSK_SENTENCE];
    tusk_text json = text_of_string((const duckdb_string_t *)c->histograms.data + row);
    if (!s->counts) {
        s->counts = tusk_drift_new(json, tusk_heap, sentence);
        if (!s->counts)
            return refuse(c->info, sentence);
    } else if ((c->last != s || c->last_histogram != json.data) &&
               !tusk_drift_of(s->counts, json, sentence)) {
        return refuse(c->info, sentence);
    }
    c->last = s;
    c->last_histogram = json.data;
    return true;
}

static bool take(call *c, drift_state *s, idx_t row) {
    char sentence[TUSK_SENTENCE];
    const feature_column *f = &c->features;
    tusk_drift_row given = {.weight = ((const double *)c->weights.data)[row], .at = row};
    if (!is_valid(&c->histograms, row) || !is_valid(&c->weights, row) || !is_valid(&f->self, row))
        return true;
    if (c->by_name) {
        given.named = &c->rows;
    } else {
        duckdb_list_entry e = list_entry(&f->values, row);
        given.x = f->values.child.data;
        given.validity = f->values.child.validity;
        given.first = e.offset;
        given.n = e.length;
        given.f64 = f->type.f64;
    }
    return expect_histogram(c, s, row) &&
           (tusk_drift_add(s->counts, &given, sentence) || refuse(c->info, sentence));
}

static void drift_update(duckdb_function_info info, duckdb_data_chunk chunk,
                         duckdb_aggregate_state *states) {
    database *d = duckdb_aggregate_function_get_extra_info(info);
    idx_t n = duckdb_data_chunk_get_size(chunk);
    duckdb_aggregate_state same[CHUNK_ROWS];
    scratch kept = {0};
    states = states_of_rows(d, states, n, CALLER, same);
    if (!states) {
        refuse(info, LONE_STATE);
        return;
    }
    call c = {.info = info,
              .n = n,
              .histograms = chunk_column(chunk, A_HISTOGRAM),
              .weights = chunk_column(chunk, A_WEIGHT)};
    bool done = read_features(&c, duckdb_data_chunk_get_vector(chunk, A_ROW), &kept);
    for (idx_t row = 0; done && row < n; row++)
        done = take(&c, (drift_state *)states[row], row);
    scratch_free(&kept);
}

/* Leaves the sources unchanged, because a window uses one state as the source of many. */
static void drift_combine(duckdb_function_info info, duckdb_aggregate_state *sources,
                          duckdb_aggregate_state *targets, idx_t n) {
    char sentence[TUSK_SENTENCE];
    for (idx_t i = 0; i < n; i++) {
        const tusk_drift *from = ((const drift_state *)sources[i])->counts;
        drift_state *to = (drift_state *)targets[i];
        bool done = true;
        if (from && to->counts) {
            done = tusk_drift_merge(to->counts, from, sentence) || refuse(info, sentence);
        } else if (from) {
            to->counts = malloc(tusk_drift_size(from));
            done = to->counts || refuse(info, "out of memory");
            if (done)
                memcpy(to->counts, from, tusk_drift_size(from));
        }
        if (!done)
            return;
    }
}

/* The drift of n states, and where they belong. */
typedef struct emission {
    duckdb_aggregate_state *states;
    duckdb_vector result;
    idx_t n, offset;
} emission;

static void put_drift(void *argument) {
    const emission *e = argument;
    for (idx_t i = 0; i < e->n; i++) {
        const tusk_drift *counts = ((const drift_state *)e->states[i])->counts;
        if (!counts) {
            set_null(e->result, e->offset + i);
            continue;
        }
        list_writer w = list_begin(&TUSK_DRIFT_TABLE, e->result);
        tusk_drift_write(counts, list_rows(&w));
        list_end(&w, e->offset + i);
    }
}

static void drift_finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                           duckdb_vector result, idx_t n, idx_t offset) {
    emission e = {states, result, n, offset};
    if (!catching(put_drift, &e))
        refuse(info, "no memory for the result: raise memory_limit");
}

static void drift_destroy(duckdb_aggregate_state *states, idx_t n) {
    for (idx_t i = 0; i < n; i++) {
        free(((drift_state *)states[i])->counts);
        *(drift_state *)states[i] = (drift_state){0};
    }
}

static void add_parameter(duckdb_aggregate_function f, duckdb_logical_type type) {
    duckdb_aggregate_function_add_parameter(f, type);
    duckdb_destroy_logical_type(&type);
}

bool register_drift(duckdb_connection connection, database *d) {
    duckdb_aggregate_function f = duckdb_create_aggregate_function();
    duckdb_aggregate_function_set_name(f, "_tusk_" NAME);
    add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR));
    add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_ANY));
    add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE));
    duckdb_logical_type table = make_table_type(&TUSK_DRIFT_TABLE);
    duckdb_aggregate_function_set_return_type(f, table);
    duckdb_destroy_logical_type(&table);
    duckdb_aggregate_function_set_functions(f, drift_size, drift_init, drift_update, drift_combine,
                                            drift_finalize);
    duckdb_aggregate_function_set_destructor(f, drift_destroy);
    duckdb_aggregate_function_set_special_handling(f);
    duckdb_aggregate_function_set_extra_info(f, database_retain(d), database_release);
    bool done = duckdb_register_aggregate_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_aggregate_function(&f);
    return done;
}
