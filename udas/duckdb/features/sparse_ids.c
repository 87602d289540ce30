/* _tusk_ids(indices): converts feature ids of any numeric type without rounding, to INTEGER[] if
 * they are INTEGER[], otherwise to BIGINT[]. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../rowblock/rowblock.h"
#include "../any_type.h"

static const duckdb_type INTEGER = DUCKDB_TYPE_INTEGER, BIGINT = DUCKDB_TYPE_BIGINT,
                         ANY = DUCKDB_TYPE_ANY;

/* Rejects item `at` of the lists of n rows, number `place` of its list. */
static void refuse(duckdb_function_info info, duckdb_vector input, idx_t n, idx_t at,
                   idx_t place) {
    char text[200], given[64];
    scratch kept = {0};
    list_column numbers;
    list_of_any(input, n, &kept, &numbers, numbers_of_any, NULL);
    double number = ((const double *)numbers.child.data)[at];
    bool whole = fabs(number) < 0x1p63 && number == (double)(int64_t)number;
    snprintf(given, sizeof given, "%.15g%s", number, whole ? " and a fraction" : "");
    snprintf(text, sizeof text,
             "sparse: indices[%llu] is %s, expected a whole feature id from " TUSK_ID_RANGE,
             (unsigned long long)place, strstr(given, "nan") ? "NaN" : given);
    duckdb_scalar_function_set_error(info, text);
    scratch_free(&kept);
}

static bool check_row(duckdb_function_info info, duckdb_vector input, const list_column *given,
                      idx_t row) {
    duckdb_list_entry e = list_entry(given, row);
    for (idx_t i = e.offset; i < e.offset + e.length; i++)
        if (is_rounded(&given->child, i)) {
            refuse(info, input, row + 1, i, i - e.offset + 1);
            return false;
        }
    return true;
}

static void put_ids(duckdb_vector result, const list_column *given, size_t width) {
    duckdb_list_vector_reserve(result, given->items);
    duckdb_list_vector_set_size(result, given->items);
    duckdb_vector child = duckdb_list_vector_get_child(result);
    if (given->items)
        memcpy(duckdb_vector_get_data(child), given->child.data, given->items * width);
    for (idx_t i = 0; given->child.validity && i < given->items; i++)
        if (!is_valid(&given->child, i))
            set_null(child, i);
}

static void ids(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    const duckdb_type *type = duckdb_scalar_function_get_extra_info(info);
    duckdb_vector input = duckdb_data_chunk_get_vector(chunk, 0);
    idx_t n = duckdb_data_chunk_get_size(chunk);
    scratch kept = {0};
    list_column given;
    if (*type != DUCKDB_TYPE_ANY) {
        given = list_column_of(input);
    } else if (!list_of_any(input, n, &kept, &given, whole_of_any, NULL)) {
        char text[REFUSAL_ROOM], name[200];
        write_type(input, name, sizeof name);
        snprintf(text, sizeof text,
                 kept.out_of_memory ? "sparse: out of memory"
                                    : "sparse: indices is %s, expected an array of whole numbers",
                 name);
        duckdb_scalar_function_set_error(info, text);
        scratch_free(&kept);
        return;
    }
    put_ids(result, &given, *type == DUCKDB_TYPE_INTEGER ? 4 : 8);
    for (idx_t row = 0; row < n; row++) {
        if (!is_valid(&given.self, row))
            set_null(result, row);
        else if (!check_row(info, input, &given, row))
            break;
        else
            ((duckdb_list_entry *)duckdb_vector_get_data(result))[row] = list_entry(&given, row);
    }
    scratch_free(&kept);
}

/* An ANY parameter takes the types that the others do not match exactly. */
static bool add(duckdb_scalar_function_set set, const duckdb_type *type) {
    bool any = *type == DUCKDB_TYPE_ANY;
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, "_tusk_ids");
    duckdb_logical_type given = any ? duckdb_create_logical_type(*type) : make_list_type(*type),
                        made = make_list_type(any ? DUCKDB_TYPE_BIGINT : *type);
    duckdb_scalar_function_add_parameter(f, given);
    duckdb_scalar_function_set_return_type(f, made);
    duckdb_destroy_logical_type(&given);
    duckdb_destroy_logical_type(&made);
    duckdb_scalar_function_set_extra_info(f, (void *)type, NULL);
    duckdb_scalar_function_set_function(f, ids);
    bool added = duckdb_add_scalar_function_to_set(set, f) == DuckDBSuccess;
    duckdb_destroy_scalar_function(&f);
    return added;
}

bool register_sparse_ids(duckdb_connection connection) {
    duckdb_scalar_function_set set = duckdb_create_scalar_function_set("_tusk_ids");
    bool done = add(set, &INTEGER) && add(set, &BIGINT) && add(set, &ANY) &&
                duckdb_register_scalar_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_scalar_function_set(&set);
    return done;
}
