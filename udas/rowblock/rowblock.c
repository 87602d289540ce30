#include "rowblock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "merge.h"
#include "named.h"

/* A segment's size grows with its block, so a small group wastes little and a large group has
 * few segments. */
#define MAX_SEGMENT_BYTES (((size_t)2 << 20) - 128)
#define MIN_SEGMENT_ROWS 4

static int fail(tusk_fault *fault, const tusk_block *b, int64_t row, int code, int64_t position,
                double value) {
    fault->code = code;
    fault->row = tusk_rows_seen(b) + row + 1;
    fault->position = position;
    fault->value = value;
    fault->name = NULL;
    return code;
}

static size_t extras_bytes(int extras) {
    return 8 * (size_t)tusk_count_extras(extras);
}

static size_t segment_bytes(tusk_shape shape, uint32_t cap_rows, uint32_t cap_nnz) {
    size_t size = sizeof(tusk_segment) + 8 * (size_t)cap_rows;
    if (tusk_is_sparse(shape.kind))
        size += tusk_align8(4 * ((size_t)cap_rows + 1)) + tusk_align8(4 * (size_t)cap_nnz) +
                cap_nnz * tusk_value_size(shape.kind);
    else
        size += (size_t)cap_rows * (size_t)shape.dim * tusk_value_size(shape.kind);
    if (shape.extras || shape.wide)
        size = tusk_align8(size) + cap_rows * extras_bytes(shape.extras);
    return shape.wide ? size + 4 * (size_t)cap_nnz : size;
}

tusk_segment *tusk_segment_new(tusk_memory *memory, tusk_shape shape, uint32_t cap_rows,
                               uint32_t cap_nnz, int *code) {
    tusk_slab *slab;
    tusk_segment *s =
        tusk_memory_take(memory, segment_bytes(shape, cap_rows, cap_nnz), &slab, code);
    if (!s)
        return NULL;
    *s = (tusk_segment){.slab = slab, .cap_rows = cap_rows, .cap_nnz = cap_nnz};
    if (tusk_is_sparse(shape.kind))
        tusk_row_starts(s)[0] = 0;
    return s;
}

void tusk_segment_spend(tusk_segment *s, tusk_shape shape) {
    char *begin = tusk_is_sparse(shape.kind) ? (char *)tusk_row_starts(s) : tusk_dense_values(s);
    char *end = (char *)tusk_extras_of(s, shape);
    s->cap_nnz = TUSK_SPENT;
    tusk_slab_release(s->slab, begin, end);
}

int tusk_block_spent(const tusk_block *b) {
    return b->head && b->head->cap_nnz == TUSK_SPENT;
}

size_t tusk_segment_bytes(const tusk_segment *s, tusk_shape shape) {
    return segment_bytes(shape, s->cap_rows, s->cap_nnz);
}

/* The segment after s in a list that ends with `last`, whose link belongs to another block. */
static tusk_segment *next_up_to(const tusk_segment *last, const tusk_segment *s) {
    return s == last ? NULL : s->next;
}

static void drop_up_to(const tusk_segment *last, tusk_segment *head) {
    while (head) {
        tusk_segment *next = next_up_to(last, head);
        tusk_slab_drop(head->slab);
        head = next;
    }
}

void tusk_segments_free(tusk_segment *head) {
    drop_up_to(NULL, head);
}

void tusk_block_free_rows(tusk_block *b) {
    drop_up_to(b->tail, b->head);
    drop_up_to(b->last_wide, b->wide);
    tusk_parts_free(b->parts, b->last_part);
}

void tusk_block_free(tusk_block *b) {
    tusk_block_free_rows(b);
    free(b->flaw);
    memset(b, 0, sizeof *b);
}

static tusk_shape shape_of(const tusk_block *b) {
    return (tusk_shape){b->kind, b->extras, b->dim, 0};
}

/* Appends a list of segments to another. */
static void link_behind(tusk_segment **head, tusk_segment **tail, tusk_segment *first,
                        tusk_segment *last) {
    if (!first)
        return;
    if (*tail)
        (*tail)->next = first;
    else
        *head = first;
    *tail = last;
}

