/* predict, predict_proba and decision: a model value and the features of a row into a number.
 *
 * DuckDB flattens the arguments of a C function: a struct joined to many rows is copied field by
 * field for each of them. So the functions here take only the fields that they use, as the type of
 * their first argument; SQL macros give them their public names and cast the whole model to that
 * type, which drops the others for free.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kvstore/mapped/clones.h"
#include "../scalars/score.h"
#include "any_type.h"
#include "door.h"
#include "model_column.h"

typedef struct overload {
    door *door;
    enum tusk_answer answer;
    feature_type features;
    bool any;   /* features of any type */
    bool named; /* under its public name: models of any type with the fields that count */
} overload;

/* One chunk of rows. */
typedef struct call {
    duckdb_function_info info;
    const overload *o;
    tusk_stores stores;
    idx_t n;
    model_column models;
    feature_column features;
    bool features_complete; /* no NULL among the features of the chunk */
    duckdb_vector result;
    double *out;
    uint64_t *validity; /* of the result; NULL until the first NULL */
} call;

/* --- reading the model --- */

static bool refuse(const call *c, const char *sentence) {
    char text[TUSK_SENTENCE + 32];
    snprintf(text, sizeof text, "%s: %s", TUSK_ANSWER_NAMES[c->o->answer], sentence);
    duckdb_scalar_function_set_error(c->info, text);
    return false;
}

static idx_t same_validity(const column *c, idx_t row, idx_t n) {
    if (!c->validity)
        return n;
    bool valid = is_valid(c, row);
    for (idx_t i = 1; i < n; i++)
        if (is_valid(c, row + i) != valid)
            return i;
    return n;
}

/* How many of the n items from row on have the bytes of the first. An array of equal items equals
 * itself shifted by one, so that the usual case is one memcmp. */
static idx_t same_bytes(const column *c, size_t size, idx_t row, idx_t n) {
    if (n == 1)
        return 1;
    const char *first = (const char *)c->data + row * size;
    if (memcmp(first, first + size, (n - 1) * size) == 0)
        return n;
    idx_t i = 1;
    while (memcmp(first, first + i * size, size) == 0)
        i++;
    return i;
}

static idx_t same_field(const column *c, size_t size, idx_t row, idx_t n) {
    return same_validity(c, row, same_bytes(c, size, row, n));
}

/* How many rows from row on have one model: the same list in the same place, the same texts, the
 * same numbers. */
static idx_t model_run(const call *c, idx_t row) {
    const model_column *m = &c->models;
    idx_t n = c->n - row;
    n = same_field(&m->coef.self, sizeof(duckdb_list_entry), row, n);
    n = same_field(&m->intercept, sizeof(double), row, n);
    n = same_field(&m->task, sizeof(duckdb_string_t), row, n);
    n = same_field(&m->classes.self, sizeof(duckdb_list_entry), row, n);
    n = same_field(&m->options, sizeof(duckdb_string_t), row, n);
    return same_validity(&m->self, row, n);
}

static tusk_text text_at(const column *c, idx_t row) {
    if (!is_valid(c, row))
        return (tusk_text){NULL, 0};
    duckdb_string_t *s = (duckdb_string_t *)c->data + row;
    return (tusk_text){duckdb_string_t_data(s), duckdb_string_t_length(*s)};
}

static tusk_numbers numbers_at(const list_column *l, idx_t row) {
    if (!is_valid(&l->self, row))
        return (tusk_numbers){NULL, 0, true};
    duckdb_list_entry e = list_entry(l, row);
    return (tusk_numbers){(const double *)l->child.data + e.offset, e.length,
                          all_valid(&l->child, e.offset, e.length)};
}

static bool read_model(const call *c, idx_t row, tusk_scorer *s) {
    const model_column *m = &c->models;
    *s = (tusk_scorer){.null = !is_valid(&m->self, row)};
    if (s->null)
        return true;
    tusk_model_fields fields = {
        .task = text_at(&m->task, row),
        .options = text_at(&m->options, row),
        .coef = numbers_at(&m->coef, row),
        .classes = numbers_at(&m->classes, row),
        .has_intercept = is_valid(&m->intercept, row),
        .intercept = ((const double *)m->intercept.data)[row],
        .stores = c->stores,
    };
    char sentence[TUSK_SENTENCE];
    return tusk_read_model(&fields, c->o->answer, s, sentence) || refuse(c, sentence);
}

