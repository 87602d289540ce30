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

/* A state is moments. */
static tusk_moments *moments_of(duckdb_aggregate_state state) {
    return (tusk_moments *)state;
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

/* Numbers that a call needs. */
typedef struct room {
    double *numbers;
    size_t size;
} room;

static bool grow(duckdb_function_info info, room *r, size_t size) {
    if (r->size >= size)
        return true;
    free(r->numbers);
    r->numbers = malloc(size * sizeof *r->numbers);
    r->size = r->numbers ? size : 0;
    return r->numbers || refuse(info, "out of memory");
}

/* Gives moments without rows their width. */
static bool begin(duckdb_function_info info, tusk_moments *m, uint32_t width) {
    double *numbers = malloc(tusk_moment_numbers(width) * sizeof *numbers);
    if (!numbers)
        return refuse(info, "out of memory");
    tusk_moments_begin(m, width, numbers);
    return true;
}

/* Makes moments ready for rows of n features. */
static bool prepare(duckdb_function_info info, tusk_moments *m, uint64_t n, room *r) {
    char sentence[TUSK_SENTENCE];
    if (!tusk_moments_fit(m, n, sentence))
        return refuse(info, sentence);
    uint32_t width = (uint32_t)n + 1;
    return (m->width || begin(info, m, width)) && grow(info, r, tusk_change_numbers(width));
}

static idx_t rolling_size(duckdb_function_info info) {
    (void)info;
    return sizeof(tusk_moments);
}

static void rolling_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    *moments_of(state) = (tusk_moments){0};
}

/* Adds sources to a target, and leaves them unchanged: a window uses one state as the source of
 * many. */
static bool merge(duckdb_function_info info, tusk_moments *to, const tusk_moments *const *from,
                  idx_t n, room *r) {
    for (idx_t i = 0; i < n; i++)
        if (from[i]->width && !prepare(info, to, from[i]->width - 1, r))
            return false;
    tusk_moments_merge(to, from, n, r->numbers);
    return true;
}

/* The arguments of a chunk. */
typedef struct rows {
    column label, weight;
    feature_column features;
    bool no_nulls;
} rows;

static bool is_complete(const rows *c, idx_t row, bool weighted) {
    return is_valid(&c->label, row) && features_valid(&c->features, row) &&
           (!weighted || is_valid(&c->weight, row));
}

static tusk_moment_row row_at(const rows *c, idx_t row, const overload *o) {
    duckdb_list_entry e = list_entry(&c->features.values, row);
    const void *values = c->features.values.child.data;
    return (tusk_moment_row){.doubles = o->f64 ? (const double *)values + e.offset : NULL,
                             .floats = o->f64 ? NULL : (const float *)values + e.offset,
                             .n = e.length,
                             .label = ((const double *)c->label.data)[row],
                             .weight = o->weighted ? ((const double *)c->weight.data)[row] : 1};
}

/* Neighbouring rows of one state, at most TUSK_ROWS_AT_ONCE. */
typedef struct run {
    idx_t from, to;
} run;

static run run_from(const duckdb_aggregate_state *states, idx_t from, idx_t n) {
    idx_t most = from + TUSK_ROWS_AT_ONCE < n ? from + TUSK_ROWS_AT_ONCE : n, to = from + 1;
    while (to < most && states[to] == states[from])
        to++;
    return (run){from, to};
}

static bool take(duckdb_function_info info, tusk_moments *m, const rows *c, run given, room *r) {
    const overload *o = overload_of(info);
    tusk_moment_row complete[TUSK_ROWS_AT_ONCE];
    uint32_t n = 0;
    for (idx_t row = given.from; row < given.to; row++) {
        if (!is_complete(c, row, o->weighted)) {
            m->n_skipped++;
            continue;
        }
        complete[n] = row_at(c, row, o);
        if (!prepare(info, m, complete[n].n, r))
            return false;
        n++;
    }
    if (n)
        tusk_moments_add(m, complete, n, r->numbers);
    return true;
}

/* Whether n rows from a on have the same values as those from b on. */
static bool are_same(const rows *c, idx_t a, idx_t b, idx_t n) {
    const duckdb_list_entry *entries = c->features.values.self.data;
    const double *label = c->label.data, *weight = c->weight.data;
    return memcmp(entries + a, entries + b, n * sizeof *entries) == 0 &&
           memcmp(label + a, label + b, n * sizeof *label) == 0 &&
           (!weight || memcmp(weight + a, weight + b, n * sizeof *weight) == 0);
}

/* Runs of which each has the rows of the one before, and more behind them or fewer before them:
 * such are the ends of the frames of neighbouring rows. */
typedef struct series {
    run runs[CHUNK_ROWS];
    idx_t n;
    bool shrinks;
} series;

