/* Writes a batch into a file. The same code first counts its bytes. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../rowblock/handed/handed.h"
#include "../../../rowblock/named.h"
#include "parcel.h"

#define OFFSET(type, n) ((type)(uintptr_t)(n))

/* From this many bytes on, writing to the file takes less time than faults of a map's pages. */
#define LARGE ((size_t)64 << 10)

/* data: the file, mapped; NULL while bytes are counted. */
typedef struct packing {
    char *data;
    int file;
    int failed; /* errno of a write */
    size_t n;
    const tusk_schema *schema; /* the last one written */
    size_t schema_at;
} packing;

static void write_large(packing *p, const char *bytes, size_t size) {
    for (size_t done = 0; done < size && !p->failed;) {
        ssize_t n = pwrite(p->file, bytes + done, size - done, (off_t)(p->n + done));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            p->failed = n ? errno : ENOSPC;
    }
}

/* Returns the offset. */
static size_t put(packing *p, const void *bytes, size_t size) {
    size_t at = p->n;
    if (p->data && size >= LARGE)
        write_large(p, bytes, size);
    else if (p->data && size)
        memcpy(p->data + at, bytes, size);
    p->n = at + tusk_align8(size);
    return at;
}

static int64_t put_text(packing *p, const char *text) {
    return text ? (int64_t)put(p, text, strlen(text) + 1) : 0;
}

static size_t put_schema(packing *p, const tusk_schema *schema) {
    if (p->schema == schema)
        return p->schema_at;
    size_t n = (size_t)schema->n_columns, at = put(p, schema, sizeof *schema);
    size_t kind = put(p, schema->kind, n), name = put(p, schema->name, n * sizeof(char *));
    for (size_t i = 0; i < n; i++) {
        int64_t text = put_text(p, schema->name[i]);
        if (p->data)
            ((const char **)(p->data + name))[i] = OFFSET(const char *, text);
    }
    if (p->data) {
        tusk_schema *copy = (tusk_schema *)(p->data + at);
        copy->kind = OFFSET(const uint8_t *, kind);
        copy->name = OFFSET(const char *const *, name);
    }
    p->schema = schema;
    return p->schema_at = at;
}

static tusk_levels put_levels(packing *p, const tusk_levels *l) {
    tusk_levels copy = {.n = l->n, .room = l->n, .used = l->used, .bytes = l->used};
    copy.end = OFFSET(uint32_t *, put(p, l->end, l->n * sizeof *l->end));
    copy.text = OFFSET(char *, put(p, l->text, l->used));
    return copy;
}

/* Writes the dictionaries of a group, without the segments at which they begin. */
static size_t put_parts(packing *p, const tusk_part *head) {
    if (!head)
        return 0;
    size_t schema = put_schema(p, head->schema), first = p->n;
    size_t n_levels = (size_t)head->schema->n_columns + 1;
    for (const tusk_part *part = head; part; part = part->next) {
        size_t at = put(p, part, sizeof *part + n_levels * sizeof *part->levels);
        for (size_t i = 0; i < n_levels; i++) {
            tusk_levels levels = put_levels(p, part->levels + i);
            if (p->data)
                ((tusk_part *)(p->data + at))->levels[i] = levels;
        }
        if (!p->data)
            continue;
        tusk_part *copy = (tusk_part *)(p->data + at);
        copy->next = part->next ? OFFSET(tusk_part *, p->n) : NULL;
        copy->head = NULL;
        copy->schema = OFFSET(const tusk_schema *, schema);
        copy->known = NULL;
        copy->slab = copy->known_slab = NULL;
    }
    return first;
}

/* The next part that has segments, and its copy. */
typedef struct part_place {
    const tusk_part *part;
    size_t at;
} part_place;

static void skip_empty(const packing *p, part_place *place) {
    while (place->part && !place->part->head) {
        place->at = (size_t)(uintptr_t)((const tusk_part *)(p->data + place->at))->next;
        place->part = place->part->next;
    }
}

static void note_head(const packing *p, part_place *place, const tusk_segment *s, size_t at) {
    skip_empty(p, place);
    if (!place->part || place->part->head != s)
        return;
    tusk_part *copy = (tusk_part *)(p->data + place->at);
    copy->head = OFFSET(const tusk_segment *, at);
    *place = (part_place){place->part->next, (size_t)(uintptr_t)copy->next};
}

static size_t put_segments(packing *p, const tusk_segment *head, tusk_shape shape,
                           part_place *parts) {
    size_t first = head ? p->n : 0;
    for (const tusk_segment *s = head; s; s = s->next) {
        size_t at = put(p, s, tusk_segment_bytes(s, shape));
        if (!p->data)
            continue;
        ((tusk_segment *)(p->data + at))->next = s->next ? OFFSET(tusk_segment *, p->n) : NULL;
        note_head(p, parts, s, at);
    }
    return first;
}

