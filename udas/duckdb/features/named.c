/* Reads the columns of a STRUCT, and packs its rows. */
#include "named.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UUID_TEXT 36
#define A_DAY 86400.0

/* --- columns that are text --- */

static duckdb_type type_of(duckdb_vector v) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    duckdb_type id = duckdb_get_type_id(type);
    duckdb_destroy_logical_type(&type);
    return id;
}

bool is_text_type(duckdb_vector v) {
    duckdb_type id = type_of(v);
    return id == DUCKDB_TYPE_VARCHAR || id == DUCKDB_TYPE_ENUM || id == DUCKDB_TYPE_BOOLEAN ||
           id == DUCKDB_TYPE_UUID;
}

bool is_label_text(duckdb_vector v) {
    return is_text_type(v) && type_of(v) != DUCKDB_TYPE_BOOLEAN;
}

static void texts_of_strings(const column *c, idx_t n, tusk_text *out) {
    for (idx_t i = 0; i < n; i++)
        if (is_valid(c, i)) {
            out[i] = text_of_string((const duckdb_string_t *)c->data + i);
        }
}

static void texts_of_booleans(const column *c, idx_t n, tusk_text *out) {
    for (idx_t i = 0; i < n; i++)
        out[i] = ((const bool *)c->data)[i] ? (tusk_text){"true", 4} : (tusk_text){"false", 5};
}

static idx_t enum_code(const column *c, duckdb_type storage, idx_t i) {
    return storage == DUCKDB_TYPE_UTINYINT    ? ((const uint8_t *)c->data)[i]
           : storage == DUCKDB_TYPE_USMALLINT ? ((const uint16_t *)c->data)[i]
                                              : ((const uint32_t *)c->data)[i];
}

static tusk_text value_of_enum(duckdb_logical_type type, idx_t code, scratch *s) {
    char *value = duckdb_enum_dictionary_value(type, code);
    size_t length = value ? strlen(value) : 0;
    char *copy = piece(s, length + 1);
    if (copy && length)
        memcpy(copy, value, length);
    duckdb_free(value);
    return (tusk_text){copy, length};
}

bool values_of_enum(duckdb_vector v, scratch *s, tusk_label_values *values) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    *values = (tusk_label_values){0};
    if (duckdb_get_type_id(type) == DUCKDB_TYPE_ENUM) {
        uint32_t n = duckdb_enum_dictionary_size(type);
        tusk_text *all = piece(s, n * sizeof *all);
        for (uint32_t k = 0; all && k < n; k++)
            all[k] = value_of_enum(type, k, s);
        *values = (tusk_label_values){all, n};
    }
    duckdb_destroy_logical_type(&type);
    return !s->out_of_memory;
}

/* Each value that occurs is copied once per chunk. */
static bool texts_of_enum(duckdb_logical_type type, const column *c, idx_t n, scratch *s,
                          tusk_text *out) {
    duckdb_type storage = duckdb_enum_internal_type(type);
    uint32_t size = duckdb_enum_dictionary_size(type);
    tusk_text *known = piece(s, size * sizeof *known);
    for (idx_t i = 0; known && i < n; i++) {
        if (!is_valid(c, i))
            continue;
        idx_t code = enum_code(c, storage, i);
        if (!known[code].data)
            known[code] = value_of_enum(type, code, s);
        out[i] = known[code];
    }
    return !s->out_of_memory;
}

static bool texts_of_uuids(const column *c, idx_t n, scratch *s, tusk_text *out) {
    char *at = piece(s, n * (UUID_TEXT + 1));
    for (idx_t i = 0; at && i < n; i++, at += UUID_TEXT + 1) {
        duckdb_hugeint h = ((const duckdb_hugeint *)c->data)[i];
        uint64_t high = (uint64_t)h.upper ^ (UINT64_C(1) << 63); /* DuckDB flips it to sort */
        snprintf(at, UUID_TEXT + 1, "%08x-%04x-%04x-%04x-%04x%08x", (unsigned)(high >> 32),
                 (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xffff),
                 (unsigned)(h.lower >> 48), (unsigned)(h.lower >> 32 & 0xffff),
                 (unsigned)(h.lower & 0xffffffff));
        out[i] = (tusk_text){at, UUID_TEXT};
    }
    return at;
}

bool texts_of_any(duckdb_vector v, idx_t n, scratch *s, tusk_text **texts) {
    column c = column_of(v);
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    duckdb_type id = duckdb_get_type_id(type);
    *texts = piece(s, n * sizeof **texts);
    bool done = *texts;
    if (done && id == DUCKDB_TYPE_VARCHAR)
        texts_of_strings(&c, n, *texts);
    else if (done && id == DUCKDB_TYPE_BOOLEAN)
        texts_of_booleans(&c, n, *texts);
    else if (done && id == DUCKDB_TYPE_ENUM)
        done = texts_of_enum(type, &c, n, s, *texts);
    else if (done)
        done = texts_of_uuids(&c, n, s, *texts);
    duckdb_destroy_logical_type(&type);
    return done;
}

