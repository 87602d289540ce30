/* Opens and closes a sealed file, and reads all of it but its blocks. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "crc32c.h"
#include "sealed_parts.h"

_Static_assert(sizeof(sealed_header) == 32 && sizeof(sealed_entry) == 24 &&
                   sizeof(sealed_footer) == 128,
               "as it lies in the file");

#define BLOCK_MEMORY \
    (1 << 18) /* a block's bytes, and the pages that the kernel maps around them */

/* Truncates a text at a whole UTF-8 character. */
static void cut(char *text, size_t end) {
    while (end && (text[end] & 0xc0) == 0x80)
        end--;
    text[end] = 0;
}

bool sealed_refuse(sealed_error *e, const char *sqlstate, const char *format, ...) {
    char text[sizeof e->text + 8];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (strlen(text) >= sizeof e->text)
        cut(text, sizeof e->text - 1);
    strcpy(e->text, text);
    e->sqlstate = sqlstate;
    return false;
}

static bool refuse_damaged(const sealed_file *f, const char *what, sealed_error *e) {
    return sealed_refuse(e, SEALED_DAMAGED, "%s is damaged: %s", f->label, what);
}

/* --- opening --- */

static bool map(sealed_file *f, sealed_error *e) {
    if (fstat(f->descriptor, &f->identity))
        return sealed_refuse(e, SEALED_FAILED, "looking at %s failed: %s", f->label,
                             strerror(errno));
    if (!S_ISREG(f->identity.st_mode))
        return sealed_refuse(e, SEALED_DAMAGED, "%s is not a plain file", f->label);
    f->size = (size_t)f->identity.st_size;
    if (f->size < sizeof(sealed_header) + sizeof(sealed_footer))
        return refuse_damaged(f, "it is too short for a sealed model", e);
    void *base = mmap(NULL, f->size, PROT_READ, MAP_SHARED, f->descriptor, 0);
    if (base == MAP_FAILED)
        return sealed_refuse(e, SEALED_FAILED, "mapping %s failed: %s", f->label, strerror(errno));
    f->base = base;
    return true;
}

static bool read_header(sealed_file *f, sealed_error *e) {
    sealed_header h;
    memcpy(&h, f->base, sizeof h);
    if (memcmp(h.magic, "TUSKSEAL", sizeof h.magic) != 0)
        return sealed_refuse(e, SEALED_DAMAGED, "%s is no sealed model", f->label);
    if (h.crc != tusk_crc32c(0, &h, offsetof(sealed_header, crc)))
        return refuse_damaged(f, "its header's checksum is wrong", e);
    if (h.version != SEALED_VERSION || (h.weight_size != 4 && h.weight_size != 8) ||
        h.shift > SEALED_LARGEST_SHIFT)
        return sealed_refuse(e, SEALED_OTHER_VERSION,
                             "%s has version %u, this tuskml reads %d: seal it again", f->label,
                             h.version, SEALED_VERSION);
    f->weight_size = h.weight_size;
    f->shift = h.shift;
    return true;
}

static bool read_footer(sealed_file *f, const char *digest, sealed_error *e) {
    sealed_footer *foot = &f->footer;
    memcpy(foot, f->base + f->size - sizeof *foot, sizeof *foot);
    if (memcmp(foot->magic, "TUSKFOOT", sizeof foot->magic) != 0 ||
        foot->crc != tusk_crc32c(0, foot, offsetof(sealed_footer, crc)))
        return refuse_damaged(f, "it does not end as a sealed model", e);
    for (int i = 0; i < 32; i++)
        snprintf(f->digest + 2 * i, 3, "%02x", foot->digest[i]);
    if (digest && strcmp(digest, f->digest) != 0)
        return sealed_refuse(e, SEALED_DAMAGED, "%s is another model than the one asked for",
                             f->label);
    return true;
}

static bool check_section(const sealed_file *f, uint64_t start, uint64_t length, uint32_t crc,
                          const char *name, sealed_error *e) {
    if (start > f->size || length > f->size - start)
        return refuse_damaged(f, "a section lies outside", e);
    if (tusk_crc32c(0, f->base + start, length) == crc)
        return true;
    char what[64];
    snprintf(what, sizeof what, "its %s's checksum is wrong", name);
    return refuse_damaged(f, what, e);
}

