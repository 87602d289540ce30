/* Packs rows with names. */
#include "pack.h"

#include <math.h>
#include <string.h>

#include "../../rowblock/merge.h"
#include "../../rowblock/text_hash.h"
#include "numbering.h"

bool tusk_named_complete(const tusk_named_chunk *c) {
    for (int32_t i = 0; i < c->schema->n_columns; i++)
        if (c->column[i].validity)
            return false;
    return true;
}

bool tusk_named_gap(const tusk_named_chunk *c, uint64_t row) {
    if (c->complete)
        return false;
    for (int32_t i = 0; i < c->schema->n_columns; i++)
        if (!tusk_given_valid(c->column + i, row))
            return true;
    return false;
}

void tusk_named_rounded(const tusk_named_chunk *c, uint64_t row, uint64_t n, tusk_remarks *to) {
    for (int32_t i = 0; i < c->schema->n_columns; i++)
        if (tusk_any_bit(c->column[i].rounded, row, n))
            tusk_remark_rounded(to, i, c->schema->name[i]);
}

void tusk_named_gaps(const tusk_named_chunk *c, uint64_t row, tusk_remarks *to) {
    for (int32_t i = 0; i < c->schema->n_columns; i++)
        if (!tusk_given_valid(c->column + i, row))
            tusk_remark_gap(to, i, c->schema->name[i]);
}

/* --- packing --- */

static int fail(const tusk_block *b, uint64_t row, int code, const char *name, double value,
                tusk_fault *fault) {
    *fault = (tusk_fault){
        .code = code, .row = tusk_rows_seen(b) + (int64_t)row + 1, .value = value, .name = name};
    return code;
}

/* A batch of rows on its way into a block. */
typedef struct packing {
    tusk_memory *memory;
    tusk_block *block;
    tusk_part *part;
    uint64_t row, n;
    bool nan_is_gap;
    tusk_fault *fault;
} packing;

/* The code of a text in a column of the row with this number. */
static int code_of(const packing *p, const tusk_named_chunk *c, int32_t j, uint64_t row,
                   uint32_t *code) {
    const tusk_text *text = c->column[j].texts + row;
    tusk_levels *levels = p->part->levels + j;
    uint8_t number = c->numbers ? c->numbers[row * (uint64_t)c->schema->n_columns + (uint64_t)j]
                                : TUSK_NO_NUMBER;
    uint8_t *known = number == TUSK_NO_NUMBER ? NULL
                                              : tusk_part_known(p->memory, p->part, c->numbering,
                                                                j, number, p->block->n_rows);
    if (known && *known) {
        *code = *known - 1u;
        return TUSK_OK;
    }
    int failed = tusk_level_code(p->memory, levels, text->data, text->length, code);
    if (known && !failed && *code < UINT8_MAX)
        *known = (uint8_t)(*code + 1);
    return failed;
}

static bool same_text(const tusk_text *a, const tusk_text *b) {
    return a->length == b->length && tusk_same_bytes(a->data, b->data, a->length);
}

/* Whether a number is stored unchanged. */
static bool is_kept(const packing *p, double x) {
    return isfinite(x) || (p->nan_is_gap && isnan(x));
}

#define DEFINE_PUT(T)                                                                             \
    static int put_numbers_##T(const packing *p, const tusk_given_column *c, T *out,              \
                               int32_t width) {                                                   \
        const double *numbers = c->numbers + p->row;                                              \
        if (!c->validity) {                                                                       \
            uint64_t i = 0;                                                                       \
            for (T x; i < p->n && is_kept(p, x = (T)numbers[i]); i++, out += width)               \
                *out = x;                                                                         \
            return i == p->n ? TUSK_OK                                                            \
                             : fail(p->block, i, TUSK_NOT_FINITE, c->name, numbers[i], p->fault); \
        }                                                                                         \
        for (uint64_t i = 0; i < p->n; i++, out += width) {                                       \
            double x = c->numbers[p->row + i];                                                    \
            if (!tusk_given_valid(c, p->row + i))                                                 \
                *out = NAN;                                                                       \
            else if (!is_kept(p, *out = (T)x))                                                    \
                return fail(p->block, i, TUSK_NOT_FINITE, c->name, x, p->fault);                  \
        }                                                                                         \
        return TUSK_OK;                                                                           \
    }                                                                                             \
    static int put_codes_##T(const packing *p, const tusk_named_chunk *chunk, int32_t j, T *out,  \
                             int32_t width) {                                                     \
        const tusk_given_column *c = chunk->column + j;                                           \
        const tusk_text *last = NULL;                                                             \
        uint32_t code = 0;                                                                        \
        for (uint64_t i = 0; i < p->n; i++, out += width) {                                       \
            const tusk_text *text = c->texts + p->row + i;                                        \
            if (!tusk_given_valid(c, p->row + i)) {                                               \
                *out = NAN;                                                                       \
                continue;                                                                         \
            }                                                                                     \
            int failed = TUSK_OK;                                                                 \
            if (!last || !same_text(last, text))                                                  \
                failed = code_of(p, chunk, j, p->row + i, &code);                                 \
            if (!failed && (*out = (T)code) != code)                                              \
                failed = TUSK_TOO_MANY_LEVELS;                                                    \
            if (failed)                                                                           \
                return fail(p->block, i, failed, c->name, (double)text->length, p->fault);        \
            last = text;                                                                          \
        }                                                                                         \
        return TUSK_OK;                                                                           \
    }                                                                                             \
    static int put_columns_##T(const packing *p, const tusk_named_chunk *c) {                     \
        T *out = c->buffer;                                                                       \
        int32_t width = c->schema->n_columns;                                                     \
        int code = TUSK_OK;                                                                       \
        for (int32_t j = 0; !code && j < width; j++)                                              \
            code = c->column[j].texts ? put_codes_##T(p, c, j, out + j, width)                    \
                                      : put_numbers_##T(p, c->column + j, out + j, width);        \
        return code;                                                                              \
    }

