/* rolling_model: an aggregate that keeps moments of its rows, which a window combines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../scalars/rolling/fit.h"
#include "../catching.h"
#include "../emit.h"

#define NAME "rolling_model"

enum argument { A_LABEL, A_FEATURES, A_WEIGHT };

typedef struct overload {
    database *database;
    bool f64, weighted;
} overload;

typedef struct rolling_state {
    tusk_moments moments;
} rolling_state;

static tusk_moments *moments_of(duckdb_aggregate_state state) {
    return &((rolling_state *)state)->moments;
}

static const overload *overload_of(duckdb_function_info info) {
    return duckdb_aggregate_function_get_extra_info(info);
}

static bool refuse(duckdb_function_info info, const char *sentence) {
    char text[TUSK_SENTENCE + 32];
    snprintf(text, sizeof text, NAME ": %s", sentence);
    duckdb_aggregate_function_set_error(info, text);
    return false;
}

/* Numbers that a call needs, and for rows of which width. */
typedef struct room {
    double *numbers;
    uint32_t width;
} room;

static bool grow(duckdb_function_info info, room *r, uint32_t width) {
    if (r->width >= width)
        return true;
    free(r->numbers);
    r->numbers = malloc(tusk_fit_numbers(width) * sizeof *r->numbers);
    r->width = r->numbers ? width : 0;
    return r->numbers || refuse(info, "out of memory");
}

/* Gives moments without rows their width. */
static bool begin(duckdb_function_info info, tusk_moments *m, uint32_t width) {
    m->numbers = calloc(tusk_moment_numbers(width), sizeof *m->numbers);
    m->width = m->numbers ? width : 0;
    return m->numbers || refuse(info, "out of memory");
}

static idx_t rolling_size(duckdb_function_info info) {
    (void)info;
    return sizeof(rolling_state);
}

static void rolling_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    *(rolling_state *)state = (rolling_state){0};
}

/* The arguments of a chunk. */
typedef struct rows {
    column label, weight;
    feature_column features;
} rows;

static bool take(duckdb_function_info info, tusk_moments *m, const rows *c, idx_t row, room *r) {
    const overload *o = overload_of(info);
    if (!is_valid(&c->label, row) || !features_valid(&c->features, row) ||
        (o->weighted && !is_valid(&c->weight, row))) {
        m->n_skipped++;
        return true;
    }
    duckdb_list_entry e = list_entry(&c->features.values, row);
    char sentence[TUSK_SENTENCE];
    if (!tusk_moments_fit(m, e.length, sentence))
        return refuse(info, sentence);
    uint32_t width = (uint32_t)e.length + 1;
    if ((!m->width && !begin(info, m, width)) || !grow(info, r, width))
        return false;
    const void *values = c->features.values.child.data;
    tusk_moment_row given = {.doubles = o->f64 ? (const double *)values + e.offset : NULL,
                             .floats = o->f64 ? NULL : (const float *)values + e.offset,
                             .n = e.length,
                             .label = ((const double *)c->label.data)[row],
                             .weight = o->weighted ? ((const double *)c->weight.data)[row] : 1};
    tusk_moments_add(m, &given, r->numbers);
    return true;
}

static void rolling_update(duckdb_function_info info, duckdb_data_chunk chunk,
                           duckdb_aggregate_state *states) {
    const overload *o = overload_of(info);
    idx_t n = duckdb_data_chunk_get_size(chunk);
    duckdb_aggregate_state same[CHUNK_ROWS];
    states = states_of_rows(o->database, states, n, CALLER, same);
    if (!states) {
        refuse(info, LONE_STATE);
        return;
    }
    duckdb_vector features = duckdb_data_chunk_get_vector(chunk, A_FEATURES);
    rows c = {.label = chunk_column(chunk, A_LABEL),
              .features = feature_column_of(features, (feature_type){.f64 = o->f64})};
    if (o->weighted)
        c.weight = chunk_column(chunk, A_WEIGHT);
    room r = {0};
    bool done = true;
    for (idx_t row = 0; done && row < n; row++)
        done = take(info, moments_of(states[row]), &c, row, &r);
    free(r.numbers);
}

