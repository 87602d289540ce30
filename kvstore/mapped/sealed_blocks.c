/* The blocks of a sealed file: finds, checks and reads them. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clones.h"
#include "crc32c.h"
#include "sealed_parts.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* --- checking --- */

static bool lies_inside(const sealed_file *f, const sealed_entry *entry) {
    if (entry->count != SEALED_DENSE && entry->count > UINT64_C(1) << f->shift)
        return false;
    uint64_t end = f->footer.directory;
    size_t length = sealed_block_length(entry->count, f->shift, f->weight_size);
    return entry->offset % 8 == 0 && entry->offset <= end && length <= end - entry->offset;
}

/* Maps a block's pages at once. If the disk cannot read one, that is an error here; later it
 * would end the process. */
static bool populate(const sealed_file *f, const sealed_entry *entry, size_t length,
                     sealed_error *e) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), start = entry->offset / page * page;
    void *at = (void *)(f->base + start);
    if (madvise(at, entry->offset + length - start, MADV_POPULATE_READ) == 0 || errno == EINVAL ||
        errno == ENOSYS)
        return true; /* kernels before 5.14 lack it */
    return sealed_refuse(e, SEALED_FAILED, "reading %s failed: %s", f->label,
                         errno == EFAULT ? "the disk does not give its bytes" : strerror(errno));
}

static bool is_right(const sealed_file *f, const sealed_entry *entry, size_t length) {
    uint32_t crc = tusk_crc32c(0, &entry->block, sizeof entry->block);
    return tusk_crc32c(crc, f->base + entry->offset, length) == entry->crc;
}

