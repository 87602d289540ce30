/* Memory for rows: slabs in memory up to a budget, and beyond it slabs in an unlinked file in
 * the temporary directory. */
#ifndef TUSK_MEMORY_H
#define TUSK_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A piece of mapped memory that many segments share. It is freed with its last segment. */
typedef struct tusk_slab tusk_slab;

/* One database's account. Safe to use from many threads. */
typedef struct tusk_memory tusk_memory;

typedef struct tusk_memory_use {
    int64_t budget;   /* bytes; rows beyond it are spilled */
    int64_t resident; /* bytes of slabs in memory */
    int64_t spilled;  /* bytes of slabs in the spill file */
    int64_t peak;     /* largest resident + spilled bytes so far */
} tusk_memory_use;

tusk_memory *tusk_memory_new(void);
/* Drops a reference; a new account or part has one. The last one frees all memory taken from
 * it, even pieces still in use. Free a part before its account. */
void tusk_memory_free(tusk_memory *memory);
/* Adds a reference, for pieces that may outlive the creator of the account. */
void tusk_memory_retain(tusk_memory *memory);
/* A part of an account: pieces taken from it can be freed together. NULL if memory is out. */
tusk_memory *tusk_memory_part(tusk_memory *account);
void tusk_memory_empty(tusk_memory *memory);
void tusk_memory_limit(tusk_memory *memory, int64_t budget, const char *temp_directory);
/* Limits the bytes in the spill file; without this call there is no limit. */
void tusk_memory_limit_spill(tusk_memory *memory, int64_t bytes);
void tusk_memory_used(tusk_memory *memory, tusk_memory_use *use);

/* Counts bytes that are not rows and cannot be spilled. Their limit is the part of the budget
 * that rows leave, and at least a quarter of the budget and `floor` bytes. Returns false above
 * it. */
int tusk_memory_reserve(tusk_memory *memory, int64_t bytes, int64_t floor);
void tusk_memory_unreserve(tusk_memory *memory, int64_t bytes);

/* Allocates size bytes, 8-aligned, in the slab that *slab is set to. NULL and a tusk_code if
 * there is neither memory nor disk space. */
void *tusk_memory_take(tusk_memory *memory, size_t size, tusk_slab **slab, int *code);
/* Gives back one piece of the slab. */
void tusk_slab_drop(tusk_slab *slab);
/* Frees the whole pages between two addresses of a piece, while the slab stays: their contents
 * are lost. Does nothing in the spill file. */
void tusk_slab_release(tusk_slab *slab, void *begin, void *end);
/* Adds pieces that were not allocated from it to a slab's count. */
void tusk_slab_share(tusk_slab *slab, int pieces);

/* Bytes at the start of an adopted file that are not pieces. */
#define TUSK_SLAB_HEADER 64
/* Maps a file of pieces that another process wrote, as a slab with n_pieces pieces. The file
 * may be removed and closed at once. NULL if memory is out. */
tusk_slab *tusk_slab_adopt(tusk_memory *memory, int file, size_t size, int n_pieces);

#ifdef __cplusplus
}
#endif
#endif
