/* Passes groups from parallel workers to the leader: combine, serialize, deserialize.
 *
 * The dictionaries of rows with names travel in the bytea, and so do the rows of a small group.
 * Those of a large group are written to a file once, in the layout of the segments, and the leader
 * maps the file. So no row is copied again, and a bytea's limit of 1 GB does not apply. The file
 * is named after the leader. The leader removes it when the query ends, and all its files when a
 * transaction ends. After a crash PostgreSQL empties its temporary folder.
 */
#include "groups.h"
#include "trainer.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/proc.h"
#include "utils/guc.h"

/* PostgreSQL removes files with this prefix from its temporary folder. */
#define PREFIX "pgsql_tmp_tuskml"
#define INLINE_BYTES ((Size)64 << 10)
#define NAME_BYTES 64

/* The contents of a bytea: this header, the task, the options, and the segments unless a file
 * is named. */
typedef struct parcel {
    char file[NAME_BYTES]; /* "": the segments follow */
    int64 bytes;           /* of the segments */
    int64 n_rows, n_skipped;
    int32 n_segments, dim, kind, typed, extras;
    int32 n_wide; /* segments at the end, whose ids are wide */
    int32 task_length, options_length;
    int64 parts;   /* bytes of the dictionaries, at the end */
    int64 remarks; /* bytes of the remarks, before the dictionaries */
    int32 booleans;
    tusk_fault fault;
    char column[NAMEDATALEN * 4]; /* that the fault is about; "": none */
} parcel;

/* Whether results of workers arrived; some of their files may never be read. */
static bool results_seen;
static int64 bytes_written;

/* --- files --- */

static int leader_pid(void) {
    return MyProc->lockGroupLeader ? MyProc->lockGroupLeader->pid : MyProcPid;
}

static void refuse_file(const char *what, const char *path) {
    ereport(ERROR, (errcode_for_file_access(),
                    errmsg("train_model: could not %s \"%s\": %m", what, path)));
}

static void write_all(int file, const char *path, const void *data, Size size) {
    const char *at = data;
    while (size > 0) {
        ssize_t n = write(file, at, Min(size, (Size)1 << 30));
        CHECK_FOR_INTERRUPTS();
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n == 0)
                errno = ENOSPC;
            refuse_file("write", path);
        }
        at += n;
        size -= n;
    }
}

/* Counts as PostgreSQL does: for each process separately. */
static void stay_within_limit(int64 bytes) {
    bytes_written += bytes;
    if (temp_file_limit >= 0 && bytes_written > (int64)temp_file_limit * 1024)
        ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                        errmsg("train_model: temporary file size exceeds temp_file_limit (%dkB)",
                               temp_file_limit)));
}

static tusk_shape shape_of(const tusk_block *b, bool wide) {
    return (tusk_shape){b->kind, b->extras, b->dim, wide};
}

/* In a parcel, each segment is padded so that the numbers of the next one stay aligned. */
static Size segment_size(const tusk_block *b, const tusk_segment *s, bool wide) {
    return tusk_align8(tusk_segment_bytes(s, shape_of(b, wide)));
}

/* The segment after s, the wide ones last; NULL: the first. *wide: whether it is wide. */
static const tusk_segment *next_segment(const tusk_block *b, const tusk_segment *s, bool *wide) {
    const tusk_segment *next = s ? s->next : b->head;
    *wide = (s && *wide) || !next;
    if (next || (s && s != b->tail))
        return next;
    return b->wide;
}

static void write_segments(parcel *p, const tusk_block *b) {
    static unsigned number;
    static const char header[TUSK_SLAB_HEADER];
    char path[MAXPGPATH];
    stay_within_limit(p->bytes);
    snprintf(p->file, sizeof p->file, PREFIX ".%d.%d.%u", leader_pid(), MyProcPid, number++);
    snprintf(path, sizeof path, TEMP_FOLDER "/%s", p->file);
    int file = OpenTransientFile(path, O_CREAT | O_EXCL | O_RDWR | PG_BINARY);
    if (file < 0)
        refuse_file("create", path);
    write_all(file, path, header, sizeof header);
    bool wide = false;
    for (const tusk_segment *s = NULL; (s = next_segment(b, s, &wide));)
        write_all(file, path, s, segment_size(b, s, wide));
    CloseTransientFile(file);
}

/* Removes the leader's files that it has not mapped. When a transaction ends, the workers that
 * wrote them are gone. */
