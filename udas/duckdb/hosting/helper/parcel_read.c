/* Turns the offsets of a mapped batch into pointers. */
#include <stdint.h>

#include "../../../rowblock/named.h"
#include "parcel.h"

typedef struct mapped {
    tusk_slab *slab;
    const tusk_schema *schema; /* the last one read, and its offset */
    uintptr_t schema_at;
} mapped;

/* The address of an offset, which a structure stores instead of a pointer. */
static void *at(const mapped *m, const void *offset) {
    return offset ? (char *)m->slab + (uintptr_t)offset : NULL;
}

static const tusk_schema *read_schema(mapped *m, const void *offset) {
    if (m->schema && m->schema_at == (uintptr_t)offset)
        return m->schema;
    tusk_schema *s = at(m, offset);
    s->kind = at(m, s->kind);
    const char **name = at(m, s->name);
    for (int32_t i = 0; i < s->n_columns; i++)
        name[i] = at(m, name[i]);
    s->name = name;
    m->schema_at = (uintptr_t)offset;
    return m->schema = tusk_schema_of(s); /* Equal schemas are one object. */
}

static bool read_parts(mapped *m, tusk_part *head) {
    for (tusk_part *p = head; p; p = p->next) {
        p->next = at(m, p->next);
        p->head = at(m, p->head);
        p->schema = read_schema(m, p->schema);
        if (!p->schema)
            return false;
        for (int32_t i = 0; i <= p->schema->n_columns; i++) {
            p->levels[i].end = at(m, p->levels[i].end);
            p->levels[i].text = at(m, p->levels[i].text);
        }
    }
    return true;
}

static void read_segments(const mapped *m, tusk_segment *head) {
    for (tusk_segment *s = head; s; s = s->next) {
        s->next = at(m, s->next);
        s->slab = m->slab;
    }
}

static bool read_group(mapped *m, tusk_group *g) {
    tusk_segment *head = at(m, g->head), *wide = at(m, g->wide);
    tusk_part *parts = at(m, g->parts);
    read_segments(m, head);
    read_segments(m, wide);
    g->head = head;
    g->wide = wide;
    g->parts = parts;
    return read_parts(m, parts);
}

bool parcel_read(tusk_slab *slab, tusk_batch *batch) {
    mapped m = {.slab = slab};
    const parcel *p = parcel_of(slab);
    tusk_group *groups = (tusk_group *)((char *)slab + p->groups);
    tusk_spec *specs = (tusk_spec *)((char *)slab + p->specs);
    for (int32_t i = 0; i < p->n_specs; i++)
        specs[i] = (tusk_spec){at(&m, specs[i].task), at(&m, specs[i].options)};
    const char **flaws = (const char **)((char *)slab + p->flaws);
    for (int64_t g = 0; g < p->n_groups; g++) {
        flaws[g] = at(&m, flaws[g]);
        if (!read_group(&m, groups + g))
            return false;
    }
    tusk_remark *remarks = (tusk_remark *)((char *)slab + p->remarks);
    for (int64_t i = 0; i < p->n_remarks; i++)
        remarks[i].name = at(&m, remarks[i].name);
    *batch = (tusk_batch){.n_groups = p->n_groups,
                          .remarks = remarks,
                          .n_remarks = p->n_remarks,
                          .groups = groups,
                          .spec = (const int32_t *)((char *)slab + p->spec),
                          .specs = specs,
                          .n_specs = p->n_specs,
                          .request = p->request,
                          .threads = p->threads,
                          .store_root = parcel_text(slab, p->store_root),
                          .statement = p->statement,
                          .began = p->began,
                          .most_threads = p->most_threads,
                          .unshared = p->unshared,
                          .weight = p->weight,
                          .program = parcel_text(slab, p->program),
                          .flaws = flaws,
                          .labels = p->labels};
    return true;
}