/* --- columns that are numbers --- */

/* Days since 1970-01-01; 0 for a type that is no date. */
static double units_of_a_day(duckdb_type id) {
    switch (id) {
    case DUCKDB_TYPE_DATE:
        return 1;
    case DUCKDB_TYPE_TIMESTAMP_S:
        return A_DAY;
    case DUCKDB_TYPE_TIMESTAMP_MS:
        return A_DAY * 1e3;
    case DUCKDB_TYPE_TIMESTAMP:
    case DUCKDB_TYPE_TIMESTAMP_TZ:
        return A_DAY * 1e6;
    case DUCKDB_TYPE_TIMESTAMP_NS:
        return A_DAY * 1e9;
    default:
        return 0;
    }
}

/* Nanoseconds are converted to whole microseconds, which keep the right day, hour and year. */
static bool days_of(duckdb_type id, const column *c, idx_t n, scratch *s, tusk_given_column *to) {
    int64_t part = id == DUCKDB_TYPE_TIMESTAMP_NS ? 1000 : 1;
    int64_t unit = (int64_t)units_of_a_day(id) / part;
    double *days = unit ? piece(s, n * sizeof *days) : NULL;
    for (idx_t i = 0; days && i < n; i++) {
        int64_t time =
            id == DUCKDB_TYPE_DATE ? ((const int32_t *)c->data)[i] : ((const int64_t *)c->data)[i];
        int64_t end = id == DUCKDB_TYPE_DATE ? INT32_MAX : INT64_MAX;
        int64_t rest = (time % part + part) % part;
        if (time >= end || time <= -end) {
            days[i] = time < 0 ? -INFINITY : INFINITY; /* but for one, the ends of their types */
            continue;
        }
        int64_t whole = (time - rest) / part;
        days[i] = (double)whole / (double)unit;
        if (is_valid(c, i) && (rest || tusk_time_in(days[i], unit) != whole))
            note_rounded(s, n, i, &to->rounded);
    }
    to->numbers = days;
    return days;
}

/* Seconds of a time of day, and of an interval as EXTRACT(EPOCH ...) has them. */
static bool seconds_of(duckdb_type id, const column *c, idx_t n, scratch *s,
                       tusk_given_column *to) {
    double *seconds = piece(s, n * sizeof *seconds);
    for (idx_t i = 0; seconds && i < n; i++) {
        if (id == DUCKDB_TYPE_TIME) {
            seconds[i] = (double)((const int64_t *)c->data)[i] / 1e6;
            continue;
        }
        const duckdb_interval *span = (const duckdb_interval *)c->data + i;
        bool rounded = false;
        seconds[i] = tusk_seconds_of(span->months, span->days, span->micros, &rounded);
        if (is_valid(c, i) && rounded)
            note_rounded(s, n, i, &to->rounded);
    }
    to->validity = c->validity;
    to->numbers = seconds;
    return seconds;
}

/* The digits of a number, if it is whole and its type does not round it; otherwise no text. */
static tusk_text whole_digits(duckdb_logical_type type, const void *data, idx_t i,
                              char room[DIGITS_ROOM]) {
    if (!digits_of_any(type, data, i, room))
        return (tusk_text){NULL, 0};
    const char *point = strchr(room, '.');
    if (point && strspn(point + 1, "0") != strlen(point + 1))
        return (tusk_text){NULL, 0};
    return (tusk_text){room, point ? (size_t)(point - room) : strlen(room)};
}

static bool wide_digits(duckdb_vector v, idx_t n, scratch *s, tusk_given_column *to) {
    tusk_text *digits = NULL;
    char *room = NULL;
    const void *data = duckdb_vector_get_data(v);
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    for (idx_t i = 0; !s->out_of_memory && i < n; i++) {
        if (!(fabs(to->numbers[i]) >= 0x1p53) || !tusk_given_valid(to, i))
            continue;
        if (!digits) {
            to->digits = digits = piece(s, n * sizeof *digits);
            room = piece(s, n * DIGITS_ROOM);
        }
        if (digits && room)
            digits[i] = whole_digits(type, data, i, room + i * DIGITS_ROOM);
    }
    duckdb_destroy_logical_type(&type);
    return !s->out_of_memory;
}

static bool numbers_column(duckdb_vector v, idx_t n, scratch *s, tusk_given_column *to) {
    duckdb_type id = type_of(v);
    column c = column_of(v);
    if (units_of_a_day(id)) {
        to->validity = c.validity;
        return days_of(id, &c, n, s, to);
    }
    if (id == DUCKDB_TYPE_TIME || id == DUCKDB_TYPE_INTERVAL)
        return seconds_of(id, &c, n, s, to);
    if (!numbers_of_any(v, n, s, &c, NULL))
        return false;
    to->numbers = c.data;
    to->validity = c.validity;
    to->rounded = c.rounded;
    return wide_digits(v, n, s, to);
}

