#include "named.h"
#include "merge.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fork_safe.h"
#include "text_hash.h"

/* --- schemas --- */

static pthread_mutex_t schemas_lock = PTHREAD_MUTEX_INITIALIZER;
TUSK_FORK_SAFE(hold_in_forks, schemas_lock)
static tusk_schema *schemas;

static int same_schema(const tusk_schema *a, const tusk_schema *b) {
    if (a->n_columns != b->n_columns || a->text_label != b->text_label || a->f64 != b->f64)
        return 0;
    for (int32_t i = 0; i < a->n_columns; i++)
        if (a->kind[i] != b->kind[i] || strcmp(a->name[i], b->name[i]) != 0)
            return 0;
    return 1;
}

/* One piece of memory: the schema, the names' addresses, the kinds, the names. */
static tusk_schema *schema_copy(const tusk_schema *like) {
    size_t n = (size_t)like->n_columns, names = 0;
    for (size_t i = 0; i < n; i++)
        names += strlen(like->name[i]) + 1;
    tusk_schema *s = malloc(sizeof *s + n * sizeof(char *) + n + names);
    if (!s)
        return NULL;
    const char **name = (const char **)(s + 1);
    uint8_t *kind = (uint8_t *)(name + n);
    char *text = (char *)(kind + n);
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(like->name[i]) + 1;
        kind[i] = like->kind[i];
        name[i] = memcpy(text, like->name[i], length);
        text += length;
    }
    *s = *like;
    s->kind = kind;
    s->name = name;
    return s;
}

const tusk_schema *tusk_schema_of(const tusk_schema *like) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hold_in_forks);
    pthread_mutex_lock(&schemas_lock);
    tusk_schema *s = schemas;
    while (s && !same_schema(s, like))
        s = s->next;
    if (!s && (s = schema_copy(like))) {
        s->next = schemas;
        schemas = s;
    }
    pthread_mutex_unlock(&schemas_lock);
    return s;
}

/* --- dictionaries --- */

#define FIRST_LEVELS 4
#define FIRST_BYTES 40

static const char *level_at(const tusk_levels *l, uint32_t code, size_t *length) {
    uint32_t begin = code ? l->end[code - 1] : 0;
    *length = l->end[code] - begin;
    return l->text + begin;
}

/* A text of at most 8 bytes as a number. */
static uint64_t bytes_of(const char *text, size_t length) {
    uint64_t x = 0;
    if (length >= 4)
        return tusk_four_bytes(text) | (uint64_t)tusk_four_bytes(text + length - 4)
                                           << (8 * (length - 4));
    for (size_t i = 0; i < length; i++)
        x |= (uint64_t)(unsigned char)text[i] << (8 * i);
    return x;
}

static int is_at(const tusk_levels *l, const tusk_level_place *p, uint64_t start, const char *text,
                 size_t length) {
    if (p->length != length || p->start != start)
        return 0;
    size_t same;
    return length <= sizeof start ||
           tusk_same_bytes(level_at(l, p->code - 1, &same), text, length);
}

/* The slot of a text in the table, or the free slot for it. */
static tusk_level_place *place_of(const tusk_levels *l, const char *text, size_t length) {
    uint32_t mask = 2 * l->room - 1;
    uint64_t hash = tusk_hash_text(text, length);
    uint64_t start = length <= sizeof start ? bytes_of(text, length) : hash;
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        tusk_level_place *p = l->table + at;
        if (!p->code || is_at(l, p, start, text, length))
            return p;
    }
}

static void put_level(tusk_level_place *place, uint32_t code, const char *text, size_t length) {
    uint64_t start =
        length <= sizeof start ? bytes_of(text, length) : tusk_hash_text(text, length);
    *place = (tusk_level_place){code + 1, (uint32_t)length, start};
}

void tusk_level_expect(const tusk_levels *l, const char *text, size_t length) {
    if (l->room)
        __builtin_prefetch(l->table + (tusk_hash_text(text, length) & (2 * l->room - 1)));
}

