#include "merge.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "named.h"
#include "text_hash.h"

#define FIRST_ROWS 4096         /* of a block in which equal rows are looked for */
#define LEAST_REPEATS 8         /* rows for each distinct one from which merging pays */
#define MOST_DISTINCT (1 << 16) /* rows that are found again */
#define LEAST_SAMPLE 64         /* rows that are looked at first */
#define MOST_SAMPLE 1024
#define LEAST_REPEATED 4       /* rows of a sample that equal others; fewer are chance */
#define NEVER (UINT32_MAX - 1) /* of numbers of rows in segments; the largest is TUSK_SPENT */
#define SEGMENT_BYTES ((size_t)1 << 20)

/* --- rows --- */

/* The rows of a segment, whose features have this size in bytes. */
typedef struct rows {
    const char *x;
    const double *y, *offset, *weight;
    size_t size;
} rows;

static rows rows_of(const tusk_segment *s, tusk_shape shape) {
    return (rows){tusk_dense_values(s), tusk_labels(s), tusk_extra(s, shape, TUSK_OFFSETS),
                  tusk_extra(s, shape, TUSK_WEIGHTS),
                  (size_t)shape.dim * tusk_value_size(shape.kind)};
}

static uint64_t hash_word(uint64_t place, const void *word) {
    uint64_t bits;
    memcpy(&bits, word, sizeof bits);
    return tusk_hash_mix(place * 0x9e3779b97f4a7c15u, bits);
}

/* A sum, whose terms do not wait for each other. */
static uint64_t hash_row(const rows *r, uint32_t row) {
    const char *x = r->x + row * r->size;
    uint64_t sum = hash_word(1, r->y + row), place = 3;
    if (r->offset)
        sum += hash_word(2, r->offset + row);
    size_t left = r->size;
    for (; left >= 8; left -= 8, x += 8)
        sum += hash_word(place++, x);
    if (left)
        sum += tusk_hash_mix(place * 0x9e3779b97f4a7c15u, tusk_four_bytes(x));
    return sum ^ sum >> 32;
}

static bool same_row(const rows *a, uint32_t i, const rows *b, uint32_t k) {
    return memcmp(a->y + i, b->y + k, sizeof *a->y) == 0 &&
           (!a->offset || memcmp(a->offset + i, b->offset + k, sizeof *a->offset) == 0) &&
           memcmp(a->x + i * a->size, b->x + k * a->size, a->size) == 0;
}

/* --- distinct rows --- */

typedef struct place {
    const tusk_segment *segment; /* NULL: free */
    uint32_t row, hash;
} place;

typedef struct merger {
    tusk_memory *memory;
    tusk_block out; /* the distinct rows */
    tusk_shape shape;
    tusk_segment **link; /* where the next segment goes */
    int64_t left;        /* rows that may still come */
    bool begins;         /* whether the next one is the first of a part */
    place *table;        /* of the part's rows */
    size_t room, used;
} merger;

static bool make_room(merger *m, size_t room) {
    place *table = calloc(room, sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i < m->room; i++) {
        const place *from = m->table + i;
        if (!from->segment)
            continue;
        size_t k = from->hash & (room - 1);
        while (table[k].segment)
            k = (k + 1) & (room - 1);
        table[k] = *from;
    }
    free(m->table);
    m->table = table;
    m->room = room;
    return true;
}

static int add_segment(merger *m) {
    size_t row = 8 + (size_t)m->shape.dim * tusk_value_size(m->shape.kind) +
                 8 * (size_t)tusk_count_extras(m->shape.extras);
    int64_t most = (int64_t)(SEGMENT_BYTES / row);
    most = most < 1 ? 1 : most > FIRST_ROWS ? FIRST_ROWS : most;
    int code = TUSK_OK;
    tusk_segment *s = tusk_segment_new(m->memory, m->shape,
                                       (uint32_t)(m->left < most ? m->left : most), 0, &code);
    if (!s)
        return code;
    *m->link = m->out.tail = s;
    m->link = &s->next;
    return TUSK_OK;
}

