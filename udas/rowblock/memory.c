#define _GNU_SOURCE
#include "memory.h"
#include "slab_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "handed/handed.h"
#include "rowblock.h"
#include "spill_file.h"

/* One huge page. Rows arrive so fast that page faults of 4 KiB would cost more than the copy. */
#define SLAB_BYTES TUSK_SLAB_BYTES
#define SLAB_HEADER ((size_t)TUSK_SLAB_HEADER)
#define LANES 16
#define PAGE 4096
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14; older headers lack it */
#endif
enum { IN_MEMORY = -1, ADOPTED = -2 };

struct tusk_slab {
    tusk_memory *memory;
    tusk_slab *next, *previous;  /* in its memory's list */
    _Atomic(struct lane *) lane; /* the lane that fills it; NULL: none */
    size_t size;
    size_t used;
    int64_t file_offset; /* in the spill file, or one of the values below */
    atomic_int pieces;   /* segments in it, plus one for the lane that still fills it */
    atomic_int released; /* pages that the account no longer counts */
};

_Static_assert(sizeof(tusk_slab) <= SLAB_HEADER, "pieces begin behind the header");

/* Each thread fills the slab of its own lane, so threads seldom wait for each other. */
typedef struct lane {
    pthread_mutex_t lock;
    tusk_slab *slab;
} lane;

struct tusk_memory {
    lane lanes[LANES];
    tusk_memory *account; /* the account it is a part of, or itself */
    atomic_int references;
    pthread_mutex_t list_lock;
    tusk_slab *slabs;
    /* Fields of the account: */
    pthread_mutex_t lock; /* protects the fields below, except atomics */
    char *temp_directory;
    int spill_file;
    int64_t spill_end;
    tusk_slab_cache cached;
    _Atomic int64_t budget;
    _Atomic int64_t spill_budget;
    _Atomic int64_t resident;
    _Atomic int64_t working; /* bytes used for purposes other than rows */
    _Atomic int64_t spilled;
    _Atomic int64_t peak;
    _Atomic int64_t elsewhere; /* bytes of rows that another process has in memory */
};

tusk_memory *tusk_memory_new(void) {
    tusk_memory *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    for (int i = 0; i < LANES; i++)
        pthread_mutex_init(&m->lanes[i].lock, NULL);
    pthread_mutex_init(&m->list_lock, NULL);
    pthread_mutex_init(&m->lock, NULL);
    m->account = m;
    atomic_init(&m->references, 1);
    m->spill_file = -1;
    atomic_store(&m->budget, INT64_MAX);
    atomic_store(&m->spill_budget, INT64_MAX);
    return m;
}

static void unmap(tusk_slab *slab) {
    munmap(slab, slab->size);
}

tusk_memory *tusk_memory_part(tusk_memory *account) {
    tusk_memory *m = tusk_memory_new();
    if (m)
        m->account = account;
    return m;
}

void tusk_memory_retain(tusk_memory *m) {
    atomic_fetch_add(&m->references, 1);
}

void tusk_memory_free(tusk_memory *m) {
    if (!m || atomic_fetch_sub(&m->references, 1) > 1)
        return;
    tusk_memory_empty(m);
    tusk_slab_cache_empty(&m->cached);
    if (m->spill_file >= 0)
        close(m->spill_file);
    free(m->temp_directory);
    free(m);
}

void tusk_memory_limit(tusk_memory *m, int64_t budget, const char *temp_directory) {
    atomic_store(&m->budget, budget);
    if (!temp_directory)
        return;
    pthread_mutex_lock(&m->lock);
    free(m->temp_directory);
    m->temp_directory = strdup(temp_directory);
    pthread_mutex_unlock(&m->lock);
}

void tusk_memory_limit_spill(tusk_memory *m, int64_t bytes) {
    atomic_store(&m->spill_budget, bytes);
}

void tusk_memory_used(tusk_memory *m, tusk_memory_use *use) {
    use->budget = atomic_load(&m->budget);
    use->resident = atomic_load(&m->resident) + atomic_load(&m->elsewhere);
    use->spilled = atomic_load(&m->spilled);
    use->peak = atomic_load(&m->peak);
}

