/* Memory for rows: slabs under a budget, and beyond it slabs of an unlinked file in the temporary
 * directory. */
#ifndef TUSK_MEMORY_H
#define TUSK_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A piece of mapped memory that many segments share; it goes when its last segment goes. */
typedef struct tusk_slab tusk_slab;

/* One database's account. Safe to use from many threads. */
typedef struct tusk_memory tusk_memory;

typedef struct tusk_memory_use {
    int64_t budget;   /* bytes; rows beyond it are spilled */
    int64_t resident; /* bytes of slabs in memory */
    int64_t spilled;  /* bytes of slabs in the spill file */
    int64_t peak;     /* most resident + spilled bytes so far */
} tusk_memory_use;

tusk_memory *tusk_memory_new(void);
/* Gives back all that was taken from it, whoever still has a piece. A part goes before its
 * account. */
void tusk_memory_free(tusk_memory *memory);
/* Pieces of one account that can be given back together; NULL: no memory. */
tusk_memory *tusk_memory_part(tusk_memory *account);
void tusk_memory_empty(tusk_memory *memory);
void tusk_memory_limit(tusk_memory *memory, int64_t budget, const char *temp_directory);
/* Most bytes in the spill file, no limit at first. */
void tusk_memory_limit_spill(tusk_memory *memory, int64_t bytes);
void tusk_memory_used(tusk_memory *memory, tusk_memory_use *use);

/* Counts bytes that are not rows and cannot be spilled: as many as rows have left, but a quarter
 * of the budget, or floor bytes, in any case. False: they are more. */
int tusk_memory_reserve(tusk_memory *memory, int64_t bytes, int64_t floor);
void tusk_memory_unreserve(tusk_memory *memory, int64_t bytes);

/* size bytes, 8-aligned, in a slab that *slab names; NULL and a tusk_code when there is neither
 * memory nor disk. */
void *tusk_memory_take(tusk_memory *memory, size_t size, tusk_slab **slab, int *code);
/* Gives one piece of the slab back. */
void tusk_slab_drop(tusk_slab *slab);
/* Counts more pieces in a slab than were taken from it. */
void tusk_slab_share(tusk_slab *slab, int pieces);

/* Bytes at the start of a file to adopt that are not pieces. */
#define TUSK_SLAB_HEADER 64
/* A file of pieces that another process wrote, as a slab with n_pieces pieces, mapped:
 * the file may be removed and closed at once. NULL: no memory. */
tusk_slab *tusk_slab_adopt(tusk_memory *memory, int file, size_t size, int n_pieces);

#ifdef __cplusplus
}
#endif
#endif
