/* Types and vectors, as every function of the extension reads and writes them. */
#include "database.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const feature_type FEATURE_TYPES[N_FEATURE_TYPES] = {
    {.sparse = false, .f64 = false},
    {.sparse = false, .f64 = true},
    {.sparse = true, .f64 = false},
    {.sparse = true, .f64 = true},
    {.sparse = true, .f64 = false, .wide = true},
    {.sparse = true, .f64 = true, .wide = true},
};

char *copy_text(duckdb_string_t *text) {
    size_t length = duckdb_string_t_length(*text);
    char *copy = malloc(length + 1);
    if (!copy)
        return NULL;
    memcpy(copy, duckdb_string_t_data(text), length);
    copy[length] = 0;
    return copy;
}

duckdb_logical_type make_list_type(duckdb_type child) {
    duckdb_logical_type item = duckdb_create_logical_type(child);
    duckdb_logical_type list = duckdb_create_list_type(item);
    duckdb_destroy_logical_type(&item);
    return list;
}

duckdb_logical_type make_feature_type(feature_type f) {
    duckdb_logical_type values = make_list_type(f.f64 ? DUCKDB_TYPE_DOUBLE : DUCKDB_TYPE_FLOAT);
    if (!f.sparse)
        return values;
    duckdb_logical_type types[] = {
        make_list_type(f.wide ? DUCKDB_TYPE_BIGINT : DUCKDB_TYPE_INTEGER), values};
    const char *names[] = {"indices", "values"};
    duckdb_logical_type sparse = duckdb_create_struct_type(types, names, 2);
    for (int i = 0; i < 2; i++)
        duckdb_destroy_logical_type(&types[i]);
    return sparse;
}

static duckdb_logical_type make_field_type(enum model_kind kind) {
    static const duckdb_type TYPES[] = {
        [K_TEXT] = DUCKDB_TYPE_VARCHAR,  [K_TEXTS] = DUCKDB_TYPE_VARCHAR,
        [K_NUMBER] = DUCKDB_TYPE_DOUBLE, [K_NUMBERS] = DUCKDB_TYPE_DOUBLE,
        [K_COUNT] = DUCKDB_TYPE_BIGINT,  [K_TRUTH] = DUCKDB_TYPE_BOOLEAN,
        [K_PAYLOAD] = DUCKDB_TYPE_BLOB,
    };
    bool list = kind == K_TEXTS || kind == K_NUMBERS;
    return list ? make_list_type(TYPES[kind]) : duckdb_create_logical_type(TYPES[kind]);
}

duckdb_logical_type make_model_type(void) {
    duckdb_logical_type types[MODEL_FIELDS];
    const char *names[MODEL_FIELDS];
    for (int i = 0; i < MODEL_FIELDS; i++) {
        names[i] = MODEL_FIELD[i].name;
        types[i] = make_field_type(MODEL_FIELD[i].kind);
    }
    duckdb_logical_type model = duckdb_create_struct_type(types, names, MODEL_FIELDS);
    for (int i = 0; i < MODEL_FIELDS; i++)
        duckdb_destroy_logical_type(&types[i]);
    return model;
}

feature_column feature_column_of(duckdb_vector v, feature_type type) {
    feature_column c = {.type = type, .self = column_of(v)};
    if (type.sparse) {
        c.indices = list_column_of(duckdb_struct_vector_get_child(v, 0));
        c.values = list_column_of(duckdb_struct_vector_get_child(v, 1));
    } else {
        c.values = list_column_of(v);
    }
    return c;
}

static bool list_valid(const list_column *c, idx_t row) {
    if (!is_valid(&c->self, row))
        return false;
    duckdb_list_entry e = list_entry(c, row);
    return all_valid(&c->child, e.offset, e.length);
}

bool list_given(const feature_column *c, idx_t row) {
    return !c->type.sparse && is_valid(&c->self, row) && is_valid(&c->values.self, row);
}

void *list_with_gaps(const feature_column *c, idx_t row) {
    duckdb_list_entry e = list_entry(&c->values, row);
    size_t size = c->type.f64 ? sizeof(double) : sizeof(float);
    char *out = malloc(e.length * size);
    if (!out)
        return NULL;
    memcpy(out, (const char *)c->values.child.data + e.offset * size, e.length * size);
    for (idx_t i = 0; i < e.length; i++) {
        if (is_valid(&c->values.child, e.offset + i))
            continue;
        if (c->type.f64)
            ((double *)out)[i] = NAN;
        else
            ((float *)out)[i] = NAN;
    }
    return out;
}

bool features_valid(const feature_column *c, idx_t row) {
    if (!is_valid(&c->self, row))
        return false;
    return list_valid(&c->values, row) && (!c->type.sparse || list_valid(&c->indices, row));
}

/* Sets the children of a STRUCT to NULL too: otherwise DuckDB would read strings that were
 * never written.
 */
void set_null(duckdb_vector v, idx_t row) {
    duckdb_vector_ensure_validity_writable(v);
    duckdb_validity_set_row_invalid(duckdb_vector_get_validity(v), row);
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    if (duckdb_get_type_id(type) == DUCKDB_TYPE_STRUCT) {
        idx_t n = duckdb_struct_type_child_count(type);
        for (idx_t i = 0; i < n; i++)
            set_null(duckdb_struct_vector_get_child(v, i), row);
    } else if (duckdb_get_type_id(type) == DUCKDB_TYPE_LIST) {
        ((duckdb_list_entry *)duckdb_vector_get_data(v))[row] = (duckdb_list_entry){0, 0};
    }
    duckdb_destroy_logical_type(&type);
}

void put_list(duckdb_vector v, idx_t row, const double *values, idx_t n) {
    if (!n) {
        set_null(v, row);
        return;
    }
    idx_t at = duckdb_list_vector_get_size(v);
    duckdb_list_vector_reserve(v, at + n);
    duckdb_list_vector_set_size(v, at + n);
    duckdb_vector child = duckdb_list_vector_get_child(v);
    memcpy((double *)duckdb_vector_get_data(child) + at, values, n * sizeof *values);
    for (idx_t i = 0; i < n; i++)
        if (isnan(values[i]))
            set_null(child, at + i);
    ((duckdb_list_entry *)duckdb_vector_get_data(v))[row] = (duckdb_list_entry){at, n};
}