/* Moves the levels to memory with room for more of them, or for longer text. */
static int make_room(tusk_memory *memory, tusk_levels *l, size_t length) {
    uint64_t room = l->room ? l->room : FIRST_LEVELS, bytes = l->bytes ? l->bytes : FIRST_BYTES;
    if (l->n == l->room && l->room)
        room *= 2;
    while (bytes < (uint64_t)l->used + length)
        bytes *= 2;
    if (room > UINT32_MAX / 4 || bytes > UINT32_MAX)
        return TUSK_TOO_MANY_LEVELS;
    int code = TUSK_NO_MEMORY;
    tusk_levels more = *l;
    more.table = tusk_memory_take(
        memory, room * (2 * sizeof *more.table + sizeof *more.end) + bytes, &more.slab, &code);
    if (!more.table)
        return code;
    more.room = (uint32_t)room;
    more.bytes = (uint32_t)bytes;
    more.end = (uint32_t *)(more.table + 2 * room);
    more.text = (char *)(more.end + room);
    memset(more.table, 0, 2 * room * sizeof *more.table);
    if (l->n) {
        memcpy(more.end, l->end, l->n * sizeof *l->end);
        memcpy(more.text, l->text, l->used);
    }
    for (uint32_t i = 0; i < l->n; i++) {
        size_t size;
        const char *text = level_at(&more, i, &size);
        put_level(place_of(&more, text, size), i, text, size);
    }
    if (l->slab)
        tusk_slab_drop(l->slab);
    *l = more;
    return TUSK_OK;
}

int tusk_level_code(tusk_memory *memory, tusk_levels *l, const char *text, size_t length,
                    uint32_t *code) {
    tusk_level_place *place = l->room ? place_of(l, text, length) : NULL;
    if (place && place->code) {
        *code = place->code - 1;
        return TUSK_OK;
    }
    if (length > TUSK_MAX_LEVEL_BYTES)
        return TUSK_LEVEL_TOO_LONG;
    if (length && memchr(text, 0, length))
        return TUSK_LEVEL_WITH_NUL;
    if (l->n == l->room || l->bytes - l->used < length) {
        int failed = make_room(memory, l, length);
        if (failed)
            return failed;
        place = place_of(l, text, length);
    }
    if (length)
        memcpy(l->text + l->used, text, length);
    l->used += (uint32_t)length;
    l->end[l->n] = l->used;
    *code = l->n++;
    put_level(place, *code, text, length);
    return TUSK_OK;
}

/* Removes the last level. Nothing was put after it in the table. */
static void forget_last(tusk_levels *l) {
    size_t length;
    const char *text = level_at(l, l->n - 1, &length);
    place_of(l, text, length)->code = 0;
    l->used -= (uint32_t)length;
    l->n--;
}

/* --- parts --- */

static int64_t next_row(const tusk_block *b) {
    return tusk_rows_seen(b) + 1;
}

tusk_part *tusk_part_new(tusk_memory *memory, const tusk_schema *schema, int *code) {
    tusk_slab *slab;
    size_t size = sizeof(tusk_part) + ((size_t)schema->n_columns + 1) * sizeof(tusk_levels);
    *code = TUSK_NO_MEMORY;
    tusk_part *part = tusk_memory_take(memory, size, &slab, code);
    if (!part)
        return NULL;
    memset(part, 0, size);
    part->schema = schema;
    part->slab = slab;
    return part;
}

tusk_part *tusk_part_for(tusk_memory *memory, tusk_block *b, const tusk_schema *schema,
                         tusk_fault *fault) {
    bool others = b->last_part && b->last_part->schema != schema;
    bool own = b->last_part && !(b->shared & TUSK_SHARES_ROWS && b->last_part->head);
    if (own && !others)
        return b->last_part;
    if (others || (b->n_rows && !b->last_part)) {
        *fault = (tusk_fault){.code = TUSK_OTHER_COLUMNS, .row = next_row(b)};
        return NULL;
    }
    int code;
    tusk_part *part = tusk_part_new(memory, schema, &code);
    if (!part) {
        *fault = (tusk_fault){.code = code, .row = next_row(b)};
        return NULL;
    }
    if (b->last_part)
        b->last_part->next = part;
    else
        b->parts = part;
    return b->last_part = part;
}

