/* The preparation of a model as its payload has it: which columns it was trained on, and which
 * features they become.
 *
 * A head, then a record per column, then names, levels and their hash tables at the offsets that
 * the records give. Numbers are little-endian, and lie at any address. The field `preparation` of
 * the model is the same as JSON.
 */
#ifndef TUSK_PREPARATION_H
#define TUSK_PREPARATION_H

#include "../models/score.h"

enum tusk_gap { TUSK_GAP_SKIP, TUSK_GAP_IMPUTE, TUSK_GAP_LEVEL, TUSK_GAP_ERROR };

typedef struct tusk_preparation_head {
    uint32_t version; /* 1 */
    uint32_t n_columns;
    uint32_t missing; /* enum tusk_gap */
    uint32_t refuse_unseen;
    uint64_t names; /* a hash of the columns' names and kinds */
} tusk_preparation_head;

typedef struct tusk_preparation_column {
    uint32_t name, name_length; /* offsets are from the head on */
    uint32_t category;
    uint32_t n_levels;
    int32_t first; /* feature of a number, or of the first level that has one */
    int32_t other, missing, indicator, fill_feature; /* -1: none */
    uint32_t reference;                              /* whether the first level has no feature */
    uint32_t ends, text;        /* where each level ends in the text, and the text */
    uint32_t table, table_mask; /* a hash table of levels + 1 */
    double fill;                /* of a number */
} tusk_preparation_column;

_Static_assert(sizeof(tusk_preparation_head) == 24, "the head of a preparation has 24 bytes");
_Static_assert(sizeof(tusk_preparation_column) == 64, "a column's record has 64 bytes");

typedef uint32_t tusk_u32 __attribute__((aligned(1)));

/* Makes it of the JSON. *bytes is to be freed. False with a sentence if the text is not what
 * train_model writes, or if memory is out. */
bool tusk_preparation_of(tusk_text json, tusk_text *bytes, char *sentence);

/* Reads head and records. False if they do not fit the bytes. */
bool tusk_preparation_open(tusk_text bytes, tusk_preparation_head *head);
tusk_preparation_column tusk_preparation_at(tusk_text bytes, uint32_t column);

#endif
