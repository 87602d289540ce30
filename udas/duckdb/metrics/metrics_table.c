/* Results that are tables: a LIST of STRUCTs. */
#include "metrics.h"

duckdb_logical_type make_table_type(const tusk_table *table) {
    static const duckdb_type TYPES[] = {[TUSK_NUMBER_CELL] = DUCKDB_TYPE_DOUBLE,
                                        [TUSK_WHOLE_CELL] = DUCKDB_TYPE_BIGINT,
                                        [TUSK_TEXT_CELL] = DUCKDB_TYPE_VARCHAR};
    duckdb_logical_type types[TUSK_COLUMNS];
    const char *names[TUSK_COLUMNS];
    for (int i = 0; i < table->n_columns; i++) {
        names[i] = table->columns[i].name;
        types[i] = duckdb_create_logical_type(TYPES[table->columns[i].type]);
    }
    duckdb_logical_type row = duckdb_create_struct_type(types, names, (idx_t)table->n_columns);
    duckdb_logical_type list = duckdb_create_list_type(row);
    duckdb_destroy_logical_type(&row);
    for (int i = 0; i < table->n_columns; i++)
        duckdb_destroy_logical_type(&types[i]);
    return list;
}

list_writer list_begin(const tusk_table *table, duckdb_vector list) {
    return (list_writer){table, list, duckdb_list_vector_get_size(list)};
}

static void put_cell(duckdb_vector v, idx_t at, enum tusk_cell_type type, const tusk_cell *cell) {
    if (cell->null)
        set_null(v, at);
    else if (type == TUSK_NUMBER_CELL)
        ((double *)duckdb_vector_get_data(v))[at] = cell->number;
    else if (type == TUSK_WHOLE_CELL)
        ((int64_t *)duckdb_vector_get_data(v))[at] = cell->whole;
    else
        duckdb_vector_assign_string_element_len(v, at, cell->words ? cell->words : cell->own,
                                                (idx_t)cell->length);
}

/* DuckDB doubles the list's capacity when it must grow. */
static bool put_row(const tusk_row row, void *context) {
    const list_writer *w = context;
    idx_t at = duckdb_list_vector_get_size(w->list);
    duckdb_list_vector_reserve(w->list, at + 1);
    duckdb_list_vector_set_size(w->list, at + 1);
    duckdb_vector rows = duckdb_list_vector_get_child(w->list);
    for (int i = 0; i < w->table->n_columns; i++)
        put_cell(duckdb_struct_vector_get_child(rows, (idx_t)i), at, w->table->columns[i].type,
                 &row[i]);
    return true;
}

tusk_writer list_rows(list_writer *w) {
    return (tusk_writer){put_row, w};
}

void list_end(const list_writer *w, idx_t at) {
    idx_t n = duckdb_list_vector_get_size(w->list) - w->first;
    ((duckdb_list_entry *)duckdb_vector_get_data(w->list))[at] = (duckdb_list_entry){w->first, n};
}
