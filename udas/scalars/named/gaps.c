#include "gaps.h"

#include <string.h>

#include "../models/json_member.h"
#include "../models/kinds.h"

static bool is(tusk_text text, const char *word) {
    return text.data && text.length == strlen(word) && memcmp(text.data, word, text.length) == 0;
}

bool tusk_takes_labels(tusk_text task) {
    const tusk_task_row *known = tusk_task_named(task);
    return !known || (known->labels != TUSK_OF_NONE && known->labels != TUSK_OF_DOCUMENTS);
}

bool tusk_orders_labels(tusk_text task) {
    const tusk_task_row *known = tusk_task_named(task);
    return known && known->labels == TUSK_OF_LEVELS;
}

bool tusk_takes_documents(tusk_text task) {
    const tusk_task_row *known = tusk_task_named(task);
    return known && known->labels == TUSK_OF_DOCUMENTS;
}

bool tusk_takes_ids(tusk_text task) {
    const tusk_task_row *known = tusk_task_named(task);
    return known && known->labels == TUSK_OF_RATINGS;
}

enum tusk_kept_gaps tusk_kept_gaps(tusk_text task, tusk_text options) {
    tusk_text missing = tusk_json_member(options, "missing");
    if (missing.data)
        return is(missing, "skip")   ? TUSK_KEEPS_NO_GAPS
               : is(missing, "keep") ? TUSK_KEEPS_GAPS
                                     : TUSK_KEEPS_NAMED_GAPS;
    const tusk_model_kind *kind = tusk_kind_named(task);
    return kind && kind->keeps_gaps ? TUSK_KEEPS_GAPS : TUSK_KEEPS_NO_GAPS;
}

enum tusk_invalid tusk_invalid_rows(tusk_text options) {
    tusk_text invalid = tusk_json_member(options, "invalid");
    return is(invalid, "skip")    ? TUSK_INVALID_SKIP
           : is(invalid, "error") ? TUSK_INVALID_ERROR
                                  : TUSK_INVALID_GROUP;
}

/* Options with which a row twice is the row with a weight of 2. Others count rows, deal them out,
 * or depend on their order. */
static const char *const OF_SUMS[] = {"class_weight",
                                      "cluster",
                                      "covariance",
                                      "delta",
                                      "dispersion",
                                      "epsilon",
                                      "explain",
                                      "fit",
                                      "fit_intercept",
                                      "format",
                                      "intervals",
                                      "l1",
                                      "l2",
                                      "likelihood_ratio",
                                      "link",
                                      "max_iter",
                                      "power",
                                      "quantile",
                                      "threads",
                                      "time"};

bool tusk_merges_rows(tusk_text task, tusk_text options) {
    const tusk_task_row *known = tusk_task_named(task);
    return known && known->rows == TUSK_ROWS_MERGED &&
           tusk_json_has_only(options, OF_SUMS, sizeof OF_SUMS / sizeof *OF_SUMS);
}
