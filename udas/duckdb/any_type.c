#include "any_type.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool room_for_piece(scratch *s) {
    if (s->n < s->room)
        return true;
    size_t room = s->room ? 2 * s->room : 24;
    void **more = realloc(s->piece, room * sizeof *more);
    if (!more)
        return false;
    s->piece = more;
    s->room = room;
    return true;
}

void *piece(scratch *s, idx_t bytes) {
    void *p = room_for_piece(s) ? calloc(bytes ? bytes : 1, 1) : NULL;
    if (p)
        s->piece[s->n++] = p;
    else
        s->out_of_memory = true;
    return p;
}

void scratch_free(scratch *s) {
    while (s->n)
        free(s->piece[--s->n]);
    free(s->piece);
    s->piece = NULL;
    s->room = 0;
}

/* --- numbers, as DuckDB casts them --- */

/* DuckDB's own formulas. */
double from_hugeint(duckdb_hugeint h) {
    if (h.upper == -1)
        return -(double)(UINT64_MAX - h.lower) - 1;
    return (double)h.lower + (double)h.upper * (double)UINT64_MAX;
}

static double from_uhugeint(duckdb_uhugeint h) {
    return (double)h.lower + (double)h.upper * (double)UINT64_MAX;
}

typedef __int128 wide;

static wide wide_of(duckdb_hugeint h) {
    return (wide)(((unsigned __int128)(uint64_t)h.upper << 64) | h.lower);
}

duckdb_hugeint hugeint_of(__int128 x) {
    return (duckdb_hugeint){(uint64_t)x, (int64_t)(x >> 64)};
}

#define EXACT ((wide)1 << 53)
#define EXACT_POWER 22

static const double POWERS[] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12,
    1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25,
    1e26, 1e27, 1e28, 1e29, 1e30, 1e31, 1e32, 1e33, 1e34, 1e35, 1e36, 1e37, 1e38,
};

static bool is_small(wide x) {
    return x >= -EXACT && x <= EXACT;
}

/* Writes a size as digits in front of `end`. */
static char *digits_before(char *end, unsigned __int128 size) {
    do
        *--end = (char)('0' + (int)(size % 10));
    while (size /= 10);
    return end;
}

/* DuckDB 2.0 rounds once. */
static double nearest(wide x, int scale) {
    char text[64], *first = text + sizeof text - 8; /* room for the exponent */
    unsigned __int128 rest = x < 0 ? -(unsigned __int128)x : (unsigned __int128)x;
    snprintf(first, 8, "e-%d", scale);
    double size = strtod(digits_before(first, rest), NULL);
    return x < 0 ? -size : size;
}

static double from_decimal(wide x, int scale, bool once) {
    if (!scale || (is_small(x) && (scale <= EXACT_POWER || !once)))
        return from_hugeint(hugeint_of(x)) / POWERS[scale];
    return once ? nearest(x, scale) : v1_decimal(x, scale, POWERS[scale]);
}

void note_rounded(scratch *s, idx_t n, idx_t i, uint64_t **rounded) {
    if (!*rounded)
        *rounded = piece(s, (n + 63) / 64 * 8);
    if (*rounded)
        (*rounded)[i >> 6] |= UINT64_C(1) << (i & 63);
}

#define SURE_DIGITS \
    ((wide)1000000000000000) /* decimals of up to 15 digits have distinct doubles */

/* Whether another decimal may have the same double. */
static bool loses_digits(wide x, int scale) {
    if (x > -SURE_DIGITS && x < SURE_DIGITS)
        return false;
    for (; scale && x % 10 == 0; scale--)
        x /= 10;
    return scale ? x <= -SURE_DIGITS || x >= SURE_DIGITS : !is_small(x);
}

