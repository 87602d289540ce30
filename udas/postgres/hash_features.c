/* hash_features: named features into sparse ones by the hashing trick. */
#include "sparse.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "../scalars/hashing.h"

static locale_t c_locale(void) {
    static locale_t locale;
    if (!locale)
        locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!locale)
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("hash_features: out of memory")));
    return locale;
}

static void refuse(int code, const char *sentence) {
    ereport(ERROR, (errcode(code), errmsg("hash_features: %s", sentence)));
}

/* Names are hashed as UTF-8, whatever the server keeps them in. */
static tusk_feature feature_of(text *item) {
    char *name = VARDATA_ANY(item);
    int length = (int)VARSIZE_ANY_EXHDR(item);
    char *converted = pg_server_to_any(name, length, PG_UTF8);
    if (converted != name)
        length = (int)strlen(converted);
    return tusk_parse_feature(converted, (size_t)length, c_locale());
}

/* NULLs and values of 0 weigh nothing and are left out. */
static Datum hash_items(FunctionCallInfo fcinfo, ArrayType *items, int32 bits) {
    Datum *texts;
    bool *nulls;
    int n, used = 0;
    deconstruct_array(items, TEXTOID, -1, false, TYPALIGN_INT, &texts, &nulls, &n);
    Size room = (Size)n * sizeof(Datum);
    Datum *ids = palloc(room), *values = palloc(room);
    for (int i = 0; i < n; i++) {
        if (nulls[i])
            continue;
        tusk_feature f = feature_of(DatumGetTextPP(texts[i]));
        if (f.value == 0)
            continue;
        ids[used] = Int32GetDatum(tusk_hash_feature(&f, bits));
        values[used++] = Float8GetDatum(f.value);
    }
    return make_sparse(fcinfo, construct_array(ids, used, INT4OID, 4, true, TYPALIGN_INT),
                       construct_array(values, used, FLOAT8OID, 8, true, TYPALIGN_DOUBLE));
}

PG_FUNCTION_INFO_V1(tuskml_hash_features);
Datum tuskml_hash_features(PG_FUNCTION_ARGS) {
    ArrayType *items = PG_GETARG_ARRAYTYPE_P(0);
    int32 bits = PG_GETARG_INT32(1);
    char sentence[TUSK_SENTENCE];
    if (!tusk_check_bits(bits, sentence))
        refuse(ERRCODE_INVALID_PARAMETER_VALUE, sentence);
    if (ARR_NDIM(items) > 1)
        refuse(ERRCODE_ARRAY_SUBSCRIPT_ERROR,
               "names has more than one dimension, expected a list of texts");
    return hash_items(fcinfo, items, bits);
}
