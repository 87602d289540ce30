/* RowBlock: the rows of one group, in the one layout that both databases write and the kernels
 * read.
 *
 * A block is a list of segments. A segment is one piece of memory:
 *
 *   offset            dense                          sparse
 *   0                 tusk_segment (header)          tusk_segment (header)
 *   32                y       double[cap_rows]       y      double[cap_rows]
 *   32 + 8 cap_rows   values  T[cap_rows][dim]       start  uint32[cap_rows + 1] *
 *                                                    index  int32[cap_nnz] *
 *                                                    values T[cap_nnz]
 *   * padded to 8 bytes
 *
 * Behind these, padded to 8 bytes, follow the rows' weights and then their offsets,
 * double[cap_rows] each, where the block has them. The weights are greater than 0.
 *
 * Rows with an id above TUSK_MAX_NARROW_ID are in a list of segments of their own, the wide ones.
 * There `index` holds the low 32 bits of the ids, and int32[cap_nnz] with the high bits ends the
 * segment. Trainings number the ids of such a block anew before they read its rows.
 *
 * T is float or double by the block's kind; there are no values if rows are ids alone. Row i of a
 * sparse segment is entries start[i] .. start[i+1] - 1, ids unordered, repeated ids add up. Rows
 * move only where equal ones are merged (merge.h); combining blocks links segments. Packers do no
 * arithmetic. What no kernel can use (NaN, infinity, ragged rows) is a fault, and option `invalid`
 * says what becomes of it.
 */
#ifndef TUSK_ROWBLOCK_H
#define TUSK_ROWBLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "memory.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tusk_kind {
    TUSK_DENSE_F32 = 0,
    TUSK_DENSE_F64 = 1,
    TUSK_SPARSE_F32 = 2,
    TUSK_SPARSE_F64 = 3,
    TUSK_IDS = 4 /* sparse without values, labels 0: which features each row has */
};

/* Fields of rows besides their labels, as bits. Clusters are numbers, equal in rows of one
 * cluster, and folds are numbers by which a search deals rows to folds; rows get both when they
 * are prepared (named.h). Folds come last: without their bit a segment is as valid, and has
 * none. Bits of other meaning are in merge.h. */
enum tusk_extra { TUSK_WEIGHTS = 1, TUSK_OFFSETS = 2, TUSK_CLUSTERS = 4, TUSK_FOLDS = 8 };

/* Number of set bits among these. */
static inline int tusk_count_extras(int extras) {
    return !!(extras & TUSK_WEIGHTS) + !!(extras & TUSK_OFFSETS) + !!(extras & TUSK_CLUSTERS) +
           !!(extras & TUSK_FOLDS);
}

#define TUSK_MAX_DENSE_FEATURES 1000000
#define TUSK_MAX_NARROW_ID 2147483646
#define TUSK_ID_RANGE "0 to 9223372036854775807"

typedef struct tusk_segment {
    struct tusk_segment *next;
    tusk_slab *slab; /* owner of its memory */
    uint32_t n_rows;
    uint32_t cap_rows;
    uint32_t nnz;     /* sparse: entries used; dense: merge.h */
    uint32_t cap_nnz; /* dense: 0; TUSK_SPENT after the values were freed */
} tusk_segment;
#define TUSK_SPENT UINT32_MAX

struct tusk_part; /* named.h: the dictionaries of rows with names */
struct tusk_flaw; /* why no model can be trained on a block's rows */

/* The rows of one group, which grow in number. All zero bytes is the empty block. */
typedef struct tusk_block {
    tusk_segment *head;
    tusk_segment *tail;
    tusk_segment *wide, *last_wide; /* rows with wide ids */
    int64_t n_rows;                 /* usable rows, all in the segments */
    int64_t n_skipped;              /* rows with a NULL, and others that were left out */
    int32_t dim;    /* dense: number of features; sparse: 1 + the largest narrow id */
    uint8_t kind;   /* enum tusk_kind */
    uint8_t typed;  /* whether kind and dim are set */
    uint8_t lent;   /* another block has linked the rows; read and set atomically */
    uint8_t shared; /* bits of enum tusk_shared */
    uint8_t extras; /* bits of enum tusk_extra */
    struct tusk_part *parts, *last_part; /* NULL: lists of numbers, with numbers as labels */
    struct tusk_flaw *flaw;              /* NULL: the rows are sound */
    uint8_t booleans;                    /* whether labels are booleans */
} tusk_block;

/* Parts that other blocks read too, so that further rows need new segments and parts. */
enum tusk_shared { TUSK_SHARES_ROWS = 1, TUSK_SHARES_WIDE = 2 };

