#include "named.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#define DAYS_TO_2000 (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE)

bool is_row_type(Oid type) {
    return OidIsValid(type) && type_is_rowtype(type);
}

/* --- text --- */

bool is_text_type(Oid type) {
    switch (type) {
    case TEXTOID:
    case VARCHAROID:
    case BPCHAROID:
    case NAMEOID:
    case CHAROID:
    case UUIDOID:
    case UNKNOWNOID:
        return true;
    default:
        return OidIsValid(type) && type_is_enum(type);
    }
}

void find_output(Oid type, FmgrInfo *output, MemoryContext context) {
    Oid function;
    bool varlena;
    getTypeOutputInfo(type, &function, &varlena);
    fmgr_info_cxt(function, output, context);
}

static tusk_text in_utf8(char *text, Size length) {
    char *converted = pg_server_to_any(text, (int)length, PG_UTF8);
    return (tusk_text){converted, converted == text ? length : strlen(converted)};
}

tusk_text read_text(Datum value, Oid type, FmgrInfo *output) {
    if (type == BOOLOID)
        return DatumGetBool(value) ? (tusk_text){"true", 4} : (tusk_text){"false", 5};
    if (type == TEXTOID || type == VARCHAROID) {
        text *t = DatumGetTextPP(value);
        return in_utf8(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
    }
    char *text = OutputFunctionCall(output, value);
    Size length = strlen(text);
    while (type == BPCHAROID && length && text[length - 1] == ' ')
        length--;
    return in_utf8(text, length);
}

/* --- numbers --- */

static bool is_date_type(Oid type) {
    return type == DATEOID || type == TIMESTAMPOID || type == TIMESTAMPTZOID;
}

/* Dates and timestamps are days since 1970-01-01. */
static double read_days(Datum value, Oid type) {
    if (type == DATEOID) {
        DateADT d = DatumGetDateADT(value);
        return DATE_NOT_FINITE(d) ? (d < 0 ? -INFINITY : INFINITY) : (double)d + DAYS_TO_2000;
    }
    Timestamp t = DatumGetTimestamp(value);
    if (TIMESTAMP_NOT_FINITE(t))
        return t < 0 ? -INFINITY : INFINITY;
    return ((double)t + (double)DAYS_TO_2000 * USECS_PER_DAY) / USECS_PER_DAY;
}

/* --- the type of a row --- */

static void make_room(named_reader *r, int n) {
    MemoryContext c = r->type_context;
    r->attribute = MemoryContextAllocZero(c, n * sizeof *r->attribute);
    r->base = MemoryContextAllocZero(c, n * sizeof *r->base);
    r->output = MemoryContextAllocZero(c, n * sizeof *r->output);
    r->values = MemoryContextAllocZero(c, n * sizeof *r->values);
    r->nulls = MemoryContextAllocZero(c, n * sizeof *r->nulls);
    r->numbers = MemoryContextAllocZero(c, n * sizeof *r->numbers);
    r->texts = MemoryContextAllocZero(c, n * sizeof *r->texts);
    r->valid = MemoryContextAllocZero(c, n * sizeof *r->valid);
    r->chunk.column = MemoryContextAllocZero(c, n * sizeof *r->chunk.column);
    r->chunk.buffer = MemoryContextAllocZero(c, n * sizeof(double) * TUSK_NAMED_RUN);
}

static bool is_category_type(Oid type) {
    return type == BOOLOID || is_text_type(type);
}

static void refuse_column(const char *function, const char *name, Oid type) {
    ereport(
        ERROR,
        (errcode(ERRCODE_DATATYPE_MISMATCH),
         errmsg("%s: column '%s' is %s, expected a number, a date, a timestamp, text, an enum, "
                "boolean or uuid",
                function, name, format_type_be(type))));
}

/* Notes column i of the schema, which is attribute a of the row. */
static void note_column(named_reader *r, int i, int a, const char *function) {
    Form_pg_attribute attribute = TupleDescAttr(r->row, a);
    char *name = pstrdup(NameStr(attribute->attname));
    Oid type = getBaseType(attribute->atttypid);
    bool category = is_category_type(type);
    if (!category && !is_number_type(type) && !is_date_type(type))
        refuse_column(function, name, type);
    if (category && type != BOOLOID)
        find_output(type, r->output + i, r->type_context);
    r->attribute[i] = a;
    r->base[i] = type;
    r->chunk.column[i] = (tusk_given_column){.name = name,
                                             .numbers = category ? NULL : r->numbers + i,
                                             .texts = category ? r->texts + i : NULL,
                                             .validity = r->valid + i};
}

/* Predictions find columns by their names but for case, so those of a training differ in more. */
static void refuse_same_names(const named_reader *r, int n, const char *function) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            const char *a = r->chunk.column[j].name, *b = r->chunk.column[i].name;
            if (strcasecmp(a, b) == 0)
                ereport(ERROR, (errcode(ERRCODE_DUPLICATE_COLUMN),
                                errmsg("%s: columns '%s' and '%s' have the same name but for "
                                       "case, expected different names",
                                       function, a, b)));
        }
}