static wide decimal_at(const void *data, duckdb_type storage, idx_t i) {
    switch (storage) {
    case DUCKDB_TYPE_SMALLINT:
        return ((const int16_t *)data)[i];
    case DUCKDB_TYPE_INTEGER:
        return ((const int32_t *)data)[i];
    case DUCKDB_TYPE_BIGINT:
        return ((const int64_t *)data)[i];
    default:
        return wide_of(((const duckdb_hugeint *)data)[i]);
    }
}

static void convert_decimals(duckdb_logical_type type, idx_t n, scratch *s, column *c,
                             double *out) {
    int scale = duckdb_decimal_scale(type);
    duckdb_type storage = duckdb_decimal_internal_type(type);
    bool once = !V1_NEEDED;
    for (idx_t i = 0; i < n; i++) {
        wide x = decimal_at(c->data, storage, i);
        out[i] = from_decimal(x, scale, once);
        if (is_valid(c, i) && loses_digits(x, scale))
            note_rounded(s, n, i, &c->rounded);
    }
}

#define CONVERT(ID, T, TO)                        \
    case ID:                                      \
        for (idx_t i = 0; i < n; i++)             \
            out[i] = TO(((const T *)c->data)[i]); \
        return true

/* Returns false unless the type is numeric. */
static bool convert(duckdb_logical_type type, idx_t n, scratch *s, column *c, double *out) {
    switch (duckdb_get_type_id(type)) {
        CONVERT(DUCKDB_TYPE_TINYINT, int8_t, (double));
        CONVERT(DUCKDB_TYPE_SMALLINT, int16_t, (double));
        CONVERT(DUCKDB_TYPE_INTEGER, int32_t, (double));
        CONVERT(DUCKDB_TYPE_BIGINT, int64_t, (double));
        CONVERT(DUCKDB_TYPE_UTINYINT, uint8_t, (double));
        CONVERT(DUCKDB_TYPE_USMALLINT, uint16_t, (double));
        CONVERT(DUCKDB_TYPE_UINTEGER, uint32_t, (double));
        CONVERT(DUCKDB_TYPE_UBIGINT, uint64_t, (double));
        CONVERT(DUCKDB_TYPE_FLOAT, float, (double));
        CONVERT(DUCKDB_TYPE_HUGEINT, duckdb_hugeint, from_hugeint);
        CONVERT(DUCKDB_TYPE_UHUGEINT, duckdb_uhugeint, from_uhugeint);
    case DUCKDB_TYPE_DECIMAL:
        convert_decimals(type, n, s, c, out);
        return true;
    default:
        return false;
    }
}

size_t width_of_any(duckdb_logical_type type) {
    duckdb_type id = duckdb_get_type_id(type);
    if (id == DUCKDB_TYPE_DECIMAL)
        id = duckdb_decimal_internal_type(type);
    else if (id == DUCKDB_TYPE_ENUM)
        id = duckdb_enum_internal_type(type);
    switch (id) {
    case DUCKDB_TYPE_BOOLEAN:
    case DUCKDB_TYPE_TINYINT:
    case DUCKDB_TYPE_UTINYINT:
        return 1;
    case DUCKDB_TYPE_SMALLINT:
    case DUCKDB_TYPE_USMALLINT:
        return 2;
    case DUCKDB_TYPE_INTEGER:
    case DUCKDB_TYPE_UINTEGER:
    case DUCKDB_TYPE_FLOAT:
        return 4;
    case DUCKDB_TYPE_BIGINT:
    case DUCKDB_TYPE_UBIGINT:
    case DUCKDB_TYPE_DOUBLE:
        return 8;
    case DUCKDB_TYPE_HUGEINT:
    case DUCKDB_TYPE_UHUGEINT:
    case DUCKDB_TYPE_VARCHAR:
    case DUCKDB_TYPE_LIST:
    case DUCKDB_TYPE_MAP:
        return 16;
    default:
        return 0;
    }
}

