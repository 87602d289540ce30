/* tuskml_activity(): the trainings that run on the host, as far as they are visible to the
 * server's account. */
#include "backend.h"

#include <math.h>

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "../scalars/activity/listing.h"
#include "../scalars/activity/table.h"

static Datum of_WHOLE(int64 value, bool *null) {
    *null = false;
    return Int64GetDatum(value);
}

static Datum of_TEXT(const char *value, bool *null) {
    *null = false;
    return CStringGetTextDatum(value);
}

static Datum of_NUMBER(double value, bool *null) {
    *null = isnan(value);
    return Float8GetDatum(value);
}

static Datum of_WHEN(double seconds, bool *null) {
    *null = !(seconds < 1e10);
    return TimestampTzGetDatum(GetCurrentTimestamp() + (*null ? 0 : (int64)(seconds * 1e6)));
}

#if PG_VERSION_NUM < 150000
/* The set that the function returns, in the statement's memory, as in 15 and later. */
static void InitMaterializedSRF(FunctionCallInfo fcinfo, bits32 flags) {
    ReturnSetInfo *set = (ReturnSetInfo *)fcinfo->resultinfo;
    if (!set || !IsA(set, ReturnSetInfo) || !(set->allowedModes & SFRM_Materialize))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("a set of rows was returned where none is allowed")));
    (void)flags;
    MemoryContext old = MemoryContextSwitchTo(set->econtext->ecxt_per_query_memory);
    TupleDesc type;
    if (get_call_result_type(fcinfo, NULL, &type) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type must be a row type");
    set->returnMode = SFRM_Materialize;
    set->setResult =
        tuplestore_begin_heap(set->allowedModes & SFRM_Materialize_Random, false, work_mem);
    set->setDesc = CreateTupleDescCopy(type);
    MemoryContextSwitchTo(old);
}
#endif

#define COUNT(name, KIND, value) +1
enum { COLUMNS = 0 TUSK_ACTIVITY_COLUMNS(COUNT) };

PG_FUNCTION_INFO_V1(tuskml_activity);
Datum tuskml_activity(PG_FUNCTION_ARGS) {
    ReturnSetInfo *set = (ReturnSetInfo *)fcinfo->resultinfo;
    InitMaterializedSRF(fcinfo, 0);
    tusk_running *running = palloc(TUSK_SLOTS * sizeof *running);
    char *sentence = palloc(TUSK_ACTIVITY_SENTENCE);
    int32 n = tusk_activity(running, sentence);
    if (n < 0)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("tuskml_activity: %s", sentence)));
    for (const tusk_running *r = running; r < running + n; r++) {
        Datum values[COLUMNS];
        bool nulls[COLUMNS];
        int i = 0;
#define PUT(name, KIND, value)               \
    values[i] = of_##KIND(value, nulls + i); \
    i++;
        TUSK_ACTIVITY_COLUMNS(PUT)
        tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
    }
    return (Datum)0;
}