static void remove_files(void) {
    char prefix[NAME_BYTES], path[MAXPGPATH];
    int length = snprintf(prefix, sizeof prefix, PREFIX ".%d.", MyProcPid);
    DIR *folder = opendir(TEMP_FOLDER);
    if (!folder)
        return;
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        if (strncmp(e->d_name, prefix, length) != 0)
            continue;
        snprintf(path, sizeof path, TEMP_FOLDER "/%s", e->d_name);
        unlink(path);
    }
    closedir(folder);
}

static void at_transaction_end(XactEvent event, void *unused) {
    (void)unused;
    bool failed = event == XACT_EVENT_ABORT;
    if (IsParallelWorker() ||
        !(failed || event == XACT_EVENT_COMMIT || event == XACT_EVENT_PREPARE))
        return;
    if (failed || results_seen)
        remove_files();
    results_seen = false;
    bytes_written = 0;
}

void watch_transactions(void) {
    RegisterXactCallback(at_transaction_end, NULL);
}

/* --- from the worker --- */

static void measure(parcel *p, const tusk_block *b) {
    bool wide = false;
    for (const tusk_segment *s = NULL; (s = next_segment(b, s, &wide));) {
        p->bytes += segment_size(b, s, wide);
        p->n_segments++;
        p->n_wide += wide;
    }
}

PG_FUNCTION_INFO_V1(tuskml_serialize);
Datum tuskml_serialize(PG_FUNCTION_ARGS) {
    Assert(AggCheckCallContext(fcinfo, NULL));
    const train_state *s = (const train_state *)PG_GETARG_POINTER(0);
    const tusk_block *b = &s->block;
    parcel p = {.n_rows = b->n_rows,
                .n_skipped = b->n_skipped,
                .dim = b->dim,
                .kind = b->kind,
                .typed = b->typed,
                .extras = b->extras,
                .task_length = s->spec->task_length,
                .options_length = s->spec->options_length,
                .parts = (int64)parts_size(b),
                .remarks = (int64)remarks_size(&s->remarks),
                .booleans = b->booleans};
    const tusk_fault *fault = tusk_block_fault(b);
    if (fault) {
        p.fault = *fault;
        strlcpy(p.column, fault->name ? fault->name : "", sizeof p.column);
    }
    measure(&p, b);
    bool within = p.bytes <= (int64)INLINE_BYTES;
    if (!within)
        write_segments(&p, b);
    Size texts = MAXALIGN(sizeof p + p.task_length + p.options_length);
    Size size = texts + (within ? p.bytes : 0) + p.remarks + p.parts;
    bytea *out = palloc0(VARHDRSZ + size);
    SET_VARSIZE(out, VARHDRSZ + size);
    char *at = VARDATA(out);
    memcpy(at, &p, sizeof p);
    memcpy(at + sizeof p, s->spec->task, p.task_length);
    memcpy(at + sizeof p + p.task_length, s->spec->options, p.options_length);
    at += texts;
    bool wide = false;
    for (const tusk_segment *g = NULL; within && (g = next_segment(b, g, &wide));) {
        memcpy(at, g, tusk_segment_bytes(g, shape_of(b, wide)));
        at += segment_size(b, g, wide);
    }
    write_remarks(&s->remarks, at);
    write_parts(b, at + p.remarks);
    PG_RETURN_BYTEA_P(out);
}

/* --- in the leader --- */

typedef struct doomed_file {
    MemoryContextCallback on_reset;
    char name[NAME_BYTES];
} doomed_file;

static void remove_file(void *argument) {
    char path[MAXPGPATH];
    snprintf(path, sizeof path, TEMP_FOLDER "/%s", ((const doomed_file *)argument)->name);
    unlink(path);
}

/* The file stays until the query ends: a rescan may read a sorted result again, and the file's
 * name with it. */
static void remove_with_query(MemoryContext query, const parcel *p) {
    doomed_file *f = MemoryContextAllocZero(query, sizeof *f);
    memcpy(f->name, p->file, sizeof f->name);
    f->on_reset = (MemoryContextCallback){.func = remove_file, .arg = f};
    MemoryContextRegisterResetCallback(query, &f->on_reset);
}

static tusk_slab *map_file(const collector *c, const parcel *p) {
    char path[MAXPGPATH];
    snprintf(path, sizeof path, TEMP_FOLDER "/%s", p->file);
    int file = OpenTransientFile(path, O_RDWR | PG_BINARY);
    if (file < 0)
        refuse_file("open", path);
    remove_with_query(c->context, p);
    tusk_slab *slab =
        tusk_slab_adopt(c->memory, file, TUSK_SLAB_HEADER + (Size)p->bytes, p->n_segments);
    CloseTransientFile(file);
    if (!slab)
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY),
                        errmsg("train_model: out of memory for the rows of a parallel worker")));
    return slab;
}