/* Reads the block of an entry for the first time. */
static uintptr_t check_block(sealed_file *f, const sealed_entry *entry, sealed_error *e) {
    uintptr_t found = NO_BLOCK;
    if (entry->count) {
        if (__atomic_load_n(&f->touched, __ATOMIC_RELAXED) >=
            __atomic_load_n(&f->room, __ATOMIC_RELAXED))
            sealed_file_let_go(f);
        size_t length = sealed_block_length(entry->count, f->shift, f->weight_size);
        bool inside = lies_inside(f, entry);
        if (inside && !populate(f, entry, length, e))
            return 0;
        if (!inside || !is_right(f, entry, length)) {
            sealed_refuse(e, SEALED_DAMAGED, "%s is damaged: the checksum of block %llu is wrong",
                          f->label, (unsigned long long)entry->block);
            return 0;
        }
        found = (uintptr_t)(f->base + entry->offset) | (entry->count == SEALED_DENSE ? 0 : PAIRS);
        __atomic_fetch_add(&f->touched, 1, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&f->blocks[entry - f->entries], found, __ATOMIC_RELAXED);
    return found;
}

/* --- finding --- */

/* The last block read, which is often also the next one. */
typedef struct cursor {
    uint64_t block;
    uintptr_t data; /* as in sealed_file.blocks */
    uint32_t count;
} cursor;

#define NOWHERE {UINT64_MAX, NO_BLOCK, 0}

static const sealed_entry *search(const sealed_file *f, uint64_t block) {
    const sealed_entry *low = f->entries, *end = low + f->footer.n_entries;
    for (uint64_t n = f->footer.n_entries; n;) {
        uint64_t half = n / 2;
        if (low[half].block < block) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low < end && low->block == block ? low : NULL;
}

static inline const sealed_entry *find(const sealed_file *f, uint64_t block) {
    if (!f->footer.direct)
        return search(f, block);
    return block < f->footer.n_entries ? f->entries + block : NULL;
}

static inline bool move(sealed_file *f, uint64_t block, cursor *c, sealed_error *e) {
    const sealed_entry *entry = find(f, block);
    c->data = NO_BLOCK;
    if (entry) {
        c->data = __atomic_load_n(&f->blocks[entry - f->entries], __ATOMIC_RELAXED);
        if (!c->data && !(c->data = check_block(f, entry, e)))
            return false;
        if (c->data & PAIRS)
            c->count = entry->count;
    }
    c->block = block;
    return true;
}

/* Of n ascending slots, n >= 1, the last that is not above the given one, or the first of all.
 * The next half is unpredictable, so nothing here branches on it. */
static inline uint32_t last_not_above(const uint16_t *slots, uint32_t n, uint64_t slot) {
    uint32_t low = 0;
    while (n > 1) {
        uint32_t half = n / 2;
        low += half & -(uint32_t)(slots[low + half] <= slot);
        n -= half;
    }
    return low;
}

#define WINDOW \
    64 /* slots: as many instructions as a few steps of a search, and fewer cache lines */

/* The position of a slot among n ascending ones, or n. Slots are spread about evenly, so the
 * search starts around the expected position, which is right 95 % of the time. */
static inline uint32_t place_of(const uint16_t *slots, uint32_t n, uint32_t shift, uint16_t slot) {
    uint64_t guess = (uint64_t)slot * n >> shift;
    if (n < WINDOW)
        guess = 0;
    else
        guess = guess < WINDOW / 2 ? 0 : guess - WINDOW / 2;
    uint32_t low = n >= WINDOW && guess > n - WINDOW ? n - WINDOW : (uint32_t)guess;
    bool inside = n >= WINDOW && slots[low] <= slot && slots[low + WINDOW - 1] >= slot;
    if (!inside) {
        uint32_t at = last_not_above(slots, n, slot);
        return slots[at] == slot ? at : n;
    }
    uint16_t found = 0;
    for (uint16_t k = 0; k < WINDOW; k++)
        found |= slots[low + k] == slot ? k + 1 : 0;
    return found ? low + found - 1 : n;
}

/* --- reading --- */

#define DEFINE_WEIGHT(W)                                                         \
    static inline W weight_##W(const cursor *c, uint64_t slot, uint32_t shift) { \
        if (c->data == NO_BLOCK)                                                 \
            return 0;                                                            \
        const W *weights = (const W *)(c->data & ~PAIRS);                        \
        if (!(c->data & PAIRS))                                                  \
            return weights[slot];                                                \
        const uint16_t *slots = (const uint16_t *)(weights + c->count);          \
        uint32_t at = place_of(slots, c->count, shift, (uint16_t)slot);          \
        return at < c->count ? weights[at] : 0;                                  \
    }

#define DEFINE_GATHER(name, ID, W, OUT)                                                 \
    CLONES static bool name(sealed_file *f, const ID *ids, int64_t n, OUT *out,         \
                            sealed_error *e) {                                          \
        uint64_t mask = (UINT64_C(1) << f->shift) - 1, dimension = f->footer.dimension; \
        cursor c = NOWHERE;                                                             \
        for (int64_t i = 0; i < n; i++) {                                               \
            uint64_t id = (uint64_t)(int64_t)ids[i]; /* huge if the id is negative */   \
            if (id >= dimension) {                                                      \
                out[i] = 0;                                                             \
                continue;                                                               \
            }                                                                           \
            if (id >> f->shift != c.block && !move(f, id >> f->shift, &c, e))           \
                return false;                                                           \
            out[i] = weight_##W(&c, id & mask, f->shift);                               \
        }                                                                               \
        return true;                                                                    \
    }

/* Copies slots begin .. end - 1 of a block to out[0 .. end - begin). */
#define DEFINE_PART(W)                                                                 \
    static void part_##W(const cursor *c, uint64_t begin, uint64_t end, double *out) { \
        const W *weights = (const W *)(c->data & ~PAIRS);                              \
        if (!(c->data & PAIRS)) {                                                      \
            for (uint64_t slot = begin; slot < end; slot++)                            \
                out[slot - begin] = weights[slot];                                     \
            return;                                                                    \
        }                                                                              \
        const uint16_t *slots = (const uint16_t *)(weights + c->count);                \
        memset(out, 0, (end - begin) * sizeof *out);                                   \
        uint32_t i = last_not_above(slots, c->count, begin);                           \
        for (i += slots[i] < begin; i < c->count && slots[i] < end; i++)               \
            out[slots[i] - begin] = weights[i];                                        \
    }

