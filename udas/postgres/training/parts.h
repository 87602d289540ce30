/* Serialised dictionaries of a block, from parallel workers to the leader. */
#ifndef TUSK_POSTGRES_PARTS_H
#define TUSK_POSTGRES_PARTS_H

#include "../backend.h"

#include "../../rowblock/named.h"
#include "../../rowblock/remarks.h"

/* Bytes that write_parts needs. */
Size parts_size(const tusk_block *block);
void write_parts(const tusk_block *block, char *out);
/* Bytes of serialised remarks. */
Size remarks_size(const tusk_remarks *r);
void write_remarks(const tusk_remarks *r, char *out);
void read_remarks(tusk_remarks *r, const char *in, const char *function);
/* Adds deserialised parts to a block, whose segments are linked. */
void read_parts(tusk_memory *memory, tusk_block *block, const char *in, const char *function);

#endif
