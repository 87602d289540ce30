#include "trainer.h"

#include "groups.h"

/* Position of the next bytes; data is NULL while they are only counted. */
typedef struct cursor {
    char *data;
    Size n;
} cursor;

static void put(cursor *c, const void *bytes, Size n) {
    if (c->data && n)
        memcpy(c->data + c->n, bytes, n);
    c->n += n;
}

static void get(cursor *c, void *bytes, Size n) {
    if (n)
        memcpy(bytes, c->data + c->n, n);
    c->n += n;
}

/* --- writing --- */

static int32 count_segments(const tusk_part *part) {
    const tusk_part *next = part->next;
    while (next && !next->head)
        next = next->next;
    int32 n = 0;
    for (const tusk_segment *s = part->head; s && (!next || s != next->head); s = s->next)
        n++;
    return n;
}

static void put_levels(cursor *c, const tusk_levels *l) {
    put(c, &l->n, sizeof l->n);
    put(c, &l->used, sizeof l->used);
    put(c, l->end, l->n * sizeof *l->end);
    put(c, l->text, l->used);
}

static void put_parts(cursor *c, const tusk_block *b) {
    int32 n = 0;
    for (const tusk_part *p = b->parts; p; p = p->next)
        n++;
    put(c, &n, sizeof n);
    if (!n)
        return;
    const tusk_schema *schema = b->parts->schema;
    put(c, &schema->n_columns, sizeof schema->n_columns);
    put(c, &schema->text_label, 1);
    put(c, &schema->f64, 1);
    put(c, schema->kind, (Size)schema->n_columns);
    for (int32 i = 0; i < schema->n_columns; i++)
        put(c, schema->name[i], strlen(schema->name[i]) + 1);
    for (const tusk_part *p = b->parts; p; p = p->next) {
        int32 segments = count_segments(p);
        put(c, &segments, sizeof segments);
        for (int32 i = 0; i <= schema->n_columns; i++)
            put_levels(c, p->levels + i);
    }
}

Size parts_size(const tusk_block *b) {
    cursor c = {NULL, 0};
    put_parts(&c, b);
    return c.n;
}

void write_parts(const tusk_block *b, char *out) {
    cursor c = {out, 0};
    put_parts(&c, b);
}

/* --- reading --- */

static void fail(int code, const char *function) {
    tusk_fault fault = {.code = code, .row = 1};
    refuse_fault(function, &fault);
}

static const tusk_schema *get_schema(cursor *c, const char *function) {
    tusk_schema s = {0};
    get(c, &s.n_columns, sizeof s.n_columns);
    get(c, &s.text_label, 1);
    get(c, &s.f64, 1);
    s.kind = (const uint8 *)c->data + c->n;
    c->n += (Size)s.n_columns;
    const char **names = palloc0((Size)s.n_columns * sizeof *names);
    for (int32 i = 0; i < s.n_columns; i++) {
        names[i] = c->data + c->n;
        c->n += strlen(names[i]) + 1;
    }
    s.name = names;
    const tusk_schema *found = tusk_schema_of(&s);
    pfree(names);
    if (!found)
        fail(TUSK_NO_MEMORY, function);
    return found;
}

static void get_levels(cursor *c, tusk_memory *memory, tusk_levels *l, const char *function) {
    uint32 n, used, begin = 0, unused;
    get(c, &n, sizeof n);
    get(c, &used, sizeof used);
    const char *ends = c->data + c->n, *text = ends + (Size)n * sizeof begin;
    c->n += (Size)n * sizeof begin + used;
    for (uint32 k = 0; k < n; k++) {
        uint32 end;
        memcpy(&end, ends + (Size)k * sizeof end, sizeof end);
        int code = tusk_level_code(memory, l, text + begin, end - begin, &unused);
        if (code)
            fail(code, function);
        begin = end;
    }
}

void read_parts(tusk_memory *memory, tusk_block *b, const char *in, const char *function) {
    cursor c = {(char *)in, 0};
    int32 n, code = TUSK_OK;
    get(&c, &n, sizeof n);
    const tusk_schema *schema = n ? get_schema(&c, function) : NULL;
    const tusk_segment *next = b->head;
    for (int32 i = 0; i < n; i++) {
        tusk_part *part = tusk_part_new(memory, schema, &code);
        if (!part)
            fail(code, function);
        if (b->last_part)
            b->last_part->next = part;
        else
            b->parts = part;
        b->last_part = part;
        int32 segments;
        get(&c, &segments, sizeof segments);
        part->head = segments ? next : NULL;
        for (; segments && next; segments--)
            next = next->next;
        for (int32 j = 0; j <= schema->n_columns; j++)
            get_levels(&c, memory, part->levels + j, function);
    }
}

/* --- remarks --- */

static void put_remarks(cursor *c, const tusk_remarks *r) {
    put(c, &r->n, sizeof r->n);
    for (int32 i = 0; i < r->n; i++) {
        const char *name = r->list[i].name ? r->list[i].name : "";
        put(c, r->list + i, sizeof *r->list);
        put(c, name, strlen(name) + 1);
    }
}

Size remarks_size(const tusk_remarks *r) {
    cursor c = {NULL, 0};
    put_remarks(&c, r);
    return c.n;
}

void write_remarks(const tusk_remarks *r, char *out) {
    cursor c = {out, 0};
    put_remarks(&c, r);
}

/* Names are those of schemas, which are never freed. */
static const char *kept_name(const char *name, const char *function) {
    uint8 kind = TUSK_NUMBER;
    const tusk_schema *s =
        tusk_schema_of(&(tusk_schema){.n_columns = 1, .kind = &kind, .name = &name});
    if (!s)
        fail(TUSK_NO_MEMORY, function);
    return s->name[0];
}

void read_remarks(tusk_remarks *r, const char *in, const char *function) {
    cursor c = {(char *)in, 0};
    int32 n;
    get(&c, &n, sizeof n);
    for (int32 i = 0; i < n; i++) {
        tusk_remark one;
        get(&c, &one, sizeof one);
        const char *name = c.data + c.n;
        c.n += strlen(name) + 1;
        one.name = one.name ? kept_name(name, function) : NULL;
        tusk_remark_add(r, &one);
    }
}
