/* Numbers the texts of a chunk. */
#include "numbering.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../../rowblock/text_hash.h"

#define LONGEST 64
#define MOST_COLUMNS 64 /* of text: a table takes 24 KiB, which no account counts */
#define PLACES 512

/* A slot of a hash table; a number of 0 is free. */
typedef struct place {
    uint64_t hash;
    uint8_t number; /* + 1 */
    uint8_t length;
} place;

typedef struct numbered {
    place table[PLACES];
    uint32_t n;
    char text[TUSK_NO_NUMBER][LONGEST];
} numbered;

struct tusk_numbering {
    const tusk_schema *schema;
    int64_t statement;
    uint64_t serial;   /* changes whenever numbers change their meaning */
    numbered **column; /* [schema->n_columns], NULL for numbers */
};

tusk_numbering *tusk_numbering_new(void) {
    return calloc(1, sizeof(tusk_numbering));
}

static void forget(tusk_numbering *n) {
    for (int32_t j = 0; n->column && j < n->schema->n_columns; j++)
        free(n->column[j]);
    free(n->column);
    n->column = NULL;
    n->schema = NULL;
}

void tusk_numbering_free(tusk_numbering *n) {
    if (n)
        forget(n);
    free(n);
}

static bool few_texts(const tusk_schema *schema) {
    int texts = 0;
    for (int32_t j = 0; j < schema->n_columns; j++)
        texts += schema->kind[j] == TUSK_CATEGORY;
    return texts <= MOST_COLUMNS;
}

static bool begin(tusk_numbering *n, const tusk_schema *schema, int64_t statement) {
    static _Atomic uint64_t serials;
    if (n->schema == schema && n->statement == statement)
        return true;
    forget(n);
    n->schema = schema;
    n->statement = statement;
    n->serial = atomic_fetch_add(&serials, 1) + 1;
    n->column = calloc((size_t)schema->n_columns + 1, sizeof *n->column);
    for (int32_t j = 0; n->column && j < schema->n_columns; j++)
        if (schema->kind[j] == TUSK_CATEGORY && !(n->column[j] = calloc(1, sizeof **n->column))) {
            forget(n);
            return false;
        }
    if (!n->column)
        n->schema = NULL;
    return n->column;
}

static uint8_t number_of(numbered *c, const tusk_text *text) {
    if (text->length >= LONGEST)
        return TUSK_NO_NUMBER;
    uint64_t hash = tusk_hash_text(text->data, text->length);
    place *p = c->table + hash % PLACES;
    for (; p->number; p = p + 1 == c->table + PLACES ? c->table : p + 1)
        if (p->hash == hash && p->length == text->length &&
            tusk_same_bytes(c->text[p->number - 1], text->data, text->length))
            return (uint8_t)(p->number - 1);
    if (c->n == TUSK_NO_NUMBER)
        return TUSK_NO_NUMBER;
    if (text->length)
        memcpy(c->text[c->n], text->data, text->length);
    *p = (place){hash, (uint8_t)(c->n + 1), (uint8_t)text->length};
    return (uint8_t)c->n++;
}

void tusk_number_rows(tusk_numbering *n, int64_t statement, tusk_named_chunk *chunk, uint64_t rows,
                      uint8_t *room) {
    int32_t width = chunk->schema->n_columns;
    if (!few_texts(chunk->schema) || !begin(n, chunk->schema, statement))
        return;
    for (int32_t j = 0; j < width; j++) {
        const tusk_given_column *given = chunk->column + j;
        for (uint64_t i = 0; given->texts && i < rows; i++)
            room[i * (uint64_t)width + (uint64_t)j] =
                tusk_given_valid(given, i) ? number_of(n->column[j], given->texts + i)
                                           : TUSK_NO_NUMBER;
    }
    chunk->numbers = room;
    chunk->numbering = n->serial;
}
