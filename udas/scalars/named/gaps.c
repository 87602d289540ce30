#include "gaps.h"

#include <string.h>

#include "../models/json_member.h"

/* Tasks whose option `missing` is 'keep' unless given. */
static const char *const KEEP[] = {"gbdt", "random_forest"};

static bool is(tusk_text text, const char *word) {
    return text.data && text.length == strlen(word) && memcmp(text.data, word, text.length) == 0;
}

bool tusk_takes_documents(tusk_text task) {
    return is(task, "lda");
}

enum tusk_kept_gaps tusk_kept_gaps(tusk_text task, tusk_text options) {
    tusk_text missing = tusk_json_member(options, "missing");
    if (missing.data)
        return is(missing, "skip")   ? TUSK_KEEPS_NO_GAPS
               : is(missing, "keep") ? TUSK_KEEPS_GAPS
                                     : TUSK_KEEPS_NAMED_GAPS;
    for (size_t i = 0; i < sizeof KEEP / sizeof *KEEP; i++)
        if (is(task, KEEP[i]))
            return TUSK_KEEPS_GAPS;
    return TUSK_KEEPS_NO_GAPS;
}

enum tusk_invalid tusk_invalid_rows(tusk_text options) {
    tusk_text invalid = tusk_json_member(options, "invalid");
    return is(invalid, "skip")    ? TUSK_INVALID_SKIP
           : is(invalid, "error") ? TUSK_INVALID_ERROR
                                  : TUSK_INVALID_GROUP;
}
