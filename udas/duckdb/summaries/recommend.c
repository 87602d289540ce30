/* _tusk_recommend(payload, user, n, exclude) and _tusk_similar_items(payload, item, n, exclude):
 * a list with a STRUCT for each of the best items, the best first. Macros give them their public
 * names and turn them into rows. */
#include "../../scalars/recommending/recommend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../scalars/models/payload.h"
#include "../../scalars/models/quoted.h"
#include "../database.h"
#include "../features/named.h"
#include "../models/stores.h"

enum field { F_ITEM, F_SCORE, F_BASIS, FIELDS };
static const char *const FIELD_NAMES[FIELDS] = {"item", "score", "basis"};
static const duckdb_type FIELD_TYPES[FIELDS] = {DUCKDB_TYPE_BIGINT, DUCKDB_TYPE_DOUBLE,
                                                DUCKDB_TYPE_VARCHAR};

typedef struct which {
    database *database;
    bool similar;
} which;

/* One chunk of rows, and the model of the last one. */
typedef struct call {
    const which *which;
    tusk_stores stores;
    column payloads, ids, counts;
    list_column exclude;
    duckdb_vector result;
    tusk_scorer scorer;
    tusk_text payload; /* of the scorer; its data is NULL if there is none */
    char sentence[TUSK_SENTENCE];
} call;

static void forget(call *c) {
    if (c->payload.data)
        tusk_forget_model(&c->scorer);
    c->payload.data = NULL;
}

/* Neighbouring rows with the same model read it once: their payloads are at one address. */
static bool read_model(call *c, idx_t row) {
    tusk_text payload = text_of_string((const duckdb_string_t *)c->payloads.data + row);
    if (payload.data == c->payload.data && payload.length == c->payload.length)
        return true;
    forget(c);
    if (!tusk_read_model(payload, &c->stores, TUSK_PREDICT, &c->scorer, c->sentence))
        return false;
    c->payload = payload;
    return true;
}

static void put_items(call *c, idx_t row, const tusk_best *best) {
    idx_t n = best->n;
    idx_t at = duckdb_list_vector_get_size(c->result);
    duckdb_list_vector_reserve(c->result, at + n);
    duckdb_list_vector_set_size(c->result, at + n);
    duckdb_vector child = duckdb_list_vector_get_child(c->result);
    duckdb_vector basis_of = duckdb_struct_vector_get_child(child, F_BASIS);
    int64_t *ids = duckdb_vector_get_data(duckdb_struct_vector_get_child(child, F_ITEM));
    double *scores = duckdb_vector_get_data(duckdb_struct_vector_get_child(child, F_SCORE));
    for (idx_t i = 0; i < n; i++) {
        ids[at + i] = (int64_t)best->items[i].item;
        scores[at + i] = best->items[i].score;
        duckdb_vector_assign_string_element(basis_of, at + i, TUSK_BASIS_NAMES[best->basis]);
    }
    ((duckdb_list_entry *)duckdb_vector_get_data(c->result))[row] = (duckdb_list_entry){at, n};
}

/* The ids to leave out, without NULLs, in room. */
static uint64_t read_excluded(const call *c, idx_t row, double *room) {
    if (!is_valid(&c->exclude.self, row))
        return 0;
    duckdb_list_entry e = list_entry(&c->exclude, row);
    uint64_t n = 0;
    for (idx_t i = e.offset; i < e.offset + e.length; i++)
        if (is_valid(&c->exclude.child, i))
            room[n++] = ((const double *)c->exclude.child.data)[i];
    return n;
}

static idx_t most_excluded(const call *c, idx_t row) {
    return is_valid(&c->exclude.self, row) ? list_entry(&c->exclude, row).length : 0;
}