static tusk_slab *copy_inline(const collector *c, const parcel *p, const char *segments,
                              char **copy) {
    tusk_slab *slab = NULL;
    tusk_fault fault = {.row = 1};
    *copy = tusk_memory_take(c->memory, (Size)p->bytes, &slab, &fault.code);
    if (!*copy)
        refuse_fault(c->name, &fault);
    memcpy(*copy, segments, (Size)p->bytes);
    tusk_slab_share(slab, p->n_segments - 1);
    return slab;
}

/* n_wide: of the n segments, at the end. */
static void link_segments(tusk_block *b, char *at, tusk_slab *slab, int32 n, int32 n_wide) {
    for (int32 i = 0; i < n; i++) {
        bool wide = i >= n - n_wide;
        tusk_segment *s = (tusk_segment *)at;
        tusk_segment **head = wide ? &b->wide : &b->head, **tail = wide ? &b->last_wide : &b->tail;
        s->slab = slab;
        s->next = NULL;
        if (*tail)
            (*tail)->next = s;
        else
            *head = s;
        *tail = s;
        at += segment_size(b, s, wide);
    }
}

static collector *collector_of(FunctionCallInfo fcinfo) {
    collector *c = fcinfo->flinfo->fn_extra;
    if (!c) {
        c = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof *c);
        collector_init(c, fcinfo);
        fcinfo->flinfo->fn_extra = c;
    }
    results_seen = true;
    return c;
}

/* The state lives in the context of the call, which is reset after combine has taken its rows. */
PG_FUNCTION_INFO_V1(tuskml_deserialize);
Datum tuskml_deserialize(PG_FUNCTION_ARGS) {
    collector *c = collector_of(fcinfo);
    bytea *in = PG_GETARG_BYTEA_PP(0);
    const char *data = VARDATA_ANY(in);
    parcel p;
    memcpy(&p, data, sizeof p);
    train_state *s = group_new(c, CurrentMemoryContext);
    const char *texts = data + sizeof p;
    group_adopt(c, s, texts, p.task_length, texts + p.task_length, p.options_length);
    tusk_block *b = &s->block;
    b->dim = p.dim;
    b->kind = (uint8)p.kind;
    b->typed = (uint8)p.typed;
    b->extras = (uint8)p.extras;
    b->n_skipped = p.n_skipped;
    b->n_rows = p.n_rows;
    b->booleans = (uint8)p.booleans;
    if (p.n_segments) {
        char *at;
        tusk_slab *slab;
        if (p.file[0]) {
            slab = map_file(c, &p);
            at = (char *)slab + TUSK_SLAB_HEADER;
        } else {
            slab = copy_inline(c, &p, data + MAXALIGN(sizeof p + p.task_length + p.options_length),
                               &at);
        }
        link_segments(b, at, slab, p.n_segments, p.n_wide);
    }
    const char *parts = data + VARSIZE_ANY_EXHDR(in) - p.parts;
    read_parts(c->memory, b, parts, c->name);
    read_remarks(&s->remarks, parts - p.remarks, c->name);
    if (p.fault.code) {
        p.fault.name = p.column[0] ? p.column : NULL;
        tusk_block_forgive(b, TUSK_INVALID_GROUP, &p.fault);
        b->n_skipped = p.n_skipped;
    }
    PG_RETURN_POINTER(s);
}

PG_FUNCTION_INFO_V1(tuskml_combine);
Datum tuskml_combine(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    if (PG_ARGISNULL(1)) {
        if (PG_ARGISNULL(0))
            PG_RETURN_NULL();
        PG_RETURN_POINTER(PG_GETARG_POINTER(0));
    }
    collector *c = collector_of(fcinfo);
    train_state *source = (train_state *)PG_GETARG_POINTER(1);
    train_state *target =
        PG_ARGISNULL(0) ? group_new(c, context) : (train_state *)PG_GETARG_POINTER(0);
    const group_spec *spec = source->spec;
    group_adopt(c, target, spec->task, spec->task_length, spec->options, spec->options_length);
    tusk_fault fault;
    tusk_remarks_splice(&target->remarks, &source->remarks);
    if (tusk_block_splice(c->memory, &target->block, &source->block, spec->invalid, &fault))
        refuse_fault(c->name, &fault);
    tusk_block_free(&source->block); /* its share: this state is not combined again */
    tusk_remarks_free(&source->remarks);
    PG_RETURN_POINTER(target);
}
