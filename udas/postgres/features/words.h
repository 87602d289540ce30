/* Documents: an array of words. */
#ifndef TUSK_POSTGRES_WORDS_H
#define TUSK_POSTGRES_WORDS_H

#include "../backend.h"

#include "../../scalars/named/words.h"

/* Reads arrays of one type. All zero bytes but the context means new. */
typedef struct document_reader {
    MemoryContext context; /* outlives all rows */
    Oid element;           /* element type of the last array */
    Oid base;              /* the same without domains */
    FmgrInfo output;       /* of elements that are text by their output function */
    int16 length;
    bool by_value;
    char align;
} document_reader;

/* Whether a type is an array of text, enums and the like. */
bool is_array_of_text(Oid type);

/* The words of such an array, with room for packing them. They are in the current memory context,
 * which the caller resets. */
tusk_document read_document(document_reader *reader, Datum array, const char *function);

#endif
