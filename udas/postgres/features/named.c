#include "named.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

/* How a column is read. */
enum reading {
    READ_NOTHING,
    READ_DOUBLE,
    READ_NUMBER,
    READ_DAYS,
    READ_SECONDS,
    READ_UTF8,
    READ_TEXT
};

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

tusk_label_values values_of_enum(Oid type) {
    if (!OidIsValid(type) || !type_is_enum(type))
        return (tusk_label_values){0};
    CatCList *all = SearchSysCacheList1(ENUMTYPOIDNAME, ObjectIdGetDatum(type));
    int n = all->n_members;
    Form_pg_enum *sorted = palloc(Max(n, 1) * sizeof *sorted);
    tusk_text *values = palloc(Max(n, 1) * sizeof *values);
    for (int i = 0; i < n; i++) {
        Form_pg_enum one = (Form_pg_enum)GETSTRUCT(&all->members[i]->tuple);
        int at = i;
        for (; at > 0 && sorted[at - 1]->enumsortorder > one->enumsortorder; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = one;
    }
    for (int i = 0; i < n; i++) {
        char *name = pstrdup(NameStr(sorted[i]->enumlabel));
        values[i] = in_utf8(name, strlen(name));
    }
    ReleaseSysCacheList(all);
    return (tusk_label_values){values, (uint32)n};
}

/* --- numbers --- */

static bool is_date_type(Oid type) {
    return type == DATEOID || type == TIMESTAMPOID || type == TIMESTAMPTZOID;
}

/* Dates and timestamps are days since 1970-01-01. *rounded: whether another one may have the
 * same number. */
static double read_days(Datum value, Oid type, uint64 *rounded) {
    if (type == DATEOID) {
        DateADT d = DatumGetDateADT(value);
        return DATE_NOT_FINITE(d) ? (d < 0 ? -INFINITY : INFINITY) : (double)d + DAYS_TO_2000;
    }
    Timestamp t = DatumGetTimestamp(value);
    if (TIMESTAMP_NOT_FINITE(t))
        return t < 0 ? -INFINITY : INFINITY;
    __int128 whole = (__int128)t + DAYS_TO_2000 * USECS_PER_DAY;
    double days = (double)whole / USECS_PER_DAY;
    *rounded = tusk_time_in(days, USECS_PER_DAY) != whole;
    return days;
}

/* Seconds of a time of day, and of an interval as EXTRACT(EPOCH ...) has them. */
static double read_seconds(Datum value, Oid type, bool *rounded) {
    if (type == TIMEOID)
        return (double)DatumGetTimeADT(value) / USECS_PER_SEC;
    const Interval *span = DatumGetIntervalP(value);
#ifdef INTERVAL_NOT_FINITE /* from PostgreSQL 17 on */
    if (INTERVAL_NOT_FINITE(span))
        return INTERVAL_IS_NOBEGIN(span) ? -INFINITY : INFINITY;
#endif
    return tusk_seconds_of(span->month, span->day, span->time, rounded);
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
    r->rounded = MemoryContextAllocZero(c, n * sizeof *r->rounded);
    r->reading = MemoryContextAllocZero(c, n * sizeof *r->reading);
    r->chunk.column = MemoryContextAllocZero(c, n * sizeof *r->chunk.column);
    r->chunk.buffer = MemoryContextAllocZero(c, n * sizeof(double) * TUSK_NAMED_RUN);
}

static bool is_category_type(Oid type) {
    return type == BOOLOID || is_text_type(type);
}

static uint8 reading_of(Oid type) {
    if (type == TEXTOID || type == VARCHAROID)
        return GetDatabaseEncoding() == PG_UTF8 ? READ_UTF8 : READ_TEXT;
    return is_category_type(type)                   ? READ_TEXT
           : type == FLOAT8OID                      ? READ_DOUBLE
           : is_date_type(type)                     ? READ_DAYS
           : type == TIMEOID || type == INTERVALOID ? READ_SECONDS
           : is_number_type(type)                   ? READ_NUMBER
                                                    : READ_NOTHING;
}

static void refuse_column(const char *function, const char *name, Oid type) {
    ereport(ERROR,
            (errcode(ERRCODE_DATATYPE_MISMATCH),
             errmsg("%s: column '%s' is %s, expected a number, a date, a timestamp, a time, an "
                    "interval, text, an enum, boolean or uuid",
                    function, name, format_type_be(type))));
}

/* Sets column i of the schema to attribute a of the row. Models are trained on all columns;
 * rows to be scored may have further ones. */
static void note_column(named_reader *r, int i, int a, const char *function) {
    Form_pg_attribute attribute = TupleDescAttr(r->row, a);
    char *name = pstrdup(NameStr(attribute->attname));
    Oid type = getBaseType(attribute->atttypid);
    uint8 reading = reading_of(type);
    bool category = reading >= READ_UTF8, number = reading && !category;
    if (r->trains && !reading)
        refuse_column(function, name, type);
    if (category && type != BOOLOID)
        find_output(type, r->output + i, r->type_context);
    r->attribute[i] = a;
    r->base[i] = type;
    r->reading[i] = reading;
    r->chunk.column[i] = (tusk_given_column){.name = name,
                                             .numbers = number ? r->numbers + i : NULL,
                                             .texts = category ? r->texts + i : NULL,
                                             .validity = r->valid + i,
                                             .rounded = number ? r->rounded + i : NULL,
                                             .digits = number ? r->texts + i : NULL};
}

/* Predictions find columns by names regardless of case, so those of a training must differ in
   more. */
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
                                         .text_label = (uint8)r->text_label,
                                         .f64 = others || !floats,
                                         .kind = kinds,
                                         .name = names});
}