/* Appends a row to the distinct ones. */
static int add_row(merger *m, const rows *from, uint32_t row, double weight) {
    tusk_segment *s = m->out.tail;
    if (!s || s->n_rows == s->cap_rows || m->begins) {
        int code = add_segment(m);
        if (code)
            return code;
        s = m->out.tail;
        m->begins = false;
    }
    uint32_t at = s->n_rows++;
    memcpy((char *)tusk_dense_values(s) + at * from->size, from->x + row * from->size, from->size);
    tusk_labels(s)[at] = from->y[row];
    tusk_extra(s, m->shape, TUSK_WEIGHTS)[at] = weight;
    if (from->offset)
        tusk_extra(s, m->shape, TUSK_OFFSETS)[at] = from->offset[row];
    m->out.n_rows++;
    return TUSK_OK;
}

/* Adds a row's weight to that of an equal row, or the row itself. */
static int take_row(merger *m, const rows *from, uint32_t row) {
    double weight = from->weight ? from->weight[row] : 1;
    uint32_t hash = (uint32_t)hash_row(from, row);
    size_t k = hash & (m->room - 1);
    for (; m->table[k].segment; k = (k + 1) & (m->room - 1)) {
        const place *p = m->table + k;
        if (p->hash != hash)
            continue;
        rows known = rows_of(p->segment, m->shape);
        if (!same_row(from, row, &known, p->row))
            continue;
        tusk_extra(p->segment, m->shape, TUSK_WEIGHTS)[p->row] += weight;
        return TUSK_OK;
    }
    int code = add_row(m, from, row, weight);
    if (code || m->used >= MOST_DISTINCT)
        return code;
    m->table[k] = (place){m->out.tail, m->out.tail->n_rows - 1, hash};
    if (++m->used > m->room / 2 && !make_room(m, 2 * m->room))
        return TUSK_NO_MEMORY;
    return TUSK_OK;
}

/* Codes of another part mean other texts, so that its rows equal no earlier ones, and it begins a
 * segment of its own. */
static void begin_part(merger *m) {
    memset(m->table, 0, m->room * sizeof *m->table);
    m->used = 0;
    m->begins = true;
}

#define TOO_MANY (-1)

/* Takes all rows of a block, of which at most `most` may be distinct: TOO_MANY. heads: the first
 * segment of each part that has one. */
static int take_rows(merger *m, const tusk_block *b, int64_t most, const tusk_segment **heads) {
    tusk_shape shape = {b->kind, b->extras, b->dim, 0};
    const tusk_part *part = b->parts;
    int64_t left = b->n_rows;
    int code = TUSK_OK;
    for (const tusk_segment *s = b->head; s && left > 0; left -= s->n_rows, s = s->next) {
        while (part && !part->head)
            part = part->next;
        bool begins = part && part->head == s;
        if (begins)
            begin_part(m);
        tusk_segment **first = m->link;
        rows from = rows_of(s, shape);
        for (uint32_t row = 0; row < s->n_rows && !code; row++) {
            code = take_row(m, &from, row);
            m->left--;
            if (m->out.n_rows > most)
                return TOO_MANY;
        }
        if (code)
            return code;
        if (begins) {
            *heads++ = *first;
            part = part->next;
        }
    }
    return TUSK_OK;
}

/* --- blocks --- */

static size_t count_parts(const tusk_block *b) {
    size_t n = 0;
    for (const tusk_part *part = b->parts; part; part = part == b->last_part ? NULL : part->next)
        n++;
    return n;
}

/* Gives the parts their first segments. Those that other blocks read too are copied. */
static int place_parts(tusk_memory *memory, const tusk_block *b, const tusk_segment **heads,
                       tusk_block *out) {
    bool shared = b->shared & TUSK_SHARES_ROWS;
    out->parts = out->last_part = NULL;
    for (tusk_part *part = b->parts; part; part = part == b->last_part ? NULL : part->next) {
        int code = TUSK_OK;
        tusk_part *own = shared ? tusk_part_copy(memory, part, &code) : part;
        if (!own)
            return code;
        own->head = part->head ? *heads++ : NULL;
        if (out->last_part)
            out->last_part->next = own;
        else
            out->parts = own;
        out->last_part = own;
    }
    return TUSK_OK;
}

static void merge_at(tusk_block *b, int64_t n_rows) {
    n_rows = n_rows < FIRST_ROWS ? FIRST_ROWS : n_rows;
    if (b->head)
        b->head->nnz = n_rows < NEVER ? (uint32_t)n_rows : NEVER;
}