/* Leaves the sources unchanged, because a window uses one state as the source of many. */
static void rolling_combine(duckdb_function_info info, duckdb_aggregate_state *sources,
                            duckdb_aggregate_state *targets, idx_t n) {
    room r = {0};
    bool done = true;
    for (idx_t i = 0; done && i < n; i++) {
        const tusk_moments *from = moments_of(sources[i]);
        tusk_moments *to = moments_of(targets[i]);
        char sentence[TUSK_SENTENCE];
        if (from->width && !tusk_moments_fit(to, from->width - 1, sentence))
            done = refuse(info, sentence);
        else if (from->width && !to->width)
            done = begin(info, to, from->width);
        if ((done = done && grow(info, &r, from->width)))
            tusk_moments_merge(to, from, r.numbers);
    }
    free(r.numbers);
}

/* The models of n states, and where they belong. */
typedef struct emission {
    duckdb_function_info info;
    duckdb_aggregate_state *states;
    duckdb_vector result;
    idx_t n, offset;
    room room;
} emission;

static void put_models(void *argument) {
    emission *e = argument;
    for (idx_t i = 0; i < e->n; i++) {
        const tusk_moments *m = moments_of(e->states[i]);
        if (!m->n_rows && !m->n_invalid) {
            set_null(e->result, e->offset + i);
            continue;
        }
        if (!grow(e->info, &e->room, m->width))
            return;
        tusk_fit fit;
        tusk_fit_moments(&fit, m, e->room.numbers);
        put_first_model(e->result, e->offset + i, &fit.models);
    }
}

static void rolling_finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                             duckdb_vector result, idx_t n, idx_t offset) {
    emission e = {info, states, result, n, offset, {0}};
    if (!catching(put_models, &e))
        refuse(info, "no memory for the models: raise memory_limit");
    free(e.room.numbers);
}

static void rolling_destroy(duckdb_aggregate_state *states, idx_t n) {
    for (idx_t i = 0; i < n; i++) {
        tusk_moments *m = moments_of(states[i]);
        free(m->numbers);
        *m = (tusk_moments){0};
    }
}

static void overload_free(void *p) {
    overload *o = p;
    database_release(o->database);
    free(o);
}

static void add_parameter(duckdb_aggregate_function f, duckdb_logical_type type) {
    duckdb_aggregate_function_add_parameter(f, type);
    duckdb_destroy_logical_type(&type);
}

static bool add_overload(duckdb_aggregate_function_set set, const char *name, overload like) {
    overload *o = malloc(sizeof *o);
    if (!o)
        return false;
    *o = like;
    database_retain(o->database);
    duckdb_aggregate_function f = duckdb_create_aggregate_function();
    duckdb_aggregate_function_set_name(f, name);
    add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE));
    add_parameter(f, make_feature_type((feature_type){.f64 = like.f64}));
    if (like.weighted)
        add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE));
    duckdb_logical_type model = make_model_type();
    duckdb_aggregate_function_set_return_type(f, model);
    duckdb_destroy_logical_type(&model);
    duckdb_aggregate_function_set_functions(f, rolling_size, rolling_init, rolling_update,
                                            rolling_combine, rolling_finalize);
    duckdb_aggregate_function_set_destructor(f, rolling_destroy);
    duckdb_aggregate_function_set_special_handling(f);
    duckdb_aggregate_function_set_extra_info(f, o, overload_free);
    bool added = duckdb_add_aggregate_function_to_set(set, f) == DuckDBSuccess;
    duckdb_destroy_aggregate_function(&f);
    return added;
}

bool register_rolling(duckdb_connection connection, database *d) {
    bool done = true;
    for (int own = 0; own < 2; own++) {
        char name[SPELLED];
        duckdb_aggregate_function_set set =
            duckdb_create_aggregate_function_set(spelled(NAME, own, name));
        for (int kind = 0; kind < 4; kind++)
            done = done &&
                   add_overload(set, name,
                                (overload){.database = d, .f64 = kind & 1, .weighted = kind >> 1});
        done = done && duckdb_register_aggregate_function_set(connection, set) == DuckDBSuccess;
        duckdb_destroy_aggregate_function_set(&set);
    }
    return done;
}
