/* Packers' remarks on a group's columns besides the values: the number of rows left out because
 * one was NULL, and whether its numbers were rounded. */
#ifndef TUSK_REMARKS_H
#define TUSK_REMARKS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Subjects of a remark other than a column of the features. */
enum tusk_argument {
    TUSK_OF_LABEL = -1,
    TUSK_OF_FEATURES = -2, /* all of them */
    TUSK_OF_WEIGHT = -3,   /* NULL or 0 */
    TUSK_OF_OFFSET = -4,
    TUSK_OF_INDICES = -5,
    TUSK_OF_VALUES = -6,
    TUSK_OF_FAULT = -7 /* a row that option `invalid` left out */
};

/* name: of the column, which is never freed; NULL: features are a list, or it is an argument. */
typedef struct tusk_remark {
    int64_t group;   /* in a batch, the index of the group */
    int64_t column;  /* from 0 on, or enum tusk_argument */
    int64_t gaps;    /* rows that were left out with a NULL in it */
    int64_t rounded; /* whether a number was rounded, so that its double may stand for another */
    const char *name;
} tusk_remark;

/* In the order of the columns. All zero bytes is the empty list. */
typedef struct tusk_remarks {
    tusk_remark *list;
    int32_t n, room;
} tusk_remarks;

/* Records a row that is left out, or rounded numbers. No effect without memory. */
void tusk_remark_gap(tusk_remarks *r, int64_t column, const char *name);
void tusk_remark_rounded(tusk_remarks *r, int64_t column, const char *name);
/* Adds a remark to those of the same column. */
void tusk_remark_add(tusk_remarks *r, const tusk_remark *one);
/* Adds source's remarks to target's. */
void tusk_remarks_splice(tusk_remarks *target, const tusk_remarks *source);
void tusk_remarks_free(tusk_remarks *r);

#ifdef __cplusplus
}
#endif
#endif