/* --- scoring --- */

static void put_null(call *c, idx_t row) {
    if (!c->validity) {
        duckdb_vector_ensure_validity_writable(c->result);
        c->validity = duckdb_vector_get_validity(c->result);
    }
    duckdb_validity_set_row_invalid(c->validity, row);
    c->out[row] = 0;
}

/* Whole words of the mask at a time: a mask without a zero costs next to nothing. */
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

/* Are these n lists of one length, one behind the other? */
CLONES static bool is_matrix(const duckdb_list_entry *e, idx_t n) {
    uint64_t d = e->length, next = e->offset, wrong = 0;
    for (idx_t i = 0; i < n; i++, next += d)
        wrong |= (e[i].length ^ d) | (e[i].offset ^ next);
    return !wrong;
}

/* How many rows from row on are one matrix. */
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
    return tusk_margins(s, x, f64, e.length, n, c->out + row, sentence) || refuse(c, sentence);
}

static bool score_sparse(call *c, tusk_scorer *s, idx_t row) {
    duckdb_list_entry i = list_entry(&c->features.indices, row),
                      v = list_entry(&c->features.values, row);
    bool f64 = c->features.type.f64;
    const char *x = c->features.values.child.data;
    tusk_sparse_row features = {
        .ids = (const int32_t *)c->features.indices.child.data + i.offset,
        .values = x + v.offset * (f64 ? sizeof(double) : sizeof(float)),
        .n_ids = i.length,
        .n_values = v.length,
    };
    char sentence[TUSK_SENTENCE];
    return tusk_sparse_margin(s, &features, f64, c->out + row, sentence) || refuse(c, sentence);
}

