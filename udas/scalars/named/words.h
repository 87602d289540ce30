/* Packs documents, which are lists of words, as sparse rows without labels.
 *
 * The ids of a row are codes of the words, in the order of their first occurrence in the part of the
 * group that a thread fills, and the values say how often each word occurs in the document. A kernel
 * (kernels/native/rows/ids/words.cpp) gives the words of all parts their numbers before a training.
 */
#ifndef TUSK_NAMED_WORDS_H
#define TUSK_NAMED_WORDS_H

#include "../../rowblock/named.h"
#include "../models/score.h"

/* The schema of documents; NULL if memory is out. */
const tusk_schema *tusk_schema_of_words(void);

/* The bytes that packing a document of n words needs, at an address that is a multiple of 8. */
size_t tusk_words_room(uint64_t n);

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