DEFINE_PUT(float)
DEFINE_PUT(double)

/* Replaces the numbers of a column that doubles may round: see TUSK_WIDE_ID. */
static int put_wide_ids(const packing *p, const tusk_named_chunk *chunk, int32_t j) {
    const tusk_given_column *c = chunk->column + j;
    double *out = (double *)chunk->buffer + j;
    for (uint64_t i = 0; i < p->n; i++, out += chunk->schema->n_columns) {
        if (!(fabs(*out) >= TUSK_WIDE_ID))
            continue;
        tusk_text digits = c->digits ? c->digits[p->row + i] : (tusk_text){NULL, 0};
        *out = -TUSK_WIDE_ID;
        if (!digits.data)
            continue;
        uint32_t code;
        int failed =
            tusk_level_code(p->memory, p->part->levels + j, digits.data, digits.length, &code);
        if (failed)
            return fail(p->block, i, failed, c->name, (double)digits.length, p->fault);
        *out = tusk_wide_id(code);
    }
    return TUSK_OK;
}

int tusk_append_named(tusk_memory *memory, tusk_block *block, const tusk_named_chunk *c,
                      uint64_t row, uint64_t n, const double *y, bool nan_is_gap, bool ids,
                      tusk_fault *fault) {
    tusk_part *part = tusk_part_for(memory, block, c->schema, fault);
    packing p = {memory, block, part, row, n, nan_is_gap, fault};
    if (!p.part)
        return fault->code;
    int code = c->schema->f64 ? put_columns_double(&p, c) : put_columns_float(&p, c);
    for (int32_t j = 0; ids && c->schema->f64 && !code && j < c->schema->n_columns; j++)
        if (c->column[j].numbers)
            code = put_wide_ids(&p, c, j);
    if (code)
        return code;
    tusk_dense_rows rows = {.f64 = c->schema->f64,
                            .raw = 1,
                            .x = c->buffer,
                            .y = y,
                            .n = (int64_t)n,
                            .d = c->schema->n_columns,
                            .extras = {c->extras.weight ? c->extras.weight + row : NULL,
                                       c->extras.offset ? c->extras.offset + row : NULL}};
    return tusk_append_dense(memory, block, &rows, fault);
}

void tusk_named_expect(const tusk_block *block, const tusk_named_chunk *c) {
    const tusk_part *part = block->last_part;
    if (c->numbers && part)
        __builtin_prefetch(part);
    for (int32_t j = 0;
         !c->numbers && part && part->schema == c->schema && j < c->schema->n_columns; j++)
        if (c->column[j].texts)
            __builtin_prefetch(part->levels + j);
}

/* Prefetches the bytes of a row's numbers. */
static void expect_known(const tusk_part *part, const tusk_named_chunk *c, uint64_t row) {
    int32_t width = c->schema->n_columns;
    const uint8_t *number = c->numbers + row * (uint64_t)width;
    for (int32_t j = 0; j < width; j++)
        if (c->column[j].texts && number[j] < part->n_known)
            __builtin_prefetch(part->known + (size_t)j * part->n_known + number[j]);
}

void tusk_named_expect_row(const tusk_block *block, const tusk_named_chunk *c, uint64_t row) {
    const tusk_part *part = block->last_part;
    if (!part || part->schema != c->schema)
        return;
    if (c->numbers) {
        expect_known(part, c, row);
        return;
    }
    for (int32_t j = 0; j < c->schema->n_columns; j++)
        if (c->column[j].texts && tusk_given_valid(c->column + j, row))
            tusk_level_expect(part->levels + j, c->column[j].texts[row].data,
                              c->column[j].texts[row].length);
}

int tusk_label_order(tusk_memory *memory, tusk_block *block, const tusk_schema *schema,
                     tusk_label_values ordered, tusk_fault *fault) {
    tusk_part *part = tusk_part_for(memory, block, schema, fault);
    if (!part)
        return fault->code;
    tusk_levels *levels = part->levels + schema->n_columns;
    uint32_t code;
    for (uint32_t k = levels->n; k < ordered.n; k++) {
        tusk_text value = ordered.values[k];
        int failed = tusk_level_code(memory, levels, value.data, value.length, &code);
        if (failed)
            return fail(block, 0, failed, NULL, (double)value.length, fault);
    }
    return TUSK_OK;
}

int tusk_label_code(tusk_memory *memory, tusk_block *block, const tusk_schema *schema,
                    tusk_text label, double *y, tusk_fault *fault) {
    tusk_part *part = tusk_part_for(memory, block, schema, fault);
    if (!part)
        return fault->code;
    uint32_t code = 0;
    int failed =
        tusk_level_code(memory, part->levels + schema->n_columns, label.data, label.length, &code);
    *y = code;
    return failed ? fail(block, 0, failed, NULL, (double)label.length, fault) : TUSK_OK;
}
