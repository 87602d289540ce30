/* sparse(indices, values). A macro of the same name is faster. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../any_type.h"

/* --- sparse --- */

static bool refuse_id(duckdb_function_info info, double id) {
    char text[200];
    snprintf(text, sizeof text,
             "sparse: indices hold %.15g, expected whole numbers from 0 to 2147483647, or a "
             "BIGINT[] for larger ones",
             id);
    duckdb_scalar_function_set_error(info, text);
    return false;
}

/* Writes the ids that rows use, as INTEGER. Other items, after a NULL or in no row, may be
 * anything. */
static bool put_ids(duckdb_function_info info, const list_column *l, idx_t n, int32_t *out) {
    for (idx_t row = 0; row < n; row++) {
        if (!is_valid(&l->self, row))
            continue;
        duckdb_list_entry e = list_entry(l, row);
        for (idx_t i = e.offset; i < e.offset + e.length; i++) {
            double id = ((const double *)l->child.data)[i];
            if (!is_valid(&l->child, i))
                continue;
            if (!(id >= INT32_MIN && id <= INT32_MAX) || id != floor(id) ||
                is_rounded(&l->child, i))
                return refuse_id(info, id);
            out[i] = (int32_t)id;
        }
    }
    return true;
}

/* A list with the same rows, whose items are `data`. */
static void put_rows(duckdb_vector v, const list_column *l, idx_t n, const void *data,
                     size_t width) {
    duckdb_list_vector_reserve(v, l->items);
    duckdb_list_vector_set_size(v, l->items);
    duckdb_vector child = duckdb_list_vector_get_child(v);
    if (l->items)
        memcpy(duckdb_vector_get_data(child), data, l->items * width);
    for (idx_t i = 0; l->child.validity && i < l->items; i++)
        if (!is_valid(&l->child, i))
            set_null(child, i);
    duckdb_list_entry *entries = duckdb_vector_get_data(v);
    for (idx_t row = 0; row < n; row++)
        if (is_valid(&l->self, row))
            entries[row] = list_entry(l, row);
        else
            set_null(v, row);
}

/* The ids of a chunk as written to the result: int64 unchanged, others as int32. */
static bool read_ids(duckdb_vector v, idx_t n, bool wide, scratch *kept, list_column *ids,
                     int32_t **whole) {
    *ids = list_column_of(v);
    return wide || (numbers_list_of_any(v, n, kept, ids, NULL) &&
                    (*whole = piece(kept, ids->items * sizeof **whole)));
}

static void sparse(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    idx_t n = duckdb_data_chunk_get_size(chunk);
    const feature_type *type = duckdb_scalar_function_get_extra_info(info);
    bool f64;
    scratch kept = {0};
    list_column ids, values;
    int32_t *whole = NULL;
    if (!read_ids(duckdb_data_chunk_get_vector(chunk, 0), n, type->wide, &kept, &ids, &whole) ||
        !numbers_list_of_any(duckdb_data_chunk_get_vector(chunk, 1), n, &kept, &values,
                             type->f64 ? NULL : &f64)) {
        char text[REFUSAL_ROOM] = "sparse: out of memory";
        if (!kept.out_of_memory)
            write_refusal("sparse", chunk, text);
        duckdb_scalar_function_set_error(info, text);
    } else if (type->wide || put_ids(info, &ids, n, whole)) {
        put_rows(duckdb_struct_vector_get_child(result, 0), &ids, n,
                 type->wide ? ids.child.data : whole, type->wide ? 8 : sizeof *whole);
        put_rows(duckdb_struct_vector_get_child(result, 1), &values, n, values.child.data,
                 type->f64 ? sizeof(double) : sizeof(float));
    }
    scratch_free(&kept);
}

/* --- registration --- */

/* Indices are BIGINT[] if the type is wide, else ANY; values FLOAT[], or ANY, which become DOUBLE.
 */
static bool add_sparse(duckdb_scalar_function_set set, const feature_type *type) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type indices = type->wide ? make_list_type(DUCKDB_TYPE_BIGINT)
                                             : duckdb_create_logical_type(DUCKDB_TYPE_ANY);
    duckdb_logical_type values = type->f64 ? duckdb_create_logical_type(DUCKDB_TYPE_ANY)
                                           : make_list_type(DUCKDB_TYPE_FLOAT);
    duckdb_logical_type result = make_feature_type(*type);
    duckdb_scalar_function_set_name(f, "sparse");
    duckdb_scalar_function_add_parameter(f, indices);
    duckdb_scalar_function_add_parameter(f, values);
    duckdb_scalar_function_set_return_type(f, result);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_extra_info(f, (void *)type, NULL);
    duckdb_scalar_function_set_function(f, sparse);
    bool added = duckdb_add_scalar_function_to_set(set, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&values);
    duckdb_destroy_logical_type(&indices);
    duckdb_destroy_logical_type(&result);
    duckdb_destroy_scalar_function(&f);
    return added;
}

static bool register_one(duckdb_connection connection, bool own) {
    char name[SPELLED];
    duckdb_scalar_function_set set =
        duckdb_create_scalar_function_set(spelled("sparse", own, name));
    bool done = true;
    for (int i = 0; i < N_FEATURE_TYPES; i++)
        if (FEATURE_TYPES[i].sparse)
            done = done && add_sparse(set, &FEATURE_TYPES[i]);
    done = done && duckdb_register_scalar_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_scalar_function_set(&set);
    return done;
}

bool register_sparse(duckdb_connection connection) {
    return register_one(connection, false) && register_one(connection, true);
}