#define DEFINE_ITEMS(W, BITS)                                                         \
    static int64_t items_##W(const cursor *c, uint32_t shift, int64_t *ids, W *out) { \
        const W *weights = (const W *)(c->data & ~PAIRS);                             \
        bool pairs = c->data & PAIRS;                                                 \
        const uint16_t *slots = (const uint16_t *)(weights + (pairs ? c->count : 0)); \
        uint32_t n = pairs ? c->count : UINT32_C(1) << shift;                         \
        int64_t first = (int64_t)(c->block << shift), found = 0;                      \
        for (uint32_t i = 0; i < n; i++) {                                            \
            BITS bits;                                                                \
            memcpy(&bits, weights + i, sizeof bits);                                  \
            if (!bits)                                                                \
                continue;                                                             \
            ids[found] = first + (pairs ? slots[i] : i);                              \
            out[found++] = weights[i];                                                \
        }                                                                             \
        return found;                                                                 \
    }

DEFINE_WEIGHT(float)
DEFINE_WEIGHT(double)
DEFINE_GATHER(gather_i64_f32, int64_t, float, float)
DEFINE_GATHER(gather_i64_f64, int64_t, double, double)
DEFINE_GATHER(gather_i32_f32, int32_t, float, double)
DEFINE_GATHER(gather_i32_f64, int32_t, double, double)
DEFINE_GATHER(gather_i64_f32_f64, int64_t, float, double)
DEFINE_PART(float)
DEFINE_PART(double)
DEFINE_ITEMS(float, uint32_t)
DEFINE_ITEMS(double, uint64_t)

bool sealed_file_gather_native(sealed_file *f, const int64_t *ids, int64_t n, void *out,
                               sealed_error *e) {
    return f->weight_size == 4 ? gather_i64_f32(f, ids, n, out, e)
                               : gather_i64_f64(f, ids, n, out, e);
}

bool sealed_file_gather(sealed_file *f, const void *ids, bool wide, int64_t n, double *out,
                        sealed_error *e) {
    if (wide)
        return f->weight_size == 4 ? gather_i64_f32_f64(f, ids, n, out, e)
                                   : gather_i64_f64(f, ids, n, out, e);
    return f->weight_size == 4 ? gather_i32_f32(f, ids, n, out, e)
                               : gather_i32_f64(f, ids, n, out, e);
}

bool sealed_file_range(sealed_file *f, uint64_t first, uint64_t n, double *out, sealed_error *e) {
    uint64_t width = UINT64_C(1) << f->shift, known = f->footer.dimension;
    uint64_t end = first >= known ? first : n > known - first ? known : first + n;
    memset(out + (end - first), 0, (n - (end - first)) * sizeof *out);
    cursor c = NOWHERE;
    for (uint64_t id = first, next; id < end; id = next) {
        next = (id | (width - 1)) + 1;
        next = next < end ? next : end;
        double *part = out + (id - first);
        uint64_t begin = id & (width - 1), length = next - id;
        if (!move(f, id >> f->shift, &c, e))
            return false;
        if (c.data == NO_BLOCK)
            memset(part, 0, length * sizeof *part);
        else if (f->weight_size == 4)
            part_float(&c, begin, begin + length, part);
        else
            part_double(&c, begin, begin + length, part);
    }
    return true;
}

bool sealed_file_items(sealed_file *f, uint64_t first, uint64_t last, int64_t *ids, void *weights,
                       int64_t *n, sealed_error *e) {
    *n = 0;
    for (uint64_t i = first; i < last; i++) {
        const sealed_entry *entry = f->entries + i;
        cursor c = {entry->block, check_block(f, entry, e), entry->count};
        if (!c.data)
            return false;
        if (c.data == NO_BLOCK)
            continue;
        *n += f->weight_size == 4 ? items_float(&c, f->shift, ids + *n, (float *)weights + *n)
                                  : items_double(&c, f->shift, ids + *n, (double *)weights + *n);
    }
    return true;
}
