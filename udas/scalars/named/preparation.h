/* The preparation of a model in its payload: the columns of its training, and their features. A
 * head, then a record per column, then names, levels, their hash tables and keys at the offsets
 * in the records. Numbers are little-endian, and at any address. The field `preparation` of the
 * model is the same as JSON. */
#ifndef TUSK_PREPARATION_H
#define TUSK_PREPARATION_H

#include "../../rowblock/derived.h"
#include "../models/score.h"

#include <stdbool.h>
#include <stddef.h>

/* Reads the JSON that tuskml writes: a part of it at a time, without a tree. */

/* A growing byte buffer. */
typedef struct tusk_bytes {
    char *data;
    size_t n, room;
} tusk_bytes;

/* Appends n bytes; false if memory is out. */
bool tusk_add(tusk_bytes *b, const void *data, size_t n);

typedef struct json_reader {
    const char *at, *end;
    bool failed; /* the text did not match */
} json_reader;

/* Skips a character if it follows; returns whether it did. */
bool json_take(json_reader *r, char c);
/* Skips a character; the text has failed unless it follows. */
void json_need(json_reader *r, char c);
/* Appends the decoded text of a string. */
void json_string(json_reader *r, tusk_bytes *out);
/* Reads a short string, such as a key. */
void json_word(json_reader *r, char word[32]);
double json_number(json_reader *r);
bool json_truth(json_reader *r);

enum tusk_gap {
    TUSK_GAP_SKIP,
    TUSK_GAP_IMPUTE,
    TUSK_GAP_LEVEL,
    TUSK_GAP_ERROR,
    TUSK_GAP_KEEP,
    TUSK_GAPS
};

/* Kinds of features of a column, as in kernels/native/rows/columns.hpp. */
enum tusk_becomes {
    TUSK_AS_NUMBER,
    TUSK_AS_CATEGORY,
    TUSK_AS_CYCLE,
    TUSK_AS_PRODUCT,
    TUSK_AS_WORDS,
    TUSK_AS_LEVELS, /* one feature, the number of the level */
    TUSK_BECOMES
};

/* What becomes of a level that training did not see, and that is no *other* one. */
enum tusk_unseen { TUSK_UNSEEN_OTHER, TUSK_UNSEEN_ERROR, TUSK_UNSEEN_NULL, TUSK_UNSEENS };

#define TUSK_PREPARATION_VERSION 2
#define TUSK_MOST_FACTORS 3

typedef struct tusk_preparation_head {
    uint32_t version;
    uint32_t n_columns;
    uint32_t missing; /* enum tusk_gap */
    uint32_t unseen;  /* enum tusk_unseen */
    uint64_t names;   /* a hash of the columns' names and kinds */
} tusk_preparation_head;

typedef struct tusk_preparation_column {
    uint32_t name, name_length; /* offsets are relative to the head */
    uint32_t becomes;           /* enum tusk_becomes */
    uint32_t part;              /* enum tusk_date_part */
    uint32_t of_numbers;        /* whether the levels are numbers */
    uint32_t n_levels;
    int32_t
        first; /* feature of a number, or of the first level, key or combination that has one */
    int32_t other, missing, indicator, fill_feature; /* -1: none */
    uint32_t reference;                              /* whether the first level has no feature */
    uint32_t ends, text;        /* end of each level in the text, and the text */
    uint32_t table, table_mask; /* a hash table of levels + 1 */
    uint32_t width;             /* features without the indicator */
    uint32_t keys, n_keys;      /* of combinations or buckets, in rising order, uint64_t */
    uint32_t bits;              /* of buckets */
    uint32_t n_factors;
    uint32_t factor[TUSK_MOST_FACTORS]; /* columns before this one */
    double fill;                        /* of a number */
} tusk_preparation_column;

_Static_assert(sizeof(tusk_preparation_head) == 24, "the head of a preparation has 24 bytes");
_Static_assert(sizeof(tusk_preparation_column) == 104, "a column's record has 104 bytes");

typedef uint32_t tusk_u32 __attribute__((aligned(1)));
typedef uint64_t tusk_u64 __attribute__((aligned(1)));

/* Whether the column in the rows has to be text. */
static inline bool tusk_has_levels(const tusk_preparation_column *c) {
    return c->becomes == TUSK_AS_CATEGORY || c->becomes == TUSK_AS_LEVELS;
}
static inline bool tusk_reads_text(const tusk_preparation_column *c) {
    return c->becomes == TUSK_AS_WORDS || (tusk_has_levels(c) && !c->of_numbers);
}

/* One column while its JSON is converted to bytes. */
typedef struct tusk_read_column {
    tusk_preparation_column record;
    tusk_bytes name, source, text, fill;
    tusk_bytes ends; /* uint32_t */
    tusk_bytes keys; /* uint64_t */
    bool has_indicator, has_other, has_missing;
} tusk_read_column;

/* Appends the bytes of a preparation. False if memory is out, or if they are too many. */
bool tusk_preparation_write(tusk_preparation_head head, tusk_read_column *columns,
                            tusk_bytes *out);

/* Converts the JSON. *bytes is to be freed. False with a sentence if the text is not one of
 * train_model, or if memory is out. */
bool tusk_preparation_of(tusk_text json, tusk_text *bytes, char *sentence);

/* Reads head and records. False if they do not fit the bytes. */
bool tusk_preparation_open(tusk_text bytes, tusk_preparation_head *head);
tusk_preparation_column tusk_preparation_at(tusk_text bytes, uint32_t column);
/* The number of a level of a column, or n_levels. */
uint32_t tusk_level_of(tusk_text all, const tusk_preparation_column *c, tusk_text text);

#endif
