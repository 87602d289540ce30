/* _tusk_ids(indices): converts feature ids of any numeric type without rounding, to INTEGER[] if
 * their type has no more bits, otherwise to BIGINT[]. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../rowblock/rowblock.h"
#include "../any_type.h"

/* Other integer types are converted to one of these first, and decimals to doubles. */
static const duckdb_type TYPES[] = {DUCKDB_TYPE_INTEGER, DUCKDB_TYPE_BIGINT, DUCKDB_TYPE_HUGEINT,
                                    DUCKDB_TYPE_DOUBLE};

static void refuse(duckdb_function_info info, idx_t place, const char *given) {
    char text[200];
    snprintf(text, sizeof text,
             "sparse: indices[%llu] is %s, expected a whole feature id from " TUSK_ID_RANGE,
             (unsigned long long)place, given);
    duckdb_scalar_function_set_error(info, text);
}

/* Reads an item as a 64-bit integer; if it is not one, returns false and its text. */
static bool id_at(duckdb_type type, const void *data, idx_t i, int64_t *id, char *text,
                  size_t size) {
    if (type == DUCKDB_TYPE_HUGEINT) {
        duckdb_hugeint h = ((const duckdb_hugeint *)data)[i];
        *id = (int64_t)h.lower;
        snprintf(text, size, "%.15g", from_hugeint(h));
        return h.upper == (*id < 0 ? -1 : 0);
    }
    double number = ((const double *)data)[i];
    bool fits = number >= -0x1p63 && number < 0x1p63 && number == (double)(int64_t)number;
    if (fits)
        *id = (int64_t)number;
    else if (isnan(number))
        snprintf(text, size, "NaN");
    else
        snprintf(text, size, "%.15g", number);
    return fits;
}

static bool convert_row(duckdb_function_info info, duckdb_type type, const list_column *given,
                        duckdb_list_entry e, int64_t *out) {
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
    void *out = duckdb_vector_get_data(child);
    bool as_is = type == DUCKDB_TYPE_INTEGER || type == DUCKDB_TYPE_BIGINT;
    keep_nulls(&given.child, child, items);
    if (as_is && items)
        memcpy(out, given.child.data, items * (type == DUCKDB_TYPE_INTEGER ? 4 : 8));
    for (idx_t row = 0; row < n; row++) {
        if (!is_valid(&given.self, row)) {
            set_null(result, row);
            continue;
        }
        duckdb_list_entry e = list_entry(&given, row);
        if (!as_is && !convert_row(info, type, &given, e, out))
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
    duckdb_logical_type given = make_list_type(type),
                        made = make_list_type(type == DUCKDB_TYPE_INTEGER ? type
                                                                          : DUCKDB_TYPE_BIGINT);
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
