/* What packers need to know of a task and its options before these are parsed, such as options
 * `missing` and `invalid`, which packers need before the options are parsed. A wrong
 * value is rejected then. */
#ifndef TUSK_GAPS_H
#define TUSK_GAPS_H

#include "../../rowblock/rowblock.h"
#include "../models/score.h"

enum tusk_kept_gaps {
    TUSK_KEEPS_NO_GAPS,    /* skip */
    TUSK_KEEPS_NAMED_GAPS, /* impute, level, error: of rows by name */
    TUSK_KEEPS_GAPS,       /* keep: of lists too, where a NULL becomes NaN */
};

enum tusk_kept_gaps tusk_kept_gaps(tusk_text task, tusk_text options);

/* Treatment of rows with a fault. */
enum tusk_invalid tusk_invalid_rows(tusk_text options);

/* Whether equal rows may be one row whose weight is their number: the training is the same then,
 * with every option that is given. */
bool tusk_merges_rows(tusk_text task, tusk_text options);

/* Whether the rows of a task have labels; otherwise labels are NULL. */
bool tusk_takes_labels(tusk_text task);
/* Whether the labels of a task are ordered. */
bool tusk_orders_labels(tusk_text task);
/* Whether the rows are documents: lists of words, or sparse rows of ids and counts, without
   labels. */
bool tusk_takes_documents(tusk_text task);

/* Whether the columns of rows with names are ids, so that their large whole numbers are exact. */
bool tusk_takes_ids(tusk_text task);

#define TUSK_NO_LABEL "has no label, expected NULL in its place"
#define TUSK_NEEDS_WORDS \
    "takes documents, expected a list of words such as ['a', 'b'] or sparse(ids, counts)"

#endif