static void note_peak(tusk_memory *m) {
    int64_t now = atomic_load(&m->resident) + atomic_load(&m->spilled);
    int64_t peak = atomic_load(&m->peak);
    while (now > peak && !atomic_compare_exchange_weak(&m->peak, &peak, now)) {
    }
}

/* Maps the pages for writing now, because a fault for each would cost more than copying its
 * rows. If the system does not support this, the faults do it. */
static void populate(void *p, size_t size) {
    madvise(p, size, MADV_POPULATE_WRITE);
}

static bool allocate(int file, int64_t offset, size_t size) {
    int error;
    do /* a timer in the host program may interrupt it */
        error = posix_fallocate(file, offset, (off_t)size);
    while (error == EINTR);
    return !error;
}

/* Maps a region of the spill file. Its blocks are allocated now, so that a full disk is an
 * error and not a SIGBUS. */
static void *map_spilled(tusk_memory *m, size_t size, int64_t *offset, int *code) {
    *code = TUSK_DISK_FULL;
    if (atomic_load(&m->spilled) + (int64_t)size > atomic_load(&m->spill_budget))
        return NULL;
    pthread_mutex_lock(&m->lock);
    if (m->spill_file < 0)
        m->spill_file = open_spill(m->temp_directory);
    void *p = MAP_FAILED;
    if (m->spill_file >= 0 && allocate(m->spill_file, m->spill_end, size)) {
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, m->spill_file, m->spill_end);
        *code = TUSK_NO_MEMORY; /* otherwise we ran out of addresses */
    }
    if (p != MAP_FAILED) {
        populate(p, size);
        *offset = m->spill_end;
        m->spill_end += (int64_t)size;
    }
    pthread_mutex_unlock(&m->lock);
    return p == MAP_FAILED ? NULL : p;
}

static void *map_resident(size_t size) {
    size_t room = size + SLAB_BYTES;
    char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *aligned = (char *)(((uintptr_t)p + SLAB_BYTES - 1) & ~(uintptr_t)(SLAB_BYTES - 1));
    if (aligned > p)
        munmap(p, (size_t)(aligned - p));
    if (aligned + size < p + room)
        munmap(aligned + size, (size_t)(p + room - aligned - size));
    madvise(aligned, size, MADV_HUGEPAGE);
    return aligned;
}

static tusk_slab *take_cached(tusk_memory *m, size_t size) {
    pthread_mutex_lock(&m->lock);
    tusk_slab *slab = tusk_slab_cache_take(&m->cached, size);
    pthread_mutex_unlock(&m->lock);
    return slab;
}

static bool reserve(tusk_memory *m, int64_t size) {
    int64_t taken = atomic_fetch_add(&m->resident, size) + size;
    int64_t others = atomic_load(&m->working) + atomic_load(&m->elsewhere);
    if (taken <= atomic_load(&m->budget) - others)
        return true;
    atomic_fetch_sub(&m->resident, size);
    return false;
}

int tusk_memory_reserve(tusk_memory *memory, int64_t bytes, int64_t floor) {
    tusk_memory *m = memory->account;
    int64_t budget = atomic_load(&m->budget);
    int64_t rows = atomic_load(&m->resident) + atomic_load(&m->elsewhere);
    int64_t most = budget - rows, least = budget / 4;
    if (most < least)
        most = least;
    if (most < floor)
        most = floor;
    if (bytes > most)
        return 0; /* first, because the sum might overflow int64_t */
    if (atomic_fetch_add(&m->working, bytes) + bytes <= most)
        return 1;
    atomic_fetch_sub(&m->working, bytes);
    return 0;
}

void tusk_memory_unreserve(tusk_memory *memory, int64_t bytes) {
    atomic_fetch_sub(&memory->account->working, bytes);
}