/* The value of a whole number or a decimal, but for its point; false for other types. */
static bool size_at(duckdb_logical_type type, const void *data, idx_t at, bool *below,
                    unsigned __int128 *size) {
    wide x;
    switch (duckdb_get_type_id(type)) {
    case DUCKDB_TYPE_TINYINT:
        x = ((const int8_t *)data)[at];
        break;
    case DUCKDB_TYPE_UTINYINT:
        x = ((const uint8_t *)data)[at];
        break;
    case DUCKDB_TYPE_USMALLINT:
        x = ((const uint16_t *)data)[at];
        break;
    case DUCKDB_TYPE_UINTEGER:
        x = ((const uint32_t *)data)[at];
        break;
    case DUCKDB_TYPE_UBIGINT:
        x = ((const uint64_t *)data)[at];
        break;
    case DUCKDB_TYPE_SMALLINT:
    case DUCKDB_TYPE_INTEGER:
    case DUCKDB_TYPE_BIGINT:
    case DUCKDB_TYPE_HUGEINT:
    case DUCKDB_TYPE_UHUGEINT:
        x = decimal_at(data, duckdb_get_type_id(type), at);
        break;
    case DUCKDB_TYPE_DECIMAL:
        x = decimal_at(data, duckdb_decimal_internal_type(type), at);
        break;
    default:
        return false;
    }
    *below = x < 0 && duckdb_get_type_id(type) != DUCKDB_TYPE_UHUGEINT;
    *size = *below ? -(unsigned __int128)x : (unsigned __int128)x;
    return true;
}

bool digits_of_any(duckdb_logical_type type, const void *data, idx_t at, char text[DIGITS_ROOM]) {
    bool below;
    unsigned __int128 size, unit = 1;
    if (!size_at(type, data, at, &below, &size))
        return false;
    bool decimal = duckdb_get_type_id(type) == DUCKDB_TYPE_DECIMAL;
    int scale = decimal ? duckdb_decimal_scale(type) : 0;
    for (int i = 0; i < scale; i++)
        unit *= 10;
    char all[DIGITS_ROOM], *end = all + sizeof all - 1, *first = end;
    *end = 0;
    if (scale) {
        first = digits_before(end, size % unit);
        while (end - first < scale)
            *--first = '0';
        *--first = '.';
    }
    first = digits_before(first, size / unit);
    if (below)
        *--first = '-';
    memcpy(text, first, (size_t)(end - first) + 1);
    return true;
}

bool all_null(idx_t n, scratch *s, column *c) {
    c->validity = piece(s, (n + 63) / 64 * 8);
    c->data = piece(s, n * sizeof(duckdb_list_entry)); /* the widest item; also fits '' as text */
    return c->validity && c->data;
}

bool numbers_of_any(duckdb_vector v, idx_t n, scratch *s, column *c, bool *f64) {
    *c = column_of(v);
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    duckdb_type id = duckdb_get_type_id(type);
    bool as_is = id == DUCKDB_TYPE_DOUBLE || (f64 && id == DUCKDB_TYPE_FLOAT), done = as_is;
    if (f64)
        *f64 = id != DUCKDB_TYPE_FLOAT;
    if (id == DUCKDB_TYPE_SQLNULL) {
        done = all_null(n, s, c);
    } else if (!as_is) {
        double *out = piece(s, n * sizeof *out);
        done = out && convert(type, n, s, c, out);
        c->data = out;
    }
    duckdb_destroy_logical_type(&type);
    return done;
}

bool is_json_type(duckdb_logical_type type) {
    if (duckdb_get_type_id(type) != DUCKDB_TYPE_VARCHAR)
        return false;
    char *alias = duckdb_logical_type_get_alias(type);
    bool json = alias && strcasecmp(alias, "JSON") == 0;
    duckdb_free(alias);
    return json;
}

