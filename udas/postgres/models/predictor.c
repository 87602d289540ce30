/* The models of a call of predict, predict_proba or decision. A model is read once and kept as
 * long as the next rows have the same bytes. Usually all rows of a query have one model, passed
 * as the few bytes of its TOAST pointer. Alternating models, as for rows that are joined with a
 * model each, are kept within a share of the memory for rows (kept_room); half of it is for
 * models that have occurred twice. The columns of rows by name are found once for all models. */

#include "model_value.h"

#include "access/detoast.h"
#include "miscadmin.h"

#include "../../scalars/models/payload.h"
#include "../stores.h"

/* Approximate memory of a kept model besides its bytes and its packed trees. */
#define KEPT_BYTES 4096

typedef struct call_site {
    predictor *last;    /* the model of the row before */
    predictor *passing; /* for models that are not kept */
    noted_models noted; /* from the second one on */
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
    p->payload = payload;
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

/* The size of a model's bytes, of which the row may have only the TOAST pointer. */
static Size raw_size(struct varlena *bytes) {
    return toast_raw_datum_size(PointerGetDatum(bytes));
}

Size kept_room(void) {
    return Max((Size)work_mem * 1024, (Size)backend_budget() / 4);
}

/* Charges the memory of a kept model since it was read. */
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

/* A predictor that has the model, or will read it. */
static predictor *place_for(call_site *site, noted_model *noted, struct varlena *bytes,
                            bool again) {
    if (!noted)
        return site->passing;
    Size room = again ? kept_room() : kept_room() / 2;
    if (!noted->kept && site->kept_bytes + raw_size(bytes) + KEPT_BYTES <= room)
        noted->kept = kept_predictor(site, site->noted.context);
    bool usable = noted->kept && (!noted->kept->bytes || is_of(noted->kept, bytes));
    return usable ? noted->kept : site->passing;
}

static void read_for(call_site *site, struct varlena *bytes, enum tusk_answer answer) {
    read_model(site->last, bytes, answer);
    charge_for(site, site->last);
}

/* Switches to a model that differs from that of the previous row. */
static void change_model(call_site *site, struct varlena *bytes, enum tusk_answer answer) {
    bool again;
    noted_model *noted = note_model(&site->noted, bytes, &again);
    if (noted && recognise(noted, bytes)) {
        site->last = noted->kept;
        return;
    }
    site->last = place_for(site, noted, bytes, again);
    if (!is_of(site->last, bytes))
        read_for(site, bytes, answer);
    if (noted && noted->kept == site->last)
        note_read(noted, bytes);
}

predictor *predictor_of(FmgrInfo *called, Datum model, enum tusk_answer answer) {
    call_site *site = called->fn_extra;
    struct varlena *bytes = telling_bytes(model);
    if (!site) {
        called->fn_extra = site = MemoryContextAllocZero(called->fn_mcxt, sizeof *site);
        site->last = site->passing = new_predictor(called->fn_mcxt);
        site->noted.context = called->fn_mcxt;
    }
    if (is_of(site->last, bytes))
        return site->last;
    if (site->last->bytes)
        change_model(site, bytes, answer);
    else
        read_for(site, bytes, answer);
    return site->last;
}
