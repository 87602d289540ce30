/* Rows with names, such as a STRUCT or a composite value, and labels that are text.
 *
 * Each distinct text of a column gets a code in the order of its first occurrence. A row is stored
 * as a dense row: numbers as they are, categories as their codes, NULL as NaN. So codes differ
 * between the blocks that several threads fill for one group, and combining them would have to
 * change all rows. Instead, a group keeps the dictionaries of all its parts, and a kernel
 * (kernels/native/rows/prepare.cpp) translates the codes when it expands the rows for training.
 */
#ifndef TUSK_NAMED_H
#define TUSK_NAMED_H

#include "rowblock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Dates and timestamps are days since 1970-01-01. Words are the only column: the rows are
 * sparse, their ids are codes of words and their values are counts. A label of 1 marks ids that
 * are indices of the sorted words of all parts instead. */
enum tusk_column_kind { TUSK_NUMBER, TUSK_CATEGORY, TUSK_DATE, TUSK_TIMESTAMP, TUSK_WORDS };

/* Where rows are pairs of ids (tusk_takes_ids), a whole number of 2^53 or more in size, which a
 * double may round, is stored as its digits among the column's levels, and the row has
 * 2^53 + 2 code. Other numbers of this size, whose type rounds them, become -2^53. */
#define TUSK_WIDE_ID 0x1p53
static inline double tusk_wide_id(uint32_t code) {
    return TUSK_WIDE_ID + 2.0 * code;
}
static inline uint32_t tusk_code_of_wide(double id) {
    return (uint32_t)((id - TUSK_WIDE_ID) / 2);
}

/* The longest text of a category, in bytes. */
#define TUSK_MAX_LEVEL_BYTES 65535

/* Labels that are text: without an order, or those of an ENUM, all of whose values are levels, in
 * its order, where a task has ordered labels. */
enum tusk_label_text { TUSK_NO_TEXT, TUSK_UNORDERED, TUSK_ORDERED };

/* The columns of a statement's rows. Equal schemas are one object, which is never freed: it has
 * a few hundred bytes, and statements repeat it. */
typedef struct tusk_schema {
    struct tusk_schema *next;
    int32_t n_columns;  /* 0: the features are a list, and only the label is text */
    uint8_t text_label; /* enum tusk_label_text */
    uint8_t f64;        /* whether values are stored as doubles */
    const uint8_t *kind;
    const char *const *name;
} tusk_schema;

/* A slot of a hash table of texts. One cache line identifies most of them. */
typedef struct tusk_level_place {
    uint32_t code; /* + 1; 0: free */
    uint32_t length;
    uint64_t start; /* its bytes if they are at most 8, otherwise its hash */
} tusk_level_place;

/* The distinct texts of one column, by code. */
typedef struct tusk_levels {
    uint32_t n, room;        /* levels, and their capacity */
    uint32_t used, bytes;    /* bytes of text, and their capacity */
    uint32_t before;         /* levels at tusk_parts_mark */
    tusk_level_place *table; /* [2 room] */
    uint32_t *end;           /* [room] end of each text */
    char *text;
    tusk_slab *slab;
} tusk_levels;

/* Neighbouring segments of a group and the dictionaries of their codes. */
typedef struct tusk_part {
    struct tusk_part *next;
    const tusk_segment *head; /* its first segment; it ends before the next part's */
    const tusk_schema *schema;
    tusk_slab *slab;
    /* For the packer only: codes by the numbers of texts in a numbering. */
    uint64_t numbering;
    uint8_t *known; /* [n_columns][n_known], each code + 1; 0: not known */
    uint32_t n_known;
    tusk_slab *known_slab;
    tusk_levels levels[]; /* [n_columns + 1], the last one for the label */
} tusk_part;

/* The schema with these columns; NULL if memory is out. like: its fields without `next`. */
const tusk_schema *tusk_schema_of(const tusk_schema *like);

/* A part without rows; NULL with a tusk_code if memory is out. */
tusk_part *tusk_part_new(tusk_memory *memory, const tusk_schema *schema, int *code);
/* The part for the next rows of a block; NULL with a fault if memory is out or if earlier rows
 * have other columns. */
tusk_part *tusk_part_for(tusk_memory *memory, tusk_block *block, const tusk_schema *schema,
                         tusk_fault *fault);
/* What a block's labels are in SQL. */
enum tusk_labels { TUSK_LABELS_NUMBERS = 0, TUSK_LABELS_BOOLEANS = 1, TUSK_LABELS_TEXTS = 2 };
static inline int32_t tusk_labels_are(const tusk_block *block) {
    return block->parts && block->parts->schema->text_label ? TUSK_LABELS_TEXTS
           : block->booleans                                ? TUSK_LABELS_BOOLEANS
                                                            : TUSK_LABELS_NUMBERS;
}

/* The code of a text, which is added as a new level if needed. Returns a tusk_code. */
int tusk_level_code(tusk_memory *memory, tusk_levels *levels, const char *text, size_t length,
                    uint32_t *code);

/* Marks the levels of a block before rows are appended, and removes those added since, after
 * the rows were rejected. */
void tusk_parts_mark(tusk_block *block);
void tusk_parts_undo(tusk_block *block);

/* Address of the part's code for a numbered text, in this numbering; NULL if there is no memory
 * for it, or if rows are too few to pay for it. The byte is the code + 1, or 0. */
uint8_t *tusk_part_known(tusk_memory *memory, tusk_part *part, uint64_t numbering, int32_t column,
                         uint8_t number, int64_t rows);

/* To be called some rows ahead: prefetches the memory that a lookup of the code reads. */
void tusk_level_expect(const tusk_levels *levels, const char *text, size_t length);

/* Copies a part's levels into a part without rows. */
tusk_part *tusk_part_copy(tusk_memory *memory, const tusk_part *part, int *code);
/* Adds to the share counts of parts up to `last`, and subtracts one. */
void tusk_parts_share(const tusk_part *head, const tusk_part *last);
void tusk_parts_free(tusk_part *head, const tusk_part *last);

#ifdef __cplusplus
}
#endif
#endif
