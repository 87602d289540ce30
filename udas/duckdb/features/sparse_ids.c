/* _tusk_ids(indices): converts feature ids of any numeric type to INTEGER[], without rounding. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../rowblock/rowblock.h"
#include "../database.h"

/* Other integer types and decimals are converted to doubles first. */
static const duckdb_type TYPES[] = {DUCKDB_TYPE_INTEGER, DUCKDB_TYPE_BIGINT, DUCKDB_TYPE_DOUBLE};

static void refuse(duckdb_function_info info, idx_t place, const char *given) {
    char text[200];
    snprintf(text, sizeof text,
             "sparse: indices[%llu] is %s, expected a whole feature id from 0 to %d",
             (unsigned long long)place, given, TUSK_MAX_FEATURE_ID);
    duckdb_scalar_function_set_error(info, text);
}

/* Reads an item as a 32-bit integer; if it is not one, returns false and its text. */
static bool id_at(duckdb_type type, const void *data, idx_t i, int32_t *id, char *text,
                  size_t size) {
    double number = type == DUCKDB_TYPE_DOUBLE ? ((const double *)data)[i]
                                               : (double)((const int64_t *)data)[i];
    bool fits = number >= INT32_MIN && number <= INT32_MAX && number == (int32_t)number;
    if (fits)
        *id = (int32_t)number;
    else if (isnan(number))
        snprintf(text, size, "NaN");
    else if (type == DUCKDB_TYPE_DOUBLE)
        snprintf(text, size, "%.15g", number);
    else
        snprintf(text, size, "%lld", (long long)((const int64_t *)data)[i]);
    return fits;
}

static bool convert_row(duckdb_function_info info, duckdb_type type, const list_column *given,
                        duckdb_list_entry e, int32_t *out) {
    char text[64];
    for (idx_t i = e.offset; i < e.offset + e.length; i++) {
        if (!is_valid(&given->child, i) ||
            id_at(type, given->child.data, i, out + i, text, sizeof text))
            continue;
        refuse(info, i - e.offset + 1, text);
        return false;
    }
    return true;
}

static void keep_nulls(const column *from, duckdb_vector to, idx_t n) {
    if (!from->validity)
        return;
    duckdb_vector_ensure_validity_writable(to);
    memcpy(duckdb_vector_get_validity(to), from->validity, (n + 63) / 64 * sizeof(uint64_t));
}

static void ids(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    duckdb_type type = *(const duckdb_type *)duckdb_scalar_function_get_extra_info(info);
    duckdb_vector input = duckdb_data_chunk_get_vector(chunk, 0);
    list_column given = list_column_of(input);
    idx_t items = duckdb_list_vector_get_size(input), n = duckdb_data_chunk_get_size(chunk);
    duckdb_list_vector_reserve(result, items);
    duckdb_list_vector_set_size(result, items);
    duckdb_vector child = duckdb_list_vector_get_child(result);
    int32_t *out = duckdb_vector_get_data(child);
    keep_nulls(&given.child, child, items);
    if (type == DUCKDB_TYPE_INTEGER && items)
        memcpy(out, given.child.data, items * sizeof *out);
    for (idx_t row = 0; row < n; row++) {
        if (!is_valid(&given.self, row)) {
            set_null(result, row);
            continue;
        }
        duckdb_list_entry e = list_entry(&given, row);
        if (type != DUCKDB_TYPE_INTEGER && !convert_row(info, type, &given, e, out))
            return;
        ((duckdb_list_entry *)duckdb_vector_get_data(result))[row] = e;
    }
}

/* A cast from text would round, so texts are refused. This sentence is clearer than DuckDB's
 * list of candidates. */
static void refuse_texts(duckdb_function_info info, duckdb_data_chunk chunk,
                         duckdb_vector result) {
    (void)chunk;
    (void)result;
    duckdb_scalar_function_set_error(info, "sparse: indices is text[], expected an array of "
                                           "whole numbers");
}

static bool add(duckdb_scalar_function_set set, duckdb_type type, const duckdb_type *extra) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, "_tusk_ids");
    duckdb_logical_type given = make_list_type(type), made = make_list_type(DUCKDB_TYPE_INTEGER);
    duckdb_scalar_function_add_parameter(f, given);
    duckdb_scalar_function_set_return_type(f, made);
    duckdb_destroy_logical_type(&given);
    duckdb_destroy_logical_type(&made);
    duckdb_scalar_function_set_extra_info(f, (void *)extra, NULL);
    duckdb_scalar_function_set_function(f, extra ? ids : refuse_texts);
    bool added = duckdb_add_scalar_function_to_set(set, f) == DuckDBSuccess;
    duckdb_destroy_scalar_function(&f);
    return added;
}

bool register_sparse_ids(duckdb_connection connection) {
    duckdb_scalar_function_set set = duckdb_create_scalar_function_set("_tusk_ids");
    bool done = add(set, DUCKDB_TYPE_VARCHAR, NULL);
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        done = done && add(set, TYPES[i], &TYPES[i]);
    done = done && duckdb_register_scalar_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_scalar_function_set(&set);
    return done;
}
