/* The bytes of a preparation: writes and checks them. */
#include "preparation.h"

#include <stdlib.h>
#include <string.h>

/* --- reading --- */

static bool fits(tusk_text bytes, uint64_t at, uint64_t size) {
    return at + size <= bytes.length;
}

static bool check_column(tusk_text bytes, uint32_t i) {
    tusk_preparation_column c = tusk_preparation_at(bytes, i);
    if (c.becomes >= TUSK_BECOMES || c.part >= TUSK_PARTS || c.n_factors > TUSK_MOST_FACTORS ||
        c.bits > 30)
        return false;
    for (uint32_t f = 0; f < c.n_factors; f++)
        if (c.factor[f] >= i || tusk_preparation_at(bytes, c.factor[f]).becomes >= TUSK_AS_PRODUCT)
            return false;
    return fits(bytes, c.name, c.name_length) && fits(bytes, c.ends, 4ull * c.n_levels) &&
           fits(bytes, c.table, 4ull * (c.table_mask + 1ull)) && fits(bytes, c.text, 0) &&
           fits(bytes, c.keys, 8ull * c.n_keys) &&
           (!tusk_has_levels(&c) || c.n_levels <= c.table_mask);
}

bool tusk_preparation_open(tusk_text bytes, tusk_preparation_head *head) {
    if (bytes.length < sizeof *head)
        return false;
    memcpy(head, bytes.data, sizeof *head);
    if (head->version != TUSK_PREPARATION_VERSION ||
        head->n_columns > bytes.length / sizeof(tusk_preparation_column))
        return false;
    size_t records = sizeof *head + head->n_columns * sizeof(tusk_preparation_column);
    if (records > bytes.length)
        return false;
    for (uint32_t i = 0; i < head->n_columns; i++)
        if (!check_column(bytes, i))
            return false;
    return true;
}

tusk_preparation_column tusk_preparation_at(tusk_text bytes, uint32_t column) {
    tusk_preparation_column c;
    memcpy(&c, bytes.data + sizeof(tusk_preparation_head) + column * sizeof c, sizeof c);
    return c;
}

/* --- writing --- */

/* Numbers the features in the order of the columns. */
static int32_t place_features(tusk_read_column *c, int32_t next) {
    tusk_preparation_column *p = &c->record;
    bool category = p->becomes == TUSK_AS_CATEGORY;
    p->other = p->missing = p->indicator = p->fill_feature = -1;
    p->first = next;
    next += category ? (int32_t)p->n_levels - (int32_t)p->reference
            : p->becomes == TUSK_AS_NUMBER || p->becomes == TUSK_AS_LEVELS ? 1
            : p->becomes == TUSK_AS_CYCLE                                  ? 2
                                                                           : (int32_t)p->n_keys;
    bool numbered = p->becomes == TUSK_AS_LEVELS;
    if (c->has_other)
        p->other = numbered ? p->first : next++;
    if (c->has_missing)
        p->missing = numbered ? p->first : next++;
    p->width = (uint32_t)(next - p->first);
    if (c->has_indicator)
        p->indicator = next++;
    const uint32_t *ends = (const uint32_t *)(const void *)c->ends.data;
    for (uint32_t k = 0; c->fill.n && k < p->n_levels; k++) {
        uint32_t begin = k ? ends[k - 1] : 0;
        bool same = c->fill.n - 1 == ends[k] - begin &&
                    memcmp(c->fill.data, c->text.data + begin, c->fill.n - 1) == 0;
        if (same && numbered)
            p->fill = k;
        else if (same && (k || !p->reference))
            p->fill_feature = p->first + (int32_t)k - (int32_t)p->reference;
    }
    return next;
}

static bool add_table(tusk_read_column *c, tusk_bytes *out) {
    tusk_preparation_column *p = &c->record;
    uint32_t size = 2;
    while (size < 2 * p->n_levels)
        size *= 2;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table)
        return false;
    const uint32_t *ends = (const uint32_t *)(const void *)c->ends.data;
    for (uint32_t k = 0; k < p->n_levels; k++) {
        uint32_t begin = k ? ends[k - 1] : 0;
        uint32_t at = (uint32_t)tusk_hash_text(c->text.data + begin, ends[k] - begin);
        while (table[at & (size - 1)])
            at++;
        table[at & (size - 1)] = k + 1;
    }
    p->table = (uint32_t)out->n;
    p->table_mask = size - 1;
    bool added = tusk_add(out, table, size * sizeof *table);
    free(table);
    return added;
}

/* Appends bytes, and returns their offset. */
static bool add_at(tusk_bytes *out, const tusk_bytes *given, uint32_t *at) {
    *at = (uint32_t)out->n;
    return tusk_add(out, given->data, given->n);
}

static bool add_column(tusk_read_column *c, tusk_bytes *out) {
    tusk_preparation_column *p = &c->record;
    const tusk_bytes *name = c->source.n ? &c->source : &c->name;
    p->name_length = p->becomes == TUSK_AS_PRODUCT ? 0 : (uint32_t)name->n;
    if (!add_at(out, name, &p->name) || !add_at(out, &c->keys, &p->keys))
        return false;
    return !tusk_has_levels(p) || (add_at(out, &c->ends, &p->ends) &&
                                   add_at(out, &c->text, &p->text) && add_table(c, out));
}

bool tusk_preparation_write(tusk_preparation_head head, tusk_read_column *columns,
                            tusk_bytes *out) {
    size_t n = head.n_columns, records = sizeof head + n * sizeof(tusk_preparation_column);
    char *blank = calloc(records, 1);
    bool done = blank && tusk_add(out, blank, records);
    free(blank);
    int32_t next = 0;
    for (size_t i = 0; done && i < n; i++) {
        tusk_read_column *c = columns + i;
        next = place_features(c, next);
        done = add_column(c, out) && out->n < UINT32_MAX;
        if (!done)
            break;
        tusk_preparation_column *p = &c->record;
        head.names =
            tusk_hash_mix(head.names, tusk_hash_text(out->data + p->name, p->name_length));
        head.names = tusk_hash_mix(head.names, 2 * p->becomes + tusk_reads_text(p));
        memcpy(out->data + sizeof head + i * sizeof *p, p, sizeof *p);
    }
    if (done)
        memcpy(out->data, &head, sizeof head);
    return done;
}
