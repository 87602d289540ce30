/* Numbers for the texts of categories, so that rows of many groups are packed from the cache.
 * Each group has its own dictionaries (rowblock/named.h), of about 2 KiB per column of 50
 * levels. If rows of 1,000 groups come in random order, nearly each look-up waits for memory.
 * So a thread first numbers the texts of a chunk in one table per column. A group then keeps
 * one byte per number: the code in its own dictionary. Only a text that is new to the group, or
 * that has no number, is looked up there. */
#ifndef TUSK_NUMBERING_H
#define TUSK_NUMBERING_H

#include "pack.h"

#define TUSK_NO_NUMBER \
    255 /* exclusive limit of numbers; texts beyond these, and long ones, have none */

/* NULL if memory is out. */
tusk_numbering *tusk_numbering_new(void);
void tusk_numbering_free(tusk_numbering *n);

/* Numbers the texts of n rows in chunk->number, for which `room` has rows * columns bytes, and
 * restarts after a chunk of another schema or statement. Does nothing if memory is out, or if
 * rows have more than 64 texts, whose tables would take 1.5 MiB per thread. */
void tusk_number_rows(tusk_numbering *n, int64_t statement, tusk_named_chunk *chunk, uint64_t rows,
                      uint8_t *room);

#endif
