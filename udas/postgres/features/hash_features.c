/* hash_features: turns named features into sparse ones by the hashing trick. */
#include "features.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "../../scalars/hashing.h"

static void refuse(int code, const char *sentence) {
    ereport(ERROR, (errcode(code), errmsg("hash_features: %s", sentence)));
}

/* Names are hashed as UTF-8, whatever the server's encoding is. */
static tusk_feature feature_of(text *item, double value) {
    char *name = VARDATA_ANY(item);
    int length = (int)VARSIZE_ANY_EXHDR(item);
    char *converted = pg_server_to_any(name, length, PG_UTF8);
    if (converted != name)
        length = (int)strlen(converted);
    return (tusk_feature){converted, (size_t)length, value};
}

/* values: one for each item, or NULL if each item counts 1. Items with value 0 are left out. */
static Datum hash_items(FunctionCallInfo fcinfo, ArrayType *items, const float8 *values,
                        int32 bits) {
    Datum *texts;
    bool *nulls;
    int n, used = 0;
    deconstruct_array(items, TEXTOID, -1, false, TYPALIGN_INT, &texts, &nulls, &n);
    Size room = (Size)n * sizeof(Datum);
    Datum *ids = palloc(room), *weights = palloc(room);
    for (int i = 0; i < n; i++) {
        tusk_feature f = feature_of(DatumGetTextPP(texts[i]), values ? values[i] : 1);
        if (f.value == 0)
            continue;
        ids[used] = Int64GetDatum(tusk_hash_feature(&f, bits));
        weights[used++] = Float8GetDatum(f.value);
    }
    return make_sparse(fcinfo,
                       construct_array(ids, used, INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE),
                       construct_array(weights, used, FLOAT8OID, 8, true, TYPALIGN_DOUBLE));
}

/* Whether a list contains a NULL: the row then has no features, and a training skips it. */
static bool has_null(ArrayType *a, const char *what) {
    if (ARR_NDIM(a) > 1)
        refuse(ERRCODE_ARRAY_SUBSCRIPT_ERROR, what);
    return ARR_HASNULL(a) && array_contains_nulls(a);
}

static void check_bits(int32 bits) {
    char sentence[TUSK_SENTENCE];
    if (!tusk_check_bits(bits, sentence))
        refuse(ERRCODE_INVALID_PARAMETER_VALUE, sentence);
}

PG_FUNCTION_INFO_V1(tuskml_hash_features);
Datum tuskml_hash_features(PG_FUNCTION_ARGS) {
    ArrayType *items = PG_GETARG_ARRAYTYPE_P(0);
    if (has_null(items, "names has more than one dimension, expected a list of texts"))
        PG_RETURN_NULL();
    check_bits(PG_GETARG_INT32(1));
    return hash_items(fcinfo, items, NULL, PG_GETARG_INT32(1));
}

PG_FUNCTION_INFO_V1(tuskml_hash_pairs);
Datum tuskml_hash_pairs(PG_FUNCTION_ARGS) {
    ArrayType *items = PG_GETARG_ARRAYTYPE_P(0), *values = PG_GETARG_ARRAYTYPE_P(1);
    bool null = has_null(items, "names has more than one dimension, expected a list of texts");
    null |= has_null(values, "values has more than one dimension, expected a list of numbers");
    if (null)
        PG_RETURN_NULL();
    check_bits(PG_GETARG_INT32(2));
    char sentence[TUSK_SENTENCE];
    if (!tusk_check_lengths((uint64_t)ArrayGetNItems(ARR_NDIM(items), ARR_DIMS(items)),
                            (uint64_t)ArrayGetNItems(ARR_NDIM(values), ARR_DIMS(values)),
                            sentence))
        refuse(ERRCODE_INVALID_PARAMETER_VALUE, sentence);
    return hash_items(fcinfo, items, (const float8 *)ARR_DATA_PTR(values), PG_GETARG_INT32(2));
}