/* The read-only rows that kernels receive, without the packers' bookkeeping. */
typedef struct tusk_group {
    const tusk_segment *head;
    int64_t n_rows;
    int64_t n_skipped;
    int32_t dim;
    int32_t kind;
    const struct tusk_part *parts; /* NULL if the rows are ready for training */
    int32_t extras;                /* bits of enum tusk_extra */
    int32_t place; /* index among the groups of a training, for data by group; packers leave 0 */
    const tusk_segment *wide; /* NULL if the rows are ready for training */
} tusk_group;

enum tusk_code {
    TUSK_OK = 0,
    TUSK_NO_MEMORY,
    TUSK_DISK_FULL,
    TUSK_RAGGED,     /* position: features expected, value: features found */
    TUSK_EMPTY,      /* a row without features */
    TUSK_TOO_WIDE,   /* value: features found */
    TUSK_NOT_FINITE, /* position: 1-based feature, or feature id; value: the number */
    TUSK_LABEL_NOT_FINITE,
    TUSK_BAD_WEIGHT,
    TUSK_OFFSET_NOT_FINITE,
    TUSK_BAD_INDEX,      /* position: 1-based place in indices, value: the id */
    TUSK_LENGTHS_DIFFER, /* position: indices, value: values */
    TUSK_READ_AGAIN,
    TUSK_LEVEL_TOO_LONG, /* value: bytes of the text */
    TUSK_LEVEL_WITH_NUL,
    TUSK_TOO_MANY_LEVELS,
    TUSK_TOO_MANY_WORDS, /* value: words of the row */
    TUSK_OTHER_COLUMNS
};

/* Why an append was rejected. row counts from 1 in the group and includes skipped rows. */
typedef struct tusk_fault {
    int32_t code;
    int64_t row;
    int64_t position;
    double value;
    const char *name; /* the column of the fault; NULL: a feature of a list */
} tusk_fault;

/* Treatment of a row with a fault: option `invalid`. */
enum tusk_invalid {
    TUSK_INVALID_GROUP, /* its group has no model that predicts */
    TUSK_INVALID_SKIP,  /* it is left out */
    TUSK_INVALID_ERROR
};

/* Records a fault of the next row, which is left out; a group with a flaw takes no more rows.
 * Lists of different lengths, of which any may be right, are a flaw even if rows are skipped.
 * Returns 0 for faults that concern no row, such as a lack of memory, and if all faults are
 * errors. */
int tusk_block_forgive(tusk_block *block, enum tusk_invalid invalid, const tusk_fault *fault);
/* A sentence about the flaw, which lives as long as the block; NULL: there is none. */
const char *tusk_block_flaw(const tusk_block *block);
/* The fault itself, to be passed on by another process; NULL: there is none. */
const tusk_fault *tusk_block_fault(const tusk_block *block);

static inline int tusk_is_sparse(int kind) {
    return kind >= TUSK_SPARSE_F32;
}
static inline size_t tusk_value_size(int kind) {
    if (kind == TUSK_IDS)
        return 0;
    return (kind & 1) ? sizeof(double) : sizeof(float);
}
static inline size_t tusk_align8(size_t n) {
    return (n + 7) & ~(size_t)7;
}

static inline double *tusk_labels(const tusk_segment *s) {
    return (double *)(s + 1);
}
static inline void *tusk_dense_values(const tusk_segment *s) {
    return tusk_labels(s) + s->cap_rows;
}
static inline uint32_t *tusk_row_starts(const tusk_segment *s) {
    return (uint32_t *)(tusk_labels(s) + s->cap_rows);
}
static inline int32_t *tusk_indices(const tusk_segment *s) {
    return (int32_t *)((char *)tusk_row_starts(s) + tusk_align8(4 * ((size_t)s->cap_rows + 1)));
}
static inline void *tusk_sparse_values(const tusk_segment *s) {
    return (char *)tusk_indices(s) + tusk_align8(4 * (size_t)s->cap_nnz);
}

/* Layout of rows of a kind. */
typedef struct tusk_shape {
    int32_t kind, extras;
    int64_t dim; /* of dense rows */
    int wide;    /* whether ids have high bits */
} tusk_shape;
static inline tusk_shape tusk_shape_of(const tusk_group *g) {
    return (tusk_shape){g->kind, g->extras, g->dim, 0};
}