/* Determines the columns of rows; r->type_context owns them. */
static void learn_columns(named_reader *r, const char *function) {
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
    if (!r->chunk.schema)
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("%s: out of memory", function)));
}

static MemoryContext begin_type(named_reader *r) {
    if (r->type_context)
        MemoryContextReset(r->type_context);
    else
        r->type_context =
            AllocSetContextCreate(r->context, "tuskml row type", ALLOCSET_SMALL_SIZES);
    r->type = InvalidOid;
    return MemoryContextSwitchTo(r->type_context);
}

static void learn_type(named_reader *r, Oid type, int32 typmod, const char *function) {
    MemoryContext before = begin_type(r);
    r->row = lookup_rowtype_tupdesc_copy(type, typmod);
    learn_columns(r, function);
    MemoryContextSwitchTo(before);
    r->type = type;
    r->typmod = typmod;
}

/* The names of columns in separate arguments; NULL if they are invalid. */
static Datum *names_of(const given_columns *given, int n) {
    FunctionCallInfo call = given->call;
    Datum *names;
    bool *nulls;
    int n_names;
    if (call->args[given->names].isnull || get_fn_expr_variadic(call->flinfo) ||
        !get_fn_expr_arg_stable(call->flinfo, given->names))
        return NULL;
    deconstruct_array(DatumGetArrayTypeP(call->args[given->names].value), TEXTOID, -1, false,
                      TYPALIGN_INT, &names, &nulls, &n_names);
    for (int i = 0; i < n_names; i++)
        if (nulls[i])
            return NULL;
    return n_names == n ? names : NULL;
}

static void learn_given(named_reader *r, const given_columns *given, const char *function) {
    MemoryContext before = begin_type(r);
    int n = given->call->nargs - given->first;
    Datum *names = names_of(given, n);
    if (!names)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("%s: the names of %d columns are expected as a constant array of "
                               "%d texts",
                               function, n, n)));
    r->row = CreateTemplateTupleDesc(n);
    for (int i = 0; i < n; i++)
        TupleDescInitEntry(r->row, (AttrNumber)(i + 1), TextDatumGetCString(names[i]),
                           get_fn_expr_argtype(given->call->flinfo, given->first + i), -1, 0);
    learn_columns(r, function);
    MemoryContextSwitchTo(before);
    r->type = RECORDOID;
}

