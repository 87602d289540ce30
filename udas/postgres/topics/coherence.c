/* coherence: an aggregate that keeps documents reduced to the best words of the model's topics. */
#include "topics.h"

#include <math.h>

#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "../../scalars/topics/coherence.h"

enum argument { A_STATE, A_MODEL, A_TOKENS, A_MEASURE, A_WORDS };

#define NAME "coherence"
#define USUAL_WORDS 20

typedef struct coherence_state {
    MemoryContext context;
    topic_site *site;
    enum tusk_coherence measure;
    tusk_best_words best;
    uint8 *mark;
    int32 *reduced;
    Size length, room;
} coherence_state;

/* NULL of a model without topics. */
static coherence_state *new_state(FunctionCallInfo fcinfo) {
    MemoryContext context = aggregate_context(fcinfo);
    coherence_state *s = MemoryContextAllocZero(context, sizeof *s);
    s->context = context;
    s->measure = TUSK_C_V;
    s->site = new_topic_site(context);
    if (!expect_model(s->site, PG_GETARG_DATUM(A_MODEL), NAME))
        return NULL;
    char sentence[TUSK_SENTENCE];
    const tusk_topics *t = &s->site->topics;
    if (PG_NARGS() > A_MEASURE && !PG_ARGISNULL(A_MEASURE)) {
        text *given = PG_GETARG_TEXT_PP(A_MEASURE);
        tusk_text measure = {VARDATA_ANY(given), VARSIZE_ANY_EXHDR(given)};
        if (!tusk_coherence_of(measure, &s->measure, sentence))
            refuse_topics(NAME, NULL, sentence);
    }
    bool asked = PG_NARGS() > A_WORDS && !PG_ARGISNULL(A_WORDS);
    s->best.n = tusk_coherence_words(t, asked ? PG_GETARG_INT32(A_WORDS) : USUAL_WORDS, sentence);
    if (!s->best.n)
        refuse_topics(NAME, NULL, sentence);
    s->best.word =
        MemoryContextAllocHuge(context, (Size)s->best.n * t->n_topics * sizeof *s->best.word);
    s->mark = MemoryContextAllocExtended(context, (Size)t->n_words + 1,
                                         MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
    s->best.found = tusk_top_words(t, s->best.n, s->best.word);
    tusk_mark_best(t, &s->best, s->mark);
    return s;
}

static int32 *room_for(coherence_state *s, Size n) {
    if (s->length + n > s->room) {
        Size room = Max(s->length + n, 2 * s->room);
        s->reduced = s->reduced ? repalloc_huge(s->reduced, room * sizeof(int32))
                                : MemoryContextAllocHuge(s->context, room * sizeof(int32));
        s->room = room;
    }
    return s->reduced + s->length;
}

PG_FUNCTION_INFO_V1(tuskml_coherence_add);
Datum tuskml_coherence_add(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    coherence_state *s = PG_ARGISNULL(A_STATE) ? NULL : (void *)PG_GETARG_POINTER(A_STATE);
    if (PG_ARGISNULL(A_MODEL) || PG_ARGISNULL(A_TOKENS)) {
        if (!s)
            PG_RETURN_NULL();
        PG_RETURN_POINTER(s);
    }
    if (!s && !(s = new_state(fcinfo)))
        PG_RETURN_NULL();
    if (!is_model_of(s->site, PG_GETARG_DATUM(A_MODEL)))
        refuse_topics(NAME, NULL, TUSK_OTHER_MODEL);
    if (takes_words(fcinfo, s->site, A_TOKENS, NAME)) {
        tusk_document d = read_document(&s->site->reader, PG_GETARG_DATUM(A_TOKENS), NAME);
        int32 *out = room_for(s, 2 + 2 * d.n);
        s->length += tusk_reduce_document(&s->site->by, s->mark, d.words, d.n, out);
        PG_RETURN_POINTER(s);
    }
    if (s->measure == TUSK_C_V)
        refuse_topics(NAME, NULL, TUSK_NEEDS_ORDER);
    tusk_word_counts counts;
    if (count_row(fcinfo, s->site, A_TOKENS, NAME, &counts))
        s->length +=
            tusk_reduce_ids(&s->site->by, s->mark, &counts, room_for(s, 2 + 2 * counts.n));
    PG_RETURN_POINTER(s);
}

PG_FUNCTION_INFO_V1(tuskml_coherence_of);
Datum tuskml_coherence_of(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    if (PG_ARGISNULL(A_STATE))
        PG_RETURN_NULL();
    const coherence_state *s = (const coherence_state *)PG_GETARG_POINTER(A_STATE);
    double found = NAN;
    if (!tusk_coherence(&s->site->topics, &s->best, s->reduced, s->length, s->measure, &found))
        refuse_topics(NAME, "53200", "out of memory");
    if (isnan(found))
        PG_RETURN_NULL();
    PG_RETURN_FLOAT8(found);
}
