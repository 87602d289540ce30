/* _tusk_recommend(payload, user, n, exclude), _tusk_similar_items(payload, item, n, exclude) and
 * _tusk_recommend_by_items(payload, items, n, exclude, ratings, options): a list with a STRUCT for
 * each of the best items, the best first. Items have the type of the ids given: BIGINT for
 * numbers, otherwise VARCHAR. Macros give them their public names and turn them into rows. */
#include "../../scalars/recommending/recommend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../rowblock/derived.h"
#include "../../scalars/models/payload.h"
#include "../../scalars/models/quoted.h"
#include "../database.h"
#include "../features/named.h"
#include "../models/model_column.h"

enum field { F_ITEM, F_SCORE, F_BASIS, FIELDS };
static const char *const FIELD_NAMES[FIELDS] = {"item", "score", "basis"};

typedef struct which {
    database *database;
    enum tusk_asked asked;
    bool numbers; /* whether ids are numbers */
} which;

/* One chunk of rows, and the model of the last one. */
typedef struct call {
    const which *which;
    tusk_stores stores;
    column payloads, counts, options;
    column ids;        /* unless ratings are given */
    list_column rated; /* otherwise */
    list_column exclude, ratings;
    const tusk_text *id_texts,
        *exclude_texts; /* of ids or the items of `rated`, and of `exclude` */
    duckdb_vector result;
    tusk_scorer scorer;
    tusk_text payload; /* of the scorer; its data is NULL if there is none */
    char sentence[TUSK_SENTENCE];
} call;

static void forget(call *c) {
    if (c->payload.data)
        tusk_forget_model(&c->scorer);
    c->payload.data = NULL;
}

/* Neighbouring rows with the same model read it once: their payloads are at one address. */
static bool read_model(call *c, idx_t row) {
    tusk_text payload = text_of_string((const duckdb_string_t *)c->payloads.data + row);
    if (payload.data == c->payload.data && payload.length == c->payload.length)
        return true;
    forget(c);
    if (!tusk_read_model(payload, &c->stores, TUSK_PREDICT, &c->scorer, c->sentence))
        return false;
    c->payload = payload;
    return true;
}

/* --- ids as texts --- */

static const tusk_text *texts_of_numbers(const column *c, duckdb_logical_type type, idx_t n,
                                         scratch *s) {
    _Static_assert(DIGITS_ROOM >= TUSK_NUMBER_TEXT, "a number fits");
    tusk_text *texts = piece(s, (n + 1) * sizeof *texts);
    char *digits = piece(s, (n + 1) * DIGITS_ROOM);
    for (idx_t i = 0; texts && digits && i < n; i++, digits += DIGITS_ROOM) {
        if (!is_valid(c, i))
            continue;
        size_t length = digits_of_any(type, c->data, i, digits)
                            ? strlen(digits)
                            : tusk_number_text(((const double *)c->data)[i], digits);
        texts[i] = (tusk_text){digits, length};
    }
    return digits ? texts : NULL;
}

static bool is_number(duckdb_type id) {
    return id != DUCKDB_TYPE_VARCHAR && id != DUCKDB_TYPE_UUID;
}

/* The texts of n ids; NULL if memory is out. */
static const tusk_text *texts_of_ids(const column *c, idx_t n, scratch *s) {
    duckdb_logical_type type = duckdb_vector_get_column_type(c->vector);
    bool number = is_number(duckdb_get_type_id(type));
    const tusk_text *numbers = number ? texts_of_numbers(c, type, n, s) : NULL;
    duckdb_destroy_logical_type(&type);
    tusk_text *texts;
    return number ? numbers : texts_of_any(c->vector, n, s, &texts) ? texts : NULL;
}

/* --- rows --- */

static void put_item(const call *c, duckdb_vector items, idx_t at, uint64_t item) {
    char room[TUSK_ID_TEXT];
    if (c->which->numbers) {
        tusk_item_number(&c->scorer, item, (int64_t *)duckdb_vector_get_data(items) + at);
        return;
    }
    tusk_text text = tusk_item_text(&c->scorer, item, room);
    duckdb_vector_assign_string_element_len(items, at, text.data, text.length);
}

static void put_items(call *c, idx_t row, const tusk_best *best) {
    idx_t n = best->n;
    idx_t at = duckdb_list_vector_get_size(c->result);
    duckdb_list_vector_reserve(c->result, at + n);
    duckdb_list_vector_set_size(c->result, at + n);
    duckdb_vector child = duckdb_list_vector_get_child(c->result);
    duckdb_vector basis_of = duckdb_struct_vector_get_child(child, F_BASIS);
    duckdb_vector items = duckdb_struct_vector_get_child(child, F_ITEM);
    double *scores = duckdb_vector_get_data(duckdb_struct_vector_get_child(child, F_SCORE));
    for (idx_t i = 0; i < n; i++) {
        put_item(c, items, at + i, best->items[i].item);
        scores[at + i] = best->items[i].score;
        duckdb_vector_assign_string_element(basis_of, at + i, TUSK_BASIS_NAMES[best->basis]);
    }
    ((duckdb_list_entry *)duckdb_vector_get_data(c->result))[row] = (duckdb_list_entry){at, n};
}