static void link_slab(tusk_memory *m, tusk_slab *slab) {
    pthread_mutex_lock(&m->list_lock);
    slab->previous = NULL;
    slab->next = m->slabs;
    if (slab->next)
        slab->next->previous = slab;
    m->slabs = slab;
    pthread_mutex_unlock(&m->list_lock);
}

static void unlink_slab(tusk_memory *m, tusk_slab *slab) {
    pthread_mutex_lock(&m->list_lock);
    if (slab->next)
        slab->next->previous = slab->previous;
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        m->slabs = slab->next;
    pthread_mutex_unlock(&m->list_lock);
}

static tusk_slab *slab_new(tusk_memory *owner, size_t size, int *code) {
    tusk_memory *m = owner->account;
    int64_t offset = IN_MEMORY;
    tusk_slab *slab = NULL;
    if (reserve(m, (int64_t)size)) {
        slab = take_cached(m, size);
        if (!slab)
            slab = map_resident(size);
        if (!slab)
            atomic_fetch_sub(&m->resident, (int64_t)size);
    }
    if (!slab) {
        slab = map_spilled(m, size, &offset, code);
        if (!slab)
            return NULL;
        atomic_fetch_add(&m->spilled, (int64_t)size);
    }
    slab->memory = owner;
    slab->size = size;
    slab->used = SLAB_HEADER;
    slab->file_offset = offset;
    atomic_init(&slab->lane, NULL);
    atomic_init(&slab->pieces, 1);
    atomic_init(&slab->released, 0);
    link_slab(owner, slab);
    note_peak(m);
    return slab;
}

static bool cache(tusk_memory *m, tusk_slab *slab) {
    pthread_mutex_lock(&m->lock);
    bool room = tusk_slab_cache_put(&m->cached, slab, slab->size, atomic_load(&m->budget));
    pthread_mutex_unlock(&m->lock);
    return room;
}

/* Frees the file's blocks at once, and its offsets once nothing is spilled any more. */
static void slab_free_spilled(tusk_memory *m, tusk_slab *slab) {
    int64_t offset = slab->file_offset;
    size_t size = slab->size;
    unmap(slab);
    pthread_mutex_lock(&m->lock);
    fallocate(m->spill_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, (off_t)size);
    if (atomic_fetch_sub(&m->spilled, (int64_t)size) == (int64_t)size) {
        close(m->spill_file);
        m->spill_file = -1;
        m->spill_end = 0;
    }
    pthread_mutex_unlock(&m->lock);
}

/* Bytes of a slab that its account counts. */
static int64_t counted(tusk_slab *slab) {
    return (int64_t)slab->size - atomic_load(&slab->released) * (int64_t)PAGE;
}

static void slab_free(tusk_slab *slab) {
    tusk_memory *m = slab->memory->account;
    unlink_slab(slab->memory, slab);
    if (slab->file_offset >= 0) {
        slab_free_spilled(m, slab);
        return;
    }
    if (slab->file_offset == ADOPTED) {
        unmap(slab);
        return;
    }
    atomic_fetch_sub(&m->resident, counted(slab));
    if (!cache(m, slab))
        unmap(slab);
}

void tusk_memory_empty(tusk_memory *m) {
    for (int i = 0; i < LANES; i++)
        m->lanes[i].slab = NULL;
    while (m->slabs)
        slab_free(m->slabs);
}

/* Takes a slab back from a lane if only the lane itself still holds it, so that between queries
 * rows use neither memory nor room in the spill file. Another thread may have filled the slab
 * again, or freed it, so it is only accessed under the lane's lock, while the lane still has
 * it. */
static void take_back(lane *l, tusk_slab *slab) {
    pthread_mutex_lock(&l->lock);
    bool idle = l->slab == slab && atomic_load(&slab->pieces) == 1;
    if (idle)
        l->slab = NULL;
    pthread_mutex_unlock(&l->lock);
    if (idle)
        slab_free(slab);
}

void tusk_slab_drop(tusk_slab *slab) {
    lane *filling = atomic_load(&slab->lane);
    int left = atomic_fetch_sub(&slab->pieces, 1) - 1;
    if (!left)
        slab_free(slab);
    else if (left == 1 && filling)
        take_back(filling, slab);
}

