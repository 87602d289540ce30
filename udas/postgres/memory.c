/* The backend's account of rows, and the context of aggregate states. */
#include "backend.h"

#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/guc.h"

#define LEAST_BUDGET ((int64)256 << 20)
int64 backend_budget(void) {
    if (tuskml_memory_limit >= 0)
        return (int64)tuskml_memory_limit * 1024;
    return Max(LEAST_BUDGET, (int64)get_hash_memory_limit());
}

tusk_memory *backend_memory(void) {
    static tusk_memory *memory;
    if (!memory) {
        memory = tusk_memory_new();
        /* If the account made this directory it would remove it again, while other backends put
         * files there. */
        (void)MakePGDirectory(TEMP_FOLDER);
    }
    if (!memory)
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("tuskml: out of memory")));
    tusk_memory_limit(memory, backend_budget(), TEMP_FOLDER);
    tusk_memory_limit_spill(memory,
                            temp_file_limit < 0 ? PG_INT64_MAX : (int64)temp_file_limit * 1024);
    return memory;
}

MemoryContext aggregate_context(FunctionCallInfo fcinfo) {
    MemoryContext context;
    if (!AggCheckCallContext(fcinfo, &context))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("tuskml: this function is a part of an aggregate and cannot be "
                               "called by itself")));
    return context;
}
