#include "words.h"

#include "named.h"

#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

static Oid element_of(Oid array) {
    Oid element = OidIsValid(array) ? get_element_type(getBaseType(array)) : InvalidOid;
    return OidIsValid(element) ? getBaseType(element) : InvalidOid;
}

bool is_array_of_text(Oid type) {
    return is_text_type(element_of(type));
}

static void learn_type(document_reader *r, Oid element) {
    r->base = getBaseType(element);
    get_typlenbyvalalign(element, &r->length, &r->by_value, &r->align);
    find_output(r->base, &r->output, r->context);
    r->element = element;
}

tusk_document read_document(document_reader *r, Datum datum, const char *function) {
    ArrayType *a = DatumGetArrayTypeP(datum);
    if (ARR_NDIM(a) > 1)
        ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
                        errmsg("%s: tokens has %d dimensions, expected a list of words", function,
                               ARR_NDIM(a))));
    if (r->element != ARR_ELEMTYPE(a))
        learn_type(r, ARR_ELEMTYPE(a));
    Datum *items;
    bool *nulls;
    int n;
    deconstruct_array(a, ARR_ELEMTYPE(a), r->length, r->by_value, r->align, &items, &nulls, &n);
    tusk_text *words =
        MemoryContextAllocHuge(CurrentMemoryContext, (Size)Max(n, 1) * sizeof *words);
    for (int i = 0; i < n; i++)
        words[i] = nulls[i] ? (tusk_text){NULL, 0} : read_text(items[i], r->base, &r->output);
    return (tusk_document){
        .words = words,
        .n = (uint64_t)n,
        .room = MemoryContextAllocHuge(CurrentMemoryContext, tusk_words_room((uint64_t)n))};
}
