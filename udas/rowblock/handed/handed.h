/* Memory accounting of rows that one process passes to another. Thread-safe. */
#ifndef TUSK_HANDED_H
#define TUSK_HANDED_H

#include "../memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counts bytes as rows in memory if the budget has room for them; returns whether. */
int tusk_memory_hold(tusk_memory *memory, int64_t bytes);
void tusk_memory_let_go(tusk_memory *memory, int64_t bytes);

/* Counts bytes as rows in memory that another process holds, until the next call. */
void tusk_memory_elsewhere(tusk_memory *memory, int64_t bytes);

/* Copies the path of the temporary directory, "" if it is not known. */
void tusk_memory_directory(tusk_memory *memory, char *path, size_t room);

#ifdef __cplusplus
}
#endif
#endif
