/* marginal_effects: an aggregate behind the macro of its name, which passes the payload and the
 * names of the features of a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../scalars/explaining/effects.h"
#include "../../scalars/metrics/heap.h"
#include "../catching.h"
#include "../features/named.h"
#include "../metrics/metrics.h"
#include "model_column.h"

#define NAME "marginal_effects"

enum argument { A_PAYLOAD, A_NAMES, A_ROW, A_WEIGHT, A_OFFSET, ARGUMENTS };

typedef struct effects_state {
    tusk_effects *sums; /* NULL: no rows yet */
    tusk_scorer scorer; /* of the model in the sums, once it is read */
    bool read;
} effects_state;

static bool refuse(duckdb_function_info info, const char *sentence) {
    char text[REFUSAL_ROOM + 32];
    snprintf(text, sizeof text, NAME ": %s", sentence);
    duckdb_aggregate_function_set_error(info, text);
    return false;
}

static idx_t effects_size(duckdb_function_info info) {
    (void)info;
    return sizeof(effects_state);
}

static void effects_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    *(effects_state *)state = (effects_state){0};
}

/* The rows of a chunk. */
typedef struct call {
    duckdb_function_info info;
    database *database;
    idx_t n;
    column payloads, weights, offsets;
    list_column names;
    feature_column features;
    bool by_name; /* features are in `rows`, not in `features` */
    tusk_named_rows rows;
} call;

static bool refuse_type(const call *c, duckdb_vector v) {
    char type[200], text[REFUSAL_ROOM];
    write_type(v, type, sizeof type);
    snprintf(text, sizeof text,
             "features is %s, expected a row with names such as {'a': a, 'b': b}, a list of "
             "numbers such as [a, b] or sparse(indices, values)",
             type);
    return refuse(c->info, text);
}

static bool read_features(call *c, duckdb_vector v, scratch *kept) {
    tusk_named_chunk columns;
    char refusal[REFUSAL_ROOM] = "";
    if (features_of_any(v, c->n, kept, &c->features))
        return true;
    if (!kept->out_of_memory &&
        named_columns_of(v, c->n, NAMED_PREDICT, kept, &columns, refusal)) {
        c->by_name = true;
        c->features.self = column_of(v);
        c->rows.column = columns.column;
        c->rows.n_columns = (uint32_t)columns.schema->n_columns;
        c->rows.schema = columns.schema;
        c->rows.n = c->n;
        return true;
    }
    if (kept->out_of_memory)
        return refuse(c->info, "out of memory");
    return *refusal ? refuse(c->info, refusal) : refuse_type(c, v);
}

static tusk_text name_at(const void *names, uint64_t k) {
    const list_column *l = names;
    if (!is_valid(&l->child, k))
        return (tusk_text){NULL, 0};
    return text_of_string((const duckdb_string_t *)l->child.data + k);
}

/* Starts the sums of a group with its first row; *null: the model has no effects, for example
 * because it has no coefficients. */
static bool begin(const call *c, effects_state *s, idx_t row, tusk_text payload, bool *null) {
    char sentence[TUSK_SENTENCE];
    tusk_stores stores = stores_of(c->database);
    tusk_class_names names = {0};
    tusk_scorer first;
    if (!tusk_read_model(payload, &stores, TUSK_MARGINAL_EFFECTS, &first, sentence))
        return refuse(c->info, sentence);
    if ((*null = first.null))
        return true;
    if (is_valid(&c->names.self, row)) {
        duckdb_list_entry e = list_entry(&c->names, row);
        names = (tusk_class_names){name_at, &c->names, e.offset, e.length};
    }
    s->sums = tusk_effects_new(&first, payload, &names, tusk_heap, sentence);
    return s->sums || refuse(c->info, sentence);
}

/* Finds the state and the scorer of a row's model. */
static bool expect_model(const call *c, effects_state *s, idx_t row, bool *null) {
    char sentence[TUSK_SENTENCE];
    tusk_text payload = text_of_string((const duckdb_string_t *)c->payloads.data + row);
    *null = false;
    if (!s->sums && (!begin(c, s, row, payload, null) || *null))
        return *null;
    if (!tusk_effects_of(s->sums, payload, sentence))
        return refuse(c->info, sentence);
    if (s->read)
        return true;
    tusk_stores stores = stores_of(c->database);
    s->read = tusk_read_model(tusk_effects_model(s->sums), &stores, TUSK_MARGINAL_EFFECTS,
                              &s->scorer, sentence);
    return s->read || refuse(c->info, sentence);
}

static tusk_sparse_row sparse_at(const feature_column *f, idx_t row) {
    duckdb_list_entry i = list_entry(&f->indices, row), v = list_entry(&f->values, row);
    return (tusk_sparse_row){
        .ids = (const char *)f->indices.child.data + i.offset * (f->type.wide ? 8 : 4),
        .wide = f->type.wide,
        .values = (const char *)f->values.child.data + v.offset * (f->type.f64 ? 8 : 4),
        .n_ids = i.length,
        .n_values = v.length,
    };
}

