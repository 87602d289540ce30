/* hash_features: named features into sparse ones by the hashing trick. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* newlocale */
#endif
#include <stdio.h>
#include <stdlib.h>

#include "../scalars/hashing.h"
#include "door.h"

typedef struct overload {
    bool map; /* else a list of texts */
    locale_t locale;
} overload;

/* One chunk of rows. */
typedef struct call {
    const overload *o;
    list_column items;
    column names, values; /* names: the texts of the list or the keys of the map */
    duckdb_vector indices_list, values_list;
    int32_t *indices_out;
    double *values_out;
    idx_t used;
} call;

/* False when there is nothing to hash: NULL, or a value of 0, which weighs nothing. */
static bool feature_at(const call *c, idx_t i, tusk_feature *f) {
    if (!is_valid(&c->names, i) || (c->o->map && !is_valid(&c->values, i)))
        return false;
    duckdb_string_t *s = (duckdb_string_t *)c->names.data + i;
    const char *text = duckdb_string_t_data(s);
    size_t length = duckdb_string_t_length(*s);
    *f = c->o->map ? (tusk_feature){text, length, ((const double *)c->values.data)[i]}
                   : tusk_parse_feature(text, length, c->o->locale);
    return f->value != 0;
}

static void hash_row(call *c, idx_t row, int bits) {
    duckdb_list_entry e = list_entry(&c->items, row);
    idx_t first = c->used;
    tusk_feature f;
    for (idx_t i = e.offset; i < e.offset + e.length; i++) {
        if (!feature_at(c, i, &f))
            continue;
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

static call call_new(const overload *o, duckdb_vector items, duckdb_vector result, idx_t n) {
    call c = {.o = o, .items = list_column_of(items)};
    c.names = c.items.child;
    if (o->map) {
        c.names = column_of(duckdb_struct_vector_get_child(c.items.child.vector, 0));
        c.values = column_of(duckdb_struct_vector_get_child(c.items.child.vector, 1));
    }
    c.indices_list = duckdb_struct_vector_get_child(result, 0);
    c.values_list = duckdb_struct_vector_get_child(result, 1);
    idx_t room = count_items(&c.items, n);
    duckdb_list_vector_reserve(c.indices_list, room);
    duckdb_list_vector_reserve(c.values_list, room);
    c.indices_out = duckdb_vector_get_data(duckdb_list_vector_get_child(c.indices_list));
    c.values_out = duckdb_vector_get_data(duckdb_list_vector_get_child(c.values_list));
    return c;
}

static void refuse(duckdb_function_info info, const char *sentence) {
    char text[TUSK_SENTENCE + 32];
    snprintf(text, sizeof text, "hash_features: %s", sentence);
    duckdb_scalar_function_set_error(info, text);
}

static void hash_chunk(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    idx_t n = duckdb_data_chunk_get_size(chunk);
    const overload *o = duckdb_scalar_function_get_extra_info(info);
    call c = call_new(o, duckdb_data_chunk_get_vector(chunk, 0), result, n);
    column bits = chunk_column(chunk, 1);
    for (idx_t row = 0; row < n; row++) {
        if (!is_valid(&c.items.self, row) || !is_valid(&bits, row)) {
            set_null(result, row);
            continue;
        }
        int32_t b = ((const int32_t *)bits.data)[row];
        char sentence[TUSK_SENTENCE];
        if (!tusk_check_bits(b, sentence)) {
            refuse(info, sentence);
            return;
        }
        hash_row(&c, row, b);
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

static void overload_free(void *p) {
    overload *o = p;
    if (o->locale)
        freelocale(o->locale);
    free(o);
}

static overload *overload_new(bool map) {
    overload *o = malloc(sizeof *o);
    if (!o)
        return NULL;
    *o = (overload){map, newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (o->locale)
        return o;
    free(o);
    return NULL;
}

static bool add_overload(duckdb_scalar_function_set set, bool map) {
    overload *o = overload_new(map);
    if (!o)
        return false;
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, "hash_features");
    add_parameter(f, map ? make_map_type() : make_list_type(DUCKDB_TYPE_VARCHAR));
    add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_INTEGER));
    duckdb_logical_type sparse = make_feature_type((feature_type){.sparse = true, .f64 = true});
    duckdb_scalar_function_set_return_type(f, sparse);
    duckdb_destroy_logical_type(&sparse);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_extra_info(f, o, overload_free);
    duckdb_scalar_function_set_function(f, hash_chunk);
    bool added = duckdb_add_scalar_function_to_set(set, f) == DuckDBSuccess;
    duckdb_destroy_scalar_function(&f);
    return added;
}

bool register_hash_features(duckdb_connection connection) {
    duckdb_scalar_function_set set = duckdb_create_scalar_function_set("hash_features");
    bool done = add_overload(set, false) && add_overload(set, true) &&
                duckdb_register_scalar_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_scalar_function_set(&set);
    return done;
}
