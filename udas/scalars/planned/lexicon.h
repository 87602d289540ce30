/* The levels of columns, numbered in the order of the models. Models that were trained group by
 * group share most of their levels. A text is looked up once for all of them, for many rows at
 * a time, and each model keeps its weights by number. */
#ifndef TUSK_LEXICON_H
#define TUSK_LEXICON_H

#include "../named/named.h"
#include "../named/preparation.h"

#define TUSK_NO_LEVEL UINT32_MAX
#define TUSK_LEXICON_CHAINS 64

/* Interpretation of a column. Columns of one name and interpretation share a lexicon. */
typedef struct tusk_reading {
    tusk_text name;
    uint32_t part; /* enum tusk_date_part */
    bool text;     /* or numbers */
} tusk_reading;

typedef struct tusk_lexicon {
    uint64_t serial;     /* of the chunk of `row`, if `fresh` */
    const uint32_t *row; /* [rows of the chunk] */
    uint32_t n;          /* levels */
    bool fresh;          /* whether `row` is newer than the last level */
} tusk_lexicon;

typedef struct tusk_lexica {
    tusk_lexicon *first[TUSK_LEXICON_CHAINS];
    size_t bytes;
} tusk_lexica;

/* The levels of a model's column: its concatenated texts, and their ends. */
typedef struct tusk_level_texts {
    tusk_text all;
    const tusk_u32 *ends;
    uint32_t n;
} tusk_level_texts;

void tusk_lexica_free(tusk_lexica *all);

/* The lexicon of a column, which is empty if it is new; NULL if memory is out. */
tusk_lexicon *tusk_lexicon_of(tusk_lexica *all, tusk_reading reading);
/* The numbers of a model's levels, adding new ones: [n], valid until the next call for the
 * lexicon. NULL if memory is out, or if a level is not among the texts. Models of groups often
 * have the same levels as the model before, which are compared as a whole. */
const uint32_t *tusk_lexicon_numbers(tusk_lexica *all, tusk_lexicon *lexicon,
                                     tusk_level_texts levels);

/* The levels of all rows of the chunk, if `uses` further reads pay for looking them up; else
 * NULL. A row without a level, or that is NULL, has TUSK_NO_LEVEL. */
const uint32_t *tusk_lexicon_rows(tusk_lexicon *lexicon, const tusk_given_column *given,
                                  const tusk_named_rows *rows, uint64_t uses);
/* The level of a row that is not NULL, looked up. */
uint32_t tusk_lexicon_look_up(tusk_lexicon *lexicon, const tusk_given_column *given,
                              const tusk_named_rows *rows, uint64_t row);

static inline bool tusk_lexicon_knows(const tusk_lexicon *l, const tusk_named_rows *rows) {
    return l->fresh && l->serial == rows->serial;
}

#endif