static tusk_segment *grow(tusk_memory *memory, tusk_block *b, uint32_t cap_rows, uint32_t cap_nnz,
                          int *code) {
    tusk_segment *s = tusk_segment_new(memory, shape_of(b), cap_rows, cap_nnz, code);
    link_behind(&b->head, &b->tail, s, s);
    if (!s)
        return NULL;
    b->shared &= (uint8_t)~TUSK_SHARES_ROWS;
    if (b->last_part && !b->last_part->head)
        b->last_part->head = s;
    return s;
}

static uint32_t clamp(int64_t wanted, int64_t least, int64_t most) {
    if (most < least)
        most = least;
    return (uint32_t)(wanted < least ? least : wanted > most ? most : wanted);
}

static tusk_segment *grow_dense(tusk_memory *memory, tusk_block *b, int64_t more, int *code) {
    size_t row = 8 + (size_t)b->dim * tusk_value_size(b->kind) + extras_bytes(b->extras);
    int64_t most = (int64_t)((MAX_SEGMENT_BYTES - sizeof(tusk_segment) - 8) / row);
    int64_t wanted = b->n_rows / 2 > more ? b->n_rows / 2 : more;
    return grow(memory, b, clamp(wanted, most < MIN_SEGMENT_ROWS ? 1 : MIN_SEGMENT_ROWS, most), 0,
                code);
}

/* An IEEE number is finite unless all bits of its exponent are set. Adding one to such an
 * exponent carries into the sign. */
static int all_finite_f32(const float *x, int64_t n) {
    uint32_t carry = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, 4);
        carry |= (bits & 0x7f800000u) + 0x00800000u;
    }
    return !(carry >> 31);
}

static int all_finite_f64(const double *x, int64_t n) {
    uint64_t carry = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, x + i, 8);
        carry |= (bits & 0x7ff0000000000000u) + 0x0010000000000000u;
    }
    return !(carry >> 63);
}

static int all_finite(const void *x, int64_t n, int f64) {
    return f64 ? all_finite_f64((const double *)x, n) : all_finite_f32((const float *)x, n);
}

static double value_at(const void *x, int64_t i, int f64) {
    return f64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static int64_t first_not_finite(const void *x, int64_t n, int f64) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(value_at(x, i, f64)))
            return i;
    return n;
}

static int check_labels(const tusk_block *b, const double *y, int64_t n, tusk_fault *fault) {
    if (all_finite_f64(y, n))
        return TUSK_OK;
    int64_t i = first_not_finite(y, n, 1);
    return fail(fault, b, i, TUSK_LABEL_NOT_FINITE, 0, y[i]);
}

static int check_extras(const tusk_block *b, const tusk_extras *e, int64_t n, tusk_fault *fault) {
    for (int64_t i = 0; e->weight && i < n; i++)
        if (!(e->weight[i] > 0) || !isfinite(e->weight[i]))
            return fail(fault, b, i, TUSK_BAD_WEIGHT, 0, e->weight[i]);
    if (!e->offset || all_finite_f64(e->offset, n))
        return TUSK_OK;
    int64_t i = first_not_finite(e->offset, n, 1);
    return fail(fault, b, i, TUSK_OFFSET_NOT_FINITE, 0, e->offset[i]);
}

static uint8_t extras_given(const tusk_extras *e) {
    return (uint8_t)((e->weight ? TUSK_WEIGHTS : 0) | (e->offset ? TUSK_OFFSETS : 0));
}

/* -0 becomes 0, which is the same class. */
static void put_labels(double *out, const double *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = y[i] + 0.0;
}

static void put_ones(double *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = 1;
}

static void put_extras(const tusk_block *b, const tusk_segment *s, uint32_t row,
                       const tusk_extras *e, int64_t from, size_t n) {
    if (b->extras & TUSK_COUNTS)
        put_ones(tusk_extra(s, shape_of(b), TUSK_WEIGHTS) + row, n);
    else if (e->weight)
        memcpy(tusk_extra(s, shape_of(b), TUSK_WEIGHTS) + row, e->weight + from, n * 8);
    if (e->offset)
        memcpy(tusk_extra(s, shape_of(b), TUSK_OFFSETS) + row, e->offset + from, n * 8);
}