/* --- rows --- */

/* The digits of a whole number of a type that does not round it; otherwise no text. */
static tusk_text whole_digits(Datum value, Oid type) {
    char *digits = type == INT8OID      ? psprintf(INT64_FORMAT, DatumGetInt64(value))
                   : type == NUMERICOID ? DatumGetCString(DirectFunctionCall1(numeric_out, value))
                                        : "";
    char *point = strchr(digits, '.');
    size_t length = point ? (size_t)(point - digits) : strlen(digits);
    bool whole = strspn(digits + (*digits == '-'), "0123456789") == length - (*digits == '-') &&
                 (!point || strspn(point + 1, "0") == strlen(point + 1));
    return length && whole ? (tusk_text){digits, length} : (tusk_text){NULL, 0};
}

/* The text of a value that is neither compressed nor out of line, in UTF-8, without a call. */
static inline bool read_near_text(Datum value, tusk_text *out) {
    const struct varlena *t = (const struct varlena *)DatumGetPointer(value);
    if (VARATT_IS_1B(t) ? VARATT_IS_1B_E(t) : !VARATT_IS_4B_U(t))
        return false;
    *out = (tusk_text){VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t)};
    return true;
}

static inline void read_column(named_reader *r, int i, Datum value, bool null) {
    r->valid[i] = !null;
    r->rounded[i] = 0;
    r->texts[i] = (tusk_text){NULL, 0};
    if (null)
        return;
    bool rounded = false;
    switch (r->reading[i]) {
    case READ_NOTHING:
        break;
    case READ_DOUBLE:
        r->numbers[i] = DatumGetFloat8(value);
        break;
    case READ_NUMBER:
        r->numbers[i] = read_number_noted(value, r->base[i], &rounded);
        r->rounded[i] = rounded;
        if (fabs(r->numbers[i]) >= 0x1p53)
            r->texts[i] = whole_digits(value, r->base[i]);
        break;
    case READ_DAYS:
        r->numbers[i] = read_days(value, r->base[i], r->rounded + i);
        break;
    case READ_SECONDS:
        r->numbers[i] = read_seconds(value, r->base[i], &rounded);
        r->rounded[i] = rounded;
        break;
    case READ_UTF8:
        if (read_near_text(value, r->texts + i))
            break;
        /* fall through */
    case READ_TEXT:
        r->texts[i] = read_text(value, r->base[i], r->output + i);
    }
}

const tusk_named_chunk *read_named(named_reader *r, Datum row, const char *function) {
    HeapTupleHeader header = DatumGetHeapTupleHeader(row);
    Oid type = HeapTupleHeaderGetTypeId(header);
    int32 typmod = HeapTupleHeaderGetTypMod(header);
    if (r->type != type || r->typmod != typmod)
        learn_type(r, type, typmod, function);
    HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(header), .t_data = header};
    heap_deform_tuple(&tuple, r->row, r->values, r->nulls);
    for (int i = 0; i < r->chunk.schema->n_columns; i++)
        read_column(r, i, r->values[r->attribute[i]], r->nulls[r->attribute[i]]);
    return &r->chunk;
}

const tusk_named_chunk *read_columns(named_reader *r, const given_columns *given,
                                     const char *function) {
    if (!OidIsValid(r->type))
        learn_given(r, given, function);
    const NullableDatum *values = given->call->args + given->first;
    for (int i = 0; i < r->chunk.schema->n_columns; i++)
        read_column(r, i, values[i].value, values[i].isnull);
    return &r->chunk;
}

const tusk_schema *schema_of_labels(enum tusk_label_text text) {
    const tusk_schema *s = tusk_schema_of(&(tusk_schema){.text_label = text});
    if (!s)
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("train_model: out of memory")));
    return s;
}