void tusk_slab_release(tusk_slab *slab, void *begin, void *end) {
    uintptr_t first = ((uintptr_t)begin + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    uintptr_t last = (uintptr_t)end & ~(uintptr_t)(PAGE - 1);
    if (slab->file_offset != IN_MEMORY || first >= last)
        return;
    if (madvise((void *)first, last - first, MADV_DONTNEED))
        return; /* locked pages stay, and stay counted */
    atomic_fetch_add(&slab->released, (int)((last - first) / PAGE));
    atomic_fetch_sub(&slab->memory->account->resident, (int64_t)(last - first));
}

void tusk_slab_share(tusk_slab *slab, int pieces) {
    atomic_fetch_add(&slab->pieces, pieces);
}

tusk_slab *tusk_slab_adopt(tusk_memory *m, int file, size_t size, int n_pieces) {
    tusk_slab *slab = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (slab == MAP_FAILED)
        return NULL;
    slab->memory = m;
    slab->size = size;
    slab->used = size;
    slab->file_offset = ADOPTED;
    atomic_init(&slab->lane, NULL);
    atomic_init(&slab->pieces, n_pieces);
    atomic_init(&slab->released, 0);
    link_slab(m, slab);
    return slab;
}

static void *take_own_slab(tusk_memory *m, size_t size, tusk_slab **out, int *code) {
    size_t whole = (size + SLAB_HEADER + SLAB_BYTES - 1) & ~(SLAB_BYTES - 1);
    tusk_slab *slab = slab_new(m, whole, code);
    if (!slab)
        return NULL;
    *out = slab;
    return (char *)slab + SLAB_HEADER;
}

static lane *my_lane(tusk_memory *m) {
    static atomic_uint threads;
    static _Thread_local unsigned mine;
    if (!mine)
        mine = 1 + atomic_fetch_add(&threads, 1) % LANES;
    return &m->lanes[mine - 1];
}

void *tusk_memory_take(tusk_memory *m, size_t size, tusk_slab **out, int *code) {
    size = tusk_align8(size);
    if (size > SLAB_BYTES / 4)
        return take_own_slab(m, size, out, code);
    lane *l = my_lane(m);
    void *piece = NULL;
    pthread_mutex_lock(&l->lock);
    tusk_slab *slab = l->slab;
    if (slab && slab->used + size > slab->size) {
        l->slab = NULL;
        atomic_store(&slab->lane, NULL); /* this thread holds the lane's lock */
        tusk_slab_drop(slab);
        slab = NULL;
    }
    if (!slab) {
        slab = l->slab = slab_new(m, SLAB_BYTES, code);
        if (slab)
            atomic_store(&slab->lane, l);
    }
    if (slab) {
        /* This is the only piece: earlier contents are gone. */
        if (atomic_load(&slab->pieces) == 1) {
            slab->used = SLAB_HEADER;
            int pages = atomic_exchange(&slab->released, 0);
            atomic_fetch_add(&m->account->resident, pages * (int64_t)PAGE);
        }
        piece = (char *)slab + slab->used;
        slab->used += size;
        atomic_fetch_add(&slab->pieces, 1);
        *out = slab;
    }
    pthread_mutex_unlock(&l->lock);
    return piece;
}

/* --- rows for another process --- */

int tusk_memory_hold(tusk_memory *memory, int64_t bytes) {
    return reserve(memory->account, bytes);
}

void tusk_memory_let_go(tusk_memory *memory, int64_t bytes) {
    atomic_fetch_sub(&memory->account->resident, bytes);
}

void tusk_memory_elsewhere(tusk_memory *memory, int64_t bytes) {
    atomic_store(&memory->account->elsewhere, bytes);
}

void tusk_memory_directory(tusk_memory *memory, char *path, size_t room) {
    tusk_memory *m = memory->account;
    pthread_mutex_lock(&m->lock);
    snprintf(path, room, "%s", m->temp_directory ? m->temp_directory : "");
    pthread_mutex_unlock(&m->lock);
}
