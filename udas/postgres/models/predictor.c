/* The models of a call of predict, predict_proba or decision.
 *
 * A model is read once and kept as long as the next rows bring the same bytes. Usually all rows
 * of a query have one model, passed as the few bytes that say where TOAST keeps it. Models that
 * come by turns, as rows joined with a model each bring them, are kept within a share of the
 * memory for rows (kept_room); half of it is for models that have come twice. The columns of rows
 * by name are found once for all models.
 */
#include "predictor.h"

#include "access/detoast.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/hsearch.h"

#include "../../scalars/models/payload.h"
#include "../stores.h"
#include "model_value.h"

#define MOST_NOTED 100000 /* models of a call site whose hashes are kept */
#define HASHED_BYTES 8192
/* About what a kept model takes besides its bytes and its packed trees. */
#define KEPT_BYTES 4096

/* A model that came before. */
typedef struct noted_model {
    uint64 hash;
    predictor *kept; /* NULL: there was no room for it so far */
} noted_model;

typedef struct call_site {
    predictor *last;    /* the model of the row before */
    predictor *passing; /* for models that are not kept */
    HTAB *noted;        /* by hash; NULL while there was one model only */
    Size kept_bytes;
} call_site;

void refuse_answer(const tusk_scorer *s, enum tusk_answer answer, const char *sentence) {
    const char *state = s->sqlstate ? s->sqlstate : "22023";
    ereport(ERROR, (errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
                    errmsg("%s: %s", TUSK_ANSWER_NAMES[answer], sentence)));
}

/* --- reading the model --- */

void read_model(predictor *p, const struct varlena *bytes, enum tusk_answer answer) {
    p->bytes = NULL;
    p->n_named = 0;
    tusk_class_layouts_free(&p->reader->layouts, p->layouts);
    p->layouts = NULL;
    p->packed = NULL;
    p->rows = 0;
    tusk_forget_model(&p->scorer);
    MemoryContextReset(p->model);
    MemoryContext before = MemoryContextSwitchTo(p->model);
    Size size = VARSIZE_ANY(bytes);
    void *copy = MemoryContextAllocHuge(p->model, size);
    memcpy(copy, bytes, size);
    bool named = answer == TUSK_PREDICT_CLASS || answer == TUSK_PREDICT_PROBAS;
    tusk_text payload = read_payload(copy, named ? &p->names : NULL);
    tusk_stores stores = backend_stores();
    char sentence[TUSK_SENTENCE] = TUSK_NO_PAYLOAD;
    if (!payload.data || !tusk_read_model(payload, &stores, answer, &p->scorer, sentence))
        refuse_answer(&p->scorer, answer, sentence);
    MemoryContextSwitchTo(before);
    p->bytes = copy;
    p->size = size;
    if (size == TOAST_POINTER_SIZE)
        memcpy(p->pointer, copy, TOAST_POINTER_SIZE);
}

static void forget(void *model) {
    predictor *p = model;
    tusk_class_layouts_free(&p->reader->layouts, p->layouts);
    tusk_forget_model(&p->scorer);
}

/* It is registered before its predictors are, so it runs after theirs. */
static void free_reader(void *reader) {
    row_reader *r = reader;
    tusk_layouts_free(&r->layouts);
    tusk_named_free(&r->rows);
}

static row_reader *new_reader(MemoryContext context) {
    row_reader *r = MemoryContextAllocZero(context, sizeof *r);
    r->buffer.context = r->named.context = context;
    r->end = (MemoryContextCallback){.func = free_reader, .arg = r};
    MemoryContextRegisterResetCallback(context, &r->end);
    return r;
}

static predictor *predictor_with(MemoryContext context, row_reader *reader) {
    predictor *p = MemoryContextAllocZero(context, sizeof *p);
    p->model = AllocSetContextCreate(context, "tuskml model", ALLOCSET_START_SMALL_SIZES);
    p->reader = reader;
    p->end = (MemoryContextCallback){.func = forget, .arg = p};
    MemoryContextRegisterResetCallback(context, &p->end);
    return p;
}

predictor *new_predictor(MemoryContext context) {
    return predictor_with(context, new_reader(context));
}

/* --- the models of a call site --- */