/* The margins of rows with one model. */
static bool score_run(call *c, tusk_scorer *s, idx_t row, idx_t end) {
    const duckdb_list_entry *e = (const duckdb_list_entry *)c->features.values.self.data + row;
    if (!s->null && c->features_complete && !c->features.type.sparse && is_matrix(e, end - row))
        return score_dense(c, s, row, end - row);
    idx_t n;
    for (; row < end; row += n) {
        n = 1;
        if (s->null || !usable(c, row)) {
            put_null(c, row);
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

static const char *readable(const tusk_stores *stores, const char *reference, size_t length,
                            sealed_error *e) {
    (void)reference;
    (void)length;
    char sentence[FILES_SENTENCE];
    if (!stores->root || stores_readable(stores->asker, stores->root, sentence))
        return stores->root;
    sealed_refuse(e, "42501", "%s", sentence);
    return NULL;
}

/* Files of stores may take a quarter of the memory that rows may take. */
static tusk_stores stores_of(door *d) {
    tusk_memory_use use;
    tusk_memory_used(d->memory, &use);
    int64_t memory = use.budget / 4 < SEALED_MEMORY ? use.budget / 4 : SEALED_MEMORY;
    return (tusk_stores){.cache = d->models,
                         .root = store_root(d),
                         .memory = memory,
                         .readable = readable,
                         .asker = d};
}

static bool refuse_types(const call *c, duckdb_data_chunk chunk, const scratch *kept) {
    if (kept->out_of_memory)
        return refuse(c, "out of memory");
    char text[REFUSAL_ROOM];
    write_refusal(TUSK_ANSWER_NAMES[c->o->answer], chunk, text);
    duckdb_scalar_function_set_error(c->info, text);
    return false;
}

static bool read_arguments(call *c, duckdb_data_chunk chunk, scratch *kept) {
    duckdb_vector model = duckdb_data_chunk_get_vector(chunk, 0);
    duckdb_vector features = duckdb_data_chunk_get_vector(chunk, 1);
    if (!c->o->named)
        c->models = model_column_of(model);
    else if (!model_column_of_any(model, c->n, kept, &c->models))
        return refuse_types(c, chunk, kept);
    if (!c->o->any)
        c->features = feature_column_of(features, c->o->features);
    else if (!features_of_any(features, c->n, kept, &c->features))
        return refuse_types(c, chunk, kept);
    c->features_complete = features_complete(&c->features, c->n);
    return true;
}

static bool score(call *c) {
    tusk_scorer s;
    for (idx_t row = 0, n; row < c->n; row += n) {
        n = model_run(c, row);
        bool done = read_model(c, row, &s) && score_run(c, &s, row, row + n);
        tusk_forget_model(&s);
        if (!done)
            return false;
        if (c->o->answer == TUSK_PREDICT)
            tusk_to_predictions(&s, c->out + row, n);
    }
    return true;
}

static void score_chunk(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    const overload *o = duckdb_scalar_function_get_extra_info(info);
    call c = {.info = info, .o = o, .n = duckdb_data_chunk_get_size(chunk), .result = result};
    scratch kept = {0};
    c.stores = stores_of(o->door);
    c.out = duckdb_vector_get_data(result);
    bool done = read_arguments(&c, chunk, &kept) && score(&c);
    if (done && o->answer == TUSK_PREDICT_PROBA)
        tusk_to_probabilities(c.out, c.n);
    scratch_free(&kept);
}

/* --- registration --- */

static void add_parameter(duckdb_scalar_function f, duckdb_logical_type type) {
    duckdb_scalar_function_add_parameter(f, type);
    duckdb_destroy_logical_type(&type);
}

static void overload_free(void *p) {
    overload *o = p;
    door_release(o->door);
    free(o);
}

static bool add_overload(duckdb_scalar_function_set set, const char *name, overload like) {
    overload *o = malloc(sizeof *o);
    if (!o)
        return false;
    *o = like;
    door_retain(o->door);
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, name);
    add_parameter(f, o->named ? duckdb_create_logical_type(DUCKDB_TYPE_ANY) : make_used_type());
    add_parameter(f, o->any ? duckdb_create_logical_type(DUCKDB_TYPE_ANY)
                            : make_feature_type(o->features));
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE);
    duckdb_scalar_function_set_return_type(f, number);
    duckdb_destroy_logical_type(&number);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_extra_info(f, o, overload_free);
    duckdb_scalar_function_set_function(f, score_chunk);
    bool added = duckdb_add_scalar_function_to_set(set, f) == DuckDBSuccess;
    duckdb_destroy_scalar_function(&f);
    return added;
}

static bool register_one(duckdb_connection connection, door *d, enum tusk_answer answer) {
    char name[32];
    snprintf(name, sizeof name, "_tusk_%s", TUSK_ANSWER_NAMES[answer]);
    duckdb_scalar_function_set set = duckdb_create_scalar_function_set(name);
    bool done = true;
    for (int f = 0; f < N_FEATURE_TYPES; f++)
        done = done &&
               add_overload(set, name,
                            (overload){.door = d, .answer = answer, .features = FEATURE_TYPES[f]});
    done = done && add_overload(set, name, (overload){.door = d, .answer = answer, .any = true});
    done = done && duckdb_register_scalar_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_scalar_function_set(&set);
    return done;
}

/* For connections without the macros, and in their place no slower than DuckDB's copying of all of
 * a model's fields. */
static bool register_named(duckdb_connection connection, door *d, enum tusk_answer answer) {
    const char *name = TUSK_ANSWER_NAMES[answer];
    duckdb_scalar_function_set set = duckdb_create_scalar_function_set(name);
    bool done =
        add_overload(set, name,
                     (overload){.door = d, .answer = answer, .any = true, .named = true}) &&
        add_refusals(set, name, 2) &&
        duckdb_register_scalar_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_scalar_function_set(&set);
    return done;
}

bool register_predict(duckdb_connection connection, door *d) {
    bool done = true;
    for (int a = 0; a < TUSK_ANSWERS; a++)
        done = done && register_one(connection, d, (enum tusk_answer)a) &&
               register_named(connection, d, (enum tusk_answer)a);
    return done;
}
