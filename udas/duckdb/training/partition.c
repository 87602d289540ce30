/* feature_frequencies and partition_model: pack rows of feature ids into blocks. The rest is
 * shared with train_model. */
#include <stdlib.h>

#include "train_model.h"

/* A chunk of rows. */
typedef struct rows {
    idx_t n;
    list_column ids;
    column options;
    bool has_options;
    size_t id_size;
} rows;

static rows rows_of(duckdb_data_chunk chunk, const overload *o) {
    rows r = {.n = duckdb_data_chunk_get_size(chunk),
              .has_options = o->has_options,
              .id_size = o->wide ? 8 : 4};
    r.ids = list_column_of(duckdb_data_chunk_get_vector(chunk, 0));
    if (o->has_options)
        r.options = chunk_column(chunk, 1);
    return r;
}

static bool same_options(const rows *r, idx_t a, idx_t b) {
    return !r->has_options || (is_valid(&r->options, a) == is_valid(&r->options, b) &&
                               same_string(&r->options, a, b));
}

/* The spec of a row. If its texts are the same objects as in the row before, so is the spec. */
static spec *spec_of_row(duckdb_function_info info, const rows *r, idx_t row, spec *current) {
    if (current && same_options(r, row, row - 1))
        return current;
    if (current)
        spec_release(current);
    text none = {"", 0};
    bool given = r->has_options && is_valid(&r->options, row);
    return spec_of_texts(info, none, given ? text_at(&r->options, row) : none);
}

static bool usable(const rows *r, idx_t row) {
    if (!is_valid(&r->ids.self, row))
        return false;
    duckdb_list_entry e = list_entry(&r->ids, row);
    return all_valid(&r->ids.child, e.offset, e.length);
}

static int append(tusk_memory *memory, const rows *r, idx_t row, tusk_block *block,
                  tusk_fault *fault) {
    duckdb_list_entry e = list_entry(&r->ids, row);
    const char *ids = (const char *)r->ids.child.data + e.offset * r->id_size;
    tusk_entries entries = {.wide = r->id_size == 8, .index = ids, .n = (int64_t)e.length};
    return tusk_append_ids(memory, block, &entries, fault);
}

static void take(duckdb_function_info info, const void *chunk, duckdb_aggregate_state *states,
                 run *run) {
    const rows *r = chunk;
    spec *current = NULL;
    tusk_fault fault;
    for (idx_t row = 0; row < r->n; row++) {
        train_state *s = (train_state *)states[row];
        current = spec_of_row(info, r, row, current);
        if (!current)
            return;
        if (!adopt(info, s, current, run))
            break;
        if (!usable(r, row)) {
            s->block.n_skipped++;
        } else if (append(s->run->era->memory, r, row, &s->block, &fault)) {
            refuse_fault(info, &fault);
            break;
        }
    }
    if (current)
        spec_release(current);
}

static void update(duckdb_function_info info, duckdb_data_chunk chunk,
                   duckdb_aggregate_state *states) {
    rows r = rows_of(chunk, overload_of(info));
    take_in(info, states, r.n, CALLER, &r, take);
}

/* --- registration --- */

static duckdb_logical_type result_type(enum tusk_request request) {
    return request == TUSK_FREQUENCIES ? make_frequencies_type() : make_partitioning_type();
}

static void add_parameters(duckdb_aggregate_function f, const overload *o) {
    add_parameter(f, make_list_type(o->wide ? DUCKDB_TYPE_BIGINT : DUCKDB_TYPE_INTEGER));
    if (o->has_options)
        add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR));
}

static bool add_overload(duckdb_aggregate_function_set set, overload like) {
    return add_aggregate(set, tusk_request_name(like.request), &like, add_parameters,
                         result_type(like.request), update);
}

static bool register_one(duckdb_connection connection, database *d, enum tusk_request request,
                         bool own) {
    char name[SPELLED];
    duckdb_aggregate_function_set set =
        duckdb_create_aggregate_function_set(spelled(tusk_request_name(request), own, name));
    bool done = true;
    for (int wide = 0; wide < 2; wide++)
        for (int options = 0; options < 2; options++)
            done = done && add_overload(set, (overload){.database = d,
                                                        .has_options = options,
                                                        .request = request,
                                                        .wide = wide});
    done = done && duckdb_register_aggregate_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_aggregate_function_set(&set);
    return done;
}

bool register_partition(duckdb_connection connection, database *d) {
    bool done = true;
    for (int own = 0; own < 2; own++)
        done = done && register_one(connection, d, TUSK_FREQUENCIES, own) &&
               register_one(connection, d, TUSK_PARTITION, own);
    return done;
}
