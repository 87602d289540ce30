#include "rows.h"

#include <stdio.h>
#include <string.h>

#include "../training/specs.h"

rows rows_of(duckdb_data_chunk chunk, const overload *o) {
    rows r = {.chunk = chunk,
              .n = duckdb_data_chunk_get_size(chunk),
              .boolean_label = o->boolean_label,
              .has_options = o->has_options};
    r.task = chunk_column(chunk, 0);
    r.label = chunk_column(chunk, 1);
    r.features = feature_column_of(duckdb_data_chunk_get_vector(chunk, 2), o->features);
    if (o->has_options)
        r.options = chunk_column(chunk, 3);
    return r;
}

static bool any_label(duckdb_vector v, scratch *s, rows *r) {
    if (!is_label_text(v))
        return label_of_any(v, r->n, s, &r->label, &r->boolean_label);
    tusk_text *texts;
    r->label = column_of(v);
    bool read = texts_of_any(v, r->n, s, &texts);
    r->label_texts = texts;
    return read && values_of_enum(v, s, &r->label_order);
}

static bool any_documents(duckdb_vector v, scratch *s, rows *r) {
    r->by_word = true;
    r->features = (feature_column){.self = column_of(v)};
    if (documents_of_any(v, r->n, s, &r->documents))
        return true;
    char type[200];
    write_type(v, type, sizeof type);
    if (!s->out_of_memory)
        snprintf(r->refusal, REFUSAL_ROOM,
                 "features are %s, expected a list of words that is "
                 "not nested, for task 'lda', or numbers",
                 type);
    return false;
}

static bool any_features(duckdb_vector v, scratch *s, rows *r) {
    enum named_use use = r->label_order.n ? NAMED_TRAIN_ENUM
                         : r->label_texts ? NAMED_TRAIN_TEXT
                                          : NAMED_TRAIN;
    if (is_list_of_text(v))
        return any_documents(v, s, r);
    if (features_of_any(v, r->n, s, &r->features))
        return !r->label_texts || named_columns_of(NULL, r->n, use, s, &r->columns, r->refusal);
    r->by_name = true;
    r->features = (feature_column){.self = column_of(v)};
    return named_columns_of(v, r->n, use, s, &r->columns, r->refusal);
}

/* The weights and offsets, if there are such arguments. */
static bool any_extras(duckdb_vector *given, int arguments, scratch *s, rows *r) {
    if (arguments < WITH_WEIGHT)
        return true;
    if (!numbers_of_any(given[WITH_WEIGHT - 1], r->n, s, &r->weight, NULL))
        return false;
    r->extras = TUSK_WEIGHTS;
    if (arguments < WITH_OFFSET)
        return true;
    r->extras |= TUSK_OFFSETS;
    return numbers_of_any(given[WITH_OFFSET - 1], r->n, s, &r->offset, NULL);
}

bool rows_of_any(duckdb_data_chunk chunk, const overload *o, scratch *s, rows *r) {
    memset(r, 0, sizeof *r);
    r->chunk = chunk;
    r->n = duckdb_data_chunk_get_size(chunk);
    r->has_options = o->has_options;
    duckdb_vector given[WITH_OFFSET];
    for (int i = 0; i < WITH_OFFSET && i < o->arguments; i++)
        given[i] = duckdb_data_chunk_get_vector(chunk, (idx_t)i);
    return o->arguments >= FULL - 1 && o->arguments <= WITH_OFFSET &&
           text_of_any(given[0], r->n, s, &r->task) && any_label(given[1], s, r) &&
           any_features(given[2], s, r) &&
           (!o->has_options || options_of_any(given[3], r->n, s, &r->options)) &&
           any_extras(given, o->arguments, s, r);
}

static bool has_null(const list_column *l, idx_t row) {
    if (!is_valid(&l->self, row))
        return true;
    duckdb_list_entry e = list_entry(l, row);
    return !all_valid(&l->child, e.offset, e.length);
}

static void remark_list_gaps(const feature_column *f, idx_t row, tusk_remarks *to) {
    if (f->type.sparse) {
        if (has_null(&f->indices, row))
            tusk_remark_gap(to, TUSK_OF_INDICES, NULL);
        if (has_null(&f->values, row))
            tusk_remark_gap(to, TUSK_OF_VALUES, NULL);
        return;
    }
    duckdb_list_entry e = list_entry(&f->values, row);
    for (idx_t i = 0; i < e.length; i++)
        if (!is_valid(&f->values.child, e.offset + i))
            tusk_remark_gap(to, (int64_t)i, NULL);
}

void remark_gaps(const rows *r, idx_t row, const spec *spec, tusk_remarks *to) {
    if (spec->labelled && !is_valid(&r->label, row))
        tusk_remark_gap(to, TUSK_OF_LABEL, NULL);
    if (r->extras & TUSK_WEIGHTS &&
        (!is_valid(&r->weight, row) || !((const double *)r->weight.data)[row]))
        tusk_remark_gap(to, TUSK_OF_WEIGHT, NULL);
    if (r->extras & TUSK_OFFSETS && !is_valid(&r->offset, row))
        tusk_remark_gap(to, TUSK_OF_OFFSET, NULL);
    if (!is_valid(&r->features.self, row))
        tusk_remark_gap(to, TUSK_OF_FEATURES, NULL);
    else if (r->by_name && spec->gaps == TUSK_KEEPS_NO_GAPS)
        tusk_named_gaps(&r->columns, row, to);
    else if (!r->by_word && !r->by_name &&
             (r->features.type.sparse || spec->gaps != TUSK_KEEPS_GAPS))
        remark_list_gaps(&r->features, row, to);
}