/* The ids to leave out, without NULLs, in room. */
static uint64_t read_excluded(const call *c, idx_t row, tusk_text *room) {
    if (!is_valid(&c->exclude.self, row))
        return 0;
    duckdb_list_entry e = list_entry(&c->exclude, row);
    uint64_t n = 0;
    for (idx_t i = e.offset; i < e.offset + e.length; i++)
        if (is_valid(&c->exclude.child, i))
            room[n++] = c->exclude_texts[i];
    return n;
}

static idx_t length_at(const list_column *c, idx_t row) {
    return is_valid(&c->self, row) ? list_entry(c, row).length : 0;
}

/* The rated items and their ratings, without NULLs. */
static bool read_rated(call *c, idx_t row, tusk_text *items, double *ratings, tusk_wanted *w) {
    duckdb_list_entry e = list_entry(&c->rated, row), r = list_entry(&c->ratings, row);
    if (e.length != r.length) {
        snprintf(c->sentence, TUSK_SENTENCE,
                 "%llu items and %llu ratings, expected as many of both",
                 (unsigned long long)e.length, (unsigned long long)r.length);
        return false;
    }
    for (idx_t i = 0; i < e.length; i++) {
        if (!is_valid(&c->rated.child, e.offset + i) || !is_valid(&c->ratings.child, r.offset + i))
            continue;
        items[w->n_rated] = c->id_texts[e.offset + i];
        ratings[w->n_rated++] = ((const double *)c->ratings.child.data)[r.offset + i];
    }
    w->rated = items;
    w->ratings = ratings;
    w->options = text_of_string((const duckdb_string_t *)c->options.data + row);
    return true;
}

static bool is_complete(const call *c, idx_t row) {
    if (!is_valid(&c->payloads, row) || !is_valid(&c->counts, row))
        return false;
    if (c->which->asked != TUSK_FOR_RATINGS)
        return is_valid(&c->ids, row);
    return is_valid(&c->rated.self, row) && is_valid(&c->ratings.self, row) &&
           is_valid(&c->options, row);
}

