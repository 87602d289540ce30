/* Options as a STRUCT or a MAP, converted to the JSON text that the trainer parses. */
#include "specs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 16 /* levels of nesting; the trainer's own limit for JSON is lower */

/* A growing text; `failed` if memory runs out or a type has no JSON. */
typedef struct writer {
    char *data;
    size_t used, room;
    bool failed, out_of_memory;
} writer;

static void put(writer *w, const char *bytes, size_t n) {
    if (w->failed)
        return;
    if (w->used + n > w->room) {
        size_t room = 2 * (w->used + n) + 64;
        char *more = realloc(w->data, room);
        if (!more) {
            w->failed = w->out_of_memory = true;
            return;
        }
        w->data = more;
        w->room = room;
    }
    memcpy(w->data + w->used, bytes, n);
    w->used += n;
}

static void put_text(writer *w, const char *text, size_t n) {
    put(w, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape[8];
        if (c == '"' || c == '\\') {
            put(w, "\\", 1);
            put(w, text + i, 1);
        } else if (c < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", c);
            put(w, escape, 6);
        } else {
            put(w, text + i, 1);
        }
    }
    put(w, "\"", 1);
}

/* The shortest decimal that reads as the number, with a point or an exponent where it may have
 * been rounded to a whole one; NaN and infinity as text, for a sentence. */
static void put_number(writer *w, double x, bool single) {
    char text[44];
    for (int digits = single ? 6 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        double back = strtod(text, NULL);
        if (single ? (float)back == (float)x : back == x)
            break;
    }
    if (fabs(x) >= 0x1p53 && !strpbrk(text, ".en"))
        strcat(text, ".0");
    if (isfinite(x))
        put(w, text, strlen(text));
    else
        put_text(w, text, strlen(text));
}

/* A string_t that refers to a text; short ones contain its bytes. */
static duckdb_string_t string_view(char *text, size_t n) {
    duckdb_string_t s = {0};
    s.value.inlined.length = (uint32_t)n;
    if (n <= sizeof s.value.inlined.inlined) {
        memcpy(s.value.inlined.inlined, text, n);
    } else {
        memcpy(s.value.pointer.prefix, text, sizeof s.value.pointer.prefix);
        s.value.pointer.ptr = text;
    }
    return s;
}

/* --- values --- */

static void put_value(writer *w, duckdb_vector v, idx_t row, int depth);

/* The items of a row's LIST, MAP or ARRAY: their range in the child. */
static duckdb_list_entry items_of(duckdb_vector v, duckdb_logical_type type, idx_t row) {
    if (duckdb_get_type_id(type) != DUCKDB_TYPE_ARRAY)
        return ((const duckdb_list_entry *)duckdb_vector_get_data(v))[row];
    idx_t length = duckdb_array_type_array_size(type);
    return (duckdb_list_entry){row * length, length};
}

static void put_items(writer *w, duckdb_vector items, duckdb_list_entry e, int depth) {
    put(w, "[", 1);
    for (idx_t i = 0; i < e.length && !w->failed; i++) {
        put(w, ", ", i ? 2 : 0);
        put_value(w, items, e.offset + i, depth);
    }
    put(w, "]", 1);
}

static void put_map(writer *w, duckdb_vector entries, duckdb_list_entry e, int depth) {
    duckdb_vector keys = duckdb_struct_vector_get_child(entries, 0);
    put(w, "{", 1);
    for (idx_t i = 0; i < e.length && !w->failed; i++) {
        put(w, ", ", i ? 2 : 0);
        put_value(w, keys, e.offset + i, depth);
        put(w, ": ", 2);
        put_value(w, duckdb_struct_vector_get_child(entries, 1), e.offset + i, depth);
    }
    put(w, "}", 1);
}

static void put_struct(writer *w, duckdb_vector v, duckdb_logical_type type, idx_t row,
                       int depth) {
    put(w, "{", 1);
    for (idx_t i = 0; i < duckdb_struct_type_child_count(type) && !w->failed; i++) {
        char *name = duckdb_struct_type_child_name(type, i);
        w->failed |= !name || !*name; /* row(...) has no names */
        put(w, ", ", i ? 2 : 0);
        if (name)
            put_text(w, name, strlen(name));
        duckdb_free(name);
        put(w, ": ", 2);
        put_value(w, duckdb_struct_vector_get_child(v, i), row, depth);
    }
    put(w, "}", 1);
}

static bool is_text_key(duckdb_logical_type map) {
    duckdb_logical_type key = duckdb_map_type_key_type(map);
    duckdb_type id = duckdb_get_type_id(key);
    duckdb_destroy_logical_type(&key);
    return id == DUCKDB_TYPE_VARCHAR || id == DUCKDB_TYPE_SQLNULL; /* for MAP {} */
}

static void put_enum(writer *w, duckdb_logical_type type, const void *data, idx_t row) {
    size_t width = width_of_any(type);
    uint32_t code = 0; /* little-endian, as on all machines that DuckDB supports */
    memcpy(&code, (const char *)data + row * width, width);
    char *name = duckdb_enum_dictionary_value(type, code);
    w->failed |= !name;
    if (name)
        put_text(w, name, strlen(name));
    duckdb_free(name);
}