static bool is_of(const predictor *p, const struct varlena *bytes) {
    if (!p || !p->bytes || p->size != VARSIZE_ANY(bytes))
        return false;
    return p->size == TOAST_POINTER_SIZE ? memcmp(p->pointer, bytes, TOAST_POINTER_SIZE) == 0
                                         : memcmp(p->bytes, bytes, p->size) == 0;
}

/* Of the first bytes, in four lanes that the processor multiplies side by side. */
static uint64 hash_of(const struct varlena *bytes) {
    const uint64 odd = UINT64CONST(0x9E3779B97F4A7C15);
    const char *at = (const char *)bytes;
    Size size = VARSIZE_ANY(bytes), n = Min(size, HASHED_BYTES) & ~(Size)31;
    uint64 lane[4] = {size, 1, 2, 3};
    for (Size i = 0; i < n; i += sizeof lane) {
        uint64 words[4];
        memcpy(words, at + i, sizeof words);
        for (int k = 0; k < 4; k++)
            lane[k] = (lane[k] ^ words[k] ^ lane[k] >> 29) * odd;
    }
    uint64 rest = hash_bytes_extended((const unsigned char *)at + n, (int)Min(size - n, 31), 0);
    return hash_bytes_extended((const unsigned char *)lane, sizeof lane, rest);
}

static noted_model *note(call_site *site, const struct varlena *bytes, MemoryContext context,
                         bool *again) {
    if (!site->noted) {
        HASHCTL how = {
            .keysize = sizeof(uint64), .entrysize = sizeof(noted_model), .hcxt = context};
        site->noted =
            hash_create("tuskml models", 64, &how, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    }
    bool full = hash_get_num_entries(site->noted) >= MOST_NOTED;
    uint64 hash = hash_of(bytes);
    noted_model *found = hash_search(site->noted, &hash, full ? HASH_FIND : HASH_ENTER, again);
    if (found && !*again)
        found->kept = NULL;
    return found;
}

/* The bytes of a model, of which the row may only say where TOAST keeps them. */
static Size raw_size(struct varlena *bytes) {
    return toast_raw_datum_size(PointerGetDatum(bytes));
}

Size kept_room(void) {
    return Max((Size)work_mem * 1024, (Size)backend_budget() / 4);
}

/* Notes what a kept model takes since it was read. */
static void charge_for(call_site *site, predictor *p) {
    Size now = MemoryContextMemAllocated(p->model, true) + KEPT_BYTES;
    if (p == site->passing)
        return;
    site->kept_bytes += now - p->charged;
    p->charged = now;
}

static predictor *kept_predictor(call_site *site, MemoryContext context) {
    predictor *p = predictor_with(context, site->passing->reader);
    p->kept_bytes = &site->kept_bytes;
    return p;
}

/* Asks for the memory of a model that comes again, after many others that have displaced it. */
static void approach(const predictor *p) {
    for (Size at = 0; at < offsetof(predictor, packed); at += 64)
        __builtin_prefetch((const char *)p + at);
}

/* A predictor that has the model, or is to read it. */
static predictor *place_for(call_site *site, struct varlena *bytes, MemoryContext context) {
    bool again;
    noted_model *noted = note(site, bytes, context, &again);
    if (!noted)
        return site->passing;
    Size room = again ? kept_room() : kept_room() / 2;
    if (!noted->kept && site->kept_bytes + raw_size(bytes) + KEPT_BYTES <= room)
        noted->kept = kept_predictor(site, context);
    if (noted->kept)
        approach(noted->kept);
    bool usable = noted->kept && (!noted->kept->bytes || is_of(noted->kept, bytes));
    return usable ? noted->kept : site->passing;
}

predictor *predictor_of(FmgrInfo *called, Datum model, enum tusk_answer answer) {
    call_site *site = called->fn_extra;
    struct varlena *bytes = telling_bytes(model);
    if (!site) {
        called->fn_extra = site = MemoryContextAllocZero(called->fn_mcxt, sizeof *site);
        site->last = site->passing = new_predictor(called->fn_mcxt);
    } else if (!is_of(site->last, bytes)) {
        site->last = place_for(site, bytes, called->fn_mcxt);
    }
    if (!is_of(site->last, bytes)) {
        read_model(site->last, bytes, answer);
        charge_for(site, site->last);
    }
    if (site->last->layouts)
        tusk_class_layouts_approach(site->last->layouts);
    return site->last;
}