/* Whether item i of a column of integers shares its double with another integer. */
static bool loses_units(const void *data, duckdb_type type, idx_t i) {
    wide x;
    if (type == DUCKDB_TYPE_BIGINT)
        x = ((const int64_t *)data)[i];
    else if (type == DUCKDB_TYPE_UBIGINT)
        x = ((const uint64_t *)data)[i];
    else
        x = wide_of(((const duckdb_hugeint *)data)[i]); /* beyond 127 bits it is negative */
    return !is_small(x) && (type == DUCKDB_TYPE_UHUGEINT || (wide)(double)x != x);
}

static void note_units(duckdb_vector v, duckdb_type type, idx_t n, scratch *s, column *label) {
    const void *data = duckdb_vector_get_data(v);
    for (idx_t i = 0; i < n; i++)
        if (is_valid(label, i) && loses_units(data, type, i))
            note_rounded(s, n, i, &label->rounded);
}

bool label_of_any(duckdb_vector v, idx_t n, scratch *s, column *label, bool *boolean) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    duckdb_type id = duckdb_get_type_id(type);
    duckdb_destroy_logical_type(&type);
    *boolean = id == DUCKDB_TYPE_BOOLEAN;
    *label = column_of(v);
    if (*boolean)
        return true;
    if (!numbers_of_any(v, n, s, label, NULL))
        return false;
    if (id == DUCKDB_TYPE_BIGINT || id == DUCKDB_TYPE_UBIGINT || id == DUCKDB_TYPE_HUGEINT ||
        id == DUCKDB_TYPE_UHUGEINT)
        note_units(v, id, n, s, label);
    return true;
}

bool text_of_any(duckdb_vector v, idx_t n, scratch *s, column *text) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    duckdb_type id = duckdb_get_type_id(type);
    duckdb_destroy_logical_type(&type);
    *text = column_of(v);
    if (id == DUCKDB_TYPE_VARCHAR)
        return true;
    for (idx_t row = 0; id != DUCKDB_TYPE_SQLNULL && row < n; row++)
        if (is_valid(text, row))
            return false;
    return all_null(n, s, text);
}

/* A number of any numeric type as an integer; false if it is not one of 64 bits. */
static bool whole_at(duckdb_logical_type type, const column *c, const double *numbers, idx_t i,
                     int64_t *id) {
    duckdb_type name = duckdb_get_type_id(type);
    wide x;
    if (name == DUCKDB_TYPE_BIGINT) {
        x = ((const int64_t *)c->data)[i];
    } else if (name == DUCKDB_TYPE_UBIGINT) {
        x = ((const uint64_t *)c->data)[i];
    } else if (name == DUCKDB_TYPE_HUGEINT || name == DUCKDB_TYPE_UHUGEINT) {
        x = wide_of(((const duckdb_hugeint *)c->data)[i]); /* beyond 127 bits it is negative */
    } else if (name == DUCKDB_TYPE_DECIMAL) {
        x = decimal_at(c->data, duckdb_decimal_internal_type(type), i);
        for (int scale = duckdb_decimal_scale(type); scale; scale--, x /= 10)
            if (x % 10)
                return false;
    } else {
        *id = (int64_t)(fabs(numbers[i]) < 0x1p63 ? numbers[i] : 0);
        return numbers[i] == (double)*id;
    }
    *id = (int64_t)x;
    return *id == x && (name != DUCKDB_TYPE_UHUGEINT || x >= 0);
}

bool whole_of_any(duckdb_vector v, idx_t n, scratch *s, column *c, bool *f64) {
    (void)f64;
    column given = column_of(v);
    int64_t *ids = piece(s, n * sizeof *ids);
    if (!ids || !numbers_of_any(v, n, s, c, NULL))
        return false;
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    bool none = duckdb_get_type_id(type) == DUCKDB_TYPE_SQLNULL;
    c->rounded = NULL;
    for (idx_t i = 0; !none && i < n; i++)
        if (is_valid(c, i) && !whole_at(type, &given, c->data, i, ids + i))
            note_rounded(s, n, i, &c->rounded);
    duckdb_destroy_logical_type(&type);
    c->data = ids;
    return !s->out_of_memory;
}

