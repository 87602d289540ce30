#include "words.h"

#include "named.h"

/* The innermost item type of lists. Takes ownership of the type. */
static duckdb_logical_type innermost(duckdb_logical_type type) {
    for (;;) {
        duckdb_type id = duckdb_get_type_id(type);
        if (id != DUCKDB_TYPE_LIST && id != DUCKDB_TYPE_ARRAY)
            return type;
        duckdb_logical_type child = id == DUCKDB_TYPE_LIST ? duckdb_list_type_child_type(type)
                                                           : duckdb_array_type_child_type(type);
        duckdb_destroy_logical_type(&type);
        type = child;
    }
}

bool is_list_of_text(duckdb_vector v) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    duckdb_type outer = duckdb_get_type_id(type);
    type = innermost(type);
    duckdb_type id = duckdb_get_type_id(type);
    duckdb_destroy_logical_type(&type);
    return (outer == DUCKDB_TYPE_LIST || outer == DUCKDB_TYPE_ARRAY) &&
           (id == DUCKDB_TYPE_VARCHAR || id == DUCKDB_TYPE_ENUM || id == DUCKDB_TYPE_UUID);
}

static bool words_of_any(duckdb_vector items, idx_t n, scratch *s, column *c, bool *unused) {
    (void)unused;
    tusk_text *texts;
    *c = column_of(items);
    if (!is_label_text(items) || !texts_of_any(items, n, s, &texts))
        return false;
    c->data = texts;
    return true;
}

bool documents_of_any(duckdb_vector v, idx_t n, scratch *s, document_column *c) {
    if (!list_of_any(v, n, s, &c->lists, words_of_any, NULL))
        return false;
    idx_t longest = 0;
    for (idx_t row = 0; row < n; row++)
        if (is_valid(&c->lists.self, row) && list_entry(&c->lists, row).length > longest)
            longest = list_entry(&c->lists, row).length;
    c->room = piece(s, tusk_words_room(longest));
    return c->room;
}
