/* Rows with names for models: columns in any order, matched to the model's by name. */
#ifndef TUSK_SCALARS_NAMED_H
#define TUSK_SCALARS_NAMED_H

#include <math.h>

#include "../models/score.h"

/* One column of some rows. Either numbers or texts is NULL. */
typedef struct tusk_given_column {
    const char *name;
    const double *numbers;
    const tusk_text *texts;
    const uint64_t *validity; /* a bit per row; NULL: no row is NULL */
    uint64_t *rounded;        /* a bit per row whose number was rounded; NULL: none was */
    const tusk_text *digits;  /* of whole numbers of 2^53 or more in size; NULL: there are none */
} tusk_given_column;

/* A time in days as a number of units, of which a day has this many. */
static inline __int128 tusk_time_in(double days, int64_t unit) {
    double day = floor(days);
    return (__int128)day * unit + llrint((days - day) * (double)unit);
}

/* The seconds of an interval, with years of 365.25 days and other months of 30 days, as
 * EXTRACT(EPOCH FROM ...) has them. *rounded: set if another interval may have the same number. */
static inline double tusk_seconds_of(int32_t months, int32_t days, int64_t micros, bool *rounded) {
    __int128 in_hours =
        (__int128)(months / 12) * 8766 + (__int128)(months % 12) * 720 + (__int128)days * 24;
    __int128 whole = in_hours * INT64_C(3600000000) + micros;
    *rounded |= fabs((double)whole) > 0x1p53;
    return (double)whole / 1e6;
}

/* Whether one of n rows, from `row` on, has its bit in a map; NULL: a map without any. */
static inline bool tusk_any_bit(const uint64_t *map, uint64_t row, uint64_t n) {
    for (uint64_t i = row; map && i < row + n; i++)
        if (map[i >> 6] >> (i & 63) & 1)
            return true;
    return false;
}

static inline bool tusk_given_valid(const tusk_given_column *c, uint64_t row) {
    return !c->validity || (c->validity[row >> 6] >> (row & 63) & 1);
}

#define TUSK_NUMBER_ROOM 64

/* The text of a number by which it is a level. Those that a double may have rounded have their
 * digits if their type is exact, and otherwise a text that no level has. */
tusk_text tusk_level_text(const tusk_given_column *c, uint64_t row, double value,
                          char room[TUSK_NUMBER_ROOM]);

#define TUSK_SHARES_AT_ONCE 3

/* The features that a column takes part in: its own and those of its products. */
typedef struct tusk_named_share {
    int32_t *ids;
    double *values;
    uint64_t room;
} tusk_named_share;

/* Rows with names, and the columns of the last model among them. All models that were trained
 * on the same columns share a match. */
typedef struct tusk_named_rows {
    const tusk_given_column *column;
    uint32_t n_columns;
    const void *schema; /* of the rows: equal for rows of the same columns */
    uint64_t n;         /* rows */
    uint64_t serial;    /* differs for other rows, if models are planned */
    uint64_t names;     /* of the model's columns */
    uint32_t room, n_matched;
    uint32_t *match;                 /* [n_matched] */
    struct tusk_entries_of *entries; /* [room] of a row, by column */
    uint64_t entries_room;
    int32_t *ids; /* [entries_room] the features of a row */
    double *values;
    tusk_named_share share[TUSK_SHARES_AT_ONCE];
} tusk_named_rows;

/* Finds the column with a name; one that differs in case only if it is the only one. False with a
 * sentence if there is none. */
bool tusk_named_column(const tusk_named_rows *rows, tusk_text name, uint32_t *found,
                       char *sentence);
/* Finds the columns of a model. False with a sentence if one is missing, or if the model was not
 * trained on rows with names. */
bool tusk_named_match(tusk_named_rows *rows, const tusk_scorer *s, char *sentence);
void tusk_named_free(tusk_named_rows *rows);

/* The features of a row, valid until the next call; *null: it has a NULL that the model does
 * not fill. False with a sentence if the row is invalid. */
bool tusk_named_row(tusk_named_rows *rows, const tusk_scorer *s, uint64_t row,
                    tusk_sparse_row *features, bool *null, char *sentence);

/* What a column of the row that was read last would have in it. */
typedef struct tusk_named_change {
    uint32_t column;
    bool as_it_is;
    int32_t feature; /* its only one; -1: none */
    double value;
    bool alone; /* the column is in no product */
} tusk_named_change;

/* The features that the column then takes part in, without an indicator. They are valid until the
 * next call for the same place, of which there are TUSK_SHARES_AT_ONCE. */
bool tusk_named_share_of(tusk_named_rows *rows, const tusk_scorer *s,
                         const tusk_named_change *change, int place, tusk_sparse_row *features,
                         char *sentence);

#define TUSK_NEEDS_NAMES                                                                      \
    "the model was trained on rows with names, expected a row such as {'a': a, 'b': b} with " \
    "the columns that its field preparation lists"

#endif