void tusk_parts_mark(tusk_block *b) {
    tusk_part *part = b->last_part;
    for (int32_t j = 0; part && j <= part->schema->n_columns; j++)
        part->levels[j].before = part->levels[j].n;
}

void tusk_parts_undo(tusk_block *b) {
    tusk_part *part = b->last_part;
    for (int32_t j = 0; part && j <= part->schema->n_columns; j++)
        while (part->levels[j].n > part->levels[j].before)
            forget_last(part->levels + j);
    if (part && part->known)
        memset(part->known, 0, (size_t)part->schema->n_columns * part->n_known);
}

/* --- codes by number --- */

#define FIRST_KNOWN 16
#define MOST_KNOWN 256

static void know_more(tusk_memory *memory, tusk_part *part, uint32_t n) {
    size_t columns = (size_t)part->schema->n_columns;
    tusk_slab *slab;
    int code;
    uint8_t *known = tusk_memory_take(memory, columns * n, &slab, &code);
    if (!known)
        return;
    memset(known, 0, columns * n);
    for (size_t j = 0; j < columns && part->known; j++)
        memcpy(known + j * n, part->known + j * part->n_known, part->n_known);
    if (part->known_slab)
        tusk_slab_drop(part->known_slab);
    part->known = known;
    part->known_slab = slab;
    part->n_known = n;
}

uint8_t *tusk_part_known(tusk_memory *memory, tusk_part *part, uint64_t numbering, int32_t column,
                         uint8_t number, int64_t rows) {
    if (part->numbering != numbering) {
        if (part->known)
            memset(part->known, 0, (size_t)part->schema->n_columns * part->n_known);
        part->numbering = numbering;
    }
    if (number >= part->n_known) {
        uint32_t n = FIRST_KNOWN;
        while (n <= number)
            n *= 4;
        if (n > MOST_KNOWN || n > FIRST_KNOWN + rows)
            return NULL;
        know_more(memory, part, n);
    }
    return number < part->n_known ? part->known + column * (size_t)part->n_known + number : NULL;
}

/* --- shares --- */

tusk_part *tusk_part_copy(tusk_memory *memory, const tusk_part *part, int *code) {
    tusk_part *copy = tusk_part_new(memory, part->schema, code);
    if (!copy)
        return NULL;
    *code = TUSK_OK;
    for (int32_t j = 0; j <= part->schema->n_columns; j++) {
        const tusk_levels *from = part->levels + j;
        for (uint32_t k = 0, same; k < from->n && !*code; k++) {
            size_t length;
            const char *text = level_at(from, k, &length);
            *code = tusk_level_code(memory, copy->levels + j, text, length, &same);
        }
    }
    if (!*code)
        return copy;
    tusk_parts_free(copy, copy);
    return NULL;
}

/* Calls body(slab) for all memory of a part. */
static void each_slab(const tusk_part *part, void (*body)(tusk_slab *slab)) {
    for (int32_t j = 0; j <= part->schema->n_columns; j++)
        if (part->levels[j].slab)
            body(part->levels[j].slab);
    if (part->known_slab)
        body(part->known_slab);
    body(part->slab);
}

static void share_slab(tusk_slab *slab) {
    tusk_slab_share(slab, 1);
}

void tusk_parts_share(const tusk_part *head, const tusk_part *last) {
    for (const tusk_part *part = head; part; part = part == last ? NULL : part->next)
        each_slab(part, share_slab);
}

void tusk_parts_free(tusk_part *head, const tusk_part *last) {
    while (head) {
        tusk_part *next = head == last ? NULL : head->next;
        each_slab(head, tusk_slab_drop);
        head = next;
    }
}