/* Replaces the rows of a block by the distinct ones, unless these are more than `most`. */
static int merge(tusk_memory *memory, tusk_block *b, int64_t most) {
    merger m = {.memory = memory, .out = *b, .shape = {b->kind, b->extras, b->dim, 0}};
    m.shape.extras |= TUSK_WEIGHTS;
    m.out.head = m.out.tail = NULL;
    m.out.n_rows = 0;
    m.link = &m.out.head;
    m.left = b->n_rows;
    const tusk_segment **heads = malloc((count_parts(b) + 1) * sizeof *heads);
    int code = heads && make_room(&m, 1024) ? take_rows(&m, b, most, heads) : TUSK_NO_MEMORY;
    if (!code)
        code = place_parts(memory, b, heads, &m.out);
    free(m.table);
    free(heads);
    if (code) {
        if (b->shared & TUSK_SHARES_ROWS)
            tusk_parts_free(m.out.parts == b->parts ? NULL : m.out.parts, m.out.last_part);
        tusk_segments_free(m.out.head);
        return code;
    }
    tusk_block old = *b;
    if (!(old.shared & TUSK_SHARES_ROWS))
        old.parts = old.last_part = NULL; /* the new rows have them */
    tusk_block_free_rows(&old);
    *b = m.out;
    b->extras |= TUSK_WEIGHTS | TUSK_COUNTS;
    b->shared &= (uint8_t)~TUSK_SHARES_ROWS;
    merge_at(b, b->n_rows > MOST_DISTINCT ? NEVER : LEAST_REPEATS * b->n_rows);
    return TUSK_OK;
}

/* Estimates from a sample of n rows whether all repeat: of D distinct rows that are as frequent,
 * about n^2 / (2 D) are in it before. */
static bool seems_to_repeat(const tusk_block *b) {
    int64_t wanted = b->n_rows / 64;
    wanted = wanted < LEAST_SAMPLE ? LEAST_SAMPLE : wanted > MOST_SAMPLE ? MOST_SAMPLE : wanted;
    uint32_t n = b->tail->n_rows < wanted ? b->tail->n_rows : (uint32_t)wanted;
    size_t room = 2 * LEAST_SAMPLE;
    while (room < 2 * n)
        room *= 2;
    uint64_t seen[2 * MOST_SAMPLE]; /* hashes; 0: free */
    memset(seen, 0, room * sizeof *seen);
    rows r = rows_of(b->tail, (tusk_shape){b->kind, b->extras, b->dim, 0});
    int64_t repeated = 0;
    for (uint32_t row = 0; row < n; row++) {
        uint64_t hash = hash_row(&r, row) | 1;
        size_t k = hash >> 8 & (room - 1);
        while (seen[k] && seen[k] != hash)
            k = (k + 1) & (room - 1);
        repeated += seen[k] == hash;
        seen[k] = hash;
    }
    return repeated >= LEAST_REPEATED &&
           2 * repeated * b->n_rows >= LEAST_REPEATS * (int64_t)n * n;
}

void tusk_merge_some(tusk_memory *memory, tusk_block *b) {
    bool merged = b->extras & TUSK_COUNTS;
    int64_t at = b->head && b->head->nnz ? b->head->nnz : FIRST_ROWS;
    if (b->n_rows < at || at == NEVER || b->shared || tusk_block_spent(b))
        return;
    if (!merged && (!(b->extras & TUSK_MAY_MERGE) || b->extras & TUSK_WEIGHTS))
        return;
    if (!merged && !seems_to_repeat(b))
        merge_at(b, 2 * b->n_rows);
    else if (merge(memory, b, merged ? INT64_MAX : b->n_rows / LEAST_REPEATS))
        merge_at(b, 4 * b->n_rows);
}

void tusk_merge_rest(tusk_memory *memory, tusk_block *b) {
    if (b->extras & TUSK_COUNTS && b->head && b->head->nnz != NEVER && !tusk_block_spent(b))
        merge(memory, b, INT64_MAX);
}

int tusk_merge_all(tusk_memory *memory, tusk_block *b) {
    return b->extras & TUSK_COUNTS ? TUSK_OK : merge(memory, b, INT64_MAX);
}
