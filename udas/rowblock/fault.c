/* The error sentence of each fault. */
#include "named.h"

#include <math.h>
#include <stdio.h>

static const char *not_finite(double value) {
    return isnan(value) ? "NaN" : value > 0 ? "infinity" : "-infinity";
}

/* For a fault about a number in a row; false if the fault is of another kind. */
static int number_message(const tusk_fault *f, char *text, size_t size) {
    long long row = (long long)f->row, position = (long long)f->position;
    switch (f->code) {
    case TUSK_NOT_FINITE:
        if (f->name) {
            snprintf(text, size,
                     "column '%.200s' is %s in row %lld of the group, expected a finite number",
                     f->name, not_finite(f->value), row);
            return 1;
        }
        snprintf(text, size,
                 "feature %lld is %s in row %lld of the group, expected a finite number (NULL "
                 "skips a row)",
                 position, not_finite(f->value), row);
        return 1;
    case TUSK_LABEL_NOT_FINITE:
        snprintf(
            text, size,
            "label is %s in row %lld of the group, expected a finite number (NULL skips a row)",
            not_finite(f->value), row);
        return 1;
    case TUSK_BAD_INDEX:
        snprintf(text, size,
                 "indices[%lld] is %.0f in row %lld of the group, expected a feature id "
                 "from " TUSK_ID_RANGE,
                 position, f->value, row);
        return 1;
    }
    return 0;
}

/* For a fault about a row's weight or offset; false if the fault is of another kind. */
static int extra_message(const tusk_fault *f, char *text, size_t size) {
    long long row = (long long)f->row;
    char weight[32];
    switch (f->code) {
    case TUSK_BAD_WEIGHT:
        snprintf(weight, sizeof weight, "%.15g", f->value);
        snprintf(text, size,
                 "weight is %s in row %lld of the group, expected a finite number of at least 0 "
                 "(NULL or 0 skips a row)",
                 isfinite(f->value) ? weight : not_finite(f->value), row);
        return 1;
    case TUSK_OFFSET_NOT_FINITE:
        snprintf(text, size,
                 "offset is %s in row %lld of the group, expected a finite number, such as the "
                 "logarithm of an exposure greater than 0 (NULL skips a row)",
                 not_finite(f->value), row);
        return 1;
    }
    return 0;
}

/* For a fault about how many numbers a row has; false if the fault is of another kind. */
static int length_message(const tusk_fault *f, char *text, size_t size) {
    long long row = (long long)f->row, position = (long long)f->position;
    switch (f->code) {
    case TUSK_RAGGED:
        snprintf(text, size,
                 "row %lld of the group has %.0f features, expected %lld as in the rows before it",
                 row, f->value, position);
        return 1;
    case TUSK_EMPTY:
        snprintf(text, size,
                 "row %lld of the group has no features, expected an array of at least one number",
                 row);
        return 1;
    case TUSK_TOO_WIDE:
        snprintf(text, size, "row %lld of the group has %.0f features, at most %d are allowed",
                 row, f->value, TUSK_MAX_DENSE_FEATURES);
        return 1;
    case TUSK_LENGTHS_DIFFER:
        snprintf(
            text, size,
            "sparse() got %lld indices and %.0f values in row %lld of the group, expected as many",
            position, f->value, row);
        return 1;
    }
    return 0;
}

/* For a fault about rows with names. */
static int level_message(const tusk_fault *f, char *text, size_t size) {
    char name[220] = "label";
    if (f->name)
        snprintf(name, sizeof name, "column '%.200s'", f->name);
    long long row = (long long)f->row;
    switch (f->code) {
    case TUSK_LEVEL_TOO_LONG:
        snprintf(text, size,
                 "%s has a text of %.0f bytes in row %lld of the group, expected at "
                 "most %d",
                 name, f->value, row, TUSK_MAX_LEVEL_BYTES);
        return 1;
    case TUSK_LEVEL_WITH_NUL:
        snprintf(text, size,
                 "%s has a character of code 0 in row %lld of the group, expected "
                 "none",
                 name, row);
        return 1;
    case TUSK_TOO_MANY_LEVELS:
        snprintf(text, size,
                 "%s has more distinct values than fit by row %lld of the group: "
                 "leave it out, or shorten its values",
                 name, row);
        return 1;
    case TUSK_TOO_MANY_WORDS:
        snprintf(text, size, "row %lld of the group has %.0f words, at most %d are allowed", row,
                 f->value, TUSK_MAX_DENSE_FEATURES);
        return 1;
    case TUSK_OTHER_COLUMNS:
        snprintf(text, size,
                 "row %lld of the group has other columns than the rows before it, expected the "
                 "same names and types",
                 row);
        return 1;
    }
    return 0;
}

void tusk_fault_message(const tusk_fault *f, char *text, size_t size) {
    if (number_message(f, text, size) || extra_message(f, text, size) ||
        length_message(f, text, size) || level_message(f, text, size))
        return;
    long long row = (long long)f->row;
    switch (f->code) {
    case TUSK_NO_MEMORY:
        snprintf(text, size, "out of memory for row %lld of the group: raise memory_limit", row);
        break;
    case TUSK_DISK_FULL:
        snprintf(text, size,
                 "no room for row %lld of the group: memory_limit is reached and temp_directory "
                 "cannot take more",
                 row);
        break;
    case TUSK_READ_AGAIN:
        snprintf(text, size, "%s", TUSK_WAS_READ);
        break;
    default:
        snprintf(text, size, "internal error %d in row %lld of the group", f->code, row);
    }
}