static int check_dense(const tusk_block *b, const tusk_dense_rows *r, tusk_fault *fault) {
    if (r->d <= 0)
        return fail(fault, b, 0, TUSK_EMPTY, 0, 0);
    if (r->d > TUSK_MAX_DENSE_FEATURES)
        return fail(fault, b, 0, TUSK_TOO_WIDE, 0, (double)r->d);
    if (b->typed && r->d != b->dim)
        return fail(fault, b, 0, TUSK_RAGGED, b->dim, (double)r->d);
    if (!r->raw && !all_finite(r->x, r->n * r->d, r->f64)) {
        int64_t i = first_not_finite(r->x, r->n * r->d, r->f64);
        return fail(fault, b, i / r->d, TUSK_NOT_FINITE, i % r->d + 1, value_at(r->x, i, r->f64));
    }
    int code = check_labels(b, r->y, r->n, fault);
    return code ? code : check_extras(b, &r->extras, r->n, fault);
}

/* Whether the next dense row needs another segment. */
static int is_full(const tusk_block *b) {
    return !b->tail || b->tail->n_rows == b->tail->cap_rows || b->shared;
}

int tusk_append_dense(tusk_memory *memory, tusk_block *b, const tusk_dense_rows *rows,
                      tusk_fault *fault) {
    int code = check_dense(b, rows, fault);
    if (code)
        return code;
    if (!b->typed) {
        b->kind = rows->f64 ? TUSK_DENSE_F64 : TUSK_DENSE_F32;
        b->dim = (int32_t)rows->d;
        b->extras |= extras_given(&rows->extras);
        b->typed = 1;
    }
    size_t row = (size_t)rows->d * tusk_value_size(b->kind);
    const char *x = rows->x;
    const double *y = rows->y;
    int64_t n = rows->n;
    while (n > 0) {
        if (is_full(b))
            tusk_merge_some(memory, b);
        if (is_full(b) && !grow_dense(memory, b, n, &code))
            return fail(fault, b, 0, code, 0, 0);
        tusk_segment *s = b->tail;
        uint32_t fits = s->cap_rows - s->n_rows;
        size_t take = n < fits ? (size_t)n : fits;
        memcpy((char *)tusk_dense_values(s) + s->n_rows * row, x, take * row);
        put_labels(tusk_labels(s) + s->n_rows, y, take);
        if (b->extras)
            put_extras(b, s, s->n_rows, &rows->extras, y - rows->y, take);
        s->n_rows += (uint32_t)take;
        b->n_rows += (int64_t)take;
        x += take * row;
        y += take;
        n -= (int64_t)take;
    }
    return TUSK_OK;
}

static tusk_segment *grow_sparse(tusk_memory *memory, tusk_block *b, int64_t nnz, int wide,
                                 int *code) {
    /* As many rows as would fit if all were as long as this one, and entries for these rows. */
    size_t entry = (wide ? 8 : 4) + tusk_value_size(b->kind);
    size_t row = 12 + (size_t)nnz * entry + extras_bytes(b->extras);
    int64_t most = (int64_t)((MAX_SEGMENT_BYTES - sizeof(tusk_segment) - 32) / row);
    uint32_t rows = clamp(b->n_rows / 2, MIN_SEGMENT_ROWS, most);
    if ((size_t)rows * row > MAX_SEGMENT_BYTES)
        rows = 1;
    if (!wide)
        return grow(memory, b, rows, rows * (uint32_t)nnz, code);
    tusk_shape shape = shape_of(b);
    shape.wide = 1;
    tusk_segment *s = tusk_segment_new(memory, shape, rows, rows * (uint32_t)nnz, code);
    link_behind(&b->wide, &b->last_wide, s, s);
    b->shared &= (uint8_t)~TUSK_SHARES_WIDE;
    return s;
}

static int64_t index_at(const void *index, int64_t i, int wide) {
    return wide ? ((const int64_t *)index)[i] : ((const int32_t *)index)[i];
}

/* Finds the largest id, -1 if there is none; fails if one is negative. */
static int check_indices(const tusk_block *b, const tusk_entries *row, int64_t *largest,
                         tusk_fault *fault) {
    int64_t top = -1, all = 0;
    for (int64_t i = 0; i < row->n; i++) {
        int64_t id = index_at(row->index, i, row->wide);
        all |= id;
        top = id > top ? id : top;
    }
    *largest = top;
    for (int64_t i = 0; all < 0 && i < row->n; i++) {
        int64_t id = index_at(row->index, i, row->wide);
        if (id < 0)
            return fail(fault, b, 0, TUSK_BAD_INDEX, i + 1, (double)id);
    }
    return TUSK_OK;
}