static bool read_sections(sealed_file *f, sealed_error *e) {
    const sealed_footer *foot = &f->footer;
    if (foot->n_entries > f->size / sizeof(sealed_entry) || foot->directory % 8)
        return refuse_damaged(f, "a section lies outside", e);
    if (!check_section(f, foot->directory, foot->n_entries * sizeof(sealed_entry),
                       foot->directory_crc, "directory", e) ||
        !check_section(f, foot->metadata, foot->metadata_length, foot->metadata_crc, "metadata",
                       e))
        return false;
    f->entries = (const sealed_entry *)(f->base + foot->directory);
    f->blocks = calloc(foot->n_entries + 1, sizeof *f->blocks);
    return f->blocks || sealed_refuse(e, SEALED_NO_MEMORY, "out of memory for %s", f->label);
}

sealed_file *sealed_file_open(int descriptor, const char *label, const char *digest,
                              int64_t memory, sealed_error *e) {
    sealed_file *f = calloc(1, sizeof *f);
    char *copy = strdup(label);
    if (!f || !copy) {
        free(f);
        free(copy);
        close(descriptor);
        sealed_refuse(e, SEALED_NO_MEMORY, "out of memory for %s", label);
        return NULL;
    }
    f->descriptor = descriptor;
    f->label = copy;
    if (!map(f, e) || !read_header(f, e) || !read_footer(f, digest, e) || !read_sections(f, e)) {
        sealed_file_close(f);
        return NULL;
    }
    sealed_file_limit(f, memory);
    return f;
}

void sealed_file_close(sealed_file *f) {
    if (f->base)
        munmap((void *)f->base, f->size);
    close(f->descriptor);
    free(f->blocks);
    free(f->label);
    free(f);
}

/* --- questions --- */

void sealed_file_describe(const sealed_file *f, sealed_about *about) {
    *about = (sealed_about){.dimension = f->footer.dimension,
                            .nonzero = f->footer.nonzero,
                            .n_entries = f->footer.n_entries,
                            .size = f->size,
                            .shift = f->shift,
                            .weight_size = f->weight_size,
                            .bytes = f->base,
                            .metadata = f->base + f->footer.metadata,
                            .metadata_length = f->footer.metadata_length};
    memcpy(about->digest, f->digest, sizeof about->digest);
}

bool sealed_file_index(const sealed_file *f, const uint8_t **bytes, uint64_t *length,
                       sealed_error *e) {
    *bytes = f->base + f->footer.index;
    *length = f->footer.index_length;
    return check_section(f, f->footer.index, *length, f->footer.index_crc, "index map", e);
}

/* Renaming or removing a file also changes the time of its last change, so a removed file is
 * not the same. */
bool sealed_file_same(const sealed_file *f) {
    const struct stat *then = &f->identity;
    struct stat now;
    return fstat(f->descriptor, &now) == 0 && now.st_size == then->st_size &&
           now.st_ctim.tv_sec == then->st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == then->st_ctim.tv_nsec;
}

/* --- memory --- */

void sealed_file_limit(sealed_file *f, int64_t memory) {
    bool fits = memory >= (int64_t)f->size;
    int64_t room = memory / BLOCK_MEMORY > 0 ? memory / BLOCK_MEMORY : 1;
    __atomic_store_n(&f->room, fits ? INT64_MAX : room, __ATOMIC_RELAXED);
}

/* The directory stays mapped: it was checked only once. */
void sealed_file_let_go(sealed_file *f) {
    __atomic_store_n(&f->touched, 0, __ATOMIC_RELAXED);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), end = f->footer.directory / page * page;
    for (uint64_t i = 0; i < f->footer.n_entries; i++)
        __atomic_store_n(&f->blocks[i], 0, __ATOMIC_RELAXED);
    if (end)
        madvise((void *)f->base, end, MADV_DONTNEED);
}