static void put_scalar(writer *w, duckdb_vector v, duckdb_logical_type type, idx_t row) {
    const void *data = duckdb_vector_get_data(v);
    duckdb_type id = duckdb_get_type_id(type);
    if (id == DUCKDB_TYPE_BOOLEAN) {
        bool yes = ((const bool *)data)[row];
        put(w, yes ? "true" : "false", yes ? 4 : 5);
    } else if (id == DUCKDB_TYPE_VARCHAR) {
        duckdb_string_t *s = (duckdb_string_t *)data + row;
        if (is_json_type(type))
            put(w, duckdb_string_t_data(s), duckdb_string_t_length(*s));
        else
            put_text(w, duckdb_string_t_data(s), duckdb_string_t_length(*s));
    } else if (id == DUCKDB_TYPE_ENUM) {
        put_enum(w, type, data, row);
    } else if (id == DUCKDB_TYPE_FLOAT) {
        put_number(w, ((const float *)data)[row], true);
    } else if (id == DUCKDB_TYPE_DOUBLE) {
        put_number(w, ((const double *)data)[row], false);
    } else {
        char digits[DIGITS_ROOM];
        w->failed |= !digits_of_any(type, data, row, digits);
        if (!w->failed)
            put(w, digits, strlen(digits));
    }
}

static void put_value(writer *w, duckdb_vector v, idx_t row, int depth) {
    column c = column_of(v);
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    duckdb_type id = duckdb_get_type_id(type);
    w->failed |= depth == DEEPEST;
    if (w->failed)
        ;
    else if (id == DUCKDB_TYPE_SQLNULL || !is_valid(&c, row))
        put(w, "null", 4);
    else if (id == DUCKDB_TYPE_STRUCT)
        put_struct(w, v, type, row, depth + 1);
    else if (id == DUCKDB_TYPE_MAP && is_text_key(type))
        put_map(w, duckdb_list_vector_get_child(v), items_of(v, type, row), depth + 1);
    else if (id == DUCKDB_TYPE_LIST)
        put_items(w, duckdb_list_vector_get_child(v), items_of(v, type, row), depth + 1);
    else if (id == DUCKDB_TYPE_ARRAY)
        put_items(w, duckdb_array_vector_get_child(v), items_of(v, type, row), depth + 1);
    else
        put_scalar(w, v, type, row);
    duckdb_destroy_logical_type(&type);
}

/* --- columns --- */

#define MOST_LEAVES 64

/* The parts of a column whose bytes determine whether two rows are equal, which saves the text
 * for most rows of a training: all have the options of the statement. */
typedef struct leaves {
    struct {
        column c;
        size_t width;
    } at[MOST_LEAVES];
    int n;
    bool compared; /* false: rows have to be written */
} leaves;

static void add_leaves(leaves *l, duckdb_vector v) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    duckdb_type id = duckdb_get_type_id(type);
    idx_t children = id == DUCKDB_TYPE_STRUCT ? duckdb_struct_type_child_count(type) : 0;
    size_t width = width_of_any(type);
    l->compared &= l->n < MOST_LEAVES && (width || id == DUCKDB_TYPE_STRUCT);
    if (l->compared) {
        l->at[l->n].c = column_of(v);
        l->at[l->n++].width = width;
    }
    for (idx_t i = 0; i < children && l->compared; i++)
        add_leaves(l, duckdb_struct_vector_get_child(v, i));
    duckdb_destroy_logical_type(&type);
}

static bool same_as_before(const leaves *l, idx_t row) {
    for (int i = 0; i < l->n; i++) {
        const column *c = &l->at[i].c;
        size_t width = l->at[i].width;
        bool valid = is_valid(c, row);
        if (valid != is_valid(c, row - 1))
            return false;
        const char *bytes = (const char *)c->data + row * width;
        if (valid && width && memcmp(bytes, bytes - width, width) != 0)
            return false;
    }
    return l->compared;
}

static bool write_row(writer *w, duckdb_vector v, idx_t row, scratch *s, duckdb_string_t *text) {
    w->used = 0;
    put_value(w, v, row, 0);
    char *kept = w->failed ? NULL : piece(s, w->used);
    if (!kept)
        return false;
    memcpy(kept, w->data, w->used);
    *text = string_view(kept, w->used);
    return true;
}

bool options_of_any(duckdb_vector v, idx_t n, scratch *s, column *options) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    duckdb_type id = duckdb_get_type_id(type);
    bool written = id == DUCKDB_TYPE_STRUCT || (id == DUCKDB_TYPE_MAP && is_text_key(type));
    duckdb_destroy_logical_type(&type);
    if (!written)
        return text_of_any(v, n, s, options);
    *options = column_of(v);
    duckdb_string_t *text = piece(s, n * sizeof *text);
    writer w = {0};
    leaves l = {.compared = true};
    add_leaves(&l, v);
    bool done = text != NULL;
    for (idx_t row = 0; done && row < n; row++) {
        if (row && same_as_before(&l, row))
            text[row] = text[row - 1];
        else if (is_valid(options, row))
            done = write_row(&w, v, row, s, text + row);
        else
            text[row] = string_view("", 0);
    }
    s->out_of_memory |= w.out_of_memory;
    free(w.data);
    options->data = text;
    return done;
}