/* Copies the ids; high: NULL unless the segment is wide. */
static void copy_indices(int32_t *out, int32_t *high, const tusk_entries *row) {
    if (!row->wide && !high) {
        memcpy(out, row->index, (size_t)row->n * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < row->n; i++) {
        int64_t id = index_at(row->index, i, row->wide);
        out[i] = (int32_t)(uint32_t)id;
        if (high)
            high[i] = (int32_t)(id >> 32);
    }
}

static int append_entries(tusk_memory *memory, tusk_block *b, const tusk_entries *row, double y,
                          tusk_fault *fault) {
    int64_t largest;
    int code = check_indices(b, row, &largest, fault);
    if (code)
        return code;
    int wide = largest > TUSK_MAX_NARROW_ID;
    tusk_segment *s = wide ? b->last_wide : b->tail;
    if (!s || s->cap_nnz == TUSK_SPENT || s->n_rows == s->cap_rows ||
        s->nnz + row->n > s->cap_nnz || b->shared & (wide ? TUSK_SHARES_WIDE : TUSK_SHARES_ROWS)) {
        s = grow_sparse(memory, b, row->n, wide, &code);
        if (!s)
            return fail(fault, b, 0, code, 0, 0);
    }
    copy_indices(tusk_indices(s) + s->nnz, wide ? tusk_high_bits(s, shape_of(b)) + s->nnz : NULL,
                 row);
    size_t size = tusk_value_size(b->kind);
    if (size)
        memcpy((char *)tusk_sparse_values(s) + s->nnz * size, row->values, (size_t)row->n * size);
    put_labels(tusk_labels(s) + s->n_rows, &y, 1);
    if (b->extras)
        put_extras(b, s, s->n_rows, &row->extras, 0, 1);
    s->nnz += (uint32_t)row->n;
    s->n_rows++;
    tusk_row_starts(s)[s->n_rows] = s->nnz;
    b->n_rows++;
    if (!wide && largest >= b->dim)
        b->dim = (int32_t)largest + 1;
    return TUSK_OK;
}

int tusk_append_ids(tusk_memory *memory, tusk_block *b, const tusk_entries *row,
                    tusk_fault *fault) {
    if (row->n > TUSK_MAX_DENSE_FEATURES)
        return fail(fault, b, 0, TUSK_TOO_WIDE, 0, (double)row->n);
    if (!b->typed) {
        b->kind = TUSK_IDS;
        b->typed = 1;
    }
    return append_entries(memory, b, row, 0, fault);
}

int tusk_append_sparse(tusk_memory *memory, tusk_block *b, const tusk_entries *row, double y,
                       tusk_fault *fault) {
    int code = check_labels(b, &y, 1, fault);
    if (!code)
        code = check_extras(b, &row->extras, 1, fault);
    if (code)
        return code;
    if (row->n > TUSK_MAX_DENSE_FEATURES)
        return fail(fault, b, 0, TUSK_TOO_WIDE, 0, (double)row->n);
    if (!all_finite(row->values, row->n, row->f64)) {
        int64_t i = first_not_finite(row->values, row->n, row->f64);
        return fail(fault, b, 0, TUSK_NOT_FINITE, index_at(row->index, i, row->wide),
                    value_at(row->values, i, row->f64));
    }
    if (!b->typed) {
        b->kind = row->f64 ? TUSK_SPARSE_F64 : TUSK_SPARSE_F32;
        b->extras = extras_given(&row->extras);
        b->typed = 1;
    }
    return append_entries(memory, b, row, y, fault);
}

/* --- flaws --- */

struct tusk_flaw {
    tusk_fault fault;
    char name[256]; /* of its column */
    char text[512];
};

static int is_of_a_row(int code) {
    return code != TUSK_OK && code != TUSK_NO_MEMORY && code != TUSK_DISK_FULL &&
           code != TUSK_READ_AGAIN && code != TUSK_OTHER_COLUMNS;
}

static int is_of_the_group(int code) {
    return code == TUSK_RAGGED || code == TUSK_TOO_WIDE || code == TUSK_TOO_MANY_LEVELS;
}

int tusk_block_forgive(tusk_block *b, enum tusk_invalid invalid, const tusk_fault *fault) {
    if (invalid == TUSK_INVALID_ERROR || !is_of_a_row(fault->code))
        return 0;
    if (invalid == TUSK_INVALID_GROUP || is_of_the_group(fault->code)) {
        struct tusk_flaw *flaw = b->flaw ? b->flaw : calloc(1, sizeof *flaw);
        if (!flaw)
            return 0;
        flaw->fault = *fault;
        flaw->fault.name = NULL;
        if (fault->name) {
            size_t length = strnlen(fault->name, sizeof flaw->name - 1);
            memcpy(flaw->name, fault->name, length);
            flaw->fault.name = flaw->name;
        }
        b->flaw = flaw;
    }
    b->n_skipped++;
    return 1;
}

const char *tusk_block_flaw(const tusk_block *b) {
    if (!b->flaw)
        return NULL;
    tusk_fault_message(&b->flaw->fault, b->flaw->text, sizeof b->flaw->text);
    return b->flaw->text;
}

const tusk_fault *tusk_block_fault(const tusk_block *b) {
    return b->flaw ? &b->flaw->fault : NULL;
}

static int same_columns(const tusk_block *a, const tusk_block *b) {
    return a->last_part && b->last_part ? a->last_part->schema == b->last_part->schema
                                        : a->last_part == b->last_part;
}

static void link_parts(tusk_block *b, tusk_part *first, tusk_part *last) {
    if (!first)
        return;
    if (b->last_part)
        b->last_part->next = first;
    else
        b->parts = first;
    b->last_part = last;
}

/* Gives an untyped (still empty) target the source's kind and dim, or checks that both hold the
 * same kind of row. */
static int agree(tusk_block *target, const tusk_block *source, tusk_fault *fault) {
    if (!source->typed)
        return TUSK_OK;
    if (target->typed && !same_columns(target, source))
        return fail(fault, target, 0, TUSK_OTHER_COLUMNS, 0, 0);
    if (!target->typed) {
        target->kind = source->kind;
        target->dim = source->dim;
        target->extras = source->extras;
        target->typed = 1;
    } else if (tusk_is_sparse(target->kind)) {
        if (source->dim > target->dim)
            target->dim = source->dim;
    } else if (source->dim != target->dim) {
        return fail(fault, target, 0, TUSK_RAGGED, target->dim, source->dim);
    }
    return TUSK_OK;
}

/* For rows with a flaw only their number is kept. */
static int splice_flaw(tusk_block *target, const tusk_block *source, tusk_fault *fault) {
    if (!target->flaw) {
        struct tusk_flaw *flaw = malloc(sizeof *flaw);
        if (!flaw)
            return fail(fault, target, 0, TUSK_NO_MEMORY, 0, 0);
        *flaw = *source->flaw;
        flaw->fault.row += tusk_rows_seen(target);
        if (flaw->fault.name)
            flaw->fault.name = flaw->name;
        target->flaw = flaw;
    }
    target->n_skipped += tusk_rows_seen(source);
    return TUSK_OK;
}

static void share_rows(const tusk_block *b) {
    for (const tusk_segment *s = b->head; s; s = next_up_to(b->tail, s))
        tusk_slab_share(s->slab, 1);
    for (const tusk_segment *s = b->wide; s; s = next_up_to(b->last_wide, s))
        tusk_slab_share(s->slab, 1);
    tusk_parts_share(b->parts, b->last_part);
}

/* Takes a share of the source's rows for a block that links them; 0 if another block did
 * before, perhaps at this moment. */
static int borrow(tusk_block *source) {
    if (__atomic_load_n(&source->lent, __ATOMIC_ACQUIRE))
        return 0;
    share_rows(source);
    if (!__atomic_exchange_n(&source->lent, 1, __ATOMIC_ACQ_REL))
        return 1;
    tusk_block_free_rows(source); /* the share alone */
    return 0;
}

static void link_rows(tusk_block *target, const tusk_block *source) {
    link_behind(&target->head, &target->tail, source->head, source->tail);
    link_behind(&target->wide, &target->last_wide, source->wide, source->last_wide);
    link_parts(target, source->parts, source->last_part);
    if (source->head)
        target->shared |= TUSK_SHARES_ROWS;
    if (source->wide)
        target->shared |= TUSK_SHARES_WIDE;
}

/* Copies a segment; extras: those of the copy, which may have weights besides. */
static tusk_segment *copy_segment(tusk_memory *memory, const tusk_segment *from, tusk_shape shape,
                                  int extras, int *code) {
    tusk_shape other = shape;
    other.extras = extras;
    uint32_t entries = tusk_is_sparse(shape.kind) ? from->nnz : 0;
    tusk_segment *to = tusk_segment_new(memory, other, from->n_rows, entries, code);
    if (!to)
        return NULL;
    size_t rows = from->n_rows, size = tusk_value_size(shape.kind);
    memcpy(tusk_labels(to), tusk_labels(from), rows * sizeof(double));
    if (tusk_is_sparse(shape.kind)) {
        memcpy(tusk_row_starts(to), tusk_row_starts(from), (rows + 1) * sizeof(uint32_t));
        memcpy(tusk_indices(to), tusk_indices(from), entries * sizeof(int32_t));
        memcpy(tusk_sparse_values(to), tusk_sparse_values(from), entries * size);
    } else {
        memcpy(tusk_dense_values(to), tusk_dense_values(from), rows * (size_t)shape.dim * size);
    }
    if (shape.wide)
        memcpy(tusk_high_bits(to, other), tusk_high_bits(from, shape), entries * sizeof(int32_t));
    if (extras & ~shape.extras & TUSK_WEIGHTS)
        put_ones(tusk_extra(to, other, TUSK_WEIGHTS), rows);
    tusk_copy_extras(to, other, 0, from, shape, 0, from->n_rows);
    to->n_rows = from->n_rows;
    to->nnz = entries;
    return to;
}

/* Copies the segments, and with the first one of each part its dictionaries. */
static int copy_rows(tusk_memory *memory, tusk_block *target, const tusk_block *source) {
    tusk_shape shape = shape_of(source);
    const tusk_part *part = source->parts;
    int code = TUSK_OK;
    for (const tusk_segment *s = source->head; s && !code; s = next_up_to(source->tail, s)) {
        tusk_segment *to = copy_segment(memory, s, shape, target->extras, &code);
        link_behind(&target->head, &target->tail, to, to);
        if (!to || !part || part->head != s)
            continue;
        tusk_part *own = tusk_part_copy(memory, part, &code);
        if (!own)
            continue;
        own->head = to;
        link_parts(target, own, own);
        part = part == source->last_part ? NULL : part->next;
    }
    shape.wide = 1;
    for (const tusk_segment *s = source->wide; s && !code; s = next_up_to(source->last_wide, s)) {
        tusk_segment *to = copy_segment(memory, s, shape, target->extras, &code);
        link_behind(&target->wide, &target->last_wide, to, to);
    }
    return code;
}

int tusk_block_splice(tusk_memory *memory, tusk_block *target, tusk_block *source,
                      enum tusk_invalid invalid, tusk_fault *fault) {
    if (target->lent || tusk_block_spent(source) || tusk_block_spent(target))
        return fail(fault, source, 0, TUSK_READ_AGAIN, 0, 0);
    target->booleans |= source->booleans;
    if (target->flaw || source->flaw)
        return splice_flaw(target, source, fault);
    int code = agree(target, source, fault);
    if (code && tusk_block_forgive(target, invalid, fault)) {
        target->n_skipped--; /* the row is one of the source's */
        return splice_flaw(target, source, fault);
    }
    if (code)
        return code;
    if (source->extras & TUSK_COUNTS && (code = tusk_merge_all(memory, target)))
        return fail(fault, target, 0, code, 0, 0);
    if (target->extras == source->extras && borrow(source))
        link_rows(target, source);
    else if ((code = copy_rows(memory, target, source)))
        return fail(fault, target, 0, code, 0, 0);
    target->n_rows += source->n_rows;
    target->n_skipped += source->n_skipped;
    return TUSK_OK;
}
