/* Packs documents, which are lists of words, as sparse rows without labels. The ids of a row
 * are codes of the words, in the order of their first occurrence in the part of the group that
 * a thread fills, and the values are the numbers of occurrences in the document. A kernel
 * (kernels/native/rows/ids/words.cpp) numbers the words of all parts before a training. */
#ifndef TUSK_NAMED_WORDS_H
#define TUSK_NAMED_WORDS_H

#include "../../rowblock/named.h"
#include "../models/score.h"

/* The schema of documents; NULL if memory is out. */
const tusk_schema *tusk_schema_of_words(void);

/* The bytes of memory for packing a document of n words, at an address that is a multiple of 8. */
size_t tusk_words_room(uint64_t n);

/* The words of one document with their counts, in the order of their first occurrence. */
typedef struct tusk_word_table {
    int32_t *id;
    float *count;
    uint32_t *place; /* index of a word in the two, + 1, by its hash; 0 is free */
    uint32_t mask;
    uint32_t n;
} tusk_word_table;

/* An empty table for n words, in tusk_words_room(n) bytes. */
tusk_word_table tusk_word_table_in(void *room, uint64_t n);

static inline void tusk_count_word(tusk_word_table *t, int32_t id, float times) {
    uint32_t at = (((uint32_t)id * 2654435769u) >> 7) & t->mask;
    while (t->place[at] && t->id[t->place[at] - 1] != id)
        at = (at + 1) & t->mask;
    if (!t->place[at]) {
        t->id[t->n] = id;
        t->count[t->n] = 0;
        t->place[at] = ++t->n;
    }
    t->count[t->place[at] - 1] += times;
}

/* A document; words whose data is NULL do not count. */
typedef struct tusk_document {
    const tusk_text *words;
    uint64_t n;
    void *room; /* tusk_words_room(n) bytes */
    tusk_extras extras;
} tusk_document;

/* Returns a tusk_code. */
int tusk_append_document(tusk_memory *memory, tusk_block *block, const tusk_document *document,
                         tusk_fault *fault);

#endif