/* --- lists --- */

/* Feature ids: whole numbers of at most 63 bits; those of more than 31 are int64. */
static bool ids_of_any(duckdb_vector v, idx_t n, scratch *s, column *c, bool *wide) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    duckdb_type id = duckdb_get_type_id(type);
    duckdb_destroy_logical_type(&type);
    *c = column_of(v);
    *wide = id == DUCKDB_TYPE_BIGINT;
    if (id == DUCKDB_TYPE_INTEGER || id == DUCKDB_TYPE_BIGINT)
        return true;
    if (id != DUCKDB_TYPE_TINYINT && id != DUCKDB_TYPE_SMALLINT && id != DUCKDB_TYPE_UTINYINT &&
        id != DUCKDB_TYPE_USMALLINT && id != DUCKDB_TYPE_SQLNULL)
        return false;
    int32_t *out = piece(s, n * sizeof *out);
    if (!out || !numbers_of_any(v, n, s, c, NULL))
        return false;
    const double *numbers = c->data;
    for (idx_t i = 0; i < n; i++)
        out[i] = (int32_t)numbers[i];
    c->data = out;
    return true;
}

/* Views an ARRAY as a LIST: computes the range of each row's items. */
static bool entries_of_array(duckdb_logical_type type, idx_t n, scratch *s, list_column *l) {
    idx_t length = duckdb_array_type_array_size(type);
    duckdb_list_entry *entries = piece(s, n * sizeof *entries);
    for (idx_t i = 0; entries && i < n; i++)
        entries[i] = (duckdb_list_entry){i * length, length};
    l->self.data = entries;
    l->items = n * length;
    return entries;
}

bool list_of_any(duckdb_vector v, idx_t n, scratch *s, list_column *l, item_reader read,
                 bool *f64) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    duckdb_type id = duckdb_get_type_id(type);
    duckdb_vector items = NULL;
    bool done = false;
    *l = (list_column){.self = column_of(v)};
    if (id == DUCKDB_TYPE_LIST) {
        *l = list_column_of(v);
        items = l->child.vector;
    } else if (id == DUCKDB_TYPE_ARRAY && entries_of_array(type, n, s, l)) {
        items = duckdb_array_vector_get_child(v);
    } else if (id == DUCKDB_TYPE_SQLNULL) {
        done = all_null(n, s, &l->self);
    }
    if (items)
        done = read(items, l->items, s, &l->child, f64);
    duckdb_destroy_logical_type(&type);
    return done;
}

static bool named(duckdb_logical_type type, idx_t i, const char *name) {
    char *found = duckdb_struct_type_child_name(type, i);
    bool same = found && (!*found || strcasecmp(found, name) == 0); /* row(...) has no names */
    duckdb_free(found);
    return same;
}

bool features_of_any(duckdb_vector v, idx_t n, scratch *s, feature_column *f) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    *f = (feature_column){.self = column_of(v)};
    f->type.f64 = true;
    f->type.sparse = duckdb_get_type_id(type) == DUCKDB_TYPE_STRUCT;
    bool done;
    if (f->type.sparse) {
        done = duckdb_struct_type_child_count(type) == 2 && named(type, 0, "indices") &&
               named(type, 1, "values") &&
               list_of_any(duckdb_struct_vector_get_child(v, 0), n, s, &f->indices, ids_of_any,
                           &f->type.wide) &&
               list_of_any(duckdb_struct_vector_get_child(v, 1), n, s, &f->values, numbers_of_any,
                           &f->type.f64);
    } else {
        done = list_of_any(v, n, s, &f->values, numbers_of_any, &f->type.f64);
        f->self = f->values.self;
    }
    duckdb_destroy_logical_type(&type);
    return done;
}

bool numbers_list_of_any(duckdb_vector v, idx_t n, scratch *s, list_column *l, bool *f64) {
    return list_of_any(v, n, s, l, numbers_of_any, f64);
}
