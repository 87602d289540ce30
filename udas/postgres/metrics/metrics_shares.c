/* log_loss and brier of a label and the probabilities of all classes, as predict_probas returns
 * them: an object of jsonb. */
#include "metrics.h"

#include "catalog/pg_type.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "../../scalars/metrics/shares.h"

/* Adds the classes of an object; *known is false if a probability is null. */
static bool read_shares(Jsonb *p, tusk_shares *s, bool *known, char *sentence) {
    JsonbIterator *at = JsonbIteratorInit(&p->root);
    JsonbValue name, value;
    JsonbIteratorToken token = JsonbIteratorNext(&at, &name, false);
    if (token != WJB_BEGIN_OBJECT) {
        snprintf(sentence, TUSK_SENTENCE,
                 "p is no object, expected probabilities by class such as predict_probas returns");
        return false;
    }
    while ((token = JsonbIteratorNext(&at, &name, true)) == WJB_KEY) {
        JsonbIteratorNext(&at, &value, true);
        *known = value.type != jbvNull;
        if (!*known)
            return true;
        if (value.type != jbvNumeric) {
            snprintf(sentence, TUSK_SENTENCE, "p of class '%.*s' is no number",
                     Min(name.val.string.len, 100), name.val.string.val);
            return false;
        }
        double share = DatumGetFloat8(
            DirectFunctionCall1(numeric_float8, NumericGetDatum(value.val.numeric)));
        if (!tusk_shares_add(s, name.val.string.val, (size_t)name.val.string.len, share, sentence))
            return false;
    }
    return true;
}

static tusk_shares labelled(FunctionCallInfo fcinfo, const char *name, char *own) {
    Oid type = types_of(fcinfo->flinfo)->label;
    if (type == TEXTOID) {
        const text *t = PG_GETARG_TEXT_PP(A_LABEL);
        return (tusk_shares){.label = VARDATA_ANY(t), .length = VARSIZE_ANY_EXHDR(t)};
    }
    return tusk_shares_of_number(read_class(fcinfo, A_LABEL, type, name), own);
}

static Datum take(FunctionCallInfo fcinfo, enum tusk_metric_kind kind) {
    char sentence[TUSK_SENTENCE], own[TUSK_CLASS_TEXT];
    double weight;
    bool known = true;
    tusk_judged row;
    aggregate_context(fcinfo);
    if (!has_row(fcinfo) || !read_weight(fcinfo, A_THIRD, &weight))
        return give_state(fcinfo, state_at(fcinfo, A_STATE));
    tusk_shares s = labelled(fcinfo, tusk_metric_of(kind)->name, own);
    if (!read_shares(PG_GETARG_JSONB_P(A_PREDICTED), &s, &known, sentence) ||
        (known && !tusk_shares_judged(&s, &row, sentence)))
        refuse_row(tusk_metric_of(kind)->name, sentence);
    if (!known)
        return give_state(fcinfo, state_at(fcinfo, A_STATE));
    row.weight = weight;
    return take_judged(fcinfo, kind, &row);
}

#define DEFINE_TAKE(name, kind)    \
    PG_FUNCTION_INFO_V1(name);     \
    Datum name(PG_FUNCTION_ARGS) { \
        return take(fcinfo, kind); \
    }

DEFINE_TAKE(tuskml_log_loss_shares, TUSK_LOG_LOSS)
DEFINE_TAKE(tuskml_brier_shares, TUSK_BRIER)