static void find_series(series *found, const rows *c, const duckdb_aggregate_state *states,
                        idx_t from, idx_t n) {
    run last = run_from(states, from, n);
    found->runs[0] = last;
    found->n = 1;
    while (c->no_nulls && last.to < n && found->n < CHUNK_ROWS) {
        run next = run_from(states, last.to, n);
        idx_t length = last.to - last.from, following = next.to - next.from;
        bool shrinks = following < length;
        if ((found->n > 1 && shrinks != found->shrinks) ||
            !(shrinks ? are_same(c, last.to - following, next.from, following)
                      : are_same(c, last.from, next.from, length)))
            return;
        found->shrinks = shrinks;
        found->runs[found->n++] = last = next;
    }
}

/* Moments of a series, each of which is computed from the one before. */
static bool take_series(duckdb_function_info info, const duckdb_aggregate_state *states,
                        const rows *c, const series *of, room *r) {
    tusk_moments sum = {0};
    const tusk_moments *source = &sum;
    bool done = true;
    idx_t length = 0; /* of the run that is summed up */
    for (idx_t i = 0; done && i < of->n; i++) {
        run next = of->runs[of->shrinks ? of->n - 1 - i : i], new = next;
        if (of->shrinks)
            new.to -= length;
        else
            new.from += length;
        length = next.to - next.from;
        done = take(info, &sum, c, new, r) &&
               merge(info, moments_of(states[next.from]), &source, 1, r);
    }
    free(sum.numbers);
    return done;
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
    c.no_nulls = !c.label.validity && !c.features.self.validity && !c.weight.validity;
    room r = {0};
    series found;
    bool done = true;
    for (idx_t row = 0; done && row < n; row = found.runs[found.n - 1].to) {
        find_series(&found, &c, states, row, n);
        done = found.n > 1 ? take_series(info, states, &c, &found, &r)
                           : take(info, moments_of(states[row]), &c, found.runs[0], &r);
    }
    free(r.numbers);
}

/* The sources of the last target that had several, and their sum. */
typedef struct sources {
    const duckdb_aggregate_state *states;
    idx_t n;
    tusk_moments sum;
} sources;

/* Frames of neighbouring rows have the same sources, whose sum is computed once. */
static bool merge_run(duckdb_function_info info, tusk_moments *to,
                      const duckdb_aggregate_state *states, idx_t n, sources *last, room *r) {
    const tusk_moments *sum = &last->sum;
    if (n == 1)
        return merge(info, to, (const tusk_moments *[]){moments_of(states[0])}, 1, r);
    if (last->n != n || memcmp(last->states, states, n * sizeof *states) != 0) {
        double *numbers = last->sum.numbers;
        uint32_t width = last->sum.width;
        last->sum = (tusk_moments){.width = width, .numbers = numbers};
        last->states = states;
        last->n = n;
        if (!merge(info, &last->sum, (const tusk_moments *const *)states, n, r))
            return false;
    }
    return merge(info, to, &sum, 1, r);
}

static void rolling_combine(duckdb_function_info info, duckdb_aggregate_state *sources_of,
                            duckdb_aggregate_state *targets, idx_t n) {
    room r = {0};
    sources last = {0};
    bool done = true;
    for (idx_t i = 0, end; done && i < n; i = end) {
        for (end = i + 1; end < n && targets[end] == targets[i];)
            end++;
        done = merge_run(info, moments_of(targets[i]), sources_of + i, end - i, &last, &r);
    }
    free(last.sum.numbers);
    free(r.numbers);
}

/* The models of n states, and where they belong. */
typedef struct emission {
    duckdb_function_info info;
    duckdb_aggregate_state *states;
    duckdb_vector result;
    idx_t n, offset;
    room room;
    tusk_fits fits;
} emission;

/* Writes the models of n moments of one width. */
static bool put_some(emission *e, const tusk_moments *const *moments, const idx_t *rows,
                     uint32_t n) {
    if (!n)
        return true;
    if (!grow(e->info, &e->room, tusk_fit_numbers(moments[0]->width, n)))
        return false;
    tusk_fit_moments(&e->fits, moments, n, e->room.numbers);
    put_models(e->result, rows, &e->fits.models);
    return true;
}

static void put_all(void *argument) {
    emission *e = argument;
    const tusk_moments *some[TUSK_MOST_FITS];
    idx_t rows[TUSK_MOST_FITS];
    uint32_t held = 0;
    for (idx_t i = 0; i < e->n; i++) {
        const tusk_moments *m = moments_of(e->states[i]);
        if (!m->n_rows && !m->n_invalid) {
            set_null(e->result, e->offset + i);
            continue;
        }
        if (held == TUSK_MOST_FITS || (held && some[0]->width != m->width)) {
            if (!put_some(e, some, rows, held))
                return;
            held = 0;
        }
        rows[held] = e->offset + i;
        some[held++] = m;
    }
    put_some(e, some, rows, held);
}

static void rolling_finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                             duckdb_vector result, idx_t n, idx_t offset) {
    emission e;
    e.info = info;
    e.states = states;
    e.result = result;
    e.n = n;
    e.offset = offset;
    e.room = (room){0};
    if (!catching(put_all, &e))
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
