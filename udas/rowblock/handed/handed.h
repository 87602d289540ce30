/* What a memory account says of rows that one process hands to another. Safe to use from many
 * threads. */
#ifndef TUSK_HANDED_H
#define TUSK_HANDED_H

#include "../memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counts so many bytes as rows in memory if the budget has room for them; returns whether. */
int tusk_memory_hold(tusk_memory *memory, int64_t bytes);
void tusk_memory_let_go(tusk_memory *memory, int64_t bytes);

/* Counts so many bytes as rows in memory that another process holds, until the next call. */
void tusk_memory_elsewhere(tusk_memory *memory, int64_t bytes);

/* Copies the path of the temporary directory, "" if it is not known. */
void tusk_memory_directory(tusk_memory *memory, char *path, size_t room);

#ifdef __cplusplus
}
#endif
#endif