static uint8_t kind_of(duckdb_vector v, const tusk_given_column *read) {
    duckdb_type id = type_of(v);
    return read->texts                 ? TUSK_CATEGORY
           : id == DUCKDB_TYPE_DATE    ? TUSK_DATE
           : units_of_a_day(id) != 0.0 ? TUSK_TIMESTAMP
                                       : TUSK_NUMBER;
}

/* --- the STRUCT --- */

static bool is_json(duckdb_vector v) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    bool json = is_json_type(type);
    duckdb_destroy_logical_type(&type);
    return json;
}

/* JSON is rejected, as its numbers would be texts, each of them a level. */
static bool given_column(duckdb_vector v, idx_t n, scratch *s, tusk_given_column *to) {
    if (is_json(v))
        return false;
    if (!is_text_type(v))
        return numbers_column(v, n, s, to);
    tusk_text *texts;
    if (!texts_of_any(v, n, s, &texts))
        return false;
    to->texts = texts;
    to->validity = column_of(v).validity;
    return true;
}

static const char *kept_name(duckdb_logical_type type, idx_t i, scratch *s) {
    char *name = duckdb_struct_type_child_name(type, i);
    size_t length = name ? strlen(name) : 0;
    char *copy = piece(s, length + 1);
    if (copy && length)
        memcpy(copy, name, length);
    duckdb_free(name);
    return copy;
}

/* Models are trained on all columns; rows to be scored may have further ones. */
static bool refuse_others(duckdb_vector v, const tusk_named_chunk *c, idx_t columns,
                          char refusal[REFUSAL_ROOM]) {
    char type[200];
    for (idx_t i = 0; i < columns; i++) {
        if (c->column[i].texts || c->column[i].numbers)
            continue;
        write_type(duckdb_struct_vector_get_child(v, i), type, sizeof type);
        snprintf(
            refusal, REFUSAL_ROOM,
            "column '%.200s' is %s, expected a number, a date, a timestamp, a time, an interval, "
            "text, ENUM, BOOLEAN or UUID",
            c->column[i].name, type);
        return false;
    }
    return true;
}

static bool read_struct(duckdb_vector v, duckdb_logical_type type, idx_t n, scratch *s,
                        tusk_named_chunk *c, tusk_schema *schema, char refusal[REFUSAL_ROOM]) {
    idx_t columns = duckdb_struct_type_child_count(type);
    const char **names = piece(s, columns * sizeof *names);
    uint8_t *kinds = piece(s, columns);
    c->column = piece(s, columns * sizeof *c->column);
    bool floats = false, others = false;
    for (idx_t i = 0; !s->out_of_memory && i < columns; i++) {
        duckdb_vector child = duckdb_struct_vector_get_child(v, i);
        c->column[i].name = names[i] = kept_name(type, i, s);
        if (s->out_of_memory)
            break;
        if (!*names[i]) {
            snprintf(refusal, REFUSAL_ROOM,
                     "the features are a row without names, expected "
                     "names such as {'delay': delay, 'origin': origin}");
            return false;
        }
        if (!given_column(child, n, s, c->column + i) && s->out_of_memory)
            break;
        kinds[i] = kind_of(child, c->column + i);
        floats |= type_of(child) == DUCKDB_TYPE_FLOAT;
        others |= !c->column[i].texts && type_of(child) != DUCKDB_TYPE_FLOAT;
    }
    *schema = (tusk_schema){
        .n_columns = (int32_t)columns, .f64 = others || !floats, .kind = kinds, .name = names};
    return !s->out_of_memory;
}

bool named_columns_of(duckdb_vector v, idx_t n, enum named_use use, scratch *s,
                      tusk_named_chunk *c, char refusal[REFUSAL_ROOM]) {
    tusk_schema schema = {0};
    *c = (tusk_named_chunk){0};
    *refusal = 0;
    if (v) {
        duckdb_logical_type type = duckdb_vector_get_column_type(v);
        bool read = duckdb_get_type_id(type) == DUCKDB_TYPE_STRUCT &&
                    read_struct(v, type, n, s, c, &schema, refusal);
        duckdb_destroy_logical_type(&type);
        if (!read ||
            (use != NAMED_PREDICT && !refuse_others(v, c, (idx_t)schema.n_columns, refusal)))
            return false;
    }
    schema.text_label = use == NAMED_TRAIN_ENUM   ? TUSK_ORDERED
                        : use == NAMED_TRAIN_TEXT ? TUSK_UNORDERED
                                                  : TUSK_NO_TEXT;
    c->schema = tusk_schema_of(&schema);
    c->buffer = piece(s, (size_t)schema.n_columns * TUSK_NAMED_RUN * sizeof(double));
    s->out_of_memory |= !c->schema;
    c->complete = c->schema && tusk_named_complete(c);
    return !s->out_of_memory;
}
