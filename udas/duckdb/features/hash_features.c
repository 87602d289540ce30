/* hash_features: turns named features into sparse ones by the hashing trick. */
#include <stdio.h>

#include "../../scalars/hashing.h"
#include "../database.h"

/* The form of the features: names that count 1 each, names with values, or a MAP of both. */
typedef enum form { NAMES, PAIRS, MAP, FORMS } form;

static const form FORM_OF[FORMS] = {NAMES, PAIRS, MAP}; /* for the extra info */

/* One chunk of rows. names: the items of the list or the keys of the map. The names and values
 * of a map lie at the same positions. */
typedef struct call {
    form form;
    list_column names, values;
    column bits;
    duckdb_vector indices_list, values_list;
    int32_t *indices_out;
    double *values_out;
    idx_t used;
} call;

static duckdb_list_entry values_entry(const call *c, idx_t row) {
    return list_entry(c->form == PAIRS ? &c->values : &c->names, row);
}

/* If the list is NULL or contains a NULL, the row has no features, and a training skips it. */
static bool row_valid(const call *c, idx_t row) {
    if (!is_valid(&c->bits, row) || !is_valid(&c->names.self, row))
        return false;
    duckdb_list_entry e = list_entry(&c->names, row);
    if (!all_valid(&c->names.child, e.offset, e.length))
        return false;
    if (c->form == NAMES)
        return true;
    if (c->form == PAIRS && !is_valid(&c->values.self, row))
        return false;
    e = values_entry(c, row);
    return all_valid(&c->values.child, e.offset, e.length);
}

static void hash_row(call *c, idx_t row, int bits) {
    duckdb_list_entry e = list_entry(&c->names, row);
    idx_t first = c->used, value_at = c->form == NAMES ? 0 : values_entry(c, row).offset;
    for (idx_t i = 0; i < e.length; i++) {
        duckdb_string_t *s = (duckdb_string_t *)c->names.child.data + e.offset + i;
        double value = c->form == NAMES ? 1 : ((const double *)c->values.child.data)[value_at + i];
        if (value == 0)
            continue;
        tusk_feature f = {duckdb_string_t_data(s), duckdb_string_t_length(*s), value};
        c->indices_out[c->used] = tusk_hash_feature(&f, bits);
        c->values_out[c->used++] = f.value;
    }
    duckdb_list_entry hashed = {first, c->used - first};
    ((duckdb_list_entry *)duckdb_vector_get_data(c->indices_list))[row] = hashed;
    ((duckdb_list_entry *)duckdb_vector_get_data(c->values_list))[row] = hashed;
}

static idx_t count_items(const list_column *items, idx_t n) {
    idx_t total = 0;
    for (idx_t row = 0; row < n; row++)
        if (is_valid(&items->self, row))
            total += list_entry(items, row).length;
    return total;
}

static call call_new(form form, duckdb_data_chunk chunk, duckdb_vector result) {
    call c = {.form = form, .names = list_column_of(duckdb_data_chunk_get_vector(chunk, 0))};
    if (form == MAP) {
        duckdb_vector entries = c.names.child.vector;
        c.names.child = column_of(duckdb_struct_vector_get_child(entries, 0));
        c.values.child = column_of(duckdb_struct_vector_get_child(entries, 1));
    } else if (form == PAIRS) {
        c.values = list_column_of(duckdb_data_chunk_get_vector(chunk, 1));
    }
    c.bits = chunk_column(chunk, form == PAIRS ? 2 : 1);
    c.indices_list = duckdb_struct_vector_get_child(result, 0);
    c.values_list = duckdb_struct_vector_get_child(result, 1);
    idx_t room = count_items(&c.names, duckdb_data_chunk_get_size(chunk));
    duckdb_list_vector_reserve(c.indices_list, room);
    duckdb_list_vector_reserve(c.values_list, room);
    c.indices_out = duckdb_vector_get_data(duckdb_list_vector_get_child(c.indices_list));
    c.values_out = duckdb_vector_get_data(duckdb_list_vector_get_child(c.values_list));
    return c;
}

static bool check_row(const call *c, idx_t row, int32_t bits, char *sentence) {
    return tusk_check_bits(bits, sentence) &&
           (c->form != PAIRS || tusk_check_lengths(list_entry(&c->names, row).length,
                                                   list_entry(&c->values, row).length, sentence));
}

static void refuse(duckdb_function_info info, const char *sentence) {
    char text[TUSK_SENTENCE + 32];
    snprintf(text, sizeof text, "hash_features: %s", sentence);
    duckdb_scalar_function_set_error(info, text);
}

static void hash_chunk(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    idx_t n = duckdb_data_chunk_get_size(chunk);
    call c = call_new(*(const form *)duckdb_scalar_function_get_extra_info(info), chunk, result);
    for (idx_t row = 0; row < n; row++) {
        if (!row_valid(&c, row)) {
            set_null(result, row);
            continue;
        }
        int32_t bits = ((const int32_t *)c.bits.data)[row];
        char sentence[TUSK_SENTENCE];
        if (!check_row(&c, row, bits, sentence)) {
            refuse(info, sentence);
            return;
        }
        hash_row(&c, row, bits);
    }
    duckdb_list_vector_set_size(c.indices_list, c.used);
    duckdb_list_vector_set_size(c.values_list, c.used);
}

/* --- registration --- */

static duckdb_logical_type make_map_type(void) {
    duckdb_logical_type key = duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR);
    duckdb_logical_type value = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE);
    duckdb_logical_type map = duckdb_create_map_type(key, value);
    duckdb_destroy_logical_type(&key);
    duckdb_destroy_logical_type(&value);
    return map;
}

static void add_parameter(duckdb_scalar_function f, duckdb_logical_type type) {
    duckdb_scalar_function_add_parameter(f, type);
    duckdb_destroy_logical_type(&type);
}

static bool add_overload(duckdb_scalar_function_set set, form form) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, "hash_features");
    add_parameter(f, form == MAP ? make_map_type() : make_list_type(DUCKDB_TYPE_VARCHAR));
    if (form == PAIRS)
        add_parameter(f, make_list_type(DUCKDB_TYPE_DOUBLE));
    add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_INTEGER));
    duckdb_logical_type sparse = make_feature_type((feature_type){.sparse = true, .f64 = true});
    duckdb_scalar_function_set_return_type(f, sparse);
    duckdb_destroy_logical_type(&sparse);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_extra_info(f, (void *)&FORM_OF[form], NULL);
    duckdb_scalar_function_set_function(f, hash_chunk);
    bool added = duckdb_add_scalar_function_to_set(set, f) == DuckDBSuccess;
    duckdb_destroy_scalar_function(&f);
    return added;
}

static bool register_one(duckdb_connection connection, bool own) {
    char name[SPELLED];
    duckdb_scalar_function_set set =
        duckdb_create_scalar_function_set(spelled("hash_features", own, name));
    bool done = add_overload(set, NAMES) && add_overload(set, PAIRS) && add_overload(set, MAP) &&
                duckdb_register_scalar_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_scalar_function_set(&set);
    return done;
}

bool register_hash_features(duckdb_connection connection) {
    return register_one(connection, false) && register_one(connection, true);
}