static bool put_row(call *c, idx_t row) {
    if (!is_valid(&c->payloads, row) || !is_valid(&c->ids, row) || !is_valid(&c->counts, row)) {
        set_null(c->result, row);
        return true;
    }
    if (!read_model(c, row))
        return false;
    tusk_wanted w = {c->which->similar, ((const double *)c->ids.data)[row],
                     ((const int64_t *)c->counts.data)[row], NULL, 0};
    bool factors = c->scorer.task == TUSK_FACTORIZATION;
    uint64_t most = factors ? tusk_most_items(&c->scorer, &w) : 0;
    size_t work = factors ? tusk_recommend_work(&c->scorer) : 0;
    size_t excluded = (most_excluded(c, row) + 1) * sizeof(double);
    char *memory = malloc(work + excluded + (most + 1) * sizeof(tusk_ranked_item));
    if (!memory) {
        snprintf(c->sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    tusk_ranked_item *items = (tusk_ranked_item *)(memory + work + excluded);
    double *left_out = (double *)(memory + work);
    w.exclude = left_out;
    w.n_exclude = read_excluded(c, row, left_out);
    tusk_best best = {.work = memory, .items = items};
    bool done = tusk_recommend(&c->scorer, &w, &best, c->sentence);
    if (done)
        put_items(c, row, &best);
    free(memory);
    return done;
}

static void recommend(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    const which *w = duckdb_scalar_function_get_extra_info(info);
    call c = {.which = w,
              .stores = stores_of(w->database),
              .payloads = chunk_column(chunk, 0),
              .ids = chunk_column(chunk, 1),
              .counts = chunk_column(chunk, 2),
              .exclude = list_column_of(duckdb_data_chunk_get_vector(chunk, 3)),
              .result = result};
    bool done = true;
    for (idx_t row = 0; done && row < duckdb_data_chunk_get_size(chunk); row++)
        done = put_row(&c, row);
    forget(&c);
    if (!done) {
        char text[TUSK_SENTENCE + 32];
        snprintf(text, sizeof text, "%s: %s", w->similar ? "similar_items" : "recommend",
                 c.sentence);
        tusk_make_utf8(text);
        duckdb_scalar_function_set_error(info, text);
    }
}

/* --- registration --- */

static duckdb_logical_type make_items_type(void) {
    duckdb_logical_type types[FIELDS];
    const char *names[FIELDS];
    for (int i = 0; i < FIELDS; i++) {
        names[i] = FIELD_NAMES[i];
        types[i] = duckdb_create_logical_type(FIELD_TYPES[i]);
    }
    duckdb_logical_type item = duckdb_create_struct_type(types, names, FIELDS);
    for (int i = 0; i < FIELDS; i++)
        duckdb_destroy_logical_type(&types[i]);
    duckdb_logical_type list = duckdb_create_list_type(item);
    duckdb_destroy_logical_type(&item);
    return list;
}

static void free_which(void *given) {
    which *w = given;
    database_release(w->database);
    free(w);
}

static bool register_one(duckdb_connection connection, database *d, const char *name,
                         bool similar) {
    which *w = malloc(sizeof *w);
    if (!w)
        return false;
    *w = (which){database_retain(d), similar};
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type parameters[] = {duckdb_create_logical_type(DUCKDB_TYPE_BLOB),
                                        duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE),
                                        duckdb_create_logical_type(DUCKDB_TYPE_BIGINT),
                                        make_list_type(DUCKDB_TYPE_DOUBLE)};
    duckdb_logical_type items = make_items_type();
    duckdb_scalar_function_set_name(f, name);
    for (int i = 0; i < 4; i++) {
        duckdb_scalar_function_add_parameter(f, parameters[i]);
        duckdb_destroy_logical_type(&parameters[i]);
    }
    duckdb_scalar_function_set_return_type(f, items);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_extra_info(f, w, free_which);
    duckdb_scalar_function_set_function(f, recommend);
    bool done = duckdb_register_scalar_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&items);
    duckdb_destroy_scalar_function(&f);
    return done;
}

bool register_recommend(duckdb_connection connection, database *d) {
    return register_one(connection, d, "_tusk_recommend", false) &&
           register_one(connection, d, "_tusk_similar_items", true);
}