static const tusk_schema *schema_of(const named_reader *r, int n) {
    uint8 *kinds = palloc0(n);
    const char **names = palloc0(n * sizeof *names);
    bool floats = false, others = false;
    for (int i = 0; i < n; i++) {
        kinds[i] = r->chunk.column[i].texts   ? TUSK_CATEGORY
                   : r->base[i] == DATEOID    ? TUSK_DATE
                   : is_date_type(r->base[i]) ? TUSK_TIMESTAMP
                                              : TUSK_NUMBER;
        names[i] = r->chunk.column[i].name;
        floats |= r->base[i] == FLOAT4OID;
        others |= kinds[i] != TUSK_CATEGORY && r->base[i] != FLOAT4OID;
    }
    return tusk_schema_of(&(tusk_schema){.n_columns = n,
                                         .text_label = r->text_label,
                                         .f64 = others || !floats,
                                         .kind = kinds,
                                         .name = names});
}

static void learn_type(named_reader *r, Oid type, int32 typmod, const char *function) {
    if (r->type_context)
        MemoryContextReset(r->type_context);
    else
        r->type_context =
            AllocSetContextCreate(r->context, "tuskml row type", ALLOCSET_SMALL_SIZES);
    r->type = InvalidOid;
    MemoryContext before = MemoryContextSwitchTo(r->type_context);
    r->row = lookup_rowtype_tupdesc_copy(type, typmod);
    make_room(r, r->row->natts);
    int n = 0;
    for (int a = 0; a < r->row->natts; a++)
        if (!TupleDescAttr(r->row, a)->attisdropped)
            note_column(r, n++, a, function);
    if (!n)
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("%s: the features are a row without columns", function)));
    if (r->trains)
        refuse_same_names(r, n, function);
    r->chunk.schema = schema_of(r, n);
    MemoryContextSwitchTo(before);
    if (!r->chunk.schema)
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("%s: out of memory", function)));
    r->type = type;
    r->typmod = typmod;
}

/* --- rows --- */

const tusk_named_chunk *read_named(named_reader *r, Datum row, const char *function) {
    HeapTupleHeader header = DatumGetHeapTupleHeader(row);
    Oid type = HeapTupleHeaderGetTypeId(header);
    int32 typmod = HeapTupleHeaderGetTypMod(header);
    if (r->type != type || r->typmod != typmod)
        learn_type(r, type, typmod, function);
    HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(header), .t_data = header};
    heap_deform_tuple(&tuple, r->row, r->values, r->nulls);
    for (int i = 0; i < r->chunk.schema->n_columns; i++) {
        int a = r->attribute[i];
        r->valid[i] = !r->nulls[a];
        if (r->nulls[a])
            continue;
        if (r->chunk.column[i].texts)
            r->texts[i] = read_text(r->values[a], r->base[i], r->output + i);
        else
            r->numbers[i] = is_date_type(r->base[i]) ? read_days(r->values[a], r->base[i])
                                                     : read_number(r->values[a], r->base[i]);
    }
    return &r->chunk;
}

const tusk_schema *schema_of_labels(void) {
    const tusk_schema *s = tusk_schema_of(&(tusk_schema){.text_label = 1});
    if (!s)
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("train_model: out of memory")));
    return s;
}