static void put_group(packing *p, const tusk_group *g, size_t at) {
    tusk_shape shape = tusk_shape_of(g), wide = shape;
    wide.wide = 1;
    size_t parts = put_parts(p, g->parts);
    part_place place = {g->parts, parts}, none = {NULL, 0};
    size_t head = put_segments(p, g->head, shape, &place);
    size_t widest = put_segments(p, g->wide, wide, &none);
    if (!p->data)
        return;
    tusk_group *copy = (tusk_group *)(p->data + at);
    copy->parts = OFFSET(const tusk_part *, parts);
    copy->head = OFFSET(const tusk_segment *, head);
    copy->wide = OFFSET(const tusk_segment *, widest);
}

static size_t put_specs(packing *p, const tusk_batch *b) {
    size_t at = put(p, b->specs, (size_t)b->n_specs * sizeof *b->specs);
    for (int32_t i = 0; i < b->n_specs; i++) {
        int64_t task = put_text(p, b->specs[i].task), options = put_text(p, b->specs[i].options);
        if (p->data)
            ((tusk_spec *)(p->data + at))[i] =
                (tusk_spec){OFFSET(const char *, task), OFFSET(const char *, options)};
    }
    return at;
}

static size_t put_flaws(packing *p, const tusk_batch *b) {
    size_t at = put(p, b->flaws, (size_t)b->n_groups * sizeof *b->flaws);
    for (int64_t g = 0; g < b->n_groups; g++) {
        int64_t text = put_text(p, b->flaws[g]);
        if (p->data)
            ((const char **)(p->data + at))[g] = OFFSET(const char *, text);
    }
    return at;
}

static size_t put_remarks(packing *p, const tusk_batch *b) {
    size_t at = put(p, b->remarks, (size_t)b->n_remarks * sizeof *b->remarks);
    for (int64_t i = 0; i < b->n_remarks; i++) {
        int64_t name = put_text(p, b->remarks[i].name);
        if (p->data)
            ((tusk_remark *)(p->data + at))[i].name = OFFSET(const char *, name);
    }
    return at;
}

static void put_batch(packing *p, const tusk_batch *b, parcel *head, const char *directory) {
    size_t n = (size_t)b->n_groups;
    p->n = TUSK_SLAB_HEADER + tusk_align8(sizeof *head);
    p->schema = NULL;
    size_t groups = put(p, b->groups, n * sizeof *b->groups);
    head->groups = (int64_t)groups;
    head->spec = (int64_t)put(p, b->spec, n * sizeof *b->spec);
    head->specs = (int64_t)put_specs(p, b);
    head->flaws = (int64_t)put_flaws(p, b);
    head->remarks = (int64_t)put_remarks(p, b);
    head->store_root = put_text(p, b->store_root);
    head->program = put_text(p, b->program);
    head->directory = put_text(p, directory);
    for (size_t g = 0; g < n; g++)
        put_group(p, b->groups + g, groups + g * sizeof *b->groups);
    if (p->data)
        memcpy(p->data + TUSK_SLAB_HEADER, head, sizeof *head);
}

static parcel head_of(const tusk_batch *b) {
    return (parcel){.n_groups = b->n_groups,
                    .n_remarks = b->n_remarks,
                    .statement = b->statement,
                    .n_specs = b->n_specs,
                    .request = b->request,
                    .threads = b->threads,
                    .most_threads = b->most_threads,
                    .unshared = b->unshared,
                    .labels = b->labels,
                    .began = b->began,
                    .weight = b->weight,
                    .account = (int64_t)(intptr_t)b->memory};
}

static bool refuse_room(tusk_batch *batch, int64_t bytes) {
    if (errno == EMFILE || errno == ENFILE)
        snprintf(
            batch->error, sizeof batch->error,
            "rows cannot be handed to the helper process (%s): raise the limit of open files, "
            "ulimit -n",
            strerror(errno));
    else
        snprintf(
            batch->error, sizeof batch->error,
            "no room to hand %lld MB of rows to the helper process, neither within memory_limit "
            "nor in temp_directory (%s): raise memory_limit, or free space in temp_directory",
            (long long)(bytes >> 20) + 1, strerror(errno));
    return false;
}

bool parcel_write(tusk_batch *batch, parcel_file *out) {
    parcel head = head_of(batch);
    char directory[PATH_MAX];
    tusk_memory_directory(batch->memory, directory, sizeof directory);
    packing p = {0};
    put_batch(&p, batch, &head, directory);
    *out = (parcel_file){.bytes = (int64_t)p.n};
    if (!parcel_new(batch->memory, out))
        return refuse_room(batch, out->bytes);
    tusk_memory_use use;
    tusk_memory_used(batch->memory, &use);
    head.budget = use.budget;
    head.resident = use.resident;
    p.file = out->file;
    p.data = mmap(NULL, p.n, PROT_READ | PROT_WRITE, MAP_SHARED, out->file, 0);
    if (p.data == MAP_FAILED) {
        p.failed = errno;
    } else {
        put_batch(&p, batch, &head, directory);
        munmap(p.data, p.n);
    }
    if (!p.failed)
        return true;
    parcel_close(batch->memory, out);
    errno = p.failed;
    return refuse_room(batch, out->bytes);
}