static bool add(call *c, effects_state *s, idx_t row, tusk_effect_row *given) {
    char sentence[TUSK_SENTENCE];
    const feature_column *f = &c->features;
    tusk_sparse_row sparse;
    if (c->by_name) {
        given->named = &c->rows;
        given->at = row;
        if (!tusk_named_match(&c->rows, &s->scorer, sentence))
            return refuse(c->info, sentence);
    } else if (s->scorer.preparation.length) {
        return refuse(c->info, TUSK_NEEDS_NAMES);
    } else if (f->type.sparse) {
        sparse = sparse_at(f, row);
        given->sparse = &sparse;
    } else {
        duckdb_list_entry e = list_entry(&f->values, row);
        given->x = (const char *)f->values.child.data + e.offset * (f->type.f64 ? 8 : 4);
        given->d = e.length;
    }
    given->f64 = f->type.f64;
    return tusk_effects_add(s->sums, &s->scorer, given, sentence) || refuse(c->info, sentence);
}

static bool take(call *c, effects_state *s, idx_t row) {
    bool null =
        !is_valid(&c->payloads, row) || !is_valid(&c->weights, row) ||
        !is_valid(&c->offsets, row) ||
        !(c->by_name ? is_valid(&c->features.self, row) : features_valid(&c->features, row));
    tusk_effect_row given = {.weight = ((const double *)c->weights.data)[row],
                             .offset = ((const double *)c->offsets.data)[row]};
    if (null)
        return true;
    if (!expect_model(c, s, row, &null))
        return false;
    return null || add(c, s, row, &given);
}

static void effects_update(duckdb_function_info info, duckdb_data_chunk chunk,
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
              .database = d,
              .n = n,
              .payloads = chunk_column(chunk, A_PAYLOAD),
              .names = list_column_of(duckdb_data_chunk_get_vector(chunk, A_NAMES)),
              .weights = chunk_column(chunk, A_WEIGHT),
              .offsets = chunk_column(chunk, A_OFFSET)};
    bool done = read_features(&c, duckdb_data_chunk_get_vector(chunk, A_ROW), &kept);
    for (idx_t row = 0; done && row < n; row++)
        done = take(&c, (effects_state *)states[row], row);
    tusk_named_free(&c.rows);
    scratch_free(&kept);
}

/* Leaves the sources unchanged, because a window uses one state as the source of many. */
static void effects_combine(duckdb_function_info info, duckdb_aggregate_state *sources,
                            duckdb_aggregate_state *targets, idx_t n) {
    char sentence[TUSK_SENTENCE];
    for (idx_t i = 0; i < n; i++) {
        const tusk_effects *from = ((const effects_state *)sources[i])->sums;
        effects_state *to = (effects_state *)targets[i];
        bool done = true;
        if (from && to->sums) {
            done = tusk_effects_merge(to->sums, from, sentence) || refuse(info, sentence);
        } else if (from) {
            to->sums = malloc(tusk_effects_size(from));
            done = to->sums || refuse(info, "out of memory");
            if (done)
                memcpy(to->sums, from, tusk_effects_size(from));
        }
        if (!done)
            return;
    }
}

/* The effects of n states, and where they belong. */
typedef struct emission {
    duckdb_aggregate_state *states;
    duckdb_vector result;
    idx_t n, offset;
} emission;

static void put_effects(void *argument) {
    const emission *e = argument;
    for (idx_t i = 0; i < e->n; i++) {
        const tusk_effects *sums = ((const effects_state *)e->states[i])->sums;
        if (!sums || !tusk_effects_known(sums)) {
            set_null(e->result, e->offset + i);
            continue;
        }
        list_writer w = list_begin(&TUSK_EFFECTS_TABLE, e->result);
        tusk_effects_write(sums, list_rows(&w));
        list_end(&w, e->offset + i);
    }
}

static void effects_finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                             duckdb_vector result, idx_t n, idx_t offset) {
    emission e = {states, result, n, offset};
    if (!catching(put_effects, &e))
        refuse(info, "no memory for the result: raise memory_limit");
}

static void effects_destroy(duckdb_aggregate_state *states, idx_t n) {
    for (idx_t i = 0; i < n; i++) {
        free(((effects_state *)states[i])->sums);
        *(effects_state *)states[i] = (effects_state){0};
    }
}

static void add_parameter(duckdb_aggregate_function f, duckdb_logical_type type) {
    duckdb_aggregate_function_add_parameter(f, type);
    duckdb_destroy_logical_type(&type);
}

bool register_marginal_effects(duckdb_connection connection, database *d) {
    duckdb_aggregate_function f = duckdb_create_aggregate_function();
    duckdb_aggregate_function_set_name(f, "_tusk_" NAME);
    add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_BLOB));
    add_parameter(f, make_list_type(DUCKDB_TYPE_VARCHAR));
    add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_ANY));
    add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE));
    add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE));
    duckdb_logical_type table = make_table_type(&TUSK_EFFECTS_TABLE);
    duckdb_aggregate_function_set_return_type(f, table);
    duckdb_destroy_logical_type(&table);
    duckdb_aggregate_function_set_functions(f, effects_size, effects_init, effects_update,
                                            effects_combine, effects_finalize);
    duckdb_aggregate_function_set_destructor(f, effects_destroy);
    duckdb_aggregate_function_set_special_handling(f);
    duckdb_aggregate_function_set_extra_info(f, database_retain(d), database_release);
    bool done = duckdb_register_aggregate_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_aggregate_function(&f);
    return done;
}