static bool put_row(call *c, idx_t row) {
    if (!is_complete(c, row)) {
        set_null(c->result, row);
        return true;
    }
    if (!read_model(c, row))
        return false;
    bool folds = c->which->asked == TUSK_FOR_RATINGS;
    tusk_wanted w = {.asked = c->which->asked,
                     .numbers = c->which->numbers,
                     .n = ((const int64_t *)c->counts.data)[row]};
    if (!folds)
        w.id = c->id_texts[row];
    bool factors = c->scorer.task == TUSK_FACTORIZATION;
    uint64_t most = factors ? tusk_most_items(&c->scorer, &w) : 0;
    uint64_t rated = folds ? length_at(&c->rated, row) : 0;
    size_t work = factors ? tusk_recommend_work(&c->scorer, &w) : 0;
    size_t texts = (length_at(&c->exclude, row) + rated) * sizeof(tusk_text);
    size_t ratings = rated * sizeof(double);
    char *memory = malloc(work + texts + ratings + (most + 1) * sizeof(tusk_ranked_item));
    if (!memory) {
        snprintf(c->sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    tusk_text *given = (tusk_text *)(memory + work);
    double *of_rated = (double *)(memory + work + texts);
    w.exclude = given + rated;
    w.n_exclude = read_excluded(c, row, given + rated);
    tusk_best best = {.work = memory,
                      .items = (tusk_ranked_item *)(memory + work + texts + ratings)};
    bool done = (!folds || read_rated(c, row, given, of_rated, &w)) &&
                tusk_recommend(&c->scorer, &w, &best, c->sentence);
    if (done)
        put_items(c, row, &best);
    free(memory);
    return done;
}

static bool read_texts(call *c, idx_t n, scratch *s) {
    bool folds = c->which->asked == TUSK_FOR_RATINGS;
    c->exclude_texts = texts_of_ids(&c->exclude.child, c->exclude.items, s);
    c->id_texts =
        folds ? texts_of_ids(&c->rated.child, c->rated.items, s) : texts_of_ids(&c->ids, n, s);
    if (!c->id_texts || !c->exclude_texts)
        snprintf(c->sentence, TUSK_SENTENCE, "out of memory");
    return c->id_texts && c->exclude_texts;
}

static void recommend(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    const which *w = duckdb_scalar_function_get_extra_info(info);
    idx_t n = duckdb_data_chunk_get_size(chunk);
    call c = {.which = w,
              .stores = stores_of(w->database),
              .payloads = chunk_column(chunk, 0),
              .counts = chunk_column(chunk, 2),
              .exclude = list_column_of(duckdb_data_chunk_get_vector(chunk, 3)),
              .result = result};
    if (w->asked == TUSK_FOR_RATINGS) {
        c.rated = list_column_of(duckdb_data_chunk_get_vector(chunk, 1));
        c.ratings = list_column_of(duckdb_data_chunk_get_vector(chunk, 4));
        c.options = chunk_column(chunk, 5);
    } else {
        c.ids = chunk_column(chunk, 1);
    }
    scratch s = {0};
    bool done = read_texts(&c, n, &s);
    for (idx_t row = 0; done && row < n; row++)
        done = put_row(&c, row);
    forget(&c);
    scratch_free(&s);
    if (!done) {
        char text[TUSK_SENTENCE + 32];
        snprintf(text, sizeof text, "%s: %s", TUSK_ASKED_NAMES[w->asked], c.sentence);
        tusk_make_utf8(text);
        duckdb_scalar_function_set_error(info, text);
    }
}

/* --- registration --- */

static duckdb_logical_type make_items_type(bool numbers) {
    const duckdb_type fields[FIELDS] = {numbers ? DUCKDB_TYPE_BIGINT : DUCKDB_TYPE_VARCHAR,
                                        DUCKDB_TYPE_DOUBLE, DUCKDB_TYPE_VARCHAR};
    duckdb_logical_type types[FIELDS];
    const char *names[FIELDS];
    for (int i = 0; i < FIELDS; i++) {
        names[i] = FIELD_NAMES[i];
        types[i] = duckdb_create_logical_type(fields[i]);
    }
    duckdb_logical_type item = duckdb_create_struct_type(types, names, FIELDS);
    for (int i = 0; i < FIELDS; i++)
        duckdb_destroy_logical_type(&types[i]);
    duckdb_logical_type list = duckdb_create_list_type(item);
    duckdb_destroy_logical_type(&item);
    return list;
}

static void free_which(void *given) {
    which *w = given;
    database_release(w->database);
    free(w);
}

static const duckdb_type ID_TYPES[] = {
    DUCKDB_TYPE_BIGINT, DUCKDB_TYPE_UBIGINT, DUCKDB_TYPE_HUGEINT, DUCKDB_TYPE_UHUGEINT,
    DUCKDB_TYPE_DOUBLE, DUCKDB_TYPE_VARCHAR, DUCKDB_TYPE_UUID};
#define N_ID_TYPES (sizeof ID_TYPES / sizeof *ID_TYPES)

/* The function for ids of one type. */
static duckdb_scalar_function overload(database *d, const char *name, enum tusk_asked asked,
                                       duckdb_type id) {
    bool folds = asked == TUSK_FOR_RATINGS;
    which *w = malloc(sizeof *w);
    if (!w)
        return NULL;
    *w = (which){database_retain(d), asked, is_number(id)};
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type parameters[] = {
        duckdb_create_logical_type(DUCKDB_TYPE_BLOB),
        folds ? make_list_type(id) : duckdb_create_logical_type(id),
        duckdb_create_logical_type(DUCKDB_TYPE_BIGINT),
        make_list_type(DUCKDB_TYPE_VARCHAR),
        make_list_type(DUCKDB_TYPE_DOUBLE),
        duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR),
    };
    duckdb_logical_type items = make_items_type(w->numbers);
    duckdb_scalar_function_set_name(f, name);
    for (int i = 0; i < 6; i++) {
        if (i < (folds ? 6 : 4))
            duckdb_scalar_function_add_parameter(f, parameters[i]);
        duckdb_destroy_logical_type(&parameters[i]);
    }
    duckdb_scalar_function_set_return_type(f, items);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_extra_info(f, w, free_which);
    duckdb_scalar_function_set_function(f, recommend);
    duckdb_destroy_logical_type(&items);
    return f;
}

static bool register_one(duckdb_connection connection, database *d, const char *name,
                         enum tusk_asked asked) {
    duckdb_scalar_function_set set = duckdb_create_scalar_function_set(name);
    bool done = true;
    for (size_t i = 0; done && i < N_ID_TYPES; i++) {
        duckdb_scalar_function f = overload(d, name, asked, ID_TYPES[i]);
        done = f && duckdb_add_scalar_function_to_set(set, f) == DuckDBSuccess;
        if (f)
            duckdb_destroy_scalar_function(&f);
    }
    done = done && duckdb_register_scalar_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_scalar_function_set(&set);
    return done;
}

bool register_recommend(duckdb_connection connection, database *d) {
    return register_one(connection, d, "_tusk_recommend", TUSK_FOR_USER) &&
           register_one(connection, d, "_tusk_similar_items", TUSK_FOR_ITEM) &&
           register_one(connection, d, "_tusk_recommend_by_items", TUSK_FOR_RATINGS);
}
