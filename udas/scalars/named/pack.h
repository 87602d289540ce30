/* Packs rows with names into blocks, for all databases. */
#ifndef TUSK_NAMED_PACK_H
#define TUSK_NAMED_PACK_H

#include "../../rowblock/named.h"
#include "../../rowblock/remarks.h"
#include "named.h"

#define TUSK_NAMED_RUN 64 /* rows that are packed at once */

typedef struct tusk_numbering tusk_numbering; /* numbering.h */

/* The columns of some rows. */
typedef struct tusk_named_chunk {
    const tusk_schema *schema;
    tusk_given_column *column; /* [schema->n_columns] */
    void *buffer;              /* memory for TUSK_NAMED_RUN rows, float or double */
    bool complete;             /* no row has a NULL: tusk_named_complete */
    tusk_extras extras;        /* of its rows */
    const uint8_t *numbers;    /* [rows][schema->n_columns] of the texts; NULL: they have none */
    uint64_t numbering;        /* identifies the meaning of the numbers */
} tusk_named_chunk;

/* Whether no column can have a NULL. */
bool tusk_named_complete(const tusk_named_chunk *c);
/* Remarks on the columns of n rows with rounded numbers, from `row` on. */
void tusk_named_rounded(const tusk_named_chunk *c, uint64_t row, uint64_t n, tusk_remarks *to);
/* Remarks on the columns in which a row that is left out is NULL. */
void tusk_named_gaps(const tusk_named_chunk *c, uint64_t row, tusk_remarks *to);
/* Whether a row has a NULL in one of the columns. */
bool tusk_named_gap(const tusk_named_chunk *c, uint64_t row);

/* Appends n <= TUSK_NAMED_RUN rows of one group, from `row` on, with the labels y. nan_is_gap:
 * whether NaN counts as NULL. ids: whether the columns are ids (tusk_takes_ids). Returns a
 * tusk_code. */
int tusk_append_named(tusk_memory *memory, tusk_block *block, const tusk_named_chunk *c,
                      uint64_t row, uint64_t n, const double *y, bool nan_is_gap, bool ids,
                      tusk_fault *fault);

/* To be called some rows ahead, in this order: prefetch the memory that the next one and
 * packing a row into this block will read. */
void tusk_named_expect(const tusk_block *block, const tusk_named_chunk *c);
void tusk_named_expect_row(const tusk_block *block, const tusk_named_chunk *c, uint64_t row);

/* The values of an ENUM, in its order; n is 0 for other labels. */
typedef struct tusk_label_values {
    const tusk_text *values;
    uint32_t n;
} tusk_label_values;

/* Makes these values the first levels of a block's labels. Returns a tusk_code. */
int tusk_label_order(tusk_memory *memory, tusk_block *block, const tusk_schema *schema,
                     tusk_label_values ordered, tusk_fault *fault);
/* The code of a text label. Returns a tusk_code. */
int tusk_label_code(tusk_memory *memory, tusk_block *block, const tusk_schema *schema,
                    tusk_text label, double *y, tusk_fault *fault);

#endif
