#include "words.h"

#include <string.h>

#include "../../rowblock/merge.h"

#define AHEAD 8 /* words whose slot in the dictionary is prefetched */
#define COLUMN "tokens"

const tusk_schema *tusk_schema_of_words(void) {
    static const uint8_t kind[] = {TUSK_WORDS};
    static const char *const name[] = {COLUMN};
    return tusk_schema_of(&(tusk_schema){.n_columns = 1, .kind = kind, .name = name});
}

static uint64_t table_size(uint64_t n) {
    uint64_t size = 8;
    while (size < 2 * n)
        size *= 2;
    return size;
}

size_t tusk_words_room(uint64_t n) {
    return (size_t)(n * (sizeof(int32_t) + sizeof(float)) + table_size(n) * sizeof(uint32_t));
}

tusk_word_table tusk_word_table_in(void *room, uint64_t n) {
    uint64_t size = table_size(n);
    tusk_word_table t = {.id = room, .mask = (uint32_t)(size - 1)};
    t.count = (float *)(t.id + n);
    t.place = (uint32_t *)(t.count + n);
    memset(t.place, 0, size * sizeof *t.place);
    return t;
}

static int fail(const tusk_block *b, int code, double value, tusk_fault *fault) {
    *fault =
        (tusk_fault){.code = code, .row = tusk_rows_seen(b) + 1, .value = value, .name = COLUMN};
    return code;
}

/* Looking the schema up takes a lock, so that of earlier rows is used. */
static const tusk_schema *schema_for(const tusk_block *b) {
    const tusk_schema *last = b->last_part ? b->last_part->schema : NULL;
    return last && last->n_columns == 1 && *last->kind == TUSK_WORDS ? last
                                                                     : tusk_schema_of_words();
}

/* Counts the words of a document, new ones included in the part's dictionary. */
static int count_words(tusk_memory *memory, tusk_block *block, tusk_levels *levels,
                       const tusk_document *d, tusk_word_table *t, tusk_fault *fault) {
    for (uint64_t i = 0; i < d->n; i++) {
        const tusk_text *word = d->words + i;
        if (i + AHEAD < d->n && word[AHEAD].data)
            tusk_level_expect(levels, word[AHEAD].data, word[AHEAD].length);
        if (!word->data)
            continue;
        uint32_t code;
        int failed = tusk_level_code(memory, levels, word->data, word->length, &code);
        if (failed || code > TUSK_MAX_NARROW_ID)
            return fail(block, failed ? failed : TUSK_TOO_MANY_LEVELS, (double)word->length,
                        fault);
        tusk_count_word(t, (int32_t)code, 1);
    }
    return TUSK_OK;
}

int tusk_append_document(tusk_memory *memory, tusk_block *block, const tusk_document *d,
                         tusk_fault *fault) {
    const tusk_schema *schema = schema_for(block);
    if (!schema || d->n > TUSK_MAX_DENSE_FEATURES)
        return fail(block, schema ? TUSK_TOO_MANY_WORDS : TUSK_NO_MEMORY, (double)d->n, fault);
    tusk_part *part = tusk_part_for(memory, block, schema, fault);
    if (!part)
        return fault->code;
    tusk_word_table t = tusk_word_table_in(d->room, d->n);
    int code = count_words(memory, block, part->levels, d, &t, fault);
    if (code)
        return code;
    tusk_entries row = {.index = t.id, .values = t.count, .n = t.n, .extras = d->extras};
    return tusk_append_sparse(memory, block, &row, 0, fault);
}