/* End of a segment's values, and start of its extras. */
static inline double *tusk_extras_of(const tusk_segment *s, tusk_shape shape) {
    size_t size = tusk_value_size(shape.kind);
    char *end = tusk_is_sparse(shape.kind)
                    ? (char *)tusk_sparse_values(s) + tusk_align8(s->cap_nnz * size)
                    : (char *)tusk_dense_values(s) +
                          tusk_align8((size_t)s->cap_rows * (size_t)shape.dim * size);
    return (double *)end;
}
/* An extra of a segment's rows; NULL if they have none. */
static inline double *tusk_extra(const tusk_segment *s, tusk_shape shape, enum tusk_extra which) {
    if (!(shape.extras & which))
        return NULL;
    size_t before = (size_t)tusk_count_extras(shape.extras & ((int)which - 1));
    return tusk_extras_of(s, shape) + before * s->cap_rows;
}
/* The high bits of the ids of a wide segment. */
static inline int32_t *tusk_high_bits(const tusk_segment *s, tusk_shape shape) {
    size_t extras = (size_t)tusk_count_extras(shape.extras) * s->cap_rows;
    return (int32_t *)(tusk_extras_of(s, shape) + extras);
}
static inline int64_t tusk_joined_id(int32_t high, int32_t low) {
    return (int64_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}
/* Copies n rows' extras, from and to the rows with these numbers. */
static inline void tusk_copy_extras(const tusk_segment *to, tusk_shape to_shape, uint32_t to_row,
                                    const tusk_segment *from, tusk_shape shape, uint32_t row,
                                    uint32_t n) {
    for (int which = TUSK_WEIGHTS; which <= TUSK_FOLDS; which <<= 1) {
        const double *extra = tusk_extra(from, shape, (enum tusk_extra)which);
        if (extra && (to_shape.extras & which))
            memcpy(tusk_extra(to, to_shape, (enum tusk_extra)which) + to_row, extra + row,
                   n * sizeof *extra);
    }
}

/* Prefetches what the next append to a block reads, and then the destination of a dense row. */
static inline void tusk_block_expect(const tusk_block *b) {
    if (b->tail)
        __builtin_prefetch(b->tail, 1);
}
static inline void tusk_block_expect_row(const tusk_block *b) {
    const tusk_segment *s = b->tail;
    if (!s || tusk_is_sparse(b->kind))
        return;
    size_t row = (size_t)b->dim * tusk_value_size(b->kind);
    __builtin_prefetch(tusk_labels(s) + s->n_rows, 1);
    __builtin_prefetch((const char *)tusk_dense_values(s) + s->n_rows * row, 1);
}

/* The weights and the offsets of the rows that are appended; NULL: the block has none. */
typedef struct tusk_extras {
    const double *weight; /* greater than 0 */
    const double *offset;
} tusk_extras;

/* n rows of d features, x of shape (n, d) in C order and y of shape (n,). */
typedef struct tusk_dense_rows {
    int f64; /* 0: x is float, else double */
    int raw; /* rows with names: NaN is a NULL, and the caller has checked the numbers */
    const void *x;
    const double *y;
    int64_t n;
    int64_t d;
    tusk_extras extras;
} tusk_dense_rows;
int tusk_append_dense(tusk_memory *memory, tusk_block *block, const tusk_dense_rows *rows,
                      tusk_fault *fault);

/* The entries of one sparse row; n is their number. */
typedef struct tusk_entries {
    int wide; /* 0: index is int32, else int64 */
    int f64;  /* 0: values is float, else double */
    const void *index;
    const void *values; /* not read if rows are ids alone */
    int64_t n;
    tusk_extras extras;
} tusk_entries;
int tusk_append_sparse(tusk_memory *memory, tusk_block *block, const tusk_entries *row, double y,
                       tusk_fault *fault);
/* Appends one row of ids without values. */
int tusk_append_ids(tusk_memory *memory, tusk_block *block, const tusk_entries *row,
                    tusk_fault *fault);

/* Appends source's rows to target's. The first target links the segments without copying rows;
 * later ones, as frames of a window function, copy them, from several threads at a time. The
 * source may only be combined or freed afterwards. memory: for copies. invalid: treatment of
 * rows of different lengths. */
int tusk_block_splice(tusk_memory *memory, tusk_block *target, tusk_block *source,
                      enum tusk_invalid invalid, tusk_fault *fault);

void tusk_block_free(tusk_block *block);

/* Segments with room for a given number of rows, for code that writes rows itself (shuffling).
 * NULL if memory is out. */
tusk_segment *tusk_segment_new(tusk_memory *memory, tusk_shape shape, uint32_t cap_rows,
                               uint32_t cap_nnz, int *code);
void tusk_segments_free(tusk_segment *head);
/* Frees the pages of a segment's values and ids, which are not read again. Labels and extras
 * stay. */
void tusk_segment_spend(tusk_segment *segment, tusk_shape shape);
/* Whether values of a block have been freed. */
int tusk_block_spent(const tusk_block *block);
#define TUSK_WAS_READ                                                                           \
    "the rows of a group were asked for again after their training, as frames of many rows do " \
    "in window functions: train in a subquery with GROUP BY, and join its models"
/* The bytes of a segment with its header, for code that passes segments to another process. */
size_t tusk_segment_bytes(const tusk_segment *segment, tusk_shape shape);

/* Writes one sentence about a fault, the same in every database. */
void tusk_fault_message(const tusk_fault *fault, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
